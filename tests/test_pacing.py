"""The schedule against virtual clocks, and the wait against the real one."""

import math
import os
import signal
import socket
import threading
import time

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.pacing import ReferencePacer
from xbot2_fast import SimulatorWrapper
from xbot2_fast.pacing import Pacing, PacingReport, check_target_rtf

pytestmark = pytest.mark.core


class VirtualClock:
    """A clock that only sleeping and working move; each sleep ends `oversleep` ns late."""

    def __init__(self, oversleep: int = 0):
        self.now = 1_000_000_000
        self.oversleep = oversleep

    def __call__(self) -> int:
        return self.now

    def sleep(self, ns: int) -> None:
        self.now += ns + self.oversleep


def drive(stage, clock: VirtualClock, simulation_time: float) -> None:
    """What the compiled stage does behind a step, on a virtual clock."""
    due = stage.due(simulation_time, clock())
    if due > clock():
        clock.sleep(due - clock())
    stage.started(due, simulation_time, clock())


@given(
    rtf=st.sampled_from([0.5, 1.0, 2.0, 5.0, math.inf]),
    work=st.lists(
        st.tuples(st.integers(0, 200_000_000), st.sampled_from([None, None, 0.1, 1.0, 3.0, math.inf])),
        min_size=1,
        max_size=60,
    ),
    oversleep=st.integers(0, 300_000),
)
def test_equals_the_reference_for_any_work_of_the_steps_and_any_change_of_target(rtf, work, oversleep):
    pacing = Pacing(rtf)
    ours, theirs = VirtualClock(oversleep), VirtualClock(oversleep)
    reference = ReferencePacer(rtf, theirs, theirs.sleep)
    for k, (ns, target) in enumerate(work, start=1):
        ours.now += ns
        theirs.now += ns
        if target is not None:
            pacing.target_rtf = reference.wanted_rtf = target
        drive(pacing.stage, ours, k * 1e-3)
        reference.after_step(k * 1e-3)
        assert ours.now == theirs.now
    assert pacing.lost == pytest.approx(reference.lost * 1e-9, abs=1e-12)


@pytest.mark.parametrize("rtf", [0.5, 1.0, 2.0, 5.0])
def test_late_sleeps_do_not_add_up(rtf):
    clock, pacing = VirtualClock(oversleep=150_000), Pacing(rtf)
    drive(pacing.stage, clock, 0.0)
    start = clock.now
    for k in range(1, 20_001):
        drive(pacing.stage, clock, k * 1e-3)
    assert 20 / ((clock.now - start) * 1e-9) == pytest.approx(rtf, rel=1e-4)


def test_lateness_up_to_a_tenth_of_a_second_is_caught_up():
    clock, pacing = VirtualClock(), Pacing(1.0)
    drive(pacing.stage, clock, 0.0)
    start = clock.now
    clock.now += 99_000_000
    for k in range(1, 201):
        drive(pacing.stage, clock, k * 1e-3)
    assert clock.now - start == 200_000_000
    assert pacing.lost == 0.0


def test_lateness_beyond_is_given_up_counted_and_shown():
    clock, pacing = VirtualClock(), Pacing(1.0)
    drive(pacing.stage, clock, 0.0)
    start = clock.now
    clock.now += 400_000_000
    for k in range(1, 201):
        drive(pacing.stage, clock, k * 1e-3)
    assert pacing.lost == pytest.approx(0.399)
    assert clock.now - start == 400_000_000 + 199_000_000


def test_a_new_target_starts_the_schedule_anew():
    clock, pacing = VirtualClock(), Pacing(1.0)
    for k in range(100):
        drive(pacing.stage, clock, k * 1e-3)
    pacing.target_rtf = 0.5
    drive(pacing.stage, clock, 0.1)
    before = clock.now
    drive(pacing.stage, clock, 0.101)
    assert clock.now - before == pytest.approx(2_000_000, abs=2)


@pytest.mark.requirement("S0-057")
def test_a_thousand_changes_of_target_leave_no_error():
    clock, pacing = VirtualClock(oversleep=150_000), Pacing(1.0)
    drive(pacing.stage, clock, 0.0)
    start, wanted = clock.now, 0.0
    for k in range(1, 1001):
        clock.now += 30_000
        rtf = 0.5 + (k % 11) / 10
        pacing.target_rtf = rtf
        drive(pacing.stage, clock, k * 1e-3)
        wanted += 1e-3 / rtf
    assert (clock.now - start) * 1e-9 == pytest.approx(wanted, abs=0.2e-3)  # one sleep that ends late, not a thousand


def test_a_faster_target_ends_a_long_wait_without_calling_it_late():
    clock, pacing = VirtualClock(), Pacing(1e-3)
    drive(pacing.stage, clock, 0.0)
    due = pacing.stage.due(1e-3, clock())
    assert due == clock.now + 1_000_000_000
    clock.now += 400_000_000
    pacing.target_rtf = 1.0
    assert pacing.stage.due(1e-3, clock()) == clock.now
    drive(pacing.stage, clock, 1e-3)
    assert pacing.lost == 0.0


def test_a_restart_makes_the_next_step_due_now():
    pacing = Pacing(1.0)
    pacing.restart(5.0)
    before = pacing.stage.due(5.0, 0)
    assert pacing.stage.due(5.001, before) == before + 1_000_000


def test_the_report_keeps_the_words_of_the_line_that_scripts_read():
    report = PacingReport(rtf=1.0, mean_lateness=1.2e-5, worst_lateness=1.05e-4, lost=0.0)
    assert str(report) == "RTF: 1.000 (Sync error: 0.012 ms, Correction: 0.105 ms)"


