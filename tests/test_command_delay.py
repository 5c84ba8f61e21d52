"""When a delayed command acts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import command_delay as reference
from xbot2_fast.command_delay import RING, CommandDelay

STEP = 0.001
WORDS = 3  # of a command; all of a command have its value


def _value(there, out):
    assert not there or (out == out[0]).all()
    return out[0] if there else None


def receive(delay, value, time):
    out = np.full(WORDS, np.nan)
    return _value(delay.ring.receive(np.full(WORDS, float(value)), time, out), out)


def due(delay, time):
    out = np.full(WORDS, np.nan)
    return _value(delay.ring.due(time, out), out)


def assert_same_counts(ours, theirs):
    assert (ours.waiting, ours.overflowed) == (len(theirs.waiting), theirs.overflowed)
    assert ours.ring.superseded == theirs.superseded


@pytest.mark.requirement("S0-023", "S0-029")
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 20, 100, 333])
def test_a_delay_of_n_timesteps_is_exactly_n_steps(steps):
    delay = CommandDelay(WORDS, STEP, steps * STEP)
    time, times = 0.0, []
    for _ in range(5000):  # time as mj_step sums it up, with its rounding
        times.append(time)
        time += STEP
    pending = {}
    for i, now in enumerate(times):
        got = receive(delay, i, now) if i % 3 == 0 else due(delay, now)
        if i % 3 == 0:
            pending[i + steps] = i
        assert got == pending.get(i)


@pytest.mark.requirement("S0-026")
def test_without_delay_a_command_acts_at_once():
    delay = CommandDelay(WORDS, STEP)
    assert delay.delay == 0
    assert receive(delay, 5, 1.0) == 5
    assert due(delay, 1.001) is None


@pytest.mark.requirement("S0-034", "S0-035", "S0-030")
def test_a_changed_delay_counts_for_later_commands_and_an_older_command_never_acts_after_a_newer_one():
    delay = CommandDelay(WORDS, STEP, 0.010)
    assert receive(delay, 1, 0.000) is None  # due at 0.010
    delay.set_delay(0.002)
    assert receive(delay, 2, 0.001) is None  # due at 0.003: overtakes 1
    assert due(delay, 0.002) is None
    assert due(delay, 0.003) == 2
    assert due(delay, 0.010) is None
    delay.set_delay(0.020)
    assert receive(delay, 3, 0.011) is None
    delay.set_delay(0.5)
    assert due(delay, 0.030) is None
    assert due(delay, 0.031) == 3  # kept its deadline
    assert receive(delay, 4, 0.031) is None
    delay.set_delay(0.0)
    assert receive(delay, 5, 0.032) == 5
    assert due(delay, 10.0) is None


@pytest.mark.requirement("S0-030", "S0-029")
def test_the_newest_due_command_acts_and_older_ones_are_skipped():
    delay = CommandDelay(WORDS, STEP, 0.002)
    for i in range(5):
        assert receive(delay, i, 0.0001 * i) is None
    assert due(delay, 0.1) == 4
    assert due(delay, 0.2) is None
    assert delay.waiting == 0


def test_restore_resets_the_value_and_leaves_deadlines():
    delay = CommandDelay(WORDS, STEP, 0.005)
    delay.set_delay(0.1)
    receive(delay, 1, 0.0)
    delay.restore()
    assert delay.delay == 0.005
    assert delay.waiting == 1
    assert due(delay, 0.099) is None
    assert due(delay, 0.1) == 1


def test_a_full_ring_drops_its_oldest_and_counts_it():
    delay = CommandDelay(WORDS, STEP, 10.0)
    for i in range(RING + 5):
        receive(delay, i, i * STEP)
    assert (delay.waiting, delay.overflowed) == (RING, 5)
    assert due(delay, 10.0 + 5 * STEP) == 5


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "1", True, None])
def test_a_bad_delay_is_refused_and_the_old_one_stays(bad):
    delay = CommandDelay(WORDS, STEP, 0.01)
    with pytest.raises(ValueError, match="actuator delay: expected a finite number of seconds >= 0"):
        delay.set_delay(bad)
    assert delay.delay == 0.01


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("delay"), st.sampled_from([0.0, 0.001, 0.002, 0.005, 0.0123, 0.2])),
        st.tuples(st.just("receive"), st.integers(0, 3)),
        st.tuples(st.just("steps"), st.integers(1, 8)),
    ),
    max_size=150,
)


@settings(max_examples=60, deadline=None)
@given(EVENTS)
def test_equals_the_reference(events):
    ours, theirs = CommandDelay(WORDS, STEP), reference.CommandDelay(STEP)
    time, value = 0.0, 0
    for kind, number in events:
        if kind == "delay":
            ours.set_delay(number)
            theirs.delay = number
        elif kind == "receive":
            for _ in range(number):
                value += 1
                assert receive(ours, value, time) == theirs.receive(value, time)
        else:
            for _ in range(number):
                time += STEP
                assert due(ours, time) == theirs.due(time)
        assert_same_counts(ours, theirs)


def test_equals_the_reference_with_a_full_ring():
    ours, theirs = CommandDelay(WORDS, STEP, 2.0), reference.CommandDelay(STEP)
    theirs.delay = 2.0
    for i in range(RING + 200):
        time = i * STEP * 0.5
        assert receive(ours, i, time) == theirs.receive(i, time)
        assert due(ours, time + 0.2) == theirs.due(time + 0.2)
    assert_same_counts(ours, theirs)
    assert ours.overflowed > 0
