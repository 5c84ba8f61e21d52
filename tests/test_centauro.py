"""A real robot with its meshes stands on its own actuators."""

import subprocess
import sys
import time

import mujoco
import numpy as np
import pytest

from tests.centauro import centauro_generator, robots_folder
from xbot2_fast.bridge.client import BridgeClient


def test_stands_upright_for_five_seconds_within_005_rad_of_its_pose(tmp_path):
    model, data = centauro_generator(tmp_path).create_mj_model_data()
    reference = data.qpos.copy()
    assert model.nu == model.njnt - 1  # every joint but the free one has its actuator
    while data.time < 5.0:
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos[7:] - reference[7:]).max() < 0.05
    assert data.body("pelvis").xmat[8] > 0.999
    assert abs(data.qpos[2] - reference[2]) < 0.01
    assert not data.warning.number.any()


def test_starts_one_millimetre_above_the_floor(tmp_path):
    model, data = centauro_generator(tmp_path).create_mj_model_data()
    data.qpos[2] -= 0.9e-3
    mujoco.mj_forward(model, data)
    assert not any(0 in model.geom_bodyid[list(contact.geom)] for contact in data.contact)
    data.qpos[2] -= 0.2e-3
    mujoco.mj_forward(model, data)
    assert any(0 in model.geom_bodyid[list(contact.geom)] for contact in data.contact)


def test_effort_limits_are_kept(tmp_path):
    model, _ = centauro_generator(tmp_path).create_mj_model_data()
    assert tuple(model.jnt_actfrcrange[model.joint("hip_pitch_1").id]) == tuple(
        model.actuator("hip_pitch_1").forcerange
    )
    assert model.actuator("hip_pitch_1").forcerange[1] > 0


FLOOR_AND_IMU = """
<mujoco>
  <option timestep="0.001" integrator="implicitfast"/>
  <worldbody><geom name="floor" type="plane" size="0 0 0.05" group="2"/></worldbody>
  <reference element="body" name="pelvis"><site name="imu"/></reference>
  <sensor><gyro name="gyro" site="imu"/><accelerometer name="acc" site="imu"/></sensor>
</mujoco>
"""


@pytest.mark.requirement("S0-005")
def test_stands_for_five_seconds_driven_by_a_controller_in_another_process(tmp_path):
    folder = robots_folder() / "centauro_description"
    world, socket_path = tmp_path / "floor.xml", tmp_path / "sim.sock"
    world.write_text(FLOOR_AND_IMU)
    simulator = subprocess.Popen(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", "--name", "centauro",
         "--urdf", folder / "urdf" / "centauro.urdf", "--xml", world, "--floating-base",
         "--srdf", folder / "srdf" / "centauro.srdf", "--pose", "homing_nominal",
         "--auto-actuators", "position", "--kp", "3000", "--kd", "50",
         "--output-dir", tmp_path / "model", "--socket-path", socket_path, "--disable-ros"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    controller = None
    try:
        wait_for_socket(socket_path, simulator)
        controller = subprocess.Popen(
            [sys.executable, "-m", "xbot2_fast.bridge.client", "--socket-path", socket_path, "--protocol", "shm"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert "over shm" in controller.stdout.readline()
        state, references = state_after(str(socket_path), seconds=5.0)
        assert controller.poll() is None
    finally:
        for process in (controller, simulator):
            if process is not None:
                process.terminate()
                process.communicate(timeout=30)
    error = np.abs(np.array(state.joints.q) - np.array(references))
    assert error.max() < 0.05
    x, y, _, _ = state.imus["imu"].quat_w
    assert 1 - 2 * (x * x + y * y) > 0.999  # cosine of the tilt
    assert np.linalg.norm(state.imus["imu"].lin_acc_b) == pytest.approx(9.81, abs=0.2)


def wait_for_socket(path, process):
    end = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < end
        time.sleep(0.05)


def state_after(socket_path, seconds):
    """The state at this simulation time and the references in it. Looks on as a JSON client, and never commands."""
    with BridgeClient(socket_path, protocol="json", timeout=10) as onlooker:
        while onlooker.state.time < seconds:
            assert onlooker.read(timeout=10)
        state = onlooker.state
        assert any(state.joints.k)
        return state, list(state.joints.qref)
