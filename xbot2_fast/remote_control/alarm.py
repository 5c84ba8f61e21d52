"""A descriptor that becomes readable after a time, for loops that wait on descriptors (timerfd_create(2))."""

import contextlib
import ctypes
import os

_CLOCK_MONOTONIC = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _TimerSpec(ctypes.Structure):
    """struct itimerspec: the interval between further alarms, then the time to the first; 0 for none."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Alarm:
    """One timer, disarmed at first."""

    def __init__(self) -> None:
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), f"timerfd_create: {os.strerror(ctypes.get_errno())}")
        self._set = False

    def fileno(self) -> int:
        return self._fd

    def set(self, seconds: float) -> None:
        """Make the descriptor readable this long from now (> 0); a time that was set before counts no more."""
        spec = _TimerSpec(0, 0, int(seconds), int(seconds % 1 * 1e9))
        if _libc.timerfd_settime(self._fd, 0, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), f"timerfd_settime: {os.strerror(ctypes.get_errno())}")
        self._set = True

    def clear(self) -> None:
        """Have the descriptor readable no more, if its time has come."""
        if self._set:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 8)
                self._set = False

    def close(self) -> None:
        os.close(self._fd)
