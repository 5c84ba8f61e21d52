"""`python -m xbot2_fast.viewing KIND SOCKET MODEL FRAME OPTIONS`: started by `xbot2_fast.viewer`, descriptors open."""

import os
import signal
import sys
import traceback

import orjson

from xbot2_fast.viewing.link import Link, SimulatorGone


def main(kind: str, descriptor: int, model_fd: int, frame_fd: int, options: dict) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C is the simulator's: it tells us when to go
        signal.signal(number, signal.SIG_IGN)
    os.nice(19)
    link = Link(descriptor, model_fd, frame_fd)
    try:
        if kind == "native":
            from xbot2_fast.viewing import native

            native.run(link)
        elif kind == "web":
            from xbot2_fast.viewing import web

            web.run(link, **options)
        else:
            from xbot2_fast.viewing import picture

            picture.run(link, **options)
    except SimulatorGone:
        pass
    except BaseException as error:
        link.send("failed", message=str(error) or type(error).__name__, detail=traceback.format_exc())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), orjson.loads(sys.argv[5]))
    sys.stderr.flush()
    os._exit(0)  # GL libraries crash some orderly ends of an interpreter, and nothing is left to put in order
