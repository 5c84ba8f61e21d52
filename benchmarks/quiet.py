"""Times in seconds as a quiet machine would show them, so that a bound in seconds holds on a busy one.

On a shared machine, work in the processor's caches takes up to 2.5 times as long for seconds or minutes on end, as if
the other half of the core were busy with somebody else's: nearly the same factor for whatever computes, less for what
waits for memory. A loop of Python measures it beside each call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns

import numpy as np

LOOP = range(200)
QUIET = 8.4e-6  # [s] of the loop: CPython 3.12 on a 2.0 GHz core of 2017 by itself, where the bounds were set


@dataclass(frozen=True)
class QuietTimes:
    """Seconds of a call as on a quiet machine: median, and 10 and 90 % points; and the slowness that was taken out."""

    median: float
    low: float
    high: float
    slowness: float

    def __str__(self) -> str:
        return (
            f"{self.median * 1e6:.3f} us [{self.low * 1e6:.3f}, {self.high * 1e6:.3f}] on a quiet machine "
            f"(this one: {self.slowness:.2f} times as slow)"
        )


def quiet_times(
    work: Callable[[], float | object], rounds: int, clock: Callable[[], float] = perf_counter
) -> QuietTimes:
    """Time `rounds` calls of `work` by `clock`; a call that returns a float has measured itself [s]."""
    loops = [_loop()]
    taken = []
    for _ in range(rounds):
        start = clock()
        own = work()
        taken.append(own if isinstance(own, float) else clock() - start)
        loops.append(_loop())
    slowness = np.maximum(1.0, (np.array(loops[1:]) + loops[:-1]) / 2 / QUIET)
    low, median, high = np.quantile(np.array(taken) / slowness, (0.1, 0.5, 0.9))
    return QuietTimes(float(median), float(low), float(high), float(np.median(slowness)))


def _loop() -> float:
    """Shortest of some runs of the loop: interruptions do not count, the median of the calls takes care of theirs."""
    return min(_once() for _ in range(50))


def _once() -> float:
    start = perf_counter_ns()
    total = 0
    for i in LOOP:
        total += i
    return (perf_counter_ns() - start) * 1e-9
