"""The schedule against virtual clocks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.pacing import ReferencePacer
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


def drive(stage, clock: VirtualClock, time: float) -> None:
    """What the compiled stage does behind a step, on a virtual clock."""
    due = stage.due(time, clock())
    if due > clock():
        clock.sleep(due - clock())
    stage.started(due, time, clock())


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
