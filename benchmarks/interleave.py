"""Two ways of doing the same work, timed in turn in one process, so that the machine's drift hits both."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from time import perf_counter_ns
from typing import TypeVar

from benchmarks.quiet import QuietTimes

Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Comparison:
    """Medians of one call [s], and the ratio candidate / baseline of neighbouring calls with its 10 and 90 % points."""

    baseline: float
    candidate: float
    ratio: float
    low: float
    high: float

    @property
    def speedup(self) -> float:
        return 1 / self.ratio

    def __str__(self) -> str:
        return (
            f"baseline {self.baseline * 1e6:.2f} us, ours {self.candidate * 1e6:.2f} us, "
            f"ratio {self.ratio:.4f} [{self.low:.4f}, {self.high:.4f}]"
        )


def compare(
    baseline: Callable[[], object],
    candidate: Callable[[], object],
    rounds: int = 40,
    calls: int = 1,
    between: Callable[[], object] | None = None,
) -> Comparison:
    """Time `calls` calls of the baseline, then of the candidate, `rounds` times; the first tenth warms up.

    `between` runs untimed before each single call of the candidate and before each of the baseline.
    """
    times: list[tuple[float, float]] = []
    for _ in range(rounds + rounds // 10 + 1):
        times.append((_time(baseline, calls, between), _time(candidate, calls, between)))
    times = times[rounds // 10 + 1 :]
    ratios = [b / a for a, b in times]
    tenths = quantiles(ratios, n=10)
    return Comparison(median(a for a, _ in times), median(b for _, b in times), median(ratios), tenths[0], tenths[-1])


def _time(function: Callable[[], object], calls: int, between: Callable[[], object] | None) -> float:
    if between is None:
        start = perf_counter_ns()
        for _ in range(calls):
            function()
        return (perf_counter_ns() - start) * 1e-9 / calls
    total = 0
    for _ in range(calls):
        between()
        start = perf_counter_ns()
        function()
        total += perf_counter_ns() - start
    return total * 1e-9 / calls


def first_held(measure: Callable[[], Measured], holds: Callable[[Measured], bool]) -> Measured:
    """What was measured first that holds, else the last of five: for times of seconds, in any of which a machine that
    others use may stand still. What is wrong with us is so in all five."""
    for _ in range(5):
        measured = measure()
        if holds(measured):
            break
    return measured


def report(benchmark, candidate: Callable[[], object], figures: Comparison | QuietTimes, rounds: int = 5) -> None:
    """Hand figures to pytest-benchmark: some rounds of the candidate as they are, and the figures beside them."""
    benchmark.extra_info.update(asdict(figures))
    benchmark.extra_info.update(machine=platform.machine(), cores=os.cpu_count())
    benchmark.pedantic(candidate, rounds=rounds, iterations=1)
    print(f"\n{benchmark.name}: {figures}")
