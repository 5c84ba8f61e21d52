"""Timed wrenches: how long, in which frame, at which point, and who owns xfrc_applied."""

import gc
import math

import mujoco
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference.wrenches import ReferenceEngine, steps
from tests.remote_control import robots
from xbot2_fast.wrenches import Wrench, WrenchEngine, shared_engine

ZERO = (0.0, 0.0, 0.0)
FREE_BODY = """
<mujoco><option timestep="{timestep}" gravity="0 0 0" integrator="{integrator}"/><worldbody>
  <body name="body" pos="0 0 1" euler="20 -35 50" simple="false"><freejoint/>
    <inertial pos="0.05 -0.02 0.1" quat="0.9 0.1 0.3 -0.2" mass="{mass}" diaginertia="0.02 0.03 0.04"/></body>
</worldbody></mujoco>"""


def free_body(timestep=0.002, mass=2.0, integrator="Euler"):
    xml = FREE_BODY.format(timestep=timestep, mass=mass, integrator=integrator)
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    return model, data, WrenchEngine(model, data)


def momentum(model, data, body=1):
    """Linear momentum [N s] and angular momentum about the centre of mass [N m s], world axes, of the state of now."""
    now = mujoco.MjData(model)
    now.qpos[:], now.qvel[:] = data.qpos, data.qvel
    mujoco.mj_forward(model, now)
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, now, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 0)
    axes = now.ximat[body].reshape(3, 3)
    inertia = axes @ np.diag(model.body_inertia[body]) @ axes.T
    return model.body_mass[body] * velocity[3:], inertia @ velocity[:3]


def run(model, data, engine, count):
    for _ in range(count):
        engine.apply()
        mujoco.mj_step(model, data)


# ---- duration


@pytest.mark.requirement("S0-367", "S1-002", "S1-028", "S1-047")
@pytest.mark.parametrize("duration", [0.0, 1e-9, 0.001, 0.002, 0.0020000001, 0.003, 0.01, 0.1, 0.25, 0.3, 1.0])
@pytest.mark.parametrize("timestep", [0.0005, 0.001, 0.002, 0.0033])
@pytest.mark.parametrize("waited", [0, 1, 777])
def test_impulse_is_force_times_whole_steps(timestep, duration, waited):
    model, data, engine = free_body(timestep)
    run(model, data, engine, waited)
    engine.add([Wrench(1, (3.0, -4.0, 5.0), ZERO, duration)])
    count = max(1, math.ceil(duration / timestep - 1e-9))
    run(model, data, engine, count + 20)
    impulse, _ = momentum(model, data)
    np.testing.assert_allclose(impulse, np.array([3.0, -4.0, 5.0]) * timestep * count, rtol=1e-9)
    assert not data.xfrc_applied.any()
    assert engine.active() == []


@pytest.mark.parametrize(("duration", "count"), [(0.01, 5), (0.1, 50), (0.25, 125), (1.0, 500)])
def test_steps_of_the_old_simulator_at_2_ms(duration, count):
    assert steps(duration, 0.002) == count
    model, data, engine = free_body(0.002)
    engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, duration)])
    active = 0
    for _ in range(count + 5):
        engine.apply()
        active += data.xfrc_applied[1, 0] == 1.0
        mujoco.mj_step(model, data)
    assert active == count


def test_a_wrench_counts_until_its_last_step_is_done():
    model, data, engine = free_body()
    engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 0.004)])
    counts = [engine.count()]
    for _ in range(2):
        engine.apply()
        mujoco.mj_step(model, data)
        counts.append(engine.count())
    assert counts == [1, 1, 0]  # before the next step takes it out of the schedule


def test_rounding_of_a_long_simulation_does_not_miscount():
    model, data, engine = free_body(0.001)
    data.time = 123456.789
    engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 1.0)])
    run(model, data, engine, 1100)
    np.testing.assert_allclose(momentum(model, data)[0][0], 1.0, rtol=1e-9)


# ---- frames and points


@pytest.mark.requirement("S0-365", "S0-366", "S1-036")
def test_world_wrench_gives_the_momenta_of_the_closed_form():
    model, data, engine = free_body(1e-4, integrator="RK4")
    engine.add([Wrench(1, (1.0, 2.0, -3.0), (0.2, -0.1, 0.3), 0.2)])
    run(model, data, engine, 2000)
    linear, angular = momentum(model, data)
    np.testing.assert_allclose(linear, np.array([1.0, 2.0, -3.0]) * 0.2, rtol=1e-9)
    np.testing.assert_allclose(angular, np.array([0.2, -0.1, 0.3]) * 0.2, rtol=2e-3)


