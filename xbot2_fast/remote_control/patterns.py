"""Regular expressions matched outside the simulation's process: any pattern is answered or refused within 50 ms."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from xbot2_fast.remote_control.protocol import CommandError

_WORKER = Path(__file__).with_name("pattern_worker.py")
MAX_PATTERNS = 200  # of one request
_REMEMBERED = 256  # patterns whose answer is kept: those of any request, else it would ask for ever
_MAX_LENGTH = 1000  # characters; a query must fit the pipe
_DEADLINE = 2.0  # wall seconds without an answer (a busy machine) after which the worker is replaced

Query = tuple[str, str]


class PatternPending(Exception):
    """The answer is not there yet: try again when the matcher's descriptor is readable.

    Attributes:
        query: kind and pattern.
    """

    def __init__(self, query: Query):
        super().__init__(query)
        self.query = query


class PatternMatcher:
    """Which names a pattern matches entirely, by a worker process with a limit of CPU time.

    `start()` runs the worker, else the first pattern does.

    Args:
        names: kind -> names in model order; an empty name never matches.
    """

    def __init__(self, names: Mapping[str, Sequence[str]]):
        self._names = names
        self._worker: subprocess.Popen[bytes] | None = None
        self._answers: OrderedDict[Query, list[int] | CommandError] = OrderedDict()
        self._queue: deque[Query] = deque()
        self._asked_at: float | None = None  # monotonic; None: the worker is idle
        self._buffer = b""
        self.generation = 0  # of the worker: its descriptor is another one after each change

    # ---- asking

    def matches(self, kind: str, pattern: str) -> list[int]:
        """Indices of the matching names; waits for the worker.

        Raises:
            CommandError: invalid_regex.
        """
        while True:
            try:
                return self.matches_or_pending(kind, pattern)
            except PatternPending:
                self.start()
                select.select([self.fileno()], [], [], _DEADLINE)
                self.collect()

    def matches_or_pending(self, kind: str, pattern: str) -> list[int]:
        """Indices of the matching names, at once.

        Raises:
            CommandError: invalid_regex.
            PatternPending: the worker was asked.
        """
        if len(pattern) > _MAX_LENGTH:
            raise CommandError("invalid_regex", f"expected at most {_MAX_LENGTH} characters, got {len(pattern)}")
        query = (kind, pattern)
        answer = self._answers.get(query)
        if answer is None:
            if query not in self._queue:
                self._queue.append(query)
                self._ask()
            raise PatternPending(query)
        self._answers.move_to_end(query)
        if isinstance(answer, CommandError):
            raise CommandError(answer.code, answer.message)
        return answer

    def collect(self) -> bool:
        """Take the worker's answer, if it is there, and ask the next question. True when an answer came."""
        if not self._queue:
            return False
        answer = self._read()
        if answer is None:
            return False
        self._answers[self._queue.popleft()] = answer
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        self._asked_at = None
        self._ask()
        return True

    def asks(self, query: Query) -> bool:
        """Whether the answer to a query is still to come."""
        return query in self._queue

    @property
    def waiting(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._queue)

    # ---- the worker

    def start(self) -> None:
        """Run the worker, unless it runs."""
        if self._worker is not None:
            return
        self._worker = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        self.generation += 1
        os.set_blocking(self.fileno(), False)
        self._send({"names": {kind: list(names) for kind, names in self._names.items()}})
        self._ask()

    def fileno(self) -> int:
        """Readable when an answer came, or the worker ended. Changes when the worker is replaced."""
        assert self._worker is not None
        assert self._worker.stdout is not None
        return self._worker.stdout.fileno()

    def close(self) -> None:
        """End the worker. Idempotent."""
        if self._worker is None:
            return
        worker, self._worker = self._worker, None
        self._buffer = b""
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.kill()
        worker.wait()
        worker.stdin.close()
        worker.stdout.close()

    def _ask(self) -> None:
        if self._queue and self._asked_at is None and self._worker is not None:
            kind, pattern = self._queue[0]
            self._asked_at = time.monotonic()
            self._send({"kind": kind, "pattern": pattern})

    def _send(self, message: object) -> None:
        assert self._worker is not None
        assert self._worker.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the worker is gone: reading will say so
            self._worker.stdin.write(json.dumps(message).encode() + b"\n")

    def _read(self) -> list[int] | CommandError | None:
        """The answer to the oldest question; None when it is not there yet."""
        pattern = self._queue[0][1]
        try:
            piece = os.read(self.fileno(), 1 << 20)
        except BlockingIOError:
            if self._asked_at is None or time.monotonic() - self._asked_at < _DEADLINE:
                return None
            piece = b""
        if not piece:
            self.close()
            self.start()
            return CommandError("invalid_regex", f"{pattern!r}: it could not be matched")
        self._buffer += piece
        if not self._buffer.endswith(b"\n"):
            return None
        answer, self._buffer = json.loads(self._buffer), b""
        if "error" in answer:
            return CommandError("invalid_regex", f"{pattern!r}: {answer['error']}")
        return answer["matches"]
