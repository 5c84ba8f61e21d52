"""A process that matches regular expressions against names, so that no pattern can hold up the simulation.

Run as a script. It reads JSON lines from standard input: first {"names": {kind: [name, ...]}}, then queries
{"kind", "pattern"}; each is answered by one line, {"matches": [index, ...]} or {"error": text}. It ends with its input.
"""

import json
import re
import resource
import signal
import sys
import warnings

LIMIT = 0.02  # CPU seconds that compiling and matching one pattern may take
MEMORY = 1 << 29  # bytes


class TooSlow(Exception):
    pass


def _stop(*_):
    raise TooSlow


def answer(names, pattern):
    """Indices of the names that match the pattern entirely, or what is wrong with it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        compiled = re.compile(pattern)
        return {"matches": [index for index, name in enumerate(names) if name and compiled.fullmatch(name)]}
    except TooSlow:
        return {"error": f"it takes longer than {LIMIT * 1e3:g} ms"}
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        return {"error": str(error) or type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main():
    warnings.simplefilter("ignore")  # of patterns that will mean something else in a later Python
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the simulator, which ends this process by its input
    signal.signal(signal.SIGVTALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    names = json.loads(sys.stdin.readline())["names"]
    for line in sys.stdin:
        query = json.loads(line)
        print(json.dumps(answer(names[query["kind"]], query["pattern"])), flush=True)


if __name__ == "__main__":
    main()
