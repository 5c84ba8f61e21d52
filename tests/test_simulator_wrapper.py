"""What a step of the simulator does and in which order, how it starts over, and how it ends."""

import logging
import math
import os
import signal
import threading
import time

import mujoco
import numpy as np
import pytest

from xbot2_fast import SimulatorWrapper
from xbot2_fast.simulator_wrapper import SimulationDiverged

pytestmark = pytest.mark.core

PENDULUMS = """
<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <body name="a"><joint name="ja" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass="1"/></body>
    <body name="b" pos="0 1 0"><joint name="jb" axis="0 1 0" type="slide"/><geom size=".1" mass="2"/></body>
    <body name="c" pos="0 2 0"><joint name="passive" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/></body>
  </worldbody>
  <actuator>
    <position name="ja" joint="ja" kp="50" kv="2"/>
    <position name="jb" joint="jb" kp="50" kv="2"/>
  </actuator>
</mujoco>
"""
Q_INIT = {"ja": 0.3, "jb": -0.2, "passive": 0.1}


@pytest.fixture
def model():
    return mujoco.MjModel.from_xml_string(PENDULUMS)


@pytest.fixture
def simulator(model, tmp_path):
    """Makes simulators that are closed at the end."""
    made = []

    def make(**arguments) -> SimulatorWrapper:
        arguments = {"viewer": False, "target_rtf": math.inf, "socket_path": str(tmp_path / "sim.sock"), **arguments}
        made.append(SimulatorWrapper(arguments.pop("model", model), **arguments))
        return made[-1]

    yield make
    for sim in made:
        sim.close()


@pytest.mark.requirement("S0-197", "S0-201")
def test_run_is_one_step_of_mujoco_and_nothing_else(simulator, model):
    sim = simulator()
    plain = mujoco.MjData(model)
    for k in range(1, 301):
        assert sim.run() is True
        mujoco.mj_step(model, plain)
        assert sim.data.time == plain.time == pytest.approx(k * 1e-3)
    assert np.array_equal(sim.data.qpos, plain.qpos)
    assert np.array_equal(sim.data.qvel, plain.qvel)


def test_the_three_phases_can_be_called_by_hand(simulator, model):
    sim, plain = simulator(), mujoco.MjData(model)
    for _ in range(10):
        sim.pre_step()
        sim.step()
        sim.post_step()
        mujoco.mj_step(model, plain)
    assert np.array_equal(sim.data.qpos, plain.qpos)


def test_q_init_is_applied_before_the_first_step(simulator, model):
    sim = simulator(q_init=Q_INIT)
    assert not sim.data.qpos.any()
    sim.pre_step()
    assert sim.data.qpos.tolist() == [0.3, -0.2, 0.1]
    assert sim.data.ctrl.tolist() == [0.3, -0.2]


@pytest.mark.parametrize("reset", ["mj_resetData", "time"])
def test_after_a_reset_the_initial_configuration_comes_back_and_time_goes_on(simulator, model, reset):
    sim = simulator(q_init=Q_INIT)
    for _ in range(100):
        sim.run()
    assert sim.data.time == pytest.approx(0.1)
    if reset == "mj_resetData":
        mujoco.mj_resetData(model, sim.data)
    else:
        sim.data.time = 0.05
    sim.pre_step()
    assert sim.data.time == pytest.approx(0.1)
    assert sim.data.qpos.tolist() == [0.3, -0.2, 0.1]
    sim.step()
    sim.post_step()
    assert sim.data.time == pytest.approx(0.101)


def test_time_never_runs_back_over_many_resets(simulator, model):
    sim, last = simulator(q_init=Q_INIT), 0.0
    for k in range(200):
        if k % 7 == 3:
            mujoco.mj_resetData(model, sim.data)
        sim.run()
        assert sim.data.time > last
        last = sim.data.time


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_rtf": 0}, "target_rtf: expected"),
        ({"target_rtf": -1}, "target_rtf: expected"),
        ({"target_rtf": math.nan}, "target_rtf: expected"),
        ({"send_state_decimation": 0}, "send_state_decimation: expected an integer >= 1, got 0"),
        ({"send_state_decimation": 1.5}, "send_state_decimation: expected an integer >= 1, got 1.5"),
        ({"viewer_fps": 0}, "viewer_fps: expected a positive number, got 0"),
        ({"sync_interval": -1}, "sync_interval: expected"),
        ({"bridge_protocol": "carrier pigeon"}, "protocol: expected"),
        ({"q_init": {"nobody": 1.0}}, "q_init: the model has no joint 'nobody'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_opened(model, tmp_path, arguments, message):
    path = tmp_path / "sim.sock"
    with pytest.raises(ValueError, match=message):
        SimulatorWrapper(model, **{"viewer": False, "socket_path": str(path), **arguments})
    assert not path.exists()


def test_it_is_a_context_manager_and_leaves_nothing_behind(model, tmp_path):
    path = tmp_path / "sim.sock"
    descriptors = len(os.listdir("/proc/self/fd"))
    before = set(os.listdir("/dev/shm"))
    with SimulatorWrapper(model, viewer=False, socket_path=str(path), target_rtf=math.inf) as sim:
        sim.run()
        assert path.is_socket()
    assert not sim.running
    assert sim.run() is False
    sim.close()
    assert not path.exists()
    assert set(os.listdir("/dev/shm")) <= before
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("phase", ["pre_step", "step", "post_step"])
def test_ctrl_c_in_any_phase_ends_the_run_and_closes(phase, model, tmp_path):
    def interrupt(sim):
        getattr(SimulatorWrapper, phase)(sim)
        if sim.data.time > 0.005:
            raise KeyboardInterrupt

    interrupted = type("Interrupted", (SimulatorWrapper,), {phase: interrupt})
    sim = interrupted(model, viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "sim.sock"))
    for _ in range(8):
        sim.run()
    assert not sim.running
    assert sim.run() is False


