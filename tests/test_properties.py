"""Run-time properties of a model: what they do to the physics, and that they leave no trace."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.remote_control import robots
from tests.remote_control.robots import bytes_of
from xbot2_fast.properties import Inertial, ModelProperties, Payload


def rotation(quat):
    flat = np.zeros(9)
    mujoco.mju_quat2Mat(flat, np.asarray(quat))
    return flat.reshape(3, 3)


def tensor(inertial, origin):
    """Inertia about a point of the body's frame, along the body's axes."""
    axes = rotation(inertial.quat)
    d = inertial.com - origin
    return axes @ np.diag(inertial.inertia) @ axes.T + inertial.mass * (d @ d * np.eye(3) - np.outer(d, d))


@pytest.fixture
def model():
    return robots.model()


@pytest.fixture
def properties(model):
    return ModelProperties(model)


numbers = st.floats(-2, 2)


@pytest.mark.requirement("S0-383", "S0-385")
@given(
    st.floats(0.01, 50), st.tuples(numbers, numbers, numbers), st.tuples(numbers, numbers, numbers, numbers),
    st.floats(0.01, 50), st.tuples(numbers, numbers, numbers),
)  # fmt: skip
@settings(deadline=None)
def test_payload_obeys_the_parallel_axis_theorem(mass, com, quat, payload_mass, position):
    quat = np.array(quat) if np.linalg.norm(quat) > 0.1 else np.array([1.0, 0, 0, 0])
    body = Inertial(mass, np.array(com), quat / np.linalg.norm(quat), mass * np.array([0.01, 0.02, 0.025]))
    loaded = body.with_payload(Payload(payload_mass, position))
    position = np.array(position)
    assert loaded.mass == pytest.approx(mass + payload_mass)
    np.testing.assert_allclose(loaded.mass * loaded.com, mass * body.com + payload_mass * position, atol=1e-9)
    for origin in (np.zeros(3), np.array([1.0, -2.0, 0.5])):
        d = position - origin
        expected = tensor(body, origin) + payload_mass * (d @ d * np.eye(3) - np.outer(d, d))
        np.testing.assert_allclose(tensor(loaded, origin), expected, rtol=1e-9, atol=1e-9)
    assert np.all(loaded.inertia > 0)
    assert np.linalg.norm(loaded.quat) == pytest.approx(1)


@pytest.mark.requirement("S0-380", "S0-382", "S0-386", "S0-441")
def test_payload_moves_like_a_sphere_of_no_size_compiled_into_the_model(model, properties):
    body = model.body("base_link").id
    payload = Payload(5.0, (0.2, 0.05, 0.1))
    compiled = mujoco.MjModel.from_xml_string(
        robots.XML.replace(
            '<site name="imu"/>',
            '<site name="imu"/><body pos=".2 .05 .1">'
            '<inertial pos="0 0 0" mass="5" diaginertia="1e-9 1e-9 1e-9"/></body>',
        )
    )
    ngeom = model.ngeom
    properties.add_payload([body], payload)
    states = []
    for m in (model, compiled):
        m.geom_contype[:] = 0  # free flight: MuJoCo orders contacts differently in the two models
        data = mujoco.MjData(m)
        data.qvel[:6] = [1, 2, 3, 1, -2, 0.5]
        for _ in range(200):
            mujoco.mj_step(m, data)
        states.append(data.qpos.copy())
    np.testing.assert_allclose(states[0], states[1], atol=1e-6)
    assert model.ngeom == ngeom


@pytest.mark.requirement("S0-381", "S0-384", "S0-387", "S0-388", "S0-389")
def test_each_payload_starts_from_the_properties_of_the_start(model, properties):
    body = model.body("base_link").id
    start = Inertial.of({name: getattr(model, name) for name in
                         ("body_mass", "body_ipos", "body_iquat", "body_inertia")}, body)  # fmt: skip
    payload = Payload(5.0, (0.2, 0.0, 0.1))
    properties.add_payload([body], payload)
    once = bytes_of(model)
    assert model.body_mass[body] == start.mass + 5
    properties.add_payload([body], payload)
    assert bytes_of(model) == once
    properties.add_payload([body], Payload(1.0, (0.0, 0.0, 1.0)))
    assert model.body_mass[body] == start.mass + 1
    properties.set_body([body], mass=99.0, com=(0, 0, 1))
    properties.add_payload([body], payload)
    assert bytes_of(model) == once
    assert properties.payloads == {body: payload}


@pytest.mark.requirement("S0-376", "S0-377", "S0-378", "S0-432")
def test_direct_edit_changes_mass_and_com_but_never_the_rotational_inertia(model, properties):
    body = model.body("left_thigh").id
    inertia, quat = model.body_inertia[body].copy(), model.body_iquat[body].copy()
    subtree, invweight = model.body_subtreemass[1], model.body_invweight0[body].copy()
    before = model.body_mass[body]
    properties.set_body([body], mass=7.0, com=(0.01, 0.02, -0.1))
    assert model.body_mass[body] == 7.0
    assert model.body_ipos[body].tolist() == [0.01, 0.02, -0.1]
    assert model.body_inertia[body].tolist() == inertia.tolist()
    assert model.body_iquat[body].tolist() == quat.tolist()
    assert model.body_subtreemass[1] == pytest.approx(subtree + 7.0 - before)
    assert not np.array_equal(model.body_invweight0[body], invweight)
    properties.add_payload([body], Payload(1.0, (0.1, 0.0, 0.0)))
    loaded = model.body_inertia[body].copy()
    properties.set_body([body], mass=3.0)
    assert model.body_inertia[body].tolist() == loaded.tolist()
    assert properties.payloads == {}


@pytest.mark.requirement("S0-376", "S0-378", "S0-432")
def test_direct_edit_of_a_loaded_body_keeps_the_inertia_of_body_and_payload(model, properties):
    """Mass and centre of mass become what the edit says; the rotational inertia stays that of the parallel-axis
    theorem, to the bit. The next payload starts from the body alone again."""
    body = model.body("left_thigh").id
    before, alone = bytes_of(model), Inertial.of({name: getattr(model, name) for name in INERTIAL}, body)
    payload = Payload(2.0, (0.1, -0.05, 0.2))
    properties.add_payload([body], payload)
    com = (alone.mass * alone.com + 2.0 * np.array(payload.position)) / (alone.mass + 2.0)
    own = rotated(alone.quat, alone.inertia)
    together = about(com, alone.mass, alone.com, own) + about(com, 2.0, np.array(payload.position), np.zeros((3, 3)))
    loaded = model.body_iquat[body].copy(), model.body_inertia[body].copy()
    np.testing.assert_allclose(rotated(*loaded), together, atol=1e-12)
    once = bytes_of(model)
    properties.set_body([body], mass=9.0, com=(0.03, 0.0, -0.1))
    assert model.body_mass[body] == 9.0
    assert model.body_ipos[body].tolist() == [0.03, 0.0, -0.1]
    assert model.body_iquat[body].tobytes() == loaded[0].tobytes()
    assert model.body_inertia[body].tobytes() == loaded[1].tobytes()
    properties.add_payload([body], payload)
    assert bytes_of(model) == once
    properties.restore()
    assert bytes_of(model) == before


INERTIAL = ("body_mass", "body_ipos", "body_iquat", "body_inertia")


def rotated(quat, moments):
    """Inertia tensor in the body's axes of principal moments along axes of this orientation."""
    axes = np.zeros(9)
    mujoco.mju_quat2Mat(axes, quat)
    axes = axes.reshape(3, 3)
    return axes @ np.diag(moments) @ axes.T


