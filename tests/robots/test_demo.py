"""The packaged quadruped stands still on its q_init."""

import mujoco
import numpy as np
import pytest

from xbot2_fast.mjcf import MjcfGenerator
from xbot2_fast.robots import demo


@pytest.fixture
def model_data(tmp_path):
    urdf, fragments = demo()
    generator = MjcfGenerator("demo", urdf.read_text(), tmp_path, urdf_path=urdf)
    for fragment in fragments:
        generator.merge_xml(fragment)
    return generator.create_mj_model_data()


def test_has_twelve_actuated_joints_a_free_base_and_an_imu(model_data):
    model, _ = model_data
    assert model.nu == 12
    assert model.njnt == 13
    assert [model.actuator(a).name for a in range(12)] == [model.joint(j).name for j in range(1, 13)]
    assert {model.sensor(s).name for s in range(model.nsensor)} == {"imu_gyro", "imu_accelerometer"}
    assert model.nmesh == 0
    assert model.opt.timestep == 0.001


def test_stands_still_with_all_feet_down_for_ten_seconds(model_data):
    model, data = model_data
    start = data.qpos.copy()
    mujoco.mj_forward(model, data)
    assert data.ncon == 4
    while data.time < 10.0:
        mujoco.mj_step(model, data)
    assert data.ncon == 4
    assert np.abs(data.qvel).max() < 1e-3
    assert np.abs(data.qpos[7:] - start[7:]).max() < 0.04
    assert data.body("base_link").xmat[8] > 0.9999
    np.testing.assert_allclose(data.sensor("imu_accelerometer").data, [0, 0, 9.81], atol=0.05)
