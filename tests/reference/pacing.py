"""The schedule of xbot2_fast.pacing in plain Python, with the clock and the sleep given."""

import math
from collections.abc import Callable

CATCH_UP = 0.1


class ReferencePacer:
    """Wait for each step's time on an absolute schedule. Times in ns, simulation time in s."""

    def __init__(self, target_rtf: float, clock: Callable[[], int], sleep: Callable[[int], None]):
        self.target_rtf = self.wanted_rtf = target_rtf
        self.clock = clock
        self.sleep = sleep
        self.anchor: tuple[float, int] | None = None
        self.last: tuple[float, int] = (0.0, 0)
        self.lost = 0
        self.lateness: list[int] = []

    def after_step(self, time: float) -> None:
        now = self.clock()
        if self.anchor is None or time < self.anchor[0]:
            self.anchor = self.last = (time, now)
        if self.wanted_rtf != self.target_rtf:
            self._retarget(time, now)
        due = self._on_line(time, now)
        if due > now:
            self.sleep(due - now)
        now = self.clock()
        late = max(now - due, 0)
        self.lateness.append(late)
        self.last = (time, due)
        if late > CATCH_UP * 1e9:
            self.lost += late
            self.anchor = self.last = (time, now)

    def _on_line(self, time: float, now: int) -> int:
        if math.isinf(self.target_rtf):
            return now
        return self.anchor[1] + int((time - self.anchor[0]) / self.target_rtf * 1e9)

    def _retarget(self, time: float, now: int) -> None:
        earliest = min(self._on_line(time, now), now)
        self.target_rtf = self.wanted_rtf
        self.anchor = self.last
        if self._on_line(time, now) < earliest:
            self.anchor = (time, earliest)