def about(point, mass, position, own):
    """The parallel-axis theorem: an inertia about its centre of mass `position`, seen from another point."""
    x, y, z = position - point
    return own + mass * np.array(
        [[y * y + z * z, -x * y, -x * z], [-x * y, x * x + z * z, -y * z], [-x * z, -y * z, x * x + y * y]]
    )


@pytest.mark.requirement("S0-377")
def test_derived_constants_are_those_of_a_model_compiled_that_way(model, properties):
    body = model.body("crate").id
    properties.set_body([body], mass=3.0)
    data = mujoco.MjData(model)
    data.xfrc_applied[body, :3] = [6.0, 0, 3 * 9.81]
    for _ in range(10):
        mujoco.mj_step(model, data)
    address = model.joint("crate_free").dofadr[0]
    np.testing.assert_allclose(data.qvel[address : address + 3], [6 / 3 * 0.02, 0, 0], atol=1e-9)


@pytest.mark.requirement("S0-390", "S0-420")
def test_the_live_state_is_untouched_to_the_bit(model, properties):
    data = mujoco.MjData(model)
    data.qvel[:] = np.linspace(-1, 1, model.nv)
    for _ in range(50):
        mujoco.mj_step(model, data)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION)
    before, after = np.zeros(size), np.zeros(size)
    mujoco.mj_getState(model, data, before, mujoco.mjtState.mjSTATE_INTEGRATION)
    properties.add_payload([1], Payload(5.0, (0.2, 0.0, 0.1)))
    properties.set_body([2], mass=2.0, com=(0, 0, 0))
    properties.set_contact(properties.geoms_of([3]), {"margin": 0.01, "friction": [1, 1, 1]})
    properties.set_torque_limits([1], 3.0)
    properties.restore()
    mujoco.mj_getState(model, data, after, mujoco.mjtState.mjSTATE_INTEGRATION)
    assert before.tobytes() == after.tobytes()


