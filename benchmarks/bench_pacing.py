"""How well the loop keeps a real-time factor, and how late its steps start."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass

import mujoco
import numpy as np
import pytest

from benchmarks.interleave import first_held
from benchmarks.robots import quadruped
from tests.tools import display, eventually
from xbot2_fast import SimulatorWrapper

SECONDS = 20
RTF_ERROR = 1e-3
LATENESS_P99 = 0.3e-3  # [s] at RTF 1 with 1 ms steps


@pytest.fixture
def quick_timers():
    """What the command line sets: threads give way after 0.1 ms, sleeps end on time."""
    import ctypes

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)
    yield
    sys.setswitchinterval(interval)
    ctypes.CDLL(None).prctl(29, 0, 0, 0, 0)


def _run(sim: SimulatorWrapper, seconds: float) -> tuple[float, np.ndarray, float]:
    """Achieved real-time factor over this much wall time, the lateness of each step [s], and the time lost [s].

    By the schedule of the loop, whose slope the real-time factor proves: when the machine stood still for over 0.1 s,
    the schedule began anew, and what was lost counts for neither.
    """
    schedule = sim._pacing.stage
    for _ in range(200):
        sim.run()
    sim._pacing.restart(sim.data.time)
    sim.run()
    start_time, start, lost = sim.data.time, time.perf_counter(), schedule.lost
    lateness = []
    while (now := time.perf_counter()) - start < seconds:
        lateness.append(now - schedule.due(sim.data.time, 0) * 1e-9)
        sim.run()
    lost = schedule.lost - lost
    return (sim.data.time - start_time) / (time.perf_counter() - start - lost), np.array(lateness), lost


def _bare(model: mujoco.MjModel, rtf: float, seconds: float = SECONDS // 4) -> np.ndarray:
    """Lateness of a loop that only steps and sleeps on the same schedule: what the machine itself does [s]."""
    data, lateness = mujoco.MjData(model), []
    start = time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        lateness.append(now - start - data.time / rtf)
        mujoco.mj_step(model, data)
        time.sleep(max(0.0, start + data.time / rtf - time.perf_counter()))
    return np.array(lateness)


@dataclass(frozen=True)
class _Figures:
    """What a loop kept, and how late its steps were [s], beside bare loops before and behind it.

    A machine that others use stands still now and then, for milliseconds or for a second, whoever runs. So p50 and p99
    are taken of each second, and the quarter of the seconds with the least is judged: what a loop does is in all.
    """

    target: float
    rtf: float
    lost: float
    p50: float
    p99: float
    longest: float
    quiet_p50: float
    quiet_p99: float
    bare_p99: float
    bare_quiet_p99: float
    fps: float

    def __str__(self) -> str:
        return (
            f"RTF {self.rtf:.5f} for {self.target}, lateness p50 {self.p50 * 1e6:.0f} us, "
            f"p99 {self.p99 * 1e6:.0f} us (bare {self.bare_p99 * 1e6:.0f}), "
            f"of the quiet seconds {self.quiet_p50 * 1e6:.0f} and {self.quiet_p99 * 1e6:.0f} us "
            f"(bare p99 {self.bare_quiet_p99 * 1e6:.0f}), "
            f"max {self.longest * 1e3:.2f} ms, lost {self.lost:.2f} s, {self.fps:.1f} frames/s"
        )

    @property
    def holds(self) -> bool:
        kept = abs(self.rtf / self.target - 1) <= RTF_ERROR
        stands_still = self.lost > SECONDS / 20 and self.bare_p99 < 10e-3
        on_time = self.quiet_p50 <= LATENESS_P99 and self.quiet_p99 <= 2 * max(LATENESS_P99, self.bare_quiet_p99)
        return kept and on_time and not stands_still


def _quiet(lateness: np.ndarray, seconds: int, q: float) -> float:
    return float(np.quantile([np.quantile(second, q) for second in np.array_split(lateness, seconds)], 0.25))


def _measure(
    model: mujoco.MjModel, opened: Callable[[], AbstractContextManager[SimulatorWrapper]], rtf: float
) -> _Figures:
    before = _bare(model, rtf)
    with opened() as sim:
        frames = sim.viewer.frames if sim.viewer else 0
        achieved, lateness, lost = _run(sim, SECONDS)
        frames = sim.viewer.frames - frames if sim.viewer else 0
    bare = np.concatenate([before, _bare(model, rtf)])
    figures = _Figures(
        target=rtf,
        rtf=achieved,
        lost=lost,
        p50=float(np.median(lateness)),
        p99=float(np.quantile(lateness, 0.99)),
        longest=float(lateness.max()),
        quiet_p50=_quiet(lateness, SECONDS, 0.5),
        quiet_p99=_quiet(lateness, SECONDS, 0.99),
        bare_p99=float(np.quantile(bare, 0.99)),
        bare_quiet_p99=_quiet(bare, SECONDS // 2, 0.99),
        fps=frames / SECONDS,
    )
    print(f"\n{figures}")
    return figures


def _judge(benchmark, measure: Callable[[], _Figures]) -> None:
    figures = benchmark.pedantic(first_held, args=(measure, lambda figures: figures.holds), rounds=1)
    benchmark.extra_info.update(asdict(figures))
    assert figures.holds, str(figures)


@pytest.mark.parametrize("rtf", [0.5, 1.0, 2.0, 5.0])
def test_rtf_over_20_s(benchmark, tmp_path, quick_timers, rtf):
    model, q_init = quadruped(tmp_path / "model")

    def opened():
        socket = str(tmp_path / "sim.sock")
        return SimulatorWrapper(model, q_init=q_init, viewer=False, target_rtf=rtf, socket_path=socket)

    _judge(benchmark, lambda: _measure(model, opened, rtf))


# Takes what the server streams as fast as it comes, as a browser on another machine does.
READER = """
import sys
from websockets.sync.client import connect
with connect(sys.argv[1], proxy=None, max_size=None, open_timeout=60) as stream:
    for count, _ in enumerate(stream):
        if count == 5:
            print("reading", flush=True)
