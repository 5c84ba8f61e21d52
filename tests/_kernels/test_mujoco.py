"""Errors and warnings of MuJoCo below calls that are made by address."""

import threading

import mujoco
import pytest
from xbot2_fast._kernels._loop import StepLoop
from xbot2_fast._kernels._mujoco import take_warnings

pytestmark = pytest.mark.core

# Too little memory for the constraints of its own bodies: mj_step gives up.
STARVED = (
    "<mujoco><size memory='45K'/><worldbody>"
    + "<body><freejoint/><geom size='.1'/></body>" * 60
    + "</worldbody></mujoco>"
)
XML = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"


@pytest.fixture
def simulation():
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    yield model, data, StepLoop(model, data)
    mujoco.set_mjcb_control(None)
    take_warnings()


def fail(model, data):
    raise LookupError("from a callback")


def test_steps_like_mujoco(simulation):
    model, data, loop = simulation
    plain = mujoco.MjData(model)
    for _ in range(100):
        assert loop.step()
        mujoco.mj_step(model, plain)
    assert (data.qpos == plain.qpos).all()
    assert (data.qvel == plain.qvel).all()
    assert loop.steps == 100
    assert loop.last_time == data.time == plain.time


def test_a_callback_that_raises_raises_its_own_exception_and_leaves_the_data_usable(simulation):
    model, data, loop = simulation
    for _ in range(1000):
        mujoco.set_mjcb_control(fail)
        with pytest.raises(LookupError, match="from a callback"):
            loop.step()
        mujoco.set_mjcb_control(None)
        assert loop.step()


def test_an_error_of_mujoco_becomes_fatal_error(simulation):
    model, data, loop = simulation
    small = mujoco.MjModel.from_xml_string(STARVED)
    starved = StepLoop(small, mujoco.MjData(small))
    with pytest.raises(mujoco.FatalError, match=r"(?i)insufficient|memory|arena|stack"):
        starved.step()
    assert loop.step()


def test_errors_in_other_threads_stay_in_their_thread(simulation):
    model, data, loop = simulation
    outcomes = []

    def work():
        small = mujoco.MjModel.from_xml_string(STARVED)
        starved = StepLoop(small, mujoco.MjData(small))
        for _ in range(200):
            try:
                starved.step()
            except mujoco.FatalError:
                outcomes.append("caught")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        assert loop.step()
    for thread in threads:
        thread.join()
    assert outcomes == ["caught"] * 800


@pytest.mark.parametrize("after_ours", [False, True])
def test_the_bindings_still_trap_their_own_errors(simulation, tmp_path, monkeypatch, after_ours):
    monkeypatch.chdir(tmp_path)  # outside our guards MuJoCo writes its log file, as ever
    small = mujoco.MjModel.from_xml_string(STARVED)
    if after_ours:  # our guard is gone then, its place on the stack included
        with pytest.raises(mujoco.FatalError):
            StepLoop(small, mujoco.MjData(small)).step()
    with pytest.raises(mujoco.FatalError):
        mujoco.mj_step(small, mujoco.MjData(small))


def test_warnings_are_kept_for_the_simulation_thread_and_write_no_file(simulation, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, data, loop = simulation
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    data.qvel[0] = 1e12
    assert not loop.step()
    assert any("QVEL" in text or "QACC" in text or "QPOS" in text for text in take_warnings())
    assert take_warnings() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e11])
def test_a_diverged_state_is_seen_in_the_step_that_made_it(simulation, bad):
    model, data, loop = simulation
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    assert loop.step()
    data.qvel[4] = bad
    assert not loop.step()


def test_a_model_without_joints_steps():
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
    loop = StepLoop(model, mujoco.MjData(model))
    assert loop.step()
    assert loop.last_time == pytest.approx(model.opt.timestep)