@pytest.mark.parametrize("bad", [0, -1, math.nan, "fast", None, True, -math.inf, 10**400])
def test_a_target_must_be_positive(bad):
    with pytest.raises(ValueError, match="target_rtf: expected a positive number or math.inf, got"):
        Pacing(bad)


def test_infinity_only_where_allowed():
    assert check_target_rtf(math.inf, unlimited=True) == math.inf
    with pytest.raises(ValueError, match="target_rtf: expected a finite positive number, got inf"):
        check_target_rtf(math.inf)


@pytest.mark.parametrize("bad", [-1e-9, math.nan, math.inf, True])
def test_a_sync_interval_must_be_finite_and_not_negative(bad):
    with pytest.raises(ValueError, match="sync_interval: expected"):
        Pacing(1.0, bad)


def test_the_window_keeps_the_mean_and_the_worst_lateness():
    stage = Pacing(1.0).stage
    for k, late in enumerate([300_000, 900_000, 0, -500_000, 600_000]):
        stage.started(1_000_000_000, k * 1e-3, 1_000_000_000 + late)
    _, mean, worst, lost = stage.take_window(0.004, 2_000_000_000)
    assert mean == pytest.approx(0.36e-3)  # early counts as on time
    assert worst == pytest.approx(0.9e-3)
    assert lost == 0.0
    assert stage.take_window(0.004, 3_000_000_000)[1:] == (0.0, 0.0, 0.0)


def test_a_time_that_went_back_starts_the_schedule_anew_and_loses_nothing():
    clock, pacing = VirtualClock(), Pacing(1.0)
    for k in range(500):
        drive(pacing.stage, clock, 1.0 + k * 1e-3)
    now = clock.now
    assert pacing.stage.due(0.25, now) == now
    drive(pacing.stage, clock, 0.25)
    drive(pacing.stage, clock, 0.75)
    assert clock.now - now == 500_000_000
    assert pacing.lost == 0.0


# ---- the wait itself, on the real clock; only lower bounds and medians, which a loaded machine keeps


@pytest.fixture
def simulator(tmp_path):
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    model.opt.timestep = 0.001
    made = []

    def make(**arguments) -> SimulatorWrapper:
        made.append(SimulatorWrapper(model, viewer=False, socket_path=str(tmp_path / "s.sock"), **arguments))
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def test_signals_and_requests_wake_the_wait_and_do_not_end_it(simulator):
    sim = simulator(target_rtf=0.01)
    sim.run()
    before = signal.signal(signal.SIGALRM, lambda *_: sim._requests.file(lambda: None))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        start = time.monotonic()
        for _ in range(3):
            sim.run()
        assert time.monotonic() - start > 0.29
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("sync_interval", "waits"), [(0.0, True), (0.05, False)])
def test_with_a_sync_interval_most_steps_do_not_wait(simulator, sync_interval, waits):
    sim = simulator(target_rtf=0.5, sync_interval=sync_interval)
    sim.run()
    times = []
    for _ in range(200):
        sim.run()
        times.append(time.monotonic())
    gaps = np.diff(times)
    assert gaps.sum() > 0.3  # on schedule in both cases
    assert (np.median(gaps) > 0.001) == waits


def test_what_takes_time_within_a_wait_does_not_make_the_wait_longer(simulator):
    sim = simulator(target_rtf=1e-3)  # a step of 1 ms lasts 1 s
    sim.run()
    sim.run()
    timer = threading.Timer(0.2, sim._requests.file, [lambda: time.sleep(0.6)])
    timer.start()
    sim.run()
    timer.join()
    assert sim.pacing_report.worst_lateness < 0.4


def discover(path: str, own: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    peer.bind(own)
    peer.settimeout(60)
    peer.sendto(b'{"type":"discovery"}', path)
    return peer


def test_a_discovery_is_answered_within_the_wait_for_the_next_step(simulator, tmp_path):
    sim = simulator(target_rtf=1e-5)  # a step of 1 ms lasts 100 s
    sim.run()
    thread = threading.Thread(target=sim.run)
    thread.start()
    with discover(str(tmp_path / "s.sock"), str(tmp_path / "own")) as peer:
        assert b"discovery" in peer.recv(1 << 16)
    assert thread.is_alive()
    sim.set_target_rtf(1000)
    thread.join()


def test_datagrams_do_not_end_a_rest(simulator, tmp_path):
    """A pause looks at the bridge's socket once a frame, so that a controller that sends on costs nothing more."""
    sim = simulator()
    sim.run()
    sim.set_paused()
    sim.run()
    for k in range(5):
        with discover(str(tmp_path / "s.sock"), str(tmp_path / f"own{k}")) as peer:
            start = time.monotonic()
            assert sim.run() is False
            assert time.monotonic() - start > 0.016
            assert b"discovery" in peer.recv(1 << 16)


def test_a_descriptor_is_forgotten_with_its_kind():
    stage = Pacing(1.0).stage
    resting, other = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
    try:
        stage.watch(other, resting=False)
        stage.watch(resting)
        os.eventfd_write(other, 1)
        assert not stage.rest(0.0)
        assert not stage.readable(resting)
        os.eventfd_write(resting, 1)
        assert stage.rest(0.0)
        assert stage.readable(resting)
        stage.unwatch(resting)
        assert not stage.rest(0.0)
        assert not stage.readable(resting)
        stage.watch(other)
        assert stage.rest(0.0)
    finally:
        os.close(resting)
        os.close(other)