@pytest.mark.requirement("S1-026", "S1-039", "S1-040", "S1-041", "S1-042", "S1-043", "S1-044")
@pytest.mark.parametrize("frame", ["world", "body"])
@pytest.mark.parametrize("point", [None, ZERO, (0.3, -0.2, 0.1)])
def test_first_step_before_any_kinematics_uses_the_pose_of_qpos(frame, point):
    model, data, engine = free_body(1e-5)
    assert not data.xmat[1].any()  # nothing was computed yet
    force, torque = np.array([5.0, -1.0, 2.0]), np.array([0.3, 0.1, -0.2])
    engine.add([Wrench(1, tuple(force), tuple(torque), 0.0, frame, point)])
    fresh = mujoco.MjData(model)
    mujoco.mj_forward(model, fresh)
    rotation = fresh.xmat[1].reshape(3, 3)
    if frame == "body":
        force, torque = rotation @ force, rotation @ torque
    if point is not None:
        torque = torque + np.cross(fresh.xpos[1] + rotation @ point - fresh.xipos[1], force)
    run(model, data, engine, 2)
    linear, angular = momentum(model, data)
    np.testing.assert_allclose(linear, force * 1e-5, rtol=1e-7)
    np.testing.assert_allclose(angular, torque * 1e-5, rtol=1e-4)


@pytest.mark.requirement("S0-370", "S0-371", "S0-372")
def test_body_force_turns_with_the_body_and_stays_at_its_centre_of_mass():
    model, data, engine = free_body(0.001)
    # spin about a principal axis at 2 rad/s and push along a body axis
    axis = np.zeros(3)
    mujoco.mju_rotVecQuat(axis, np.array([0.0, 0.0, 1.0]), model.body_iquat[1])
    data.qvel[3:] = 2 * axis
    engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 2.0, "body")])
    expected, turned = np.zeros(3), set()
    for _ in range(2000):
        engine.apply()
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        force = rotation.reshape(3, 3)[:, 0]
        np.testing.assert_allclose(data.xfrc_applied[1], [*force, 0, 0, 0], atol=1e-12)
        expected += force * 0.001
        turned.add(round(float(force[0]), 1))
        mujoco.mj_step(model, data)
    linear, _ = momentum(model, data)
    assert len(turned) > 10
    assert np.linalg.norm(linear - expected) < 0.6  # the spin about the origin moves the centre of mass, too
    assert np.linalg.norm(data.qvel[3:]) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.requirement("S1-029")
@pytest.mark.parametrize(("up", "down"), [(0.1, 0.0), (0.0, 0.1), (0.05, 0.05), (0.2, 0.0), (0.0, 0.2), (0.15, 0.05)])
def test_ramps_take_half_of_their_time_from_the_impulse(up, down):
    model, data, engine = free_body(0.002)
    engine.add([Wrench(1, (10.0, 0.0, 0.0), ZERO, 0.2, ramp_up_duration=up, ramp_down_duration=down)])
    run(model, data, engine, 120)
    np.testing.assert_allclose(momentum(model, data)[0][0], 10 * (0.2 - up / 2 - down / 2), rtol=1e-9)


# ---- several


@pytest.mark.requirement("S0-368", "S0-373", "S1-033", "S1-034", "S1-035")
def test_overlapping_wrenches_add_and_end_each_by_itself():
    model = robots.model()
    data = mujoco.MjData(model)
    engine = WrenchEngine(model, data)
    base, foot = model.body("base_link").id, model.body("left_foot").id
    engine.add([Wrench(base, (1.0, 0.0, 0.0), ZERO, 0.01)])
    engine.add([Wrench(base, (0.0, 2.0, 0.0), ZERO, 0.004, "body")])
    engine.add([Wrench(foot, (0.0, 0.0, 4.0), (1.0, 0.0, 0.0), 0.006)])
    seen = []
    for _ in range(6):
        engine.apply()
        seen.append((data.xfrc_applied[base].round(3).tolist()[:2], data.xfrc_applied[foot, 2]))
        mujoco.mj_step(model, data)
    assert [s[1] for s in seen] == [4, 4, 4, 0, 0, 0]
    assert [s[0][0] for s in seen] == pytest.approx([1, 1, 1, 1, 1, 0], abs=0.01)
    assert [s[0][1] for s in seen] == pytest.approx([2, 2, 0, 0, 0, 0], abs=0.01)


def test_cancel_ends_one_wrench_and_gives_the_slot_back():
    model, data, engine = free_body()
    data.xfrc_applied[1] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    first = engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 1.0)])
    second = engine.add([Wrench(1, (0.0, 1.0, 0.0), ZERO, 1.0)])
    run(model, data, engine, 3)
    assert engine.cancel(first) == 1
    engine.apply()
    assert data.xfrc_applied[1].tolist() == [0.1, 1.2, 0.3, 0.4, 0.5, 0.6]
    assert [active.id for active in engine.active()] == [second]
    assert engine.cancel(first) == 0
    engine.cancel(second)
    engine.apply()
    assert data.xfrc_applied[1].tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


# ---- ownership