@pytest.mark.parametrize("target_rtf", [1.0, math.inf])
def test_a_signal_within_a_step_or_its_wait_ends_the_run_and_not_the_script(simulator, target_rtf):
    """Real signals. Those that arrive in the few bytecodes between two calls belong to the script, as anywhere."""
    in_script = 0
    for _ in range(50):
        sim = simulator(target_rtf=target_rtf)
        run = sim.run
        run()
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        try:
            while run():
                pass
        except KeyboardInterrupt:
            in_script += 1
            sim.close()
        assert not sim.running
    assert in_script < 15


@pytest.fixture(autouse=True)
def alarm_as_ctrl_c():
    """SIGALRM does what SIGINT does, so that a timer of the kernel can send it."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)


def test_a_subclass_that_overrides_a_part_of_the_step_is_obeyed_in_every_step(model, tmp_path):
    seen = []

    class Watched(SimulatorWrapper):
        def post_step(self):
            super().post_step()
            seen.append(self.data.time)

    with Watched(model, viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "sim.sock")) as sim:
        for _ in range(5):
            sim.run()
    assert np.allclose(seen, [0.001, 0.002, 0.003, 0.004, 0.005])


def test_a_diverging_simulation_stops_and_names_the_time_and_the_joint(simulator):
    sim = simulator()
    for _ in range(5):
        sim.run()
    sim.data.qvel[1] = 1e200
    with pytest.raises(SimulationDiverged, match=r"diverged at 0.006 s: joint 'jb'") as failure:
        sim.run()
    assert failure.value.joint == "jb"
    assert failure.value.time == pytest.approx(0.006)
    assert not sim.running


def test_an_exception_in_a_callback_reaches_the_caller_and_closes(simulator, tmp_path):
    sim = simulator()

    def fail(model, data):
        raise LookupError("user code")

    mujoco.set_mjcb_control(fail)
    try:
        with pytest.raises(LookupError, match="user code"):
            sim.run()
    finally:
        mujoco.set_mjcb_control(None)
    assert not sim.running
    assert not (tmp_path / "sim.sock").exists()


def test_a_new_target_rtf_from_another_thread_is_taken_by_the_simulation_thread(simulator):
    sim = simulator(target_rtf=1.0)
    sim.run()
    thread = threading.Thread(target=sim.set_target_rtf, args=(4.0,))
    thread.start()
    thread.join()
    assert sim.target_rtf == 4.0  # what was asked for, so that two quick changes add up
    assert sim._pacing.target_rtf == 1.0
    sim.run()
    assert sim._pacing.target_rtf == 4.0
    with pytest.raises(ValueError, match="target_rtf: expected a finite positive number"):
        sim.set_target_rtf(math.inf)


def test_a_call_per_interval_runs_on_the_simulation_thread(simulator):
    sim, calls = simulator(), []
    sim.every(1e-9, lambda: calls.append(threading.get_ident()))
    for _ in range(5):
        sim.run()
    assert calls == [threading.get_ident()] * 5


def test_one_report_a_second_with_the_words_that_scripts_read(simulator, caplog):
    sim = simulator(target_rtf=1.0)
    end = time.monotonic() + 2.2
    with caplog.at_level(logging.INFO, logger="xbot2_fast.rtf"):
        while time.monotonic() < end:
            sim.run()
    lines = [record.getMessage() for record in caplog.records if record.name == "xbot2_fast.rtf"]
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("RTF: ")
        assert "(Sync error: " in line
        assert "ms, Correction: " in line
    assert sim.pacing_report is not None


def test_models_without_joints_and_with_free_joints_alone_run(simulator, tmp_path):
    for number, body in enumerate(["<geom size='1'/>", "<body><freejoint/><geom size='1'/></body>"]):
        model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
        sim = simulator(model=model, socket_path=str(tmp_path / f"{number}.sock"))
        for _ in range(10):
            assert sim.run()
