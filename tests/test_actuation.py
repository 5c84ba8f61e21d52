"""Who drives which joint, and with what force."""

import copy
import logging
import math

import mujoco
import numpy as np
import pytest

from tests.reference import actuation as reference
from xbot2_fast import actuation

GEARS = [1.0, -2.0, 0.5]
ACTUATORS = {
    "position": 'position kp="7" kv="1"',
    "intvelocity": 'intvelocity kp="4" kv="2" actrange="-100 100"',
    "motor": "motor",
}


def slider(actuator, *, mass=2.0, gear=1.0, timestep=1e-3, joint='type="slide" axis="1 0 0"', name="j", more=""):
    """One body that slides without gravity: q'' = force / mass."""
    element = f'<{actuator} name="{name}" joint="j" gear="{gear}"/>' if actuator else ""
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="{timestep}" gravity="0 0 0" integrator="RK4"/>
        <worldbody><body><joint name="j" {joint}/><geom size=".1" mass="{mass}"/></body></worldbody>
        <actuator>{element}{more}</actuator></mujoco>"""
    )


def drive(model, data=None):
    data = data or mujoco.MjData(model)
    actuation.initialise_integrators(model, data)
    return data, actuation.bind(model, data, actuation.scalar_joints(model))


def command(q=0.0, dq=0.0, tau=0.0, k=0.0, d=0.0):
    return np.array([q, dq, tau, k, d], dtype=float)


def force(model, data, drives):
    drives.update()
    mujoco.mj_forward(model, data)
    return data.qfrc_actuator[0]


# ---- the laws


@pytest.mark.requirement("S0-021", "S0-012", "S0-013", "S0-014", "S0-011", "S0-015")
@pytest.mark.parametrize("gear", GEARS)
@pytest.mark.parametrize("law", ACTUATORS)
def test_force_at_random_states_is_the_law(law, gear):
    model = slider(ACTUATORS[law], gear=gear)
    data, drives = drive(model)
    rng = np.random.default_rng(0)
    for _ in range(50):
        q_ref, dq_ref, tau, q, dq, integral = rng.normal(size=6)
        k, d = rng.uniform(0, 200, 2)
        drives.apply(command(q_ref, dq_ref, tau, k, d))
        data.qpos[0], data.qvel[0] = q, dq
        if law == "intvelocity":
            data.act[0] = gear * integral
            expected = tau + d * (dq_ref - dq) + k * (integral - q)
        else:
            expected = k * (q_ref - q) + d * (dq_ref - dq) + tau
        assert force(model, data, drives) == pytest.approx(expected, rel=1e-12, abs=1e-11)


def oscillation(t, x0, v0, k, d, mass):
    """x of mass x'' = -k x - d x' from x0, v0."""
    decay, omega = d / (2 * mass), math.sqrt(k / mass - (d / (2 * mass)) ** 2)
    return math.exp(-decay * t) * (x0 * math.cos(omega * t) + (v0 + decay * x0) / omega * math.sin(omega * t))