"""


@contextlib.contextmanager
def _page_read(sim: SimulatorWrapper):
    address = sim.viewer.url.replace("http", "ws") + "state?sid=reader"
    reader = subprocess.Popen([sys.executable, "-c", READER, address], stdout=subprocess.PIPE)
    try:
        os.set_blocking(reader.stdout.fileno(), False)
        eventually(lambda: sim.run() and reader.stdout.read())
        yield
    finally:
        reader.kill()
        reader.communicate()


@pytest.mark.parametrize("viewer", ["window", "page"])
def test_lateness_beside_a_viewer(benchmark, tmp_path, quick_timers, monkeypatch, viewer):
    """The window is drawn by a CPU here, in a process of low priority; the page is streamed to a reader."""
    model, q_init = quadruped(tmp_path / "model")

    @contextlib.contextmanager
    def opened():
        web_port, socket = 0 if viewer == "page" else None, str(tmp_path / "sim.sock")
        with contextlib.ExitStack() as stack:
            if viewer == "window":
                monkeypatch.setenv("DISPLAY", stack.enter_context(display()))
            sim = stack.enter_context(SimulatorWrapper(model, q_init=q_init, web_port=web_port, socket_path=socket))
            eventually(lambda: sim.run() and (sim.viewer.failure or sim.viewer.frames > 0 or sim.viewer.url))
            assert sim.viewer.failure is None
            if viewer == "page":
                stack.enter_context(_page_read(sim))
            yield sim

    def measure():
        figures = _measure(model, opened, 1.0)
        assert figures.fps > 1, "nothing was shown: no lateness is reported"
        return figures

    _judge(benchmark, measure)