MODEL = robots.model()
edits = st.lists(
    st.one_of(
        st.tuples(st.just("payload"), st.integers(1, 8), st.floats(0.1, 20), st.tuples(numbers, numbers, numbers)),
        st.tuples(st.just("mass"), st.integers(1, 9), st.floats(0.1, 20)),
        st.tuples(st.just("com"), st.integers(1, 8), st.tuples(numbers, numbers, numbers)),
        st.tuples(st.just("contact"), st.integers(0, 5), st.floats(0, 1)),
        st.tuples(st.just("limit"), st.integers(1, 6), st.floats(0, 50)),
        st.tuples(st.just("gravity"), st.tuples(numbers, numbers, numbers)),
    ),
    max_size=8,
)


@pytest.mark.requirement("S0-412", "S0-413", "S0-414", "S0-416")
@given(edits)
@settings(deadline=None, max_examples=40)
def test_restored_model_is_the_start_to_the_bit(script):
    model = MODEL
    start = bytes_of(model)
    properties = ModelProperties(model)
    for kind, *arguments in script:
        match kind:
            case "payload":
                properties.add_payload([arguments[0]], Payload(arguments[1], arguments[2]))
            case "mass":
                properties.set_body([arguments[0]], mass=arguments[1])
            case "com":
                properties.set_body([arguments[0]], com=arguments[1])
            case "contact":
                parameters = {
                    "margin": arguments[1],
                    "gap": arguments[1] / 2,
                    "condim": 6,
                    "friction": [arguments[1]] * 3,
                }
                properties.set_contact(properties.geoms_of([arguments[0]]), parameters)
            case "limit":
                properties.set_torque_limits([arguments[0]], arguments[1])
            case "gravity":
                properties.set_gravity(arguments[0])
    properties.restore()
    assert bytes_of(model) == start
    assert properties.payloads == {}