@pytest.mark.requirement("S0-021")
@pytest.mark.parametrize("gear", GEARS)
def test_position_law_follows_its_closed_form_trajectory(gear):
    model = slider(ACTUATORS["position"], gear=gear)
    data, drives = drive(model)
    data.qpos[0], data.qvel[0] = 0.3, -0.5
    k, d, mass, tau, q_ref = 50.0, 3.0, 2.0, 4.0, 0.1
    drives.apply(command(q=q_ref, tau=tau, k=k, d=d))
    rest = q_ref + tau / k
    for _ in range(1500):
        mujoco.mj_step(model, data)
    expected = rest + oscillation(data.time, 0.3 - rest, -0.5, k, d, mass)
    assert data.qpos[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.requirement("S0-015", "S0-016", "S0-011")
@pytest.mark.parametrize("gear", GEARS)
def test_velocity_law_follows_its_closed_form_trajectory(gear):
    model = slider(ACTUATORS["intvelocity"], gear=gear)
    data = mujoco.MjData(model)
    data.qpos[0] = 0.4
    data, drives = drive(model, data)
    k, d, mass, tau, rate = 50.0, 3.0, 2.0, 4.0, 0.7
    drives.apply(command(q=99.0, dq=rate, tau=tau, k=k, d=d))
    for _ in range(1500):
        mujoco.mj_step(model, data)
    # error e = q0 + rate t - q obeys mass e'' = -k e - d e' - tau
    lag = -tau / k
    expected = 0.4 + rate * data.time - (lag + oscillation(data.time, -lag, rate, k, d, mass))
    assert data.qpos[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("gear", GEARS)
def test_motor_law_is_sampled_and_tends_to_the_closed_form(gear):
    k, d, mass, q_ref = 50.0, 3.0, 2.0, 0.1
    errors = []
    for timestep in (2e-3, 1e-3, 5e-4):
        model = slider("motor", gear=gear, timestep=timestep)
        data, drives = drive(model)
        data.qpos[0] = 0.3
        drives.apply(command(q=q_ref, k=k, d=d))
        while data.time < 1.0 - timestep / 2:
            drives.update()
            mujoco.mj_step(model, data)
        errors.append(abs(data.qpos[0] - q_ref - oscillation(data.time, 0.2, 0.0, k, d, mass)))
    assert errors[2] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)  # first order in the timestep, as sampling is
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("law", ACTUATORS)
def test_the_actuators_own_force_range_still_limits(law):
    model = slider(ACTUATORS[law] + ' forcerange="-3 3" ctrlrange="-1000 1000"')
    data, drives = drive(model)
    drives.apply(command(q=10, dq=10, k=100, d=100, tau=50))
    assert force(model, data, drives) == 3


@pytest.mark.requirement("S0-032")
def test_activation_dynamics_of_an_actuator_stay():
    model = slider('position kp="1" timeconst="0.5"')
    data, drives = drive(model)
    drives.apply(command(q=1, k=10))
    mujoco.mj_step(model, data)
    assert 0 < data.act[0] < 0.01  # ctrl is 1 at once, the force follows slowly
    assert data.ctrl[0] == 1


# ---- velocity joints

SEED_EXAMPLE = '<intvelocity name="j" joint="j" kp="4" kv="2" inheritrange="1"/>'


@pytest.mark.requirement("S0-008", "S0-009", "S0-010")
def test_the_documents_example_compiles_and_drives_the_joint():
    model = slider("", joint='type="slide" axis="1 0 0" range="-1 1"', more=SEED_EXAMPLE)
    data, drives = drive(model)
    drives.apply(command(dq=0.5, k=4, d=20))
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert data.qvel[0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.requirement("S0-017", "S0-018")
def test_the_integral_starts_at_the_joint_position_at_startup_and_after_a_reset():
    model = slider("", joint='type="slide" axis="1 0 0" range="-1 1"', more=SEED_EXAMPLE.replace("/>", ' gear="2"/>'))
    data = mujoco.MjData(model)
    data.qpos[0] = 0.3
    data, drives = drive(model, data)
    assert data.act[0] == 0.6
    drives.apply(command(dq=1, k=10, d=1))
    for _ in range(100):
        mujoco.mj_step(model, data)
    mujoco.mj_resetData(model, data)
    actuation.apply_q_init(model, data, {"j": -0.2})
    assert data.act[0] == -0.4
    mujoco.mj_resetData(model, data)
    data.qpos[0] = 0.1
    actuation.apply_q_init(model, data, {})
    assert data.act[0] == 0.2


@pytest.mark.requirement("S0-019")
def test_the_integral_is_clamped_to_the_joint_range():
    model = slider("", joint='type="slide" axis="1 0 0" range="-.5 .5"', more=SEED_EXAMPLE)
    data, drives = drive(model)
    drives.apply(command(dq=3, k=4, d=1))
    for _ in range(2000):
        mujoco.mj_step(model, data)
    assert data.act[0] == 0.5


@pytest.mark.requirement("S0-020")
def test_a_velocity_joint_without_a_range_is_refused():
    with pytest.raises(ValueError, match=r"inheritrange used but target 'j' has no range"):
        slider("", more=SEED_EXAMPLE)
    model = slider("", joint='type="slide" axis="1 0 0" range="-1 1"', more=SEED_EXAMPLE)
    model.actuator_actlimited[:] = 0
    with pytest.raises(ValueError, match="velocity joint 'j': its integral has no limits"):
        drive(model)


# ---- which actuator


def found(actuators):
    model = slider("", more=actuators)
    return actuation.joint_actuator(model, 0)


@pytest.mark.requirement("S0-009")
def test_actuator_of_a_joint():
    assert found('<motor name="x" joint="j"/>') == 0
    assert found('<motor name="x" joint="j"/><motor name="j" joint="j"/>') == 1
    assert found('<motor name="x" joint="j"/><motor name="y" joint="j"/>') == -1
    assert found("") == -1


def test_an_actuator_of_the_joints_name_that_drives_something_else_does_not_count():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><joint name="a"/><geom size=".1"/>
        <body pos="1 0 0"><joint name="b"/><geom size=".1"/>
        </body></body></worldbody><actuator><motor name="a" joint="b"/></actuator></mujoco>"""
    )
    assert [actuation.joint_actuator(model, j) for j in (0, 1)] == [-1, 0]


def test_joints_that_nothing_drives_are_named_in_one_warning(caplog):
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><joint name="a"/><geom size=".1"/>
        <body pos="1 0 0"><joint name="b"/><geom size=".1"/>
        </body></body></worldbody><actuator><muscle name="b" joint="b" lengthrange="0 1"/></actuator></mujoco>"""
    )
    drive(model)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "no actuator drives these joints, commands for them are ignored: a, b"
    ]


