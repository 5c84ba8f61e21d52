"""What is left of a simulation that diverged."""

import math
import os

import mujoco
import numpy as np
import pytest

from xbot2_fast import SimulatorWrapper
from xbot2_fast.nan_guard import STEPS, NanGuard
from xbot2_fast.simulator_wrapper import SimulationDiverged

MODEL = """
<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <body><joint name="first"/><joint name="spinner" axis="0 1 0"/><geom size=".1" mass="1"/></body>
  </worldbody>
  <actuator><motor name="spinner" joint="spinner"/><motor name="first" joint="first"/></actuator>
</mujoco>
"""


@pytest.fixture
def sim(tmp_path):
    model = mujoco.MjModel.from_xml_string(MODEL)
    with SimulatorWrapper(model, viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "s.sock")) as sim:
        yield sim


def diverge(sim) -> SimulationDiverged:
    sim.data.qvel[1] = math.nan
    with pytest.raises(SimulationDiverged) as caught:
        sim.run()
    return caught.value


@pytest.mark.parametrize("steps", [1, 30, 250])
def test_the_error_names_a_file_with_the_last_states_and_commands(sim, steps, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = []
    for k in range(steps):
        sim.data.ctrl[:] = [k, -k]
        given.append((sim.data.time, sim.data.qpos.copy(), sim.data.qvel.copy(), sim.data.ctrl.copy()))
        sim.run()
    error = diverge(sim)
    assert error.path in str(error)
    assert os.path.dirname(error.path) == str(tmp_path)
    given = given[-(STEPS - 1) :]  # the step that failed is the newest row
    with np.load(error.path) as saved:
        assert len(saved["time"]) == len(given) + 1 <= STEPS
        for row, (time, qpos, qvel, ctrl) in enumerate(given):
            assert saved["time"][row] == time
            assert np.array_equal(saved["qpos"][row], qpos)
            assert np.array_equal(saved["qvel"][row], qvel)
            assert np.array_equal(saved["ctrl"][row], ctrl)
        assert math.isnan(saved["qvel"][-1, 1])
        assert saved["joint"] == error.joint
        assert list(saved["joint_names"]) == ["first", "spinner"]
        assert saved["failed_time"] == error.time
        assert saved["actuator_gainprm"].shape[0] == 2


def test_a_file_that_cannot_be_written_hides_no_error(sim, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    sim.run()
    error = diverge(sim)
    assert error.path is None
    assert "diverged" in str(error)


def test_a_model_without_actuators_and_joints_can_be_recorded():
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    guard = NanGuard(model, mujoco.MjData(model))
    assert {name: array.shape for name, array in guard.history().items()} == {
        "time": (0,), "qpos": (0, 0), "qvel": (0, 0), "act": (0, 0), "ctrl": (0, 0),
    }  # fmt: skip
