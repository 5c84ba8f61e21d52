"""Faults of joints and sensors: what they do, for how long, and that nothing of them stays."""

import math

import mujoco
import numpy as np
import pytest

from tests.remote_control import robots
from tests.remote_control.robots import bytes_of
from xbot2_fast.faults import Faults


@pytest.fixture
def robot():
    model = robots.model()
    model.geom_contype[:] = 0
    data = mujoco.MjData(model)
    return model, data, Faults(model, data)


def run(model, data, faults, steps, command=lambda: None):
    for _ in range(steps):
        command()
        if data.time >= faults.before.when:
            faults.on_before()
        mujoco.mj_step(model, data)
        if data.time >= faults.after.when:
            faults.on_after()


def test_a_locked_joint_stays_where_it_is_against_its_actuator_and_is_free_again(robot):
    model, data, faults = robot
    before = bytes_of(model)
    knee = model.joint("left_knee")
    data.qpos[knee.qposadr[0]] = 0.3
    data.ctrl[:2] = 0.3
    faults.begin("lock", [knee.id], 0.5)
    data.ctrl[0] = 1.5  # 50 * 1.2 = 60 Nm against the lock
    run(model, data, faults, 249)
    assert data.qpos[knee.qposadr[0]] == pytest.approx(0.3, abs=0.01)
    run(model, data, faults, 1)
    assert faults.active == [] or data.time < 0.5 + 0.002
    run(model, data, faults, 300)
    assert bytes_of(model) == before
    assert data.qpos[knee.qposadr[0]] > 1.0


def test_a_weak_joint_reaches_part_of_its_limit(robot):
    model, data, faults = robot
    before = bytes_of(model)
    knee = model.joint("left_knee")
    data.ctrl[0] = 100  # saturated at 80 Nm
    run(model, data, faults, 1)
    assert data.qfrc_actuator[knee.dofadr[0]] == 80
    faults.begin("weak", [knee.id], 0.02, 0.25)
    run(model, data, faults, 1)
    assert data.qfrc_actuator[knee.dofadr[0]] == 20
    run(model, data, faults, 10)
    assert bytes_of(model) == before
    faults.begin("weak", [knee.id], 1.0, 0.0)
    run(model, data, faults, 1)
    assert data.qfrc_actuator[knee.dofadr[0]] == 0
    assert faults.clear() == 1
    assert bytes_of(model) == before


def test_a_limit_set_during_a_weakness_stays(robot):
    model, data, faults = robot
    knee = model.joint("left_knee")
    faults.begin("weak", [knee.id], 0.01, 0.5)
    model.jnt_actfrcrange[knee.id] = (-3, 3)
    run(model, data, faults, 10)
    assert model.jnt_actfrcrange[knee.id].tolist() == [-3, 3]
    assert model.jnt_actfrclimited[knee.id]


def test_dropped_commands_leave_the_actuator_with_what_it_had(robot):
    model, data, faults = robot
    knee = model.joint("left_knee")
    data.ctrl[:2] = [0.2, 0.2]
    faults.begin("drop", [knee.id], 0.02)
    gains = model.actuator_gainprm[0].copy()

    def controller():
        data.ctrl[:2] = [0.9, 0.9]
        model.actuator_gainprm[0, 0] = 500.0

    for _ in range(10):
        controller()
        faults.on_before()
        assert data.ctrl[:2].tolist() == [0.2, 0.9]
        assert model.actuator_gainprm[0].tolist() == gains.tolist()
        mujoco.mj_step(model, data)
    controller()
    faults.on_before()
    assert data.ctrl[0] == 0.9
    assert faults.active == []


def test_a_faulty_sensor_reads_scaled_values_for_its_time(robot):
    model, data, faults = robot
    gyro = model.sensor("imu_gyro")
    data.qvel[3:6] = [1, 2, 3]
    truth = mujoco.MjData(model)
    truth.qvel[:] = data.qvel
    faults.begin("sensor", [gyro.id], 0.01, -0.5)
    for k in range(8):
        run(model, data, faults, 1)
        mujoco.mj_step(model, truth)
        scale = -0.5 if k < 5 else 1.0
        np.testing.assert_array_equal(data.sensordata[:3], scale * truth.sensordata[:3])
        np.testing.assert_array_equal(data.sensordata[3:], truth.sensordata[3:])
        np.testing.assert_array_equal(data.qvel, truth.qvel)


def test_without_faults_no_handler_is_due(robot):
    model, data, faults = robot
    assert faults.before.when == faults.after.when == math.inf
    faults.begin("sensor", [0], 0.01)
    run(model, data, faults, 8)
    assert faults.before.when == faults.after.when == math.inf