# ---- the state


@pytest.mark.parametrize("gear", GEARS)
@pytest.mark.parametrize("law", ACTUATORS)
def test_gathered_state(law, gear):
    model = slider(ACTUATORS[law], gear=gear)
    data, drives = drive(model)
    out = np.full(8, np.nan)
    data.ctrl[0] = 0.6
    data.qpos[0] = 0.2
    drives.gather(out)
    own = {
        "position": (7 * gear**2, gear**2, 0.6 / gear, 0, 0),
        "intvelocity": (4 * gear**2, 2 * gear**2, 0, 0.6 / gear, 0),
    }
    own["motor"] = (0, 0, 0.2, 0, 0.6 * gear)
    np.testing.assert_allclose(out[3:], own[law], rtol=1e-15)
    sent = command(q=0.1, dq=0.2, tau=0.3, k=40, d=5)
    drives.apply(sent)
    force_now = force(model, data, drives)
    sent_copy = sent.copy()
    sent[:] = -1  # the caller's memory is not read again
    drives.gather(out)
    q, dq, tau, k, d = sent_copy
    expected_q = 0.0 if law == "intvelocity" else q  # a velocity joint pulls to its integral
    np.testing.assert_allclose(out, [0.2, 0, force_now, k, d, expected_q, dq, tau], rtol=1e-15)


def test_without_a_controller_joints_are_held_or_only_damped():
    for law in ("position", "motor"):
        model = slider(ACTUATORS[law])
        data, drives = drive(model)
        drives.apply(command(q=1, dq=2, tau=3, k=40, d=5))
        data.qpos[0], data.qvel[0] = 0.25, 1.5
        drives.let_go(True)
        assert force(model, data, drives) == pytest.approx(-5 * 1.5)
        data.qpos[0] = 0.35
        assert force(model, data, drives) == pytest.approx(-40 * 0.1 - 5 * 1.5)
        drives.let_go(False)
        assert force(model, data, drives) == pytest.approx(-5 * 1.5)
        data.qpos[0] = 3
        assert force(model, data, drives) == pytest.approx(-5 * 1.5)


# ---- against the reference


def assert_same_bits(got, expected):
    np.testing.assert_array_equal(got.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_reference_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    model = reference.random_model(rng)
    twin, data = copy.copy(model), mujoco.MjData(model)
    joints = actuation.scalar_joints(model)
    data, drives = drive(model, data)
    state, applied = np.full((8, len(joints)), np.nan), np.zeros((5, len(joints)))
    for turn in range(20):
        sent = reference.random_state(rng, data)
        data.qfrc_actuator[:] = rng.normal(size=model.nv)
        other = copy.copy(data)
        drives.gather(state.ravel())
        assert_same_bits(state, reference.gather(twin, other, joints, applied, turn > 0))
        match turn % 4:
            case 0 | 1:
                drives.apply(sent.ravel())
                applied = sent
            case _:
                drives.let_go(turn % 4 == 2)
                applied = reference.let_go(twin, other, joints, applied, turn % 4 == 2)
        drives.update()
        reference.apply(twin, other, joints, applied)
        for ours, theirs in (
            (data.ctrl, other.ctrl),
            (model.actuator_gainprm, twin.actuator_gainprm),
            (model.actuator_biasprm, twin.actuator_biasprm),
        ):
            assert_same_bits(ours, theirs)
        drives.gather(state.ravel())
        assert_same_bits(state, reference.gather(twin, other, joints, applied, True))


def test_random_models_reach_every_law_and_joints_without_one():
    laws = set()
    for seed in range(20):
        model = reference.random_model(np.random.default_rng(seed))
        for joint in actuation.scalar_joints(model):
            actuator = actuation.joint_actuator(model, joint)
            laws.add(actuation.law(model, actuator) if actuator >= 0 else None)
    assert laws == {"position", "intvelocity", "motor", None}
