"""Log lines that a misbehaving peer cannot multiply."""

import logging
import time


class Notices:
    """At most one line a kind a second; what was held back is counted in the next line of its kind."""

    INTERVAL = 1.0  # s

    def __init__(self, logger: logging.Logger):
        self._logger = logger
        self._next: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def __call__(self, level: int, kind: str, text: str, *arguments: object) -> None:
        """Log a line of this kind, or hold it back."""
        now = time.monotonic()
        if now < self._next.get(kind, 0.0):
            self._held[kind] = self._held.get(kind, 0) + 1
            return
        self._next[kind] = now + self.INTERVAL
        held = self._held.pop(kind, 0)
        self._logger.log(level, text + (f" (and {held} more such)" if held else ""), *arguments)

    def once(self, level: int, kind: str, text: str, *arguments: object) -> None:
        """Log the first line of this kind only."""
        if kind not in self._next:
            self._next[kind] = float("inf")
            self._logger.log(level, text, *arguments)
