"""The order in which stages run, and how they ask for Python."""

import math

import mujoco
import pytest
from xbot2_fast._kernels._loop import (
    DIVERGED,
    HELD,
    IN_POST_STEP,
    IN_PRE_STEP,
    EveryInterval,
    EverySteps,
    Flag,
    ResetWatch,
    StepLoop,
)

pytestmark = pytest.mark.core


@pytest.fixture
def loop():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    loop = StepLoop(model, data)
    return loop, data


def asked(call) -> list[int]:
    """Numbers of the stages that asked, in order."""
    numbers = []
    while number := call():
        numbers.append(number)
    return numbers


def test_stages_ask_in_their_order_and_once(loop):
    loop, _ = loop
    flags = [Flag() for _ in range(3)]
    for place, flag in enumerate(flags):
        loop.before(flag, place)
    flags[2].raise_()
    flags[0].raise_()
    assert asked(loop.pre_step) == [1, 3]
    flags[0].lower()
    assert asked(loop.pre_step) == [3]


def test_a_stage_can_be_put_before_another(loop):
    loop, _ = loop
    last, first = Flag(), Flag()
    loop.after(last, 0)
    loop.after(first, 0)
    last.raise_()
    assert asked(loop.post_step) == [2]


def test_every_n_steps_counts_from_the_first(loop):
    loop, _ = loop
    loop.after(EverySteps(3), 0)
    assert [len(asked(loop.post_step)) for _ in range(7)] == [0, 0, 1, 0, 0, 1, 0]


def test_an_interval_of_wall_time_asks_at_once_then_not_before_it_is_over(loop):
    loop, _ = loop
    loop.after(EveryInterval(3600), 0)
    assert [len(asked(loop.post_step)) for _ in range(3)] == [1, 0, 0]


def test_a_reset_is_seen_before_the_first_step_and_whenever_time_went_back(loop):
    loop, data = loop
    loop.before(ResetWatch(), 0)
    seen = []
    for k in range(6):
        seen.append(len(asked(loop.pre_step)))
        loop.step()
        if k == 3:
            data.time = 0.0
    assert seen == [1, 0, 0, 0, 1, 0]


def test_an_interrupted_phase_can_be_started_over(loop):
    loop, _ = loop
    first, second = Flag(), Flag()
    loop.before(first, 0)
    loop.before(second, 1)
    first.raise_()
    assert loop.pre_step() == 1
    loop.rewind()
    assert asked(loop.pre_step) == [1]


def test_run_steps_at_once_and_names_the_part_in_which_a_stage_asks():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    data, free, before, behind, reasons = mujoco.MjData(model), Flag(), Flag(), Flag(), []
    loop = StepLoop(model, data, free, lambda why, exception: reasons.append((why, exception)))
    loop.before(before, 0)
    loop.after(behind, 0)
    assert loop.run() is None
    free.raise_()
    assert loop.run() is True
    before.raise_()
    loop.run()
    assert asked(loop.pre_step) == [1]  # the stage is told of once
    before.lower()
    behind.raise_()
    loop.run()
    assert asked(loop.post_step) == [1]
    assert loop.steps == 2
    behind.lower()
    data.qvel[0] = math.inf
    loop.run()
    assert reasons == [(HELD, None), (IN_PRE_STEP, None), (IN_POST_STEP, None), (DIVERGED, None)]


def test_a_run_that_was_interrupted_can_be_started_over():
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    free, before = Flag(), Flag()
    free.raise_()
    before.raise_()
    loop = StepLoop(model, mujoco.MjData(model), free, lambda why, exception: why)
    loop.before(before, 0)
    assert loop.run() == IN_PRE_STEP
    loop.rewind()
    assert asked(loop.pre_step) == [1]


def test_too_many_stages_are_refused(loop):
    loop, _ = loop
    for place in range(16):
        loop.before(Flag(), place)
    with pytest.raises(RuntimeError, match="more than 16 stages"):
        loop.before(Flag(), 16)
