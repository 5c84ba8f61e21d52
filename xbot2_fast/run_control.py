"""Requests from other threads: calls for the simulation thread, and who may step: running, paused or advancing."""

import math
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from xbot2_fast._kernels._loop import Flag

_ROUNDING = 1e-9  # of a timestep: a duration that is a multiple of the timestep on paper takes no step more


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
        self.wake()

    def wake(self) -> None:
        """End the wait of the simulation thread, if it waits."""
        if self._event >= 0:
            os.eventfd_write(self._event, 1)

    def serve(self) -> None:
        """Make the calls that were filed, oldest first. On the simulation thread only."""
        self.stage.lower()  # first, so that a call filed from here on raises it again
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            pass
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Forget what is filed and give the descriptor back."""
        self._calls.clear()
        if self._event >= 0:
            event, self._event = self._event, -1
            os.close(event)


class RunControl:
    """Whether the next step may be taken.

    Any thread may call `pause`, `resume`, `advance`, `request_respawn` and `end`; they count from the moment they return.
    The simulation thread looks at `stepping` before each step, and asks `next_step` when it is False.

    Attributes:
        stepping: True while the simulation runs freely.
        respawn_stage: the stage that asks for the respawn's handler while a respawn is pending.
    """

    def __init__(self) -> None:
        self.stepping = True
        self.respawn_stage = Flag()
        self._lock = threading.Lock()
        self._paused = False
        self._ended = False
        self._advances: deque[float] = deque()
        self._steps_left = 0
        self._respawn: Any = None

    # ---- from any thread

    @property
    def running(self) -> bool:
        """False after `end`."""
        return not self._ended

    @property
    def paused(self) -> bool:
        """Whether the simulation is held, or will be after the step in progress; also during advances."""
        return self._paused

    @property
    def advancing(self) -> bool:
        """Whether an advance is active or queued."""
        return self._steps_left > 0 or bool(self._advances)

    def pause(self) -> None:
        """Hold after the step in progress; a pending respawn is discarded."""
        with self._lock:
            if self._paused:
                return
            self._paused = True
            self.stepping = False
            self._discard_respawn()

    def resume(self) -> None:
        """Run on; what is left of advances is discarded."""
        with self._lock:
            self._paused = False
            self._advances.clear()
            self._steps_left = 0

    def advance(self, duration_s: float) -> None:
        """Queue an advance; ignored unless paused.

        Raises:
            ValueError: not a finite positive number.
        """
        duration = _check_duration(duration_s)
        with self._lock:
            if self._paused:
                self._advances.append(duration)

    def request_respawn(self, request: Any = True) -> bool:
        """File a respawn, which replaces a pending one; ignored, and False, while paused."""
        with self._lock:
            if self._paused or self._ended:
                return False
            self._respawn = request
            self.respawn_stage.raise_()
            return True

    def end(self) -> None:
        """No step from here on."""
        with self._lock:
            self._ended = True
            self.stepping = False
            self._discard_respawn()

    # ---- on the simulation thread

    def next_step(self, timestep: float) -> bool:
        """Whether to take a step now; an advance takes whole steps of this length [s]."""
        with self._lock:
            if self._ended:
                return False
            if not self._paused:
                self.stepping = True
                return True
            if not self._steps_left and self._advances:
                self._steps_left = whole_steps(self._advances.popleft(), timestep)
            if not self._steps_left:
                return False
            self._steps_left -= 1
            return True

    def take_respawn(self) -> Any:
        """The pending respawn request, which is no longer pending then; None without one."""
        with self._lock:
            request = self._respawn
            self._discard_respawn()
            return request

    def _discard_respawn(self) -> None:
        self._respawn = None
        self.respawn_stage.lower()


def whole_steps(duration: float, timestep: float) -> int:
    """The least number of steps of `timestep` that last `duration` [s], which is positive: at least one."""
    return max(1, math.ceil(min(duration / timestep, 2.0**62) - _ROUNDING))


def _check_duration(value: float) -> float:
    try:
        duration = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        duration = math.nan
    if not 0 < duration < math.inf:
        raise ValueError(f"duration_s: expected a finite positive number of seconds, got {value!r}")
    return duration