@pytest.mark.requirement("S1-045", "S1-046")
def test_what_others_leave_is_kept_to_the_bit_and_given_back():
    model, data, engine = free_body()
    others = np.array([0.1, 1 / 3, -7e-17, 1e16, -0.0, 5e-324])
    data.xfrc_applied[1] = others
    engine.add([Wrench(1, (1.0, 1.0, 1.0), (1e16, 1.0, 1.0), 0.02)])
    for _ in range(10):  # without physics: these forces are absurd
        engine.apply()
        assert data.xfrc_applied[1, 0] == 0.1 + 1.0
        data.time += 0.002
    engine.apply()
    assert data.xfrc_applied[1].tobytes() == others.tobytes()
    engine.apply()
    assert data.xfrc_applied[1].tobytes() == others.tobytes()


def test_a_new_value_of_others_becomes_the_base():
    model, data, engine = free_body()
    engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 0.02)])
    run(model, data, engine, 3)
    data.xfrc_applied[1] = 0  # as MuJoCo's viewers do
    engine.apply()
    assert data.xfrc_applied[1, 0] == 1.0
    data.xfrc_applied[1] = [5, 0, 0, 0, 0, 0]
    engine.apply()
    assert data.xfrc_applied[1, 0] == 6.0
    engine.apply()
    assert data.xfrc_applied[1, 0] == 6.0  # once more does no harm
    data.time += 1
    engine.apply()
    assert data.xfrc_applied[1, 0] == 5.0
    data.xfrc_applied[1, 0] = 7.0
    engine.apply()
    assert data.xfrc_applied[1, 0] == 7.0  # forgotten


def test_clear_zeroes_every_slot():
    model, data, engine = free_body()
    data.xfrc_applied[:] = 3.0
    engine.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 0.02), Wrench(0, (1.0, 0.0, 0.0), ZERO, 0.02)])
    engine.apply()
    assert engine.clear() == 2
    assert not data.xfrc_applied.any()
    engine.apply()
    assert not data.xfrc_applied.any()


def test_one_engine_a_data():
    model = robots.model()
    data = mujoco.MjData(model)
    first = shared_engine(model, data)
    assert shared_engine(model, data) is first
    assert shared_engine(model, mujoco.MjData(model)) is not first
    first.add([Wrench(1, (1.0, 0.0, 0.0), ZERO, 1.0)])
    del first
    gc.collect()
    assert shared_engine(model, data).active() == []


# ---- the kernel against its obvious twin

MODEL = robots.model()
numbers = st.floats(-100, 100)
vectors = st.tuples(numbers, numbers, numbers)
points = st.tuples(*[st.floats(-1, 1)] * 3)  # longer levers throw the model out of bounds, and MuJoCo resets it
durations = st.sampled_from([0.0, 0.002, 0.005, 0.02])  # 0.005: its last step ends beyond it
wrenches = st.builds(
    lambda body, force, torque, duration, frame, point, up, down: Wrench(
        body, force, torque, duration, frame, point, up * duration, down * duration
    ),
    st.integers(1, 9), vectors, vectors, durations, st.sampled_from(["world", "body"]), st.none() | points,
    st.sampled_from([0, 0.25, 0.5]), st.sampled_from([0, 0.25, 0.5]),
)  # fmt: skip
actions = st.lists(
    st.one_of(
        st.lists(wrenches, min_size=1, max_size=4),
        st.tuples(st.integers(1, 9), vectors),  # somebody else writes a slot
        st.none(),
    ),
    max_size=25,
)


@given(actions)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kernel_equals_reference_bit_for_bit(script):
    model = MODEL
    ours, theirs = mujoco.MjData(model), mujoco.MjData(model)
    engine, reference = WrenchEngine(model, ours), ReferenceEngine(model, theirs)
    for action in script:
        if isinstance(action, list):
            engine.add(action)
            for wrench in action:
                reference.add(wrench)
        elif action is not None:
            body, force = action
            ours.xfrc_applied[body, :3] = theirs.xfrc_applied[body, :3] = force
        engine.apply()
        reference.apply()
        assert ours.xfrc_applied.tobytes() == theirs.xfrc_applied.tobytes()
        mujoco.mj_step(model, ours)
        mujoco.mj_step(model, theirs)


# ---- bad values


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"force": (1, 2)}, "force: expected three finite numbers"),
        ({"force": (1, 2, math.nan)}, "force: expected three finite numbers"),
        ({"torque": (1, 2, math.inf)}, "torque: expected three finite numbers"),
        ({"point": (1, 2, math.inf)}, "point: expected three finite numbers"),
        ({"duration": -1}, "duration: expected finite seconds >= 0, got -1"),
        ({"duration": math.inf}, "duration: expected finite seconds >= 0, got inf"),
        ({"ramp_up_duration": -1}, "ramp_up_duration: expected finite seconds"),
        ({"ramp_up_duration": 0.6, "ramp_down_duration": 0.6}, "expected at most the duration of 1 s together"),
        ({"duration": 0, "ramp_down_duration": 0.1}, "expected at most the duration"),
        ({"frame": "link"}, "frame: expected world or body, got 'link'"),
    ],
)
def test_bad_values_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Wrench(**{"body": 1, "force": ZERO, "torque": ZERO, "duration": 1.0, **fields})
