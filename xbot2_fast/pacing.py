"""Pacing against real time: an absolute schedule, and an honest account of how well it was kept.

Step k after the anchor is due at `anchor + k * timestep / target_rtf`. A late step does not move the schedule, so lost
time is caught up; beyond 0.1 s of lateness the schedule starts anew from now, and the time lost is counted and shown.
"""

import math
import time
from dataclasses import dataclass

from xbot2_fast._kernels._pacing import Pacer


@dataclass(frozen=True)
class PacingReport:
    """One window of the simulation against the wall clock.

    Attributes:
        rtf: simulated seconds per wall second.
        mean_lateness, worst_lateness: how long after its time a step started [s].
        lost: wall time given up because the loop was more than 0.1 s late [s].
    """

    rtf: float
    mean_lateness: float
    worst_lateness: float
    lost: float

    def __str__(self) -> str:
        return (
            f"RTF: {self.rtf:.3f} (Sync error: {self.mean_lateness * 1e3:.3f} ms, "
            f"Correction: {self.worst_lateness * 1e3:.3f} ms)"
        )


def check_target_rtf(value: float | str, *, unlimited: bool = False) -> float:
    """The target real-time factor as a float.

    Args:
        unlimited: accept math.inf, which runs as fast as the machine can.
    Raises:
        ValueError: not a number, not above zero, NaN, or infinite without `unlimited`.
    """
    allowed = "a positive number or math.inf" if unlimited else "a finite positive number"
    if isinstance(value, bool):
        raise ValueError(f"target_rtf: expected {allowed}, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"target_rtf: expected {allowed}, got {value!r}") from None
    if not number > 0 or (math.isinf(number) and not unlimited):
        raise ValueError(f"target_rtf: expected {allowed}, got {value!r}")
    return number


class Pacing:
    """Keeps a step loop at a real-time factor.

    Args:
        target_rtf: simulated seconds per wall second; math.inf for no waiting at all.
        sync_interval: least wall time from one wait to the next [s], by which the simulation may run ahead of the
            schedule; 0 waits behind each step.
    Raises:
        ValueError: a bad argument.
    """

    def __init__(self, target_rtf: float = 1.0, sync_interval: float = 0.0):
        rtf = check_target_rtf(target_rtf, unlimited=True)
        if isinstance(sync_interval, bool) or not 0 <= sync_interval < math.inf:
            raise ValueError(f"sync_interval: expected a finite number of seconds >= 0, got {sync_interval!r}")
        self.stage = Pacer(rtf, sync_interval)

    @property
    def target_rtf(self) -> float:
        """The target. Setting it bends the schedule where the last step was due, so that no error adds up."""
        return self.stage.target_rtf

    @target_rtf.setter
    def target_rtf(self, value: float) -> None:
        self.stage.target_rtf = check_target_rtf(value, unlimited=True)

    @property
    def lost(self) -> float:
        """Wall time given up in all [s]."""
        return self.stage.lost

    def restart(self, simulation_time: float) -> None:
        """Start the schedule anew, the next step being due now: after a pause or a respawn."""
        self.stage.anchor(simulation_time)

    def report_due(self) -> bool:
        """Whether a second of wall time went by since the last report."""
        return self.stage.report_due()

    def take_report(self, simulation_time: float) -> PacingReport:
        """The report of the time since the last one; begins a new window."""
        return PacingReport(*self.stage.take_window(simulation_time, time.monotonic_ns()))
