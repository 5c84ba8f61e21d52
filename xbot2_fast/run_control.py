"""Requests from other threads: calls for the simulation thread, whether it may step, and the keys that ask for it."""

import contextlib
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from xbot2_fast._kernels._loop import Flag

rtf_logger = logging.getLogger("xbot2_fast.rtf")

_ROUNDING = 1e-9  # of a timestep: a duration that is a multiple of the timestep on paper takes no step more


class Requests:
    """A queue of calls that any thread may file and the simulation thread carries out in order.

    `stage` asks for `serve` while something is filed; `fileno()` is readable then, so that a waiting loop wakes.
    """

    def __init__(self) -> None:
        self.stage = Flag()
        self._calls: deque[Callable[[], None]] = deque()
        self._step_calls: deque[Callable[[], None]] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()  # nobody writes to the descriptor while it is closed and given to others

    def fileno(self) -> int:
        return self._event

    def file(self, call: Callable[[], None], *, while_paused: bool = True) -> None:
        """Have the simulation thread make this call before its next step; returns at once.

        In a pause it is made soon, or, without `while_paused`, before the step that ends or interrupts the pause.
        """
        (self._calls if while_paused else self._step_calls).append(call)
        self.stage.raise_()
        self.wake()

    def wake(self) -> None:
        """End the wait of the simulation thread, if it waits."""
        with self._lock:
            if self._event >= 0:
                os.eventfd_write(self._event, 1)

    def serve(self) -> None:
        """Make the calls that were filed, oldest first. On the simulation thread only."""
        self.stage.lower()  # first, so that a call filed from here on raises it again
        self.serve_while_paused()
        while self._step_calls:
            self._step_calls.popleft()()

    def serve_while_paused(self) -> None:
        """Make the calls that need no step."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Forget what is filed and give the descriptor back."""
        self._calls.clear()
        self._step_calls.clear()
        with self._lock:
            if self._event >= 0:
                event, self._event = self._event, -1
                os.close(event)


class RunControl:
    """Whether the next step may be taken.

    Any thread may call `pause`, `resume`, `advance`, `request_respawn` and `end`; they count once they return.
    The simulation thread looks at `free` before each step, and asks `next_step` when it is lowered.

    Attributes:
        free: raised while the simulation runs freely.
        respawn_stage: the stage that asks for the respawn's handler while a respawn is pending.
    """

    def __init__(self) -> None:
        self.free = Flag()
        self.free.raise_()
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
            self.free.lower()
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
            self.free.lower()
            self._discard_respawn()

    # ---- on the simulation thread

    def next_step(self, timestep: float) -> bool:
        """Whether to take a step now; an advance takes whole steps of this length [s]."""
        with self._lock:
            if self._ended:
                return False
            if not self._paused:
                self.free.raise_()
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


# ---- keys

_RIGHT, _KEYPAD_MINUS, _KEYPAD_PLUS = 262, 333, 334  # GLFW key codes; letters and signs are their ord()
_FRAME = 1 / 60  # s of simulation time that one press of the right arrow advances
_RTF_STEP, _RTF_LEAST = 0.1, 0.1


class Controllable(Protocol):
    """What the default keys act on: `SimulatorWrapper`."""

    @property
    def paused(self) -> bool: ...
    @property
    def target_rtf(self) -> float: ...
    def set_paused(self, paused: bool = True) -> None: ...
    def advance(self, duration_s: float = 0.1) -> None: ...
    def set_target_rtf(self, value: float) -> None: ...
    def respawn(self) -> bool: ...


class DefaultKeys:
    """Key callback: Space pauses and resumes, Right advances one frame, + and - change the target RTF, R respawns."""

    def __init__(self, simulator: Controllable):
        self._simulator = simulator

    def __call__(self, key: int) -> None:
        simulator = self._simulator
        if key == ord(" "):
            simulator.set_paused(not simulator.paused)
        elif key == _RIGHT:
            simulator.advance(_FRAME)
        elif key in (ord("+"), ord("="), _KEYPAD_PLUS):
            self._change_rtf(_RTF_STEP)
        elif key in (ord("-"), _KEYPAD_MINUS):
            self._change_rtf(-_RTF_STEP)
        elif key in (ord("R"), ord("r")):
            simulator.respawn()

    def _change_rtf(self, change: float) -> None:
        target = self._simulator.target_rtf
        if math.isinf(target):
            rtf_logger.info("target RTF: max, without a limit that + or - could change")
            return
        target = max(_RTF_LEAST, round(target + change, 10))
        self._simulator.set_target_rtf(target)
        rtf_logger.info("target RTF: %.1f", target)
