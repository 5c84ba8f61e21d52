"""Requests from other threads, carried out by the simulation thread at the start of a step."""

import contextlib
import os
from collections import deque
from collections.abc import Callable

from xbot2_fast._kernels._loop import Flag


class Requests:
    """A queue of calls that any thread may file and the simulation thread carries out in order.

    `stage` asks for `serve` while something is filed; `fileno()` is readable then, so that a waiting loop wakes.
    """

    def __init__(self) -> None:
        self.stage = Flag()
        self._calls: deque[Callable[[], None]] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._event

    def file(self, call: Callable[[], None]) -> None:
        """Have the simulation thread make this call before its next step; returns at once."""
        self._calls.append(call)
        self.stage.raise_()
        if self._event >= 0:
            os.eventfd_write(self._event, 1)

    def serve(self) -> None:
        """Make the calls that were filed, oldest first. On the simulation thread only."""
        self.stage.lower()  # first, so that a call filed from here on raises it again
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Forget what is filed and give the descriptor back."""
        self._calls.clear()
        if self._event >= 0:
            event, self._event = self._event, -1
            os.close(event)
