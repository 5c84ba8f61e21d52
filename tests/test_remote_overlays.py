"""Markers of payloads and forces, as geoms in a viewer's scene."""

import math

import mujoco
import numpy as np
import pytest

from tests.remote_control import robots
from xbot2_fast import overlays
from xbot2_fast.remote_control import RemoteControl

SPHERE, ARROW = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_ARROW)


@pytest.fixture
def control():
    model = robots.model()
    control = RemoteControl(model, mujoco.MjData(model))
    yield control
    control.close()


def markers(control, room=100):
    scene = mujoco.MjvScene(control.model, room)
    control.update_visuals(scene)
    return [scene.geoms[i] for i in range(scene.ngeom)]


def pose(control, name):
    now = mujoco.MjData(control.model)
    now.qpos[:] = control.data.qpos
    mujoco.mj_kinematics(control.model, now)
    body = control.model.body(name).id
    return now.xpos[body], now.xmat[body].reshape(3, 3), now.xipos[body]


def push(control, force, body="base_link", **fields):
    request = {"command": "apply_wrench", "body": body, "force": force, "torque": [0, 0, 0], "duration": 0.1, **fields}
    return control.handle(request)["id"]


def direction(geom):
    return np.asarray(geom.mat).reshape(3, 3)[:, 2]


@pytest.mark.requirement("S0-426", "S0-427", "S0-430", "S0-431", "S0-432", "S0-440", "S0-441")
def test_payload_spheres_follow_their_body_until_replaced_or_removed(control):
    payload = {"command": "add_payload", "body": "left_foot", "mass": 1, "position": [0.1, 0.02, -0.03]}
    ngeom, nbody = control.model.ngeom, control.model.nbody
    control.handle(payload)
    total = control.model.body_mass.sum()
    for angle in (0.0, 0.7):
        control.data.qpos[control.model.joint("left_knee").qposadr[0]] = angle
        (sphere,) = markers(control)
        position, rotation, _ = pose(control, "left_foot")
        np.testing.assert_allclose(sphere.pos, position + rotation @ [0.1, 0.02, -0.03], atol=1e-6)
    assert sphere.type == SPHERE
    np.testing.assert_allclose(sphere.rgba, [1, 0.65, 0.1, 0.65], rtol=1e-6)
    np.testing.assert_allclose(sphere.size, 0.05, rtol=1e-6)
    assert sphere.label == "1 kg"
    assert sphere.category == mujoco.mjtCatBit.mjCAT_DECOR
    assert (control.model.ngeom, control.model.nbody) == (ngeom, nbody)
    assert control.model.body_mass.sum() == total  # the marker itself weighs nothing
    control.handle({**payload, "mass": 8, "position": [0, 0, 0]})
    (sphere,) = markers(control)
    np.testing.assert_allclose(sphere.size, 0.1, rtol=1e-6)
    np.testing.assert_allclose(sphere.pos, pose(control, "left_foot")[0], atol=1e-6)
    control.handle({"command": "set_body_properties", "bodies": ["left_foot"], "properties": {"mass": 1}})
    assert markers(control) == []
    control.handle(payload)
    control.handle({"command": "restore"})
    assert markers(control) == []


@pytest.mark.requirement("S0-428", "S0-429")
@pytest.mark.parametrize("mass", [0.001, 0.5, 1.0, 2.0, 27.0])
def test_sphere_volume_is_proportional_to_mass(control, mass):
    scene = mujoco.MjvScene(control.model, 10)
    assert overlays.add_payload_sphere(scene, [1, 2, 3], mass) == 1
    volume = 4 / 3 * math.pi * float(scene.geoms[0].size[0]) ** 3
    assert volume / mass == pytest.approx(4 / 3 * math.pi * 0.05**3, rel=1e-5)


@pytest.mark.requirement("S0-433", "S0-434", "S0-435", "S0-437", "S0-438", "S0-439")
def test_one_red_arrow_a_body_for_the_sum_of_its_active_forces(control):
    first = push(control, [100, 0, 0])
    (arrow,) = markers(control)
    assert arrow.type == ARROW
    np.testing.assert_allclose(arrow.rgba[:3], [1, 0.15, 0.1], rtol=1e-6)
    np.testing.assert_allclose(arrow.pos, pose(control, "base_link")[2], atol=1e-6)
    assert arrow.size[2] == pytest.approx(0.5)
    assert arrow.label == "F=100 N"
    np.testing.assert_allclose(direction(arrow), [1, 0, 0], atol=1e-6)
    push(control, [0, 0, 100], duration=0.01)
    push(control, [0, 30, 40], body="left_foot", duration=0.01)
    arrows = markers(control)
    assert len(arrows) == 2
    assert sorted(round(float(a.size[2]), 4) for a in arrows) == [0.25, round(0.005 * 100 * math.sqrt(2), 4)]
    push(control, [0, 0, 0], body="crate")  # no force: no arrow
    assert len(markers(control)) == 2
    control.data.time = 0.02
    (arrow,) = markers(control)
    np.testing.assert_allclose(direction(arrow), [1, 0, 0], atol=1e-6)
    control.handle({"command": "cancel_wrench", "wrench": first})
    assert markers(control) == []


@pytest.mark.requirement("S0-436")
def test_arrows_of_body_forces_turn_with_the_body(control):
    push(control, [10, 0, 0], frame="body")
    for quat in ([1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5], [0.8, 0, 0.6, 0]):
        control.data.qpos[3:7] = quat
        (arrow,) = markers(control)
        np.testing.assert_allclose(direction(arrow), pose(control, "base_link")[1][:, 0], atol=1e-6)


def test_payloads_come_before_forces_and_a_full_scene_takes_no_more(control):
    push(control, [10, 0, 0])
    control.handle({"command": "add_payload", "body": "left_foot", "mass": 1, "position": [0, 0, 0]})
    assert [geom.type for geom in markers(control)] == [SPHERE, ARROW]
    assert [geom.type for geom in markers(control, room=1)] == [SPHERE]
    assert overlays.add_force_arrow(mujoco.MjvScene(control.model, 1), [0, 0, 0], [0, 0, 0]) == 0


def test_the_world_gets_no_arrow(control):
    push(control, [10, 0, 0], body="world")
    assert markers(control) == []
