"""`python -m xbot2_fast.viewing KIND SOCKET MODEL FRAME OPTIONS`: started by `xbot2_fast.viewer`, descriptors open."""

import os
import signal
import sys
import traceback


def main(kind: str, descriptors: list[int], options: str) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C is the simulator's: it tells us when to go
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)  # before the imports, which take a second
    import orjson

    from xbot2_fast.viewing.link import Link, SimulatorGone

    link = Link(*descriptors)
    try:
        _show(kind, link, orjson.loads(options))
    except SimulatorGone:
        pass
    except BaseException as error:
        link.send("failed", message=str(error) or type(error).__name__, detail=traceback.format_exc())


def _show(kind: str, link, options: dict) -> None:
    if kind == "native":
        from xbot2_fast.viewing import native

        native.run(link)
    elif kind == "web":
        from xbot2_fast.viewing import web

        web.run(link, **options)
    else:
        from xbot2_fast.viewing import picture

        picture.run(link, **options)


if __name__ == "__main__":
    main(sys.argv[1], [int(descriptor) for descriptor in sys.argv[2:5]], sys.argv[5])
    sys.stderr.flush()
    os._exit(0)  # GL libraries crash some orderly ends of an interpreter, and nothing is left to put in order
