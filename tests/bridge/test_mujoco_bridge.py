"""What a controller sees of a simulation, and what its commands do, on both transports."""

import mujoco
import numpy as np
import pytest


@pytest.fixture
def sim(make_sim):
    return make_sim()


@pytest.fixture
def client(sim, transport):
    with sim.connect(protocol=transport) as client:
        yield client


def read(client):
    assert client.read(5)
    return client.state


def send(sim, client, **rows):
    n = len(client.joint_names)
    zero = np.zeros(n)
    client.send(*(np.broadcast_to(rows.get(name, zero), n) for name in ("q", "dq", "tau", "k", "d")))


@pytest.mark.requirement("S0-005", "S0-006")
def test_names_are_those_of_the_model_in_its_order(sim, client, transport):
    assert client.transport == transport
    assert client.joint_names == sim.bridge.joint_names == ["shoulder", "slider", "wrist", "wheel"]
    assert client.imu_names == sim.bridge.imu_names == ["imu", "hand_imu"]


def test_state_is_that_of_the_step_just_taken(sim, client):
    rng = np.random.default_rng(1)
    for _ in range(20):
        sim.data.qvel[:] = rng.normal(size=sim.model.nv)
        sim.step()
        state = read(client)
        joints = state.joints
        assert state.time == sim.data.time
        np.testing.assert_array_equal(joints.q, sim.data.qpos[7:])
        np.testing.assert_array_equal(joints.dq, sim.data.qvel[6:])
        np.testing.assert_array_equal(joints.tau, sim.data.qfrc_actuator[6:])
        assert np.abs(joints.tau[:3]).min() > 0


def test_imu_is_of_the_instant_of_q_and_dq(sim, client):
    rng = np.random.default_rng(2)
    for _ in range(20):
        sim.data.qvel[:] = rng.normal(size=sim.model.nv)
        sim.step()
        state = read(client)
        acceleration = {
            name: sim.data.sensor(sensor).data.copy() for name, sensor in [("imu", "acc"), ("hand_imu", "hand_acc")]
        }
        fresh = mujoco.MjData(sim.model)
        fresh.qpos[:], fresh.qvel[:] = sim.data.qpos, sim.data.qvel
        mujoco.mj_forward(sim.model, fresh)
        for name, gyro in [("imu", "gyro"), ("hand_imu", "hand_gyro")]:
            imu = state.imus[name]
            expected = np.empty(4)
            mujoco.mju_mat2Quat(expected, fresh.site(name).xmat)
            got = np.roll(imu.quat_w, 1)
            np.testing.assert_allclose(got * np.sign(got @ expected), expected, atol=1e-12)
            np.testing.assert_allclose(imu.ang_vel_b, fresh.sensor(gyro).data, atol=1e-12)
            np.testing.assert_array_equal(imu.lin_acc_b, acceleration[name])


def test_until_the_first_command_the_models_own_gains_and_controls_stay(sim, client):
    sim.data.ctrl[:] = 0.3, 0.8, 0.1  # wrist, shoulder (gear 4), slider
    sim.step()
    joints = read(client).joints
    np.testing.assert_allclose(joints.k, [30 * 16, 100, 20, 0])
    np.testing.assert_allclose(joints.d, [2 * 16, 5, 1, 0])
    np.testing.assert_allclose(joints.qref, [0.2, 0.1, 0.3, joints.q[3]])
    np.testing.assert_array_equal(joints.vref, 0)
    np.testing.assert_array_equal(joints.tauref, 0)
    np.testing.assert_array_equal(sim.model.actuator("wrist").gainprm[0], 20)


def test_a_command_comes_back_as_gains_and_references(sim, client):
    sim.step()
    read(client)
    rows = {
        "q": [0.1, 0.2, 0.3, 9],
        "dq": [1, 2, 3, 9],
        "tau": [4, 5, 6, 9],
        "k": [10, 20, 30, 9],
        "d": [0.1, 0.2, 0.3, 9],
    }
    send(sim, client, **rows)
    sim.step()
    joints = read(client).joints
    driven = slice(0, 3)
    for got, sent in zip(("qref", "vref", "tauref", "k", "d"), rows, strict=True):
        np.testing.assert_allclose(getattr(joints, got)[driven], rows[sent][driven], rtol=1e-15)
    assert (joints.k[3], joints.d[3], joints.vref[3], joints.tauref[3]) == (0, 0, 0, 0)
    assert joints.qref[3] == joints.q[3]


def test_a_command_that_is_not_finite_is_refused_whole(sim, client, transport):
    sim.step()
    read(client)
    before = sim.model.actuator_gainprm.copy(), sim.data.ctrl.copy()
    send(
        sim, client, k=[1, 2, np.nan if transport == "shm" else 3, 4], q=[0, np.inf if transport == "shm" else 0, 0, 0]
    )
    if transport == "json":
        client._socket.sendto(
            b'{"type":"control","joint_command":{"q":[1,2,3],"dq":[],"tau":[],"k":[],"d":[]}}', sim.path
        )
        sim.bridge.receive()
        before = sim.model.actuator_gainprm.copy(), sim.data.ctrl.copy()
    sim.step()
    np.testing.assert_array_equal(sim.model.actuator_gainprm, before[0])
    np.testing.assert_array_equal(sim.data.ctrl, before[1])


UNDRIVEN = "<mujoco><worldbody><body><joint name='j'/><geom size='.1'/></body></worldbody></mujoco>"


@pytest.mark.parametrize("xml", ["<mujoco/>", UNDRIVEN])
def test_models_without_joints_or_actuators_work(make_sim, xml, transport):
    sim = make_sim(xml)
    with sim.connect(protocol=transport) as client:
        sim.step(3)
        assert read(client).time == sim.data.time
        send(sim, client)
        sim.step()
        assert sim.bridge.status()["controllers"][0]["commands"] == 1