def test_margin_reaches_the_collision_detection(model, properties):
    foot = model.body("left_foot").id
    data = mujoco.MjData(model)
    data.qpos[2] = 0.6
    mujoco.mj_forward(model, data)
    assert not any("left_sole" in (model.geom(g).name for g in pair) for pair in data.contact.geom)
    gap = data.geom_xpos[model.geom("left_sole").id, 2] - 0.02
    properties.set_contact(properties.geoms_of([foot]), {"margin": gap + 0.01})
    mujoco.mj_forward(model, data)
    assert any("left_sole" in (model.geom(g).name for g in pair) for pair in data.contact.geom)


def test_a_body_compiled_as_simple_is_refused_and_everything_else_goes_on_working(model, properties):
    simple = model.body("crate").id
    assert model.body_simple[simple]
    before = bytes_of(model)
    with pytest.raises(ValueError, match=r"compiled as simple.*<body simple=\"false\">"):
        properties.check_body([simple], (0.1, 0.0, 0.0))
    assert bytes_of(model) == before
    with pytest.raises(ValueError, match="compiled as simple"):
        properties.check_payload([simple], Payload(1.0, (0.1, 0.0, 0.0)))
    with pytest.raises(ValueError, match="MuJoCo refuses the change"):  # unchecked: undone all the same
        properties.set_body([simple], com=(0.1, 0.0, 0.0))
    assert bytes_of(model) == before
    properties.add_payload([1], Payload(5.0, (0.2, 0.0, 0.1)))
    properties.restore()
    assert bytes_of(model) == before
    properties.check_body([simple], tuple(model.body_ipos[simple]))  # where it is, it may stay


@pytest.mark.requirement("S0-396", "S0-397", "S0-398", "S0-399", "S0-407", "S0-408", "S0-409")
def test_limit_bounds_the_net_torque_behind_the_gears_from_the_next_step_on():
    model = mujoco.MjModel.from_xml_string("""
    <mujoco><worldbody><body><joint name="hinge" axis="0 1 0"/><joint name="slide" type="slide"/>
    <geom size=".1"/></body></worldbody><actuator><motor joint="hinge" gear="2"/>
    <motor joint="hinge" gear="-3" forcerange="-1 1"/>
    <motor joint="slide" gear="4"/></actuator></mujoco>""")
    properties, data = ModelProperties(model), mujoco.MjData(model)
    data.ctrl[:] = [10, 10, 10]
    mujoco.mj_step(model, data)
    assert data.qfrc_actuator.tolist() == [20 - 3, 40]
    state = data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), data.time
    properties.set_torque_limits([0, 1], 5.0)
    assert (data.qpos == state[0]).all()
    assert (data.qvel == state[1]).all()
    assert (data.ctrl == state[2]).all()
    assert data.time == state[3]
    mujoco.mj_step(model, data)
    assert data.qfrc_actuator.tolist() == [5, 5]
    data.ctrl[:] = [0, 10, -10]
    mujoco.mj_step(model, data)
    assert data.qfrc_actuator.tolist() == [-3, -5]  # the actuator's own force range still counts
    properties.set_torque_limits([0, 1], 0.0)
    mujoco.mj_step(model, data)
    assert data.qfrc_actuator.tolist() == [0, 0]
    properties.restore()
    mujoco.mj_step(model, data)
    assert data.qfrc_actuator.tolist() == [-3, -40]


@pytest.mark.requirement("S0-410", "S0-411")
def test_limit_does_not_bound_contacts_and_applied_wrenches(model, properties):
    data = mujoco.MjData(model)
    properties.set_torque_limits([j for j in range(model.njnt) if model.jnt_type[j] >= 2], 0.0)
    foot = model.body("left_foot").id
    data.xfrc_applied[foot, :3] = [50.0, 0, 0]
    data.qpos[2] = 0.34
    mujoco.mj_step(model, data)
    assert not data.qfrc_actuator.any()
    assert abs(data.qacc[model.joint("left_knee").dofadr[0]]) > 10
    assert np.abs(data.qfrc_constraint[6:]).max() > 1
