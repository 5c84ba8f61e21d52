"""Automatic actuators, SRDF, poses and the floating base."""
# ruff: noqa: E501  (XML in one piece)

import mujoco
import numpy as np
import pytest

from tests.mjcf.urdfs import BOX, INERTIAL, ROBOT, fragment, generate, joint, link, robot
from xbot2_fast.mjcf import MjcfGenerator, ModelError

SRDF = """<?xml version="1.0"?>
<robot name="one_leg">
  <disable_collisions link1="base_link" link2="fl_shank_link" reason="Never"/>
  <disable_collisions link1="fl_shank_link" link2="base_link" reason="Adjacent"/>
  <disable_collisions link1="base_link" link2="nobody" reason="Never"/>
  <group_state name="home" group="leg"><joint name="fl_hip" value="0.3"/><joint name="fl_knee" value="-0.6"/></group_state>
  <group_state name="home" group="virtual"><joint name="floating" value="0 0 0 0 0 0 1"/></group_state>
</robot>"""


def make(tmp_path, **arguments) -> MjcfGenerator:
    return MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "out", **arguments)


@pytest.mark.parametrize("law", ["position", "intvelocity", "motor"])
def test_one_actuator_a_joint_named_like_it_with_its_effort(tmp_path, law):
    model, _ = make(tmp_path, auto_actuators=law, kp=30, kd=2).create_mj_model_data()
    assert [model.actuator(a).name for a in range(model.nu)] == ["fl_hip", "fl_knee"]
    np.testing.assert_array_equal(model.actuator_forcerange, [[-30, 30], [-30, 30]])
    if law != "motor":
        np.testing.assert_array_equal(model.actuator_biasprm[0, :3], [0, -30, -2])
    if law == "intvelocity":
        np.testing.assert_array_equal(model.actuator_actrange[0], [-1, 1])


def test_gains_by_joint_and_regex(tmp_path):
    generator = make(tmp_path, auto_actuators="position", kp={"fl_knee": 7, "fl_.*": 9}, kd=1)
    model, _ = generator.create_mj_model_data()
    assert model.actuator("fl_hip").gainprm[0] == 9
    assert model.actuator("fl_knee").gainprm[0] == 7
    with pytest.raises(ModelError, match="kp: nothing given for joint 'fl_hip'"):
        make(tmp_path, auto_actuators="position", kp={"fl_knee": 7}).generate_mjcf_string()
    with pytest.raises(ModelError, match="kd: '\\(' is neither a joint nor a regular expression"):
        make(tmp_path, auto_actuators="position", kd={"(": 7}).generate_mjcf_string()


def test_joints_with_an_actuator_of_their_own_are_left_alone(tmp_path):
    generator = make(tmp_path, auto_actuators="position")
    generator.merge_xml(fragment('<actuator><motor name="m" joint="fl_hip"/></actuator>'))
    model, _ = generator.create_mj_model_data()
    assert [model.actuator(a).name for a in range(model.nu)] == ["m", "fl_knee"]


def test_unknown_law_is_refused(tmp_path):
    with pytest.raises(ModelError, match="auto_actuators: expected one of None, position, intvelocity, motor"):
        make(tmp_path, auto_actuators="magic")


def test_srdf_excludes_pairs_once_and_reports_unknown_links(tmp_path):
    generator = make(tmp_path)
    generator.merge_srdf(SRDF)
    model, _ = generator.create_mj_model_data()
    assert model.nexclude == 1
    assert any("nobody" in note.what for note in generator.report.of("dropped"))


def test_pose_is_q_init_and_tags_override_it(tmp_path):
    generator = make(tmp_path)
    generator.merge_srdf(SRDF, pose="home")
    generator.merge_xml(fragment('<q_init><joint name="fl_knee" value="-1"/></q_init>'))
    _, data = generator.create_mj_model_data()
    assert generator.q_init == {"fl_knee": -1, "fl_hip": 0.3}
    assert data.joint("fl_hip").qpos[0] == 0.3
    with pytest.raises(ModelError, match="no pose 'away'; known poses: home"):
        generator.use_pose("away")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco/>", "expected the root element <robot>, got <mujoco>"),
        ("<robot><disable_collisions link1='a'/></robot>", "line 1: <disable_collisions> needs link1 and link2"),
        ("<robot><group_state name='g'><joint name='j' value='x'/></group_state></robot>", "joint 'j': expected 1"),
        ("<robot", "SRDF: not well-formed XML at line 1"),
    ],
)
def test_bad_srdf(tmp_path, text, message):
    with pytest.raises(ModelError, match=message):
        make(tmp_path).merge_srdf(text)


def test_contacts_at_q_init_are_reported_by_link_pair(tmp_path):
    urdf = robot(link("a", INERTIAL + BOX), link("b", INERTIAL), link("c", INERTIAL + BOX),
                 joint("j", "a", "b"), joint("k", "b", "c"))  # fmt: skip
    generator = generate(urdf, tmp_path)
    generator.create_mj_model_data()
    assert [(note.link, note.what) for note in generator.report.of("contact")] == [("c", "touches 'a' at q_init")]


# ---- floating base

FLOOR = '<geom name="floor" type="plane" size="0 0 1" pos="0 0 {}"/>'


def lowest_gap(model, data) -> float:
    """Least distance of the robot's geoms to the static world, from MuJoCo's own collision functions."""
    mujoco.mj_forward(model, data)
    gaps = [
        mujoco.mj_geomDistance(model, data, robot_geom, world_geom, 10, None)
        for robot_geom in range(model.ngeom) if model.geom_bodyid[robot_geom]
        for world_geom in range(model.ngeom) if not model.geom_bodyid[world_geom]
    ]  # fmt: skip
    return min(gaps)


@pytest.mark.parametrize("height", [0, -0.7, 2])
def test_robot_is_set_down_one_millimetre_above_the_floor_at_q_init(tmp_path, height):
    generator = make(tmp_path, floating_base=True)
    generator.merge_xml(
        fragment(f'<worldbody>{FLOOR.format(height)}</worldbody><q_init><joint name="fl_hip" value="0.9"/></q_init>')
    )
    model, data = generator.create_mj_model_data()
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert lowest_gap(model, data) == pytest.approx(1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "shape",
    [
        '<box size="0.3 0.2 0.1"/>', '<sphere radius="0.2"/>', '<cylinder radius="0.1" length="0.5"/>',
        '<capsule radius="0.1" length="0.5"/>',
    ],
)  # fmt: skip
def test_every_shape_is_set_down_whatever_its_attitude(tmp_path, shape):
    collision = f'<collision><origin xyz="0.1 0.2 0.3" rpy="0.5 -0.8 0.3"/><geometry>{shape}</geometry></collision>'
    generator = generate(robot(link("a", INERTIAL + collision)), tmp_path, floating_base=True)
    generator.merge_xml(fragment(f"<worldbody>{FLOOR.format(0)}</worldbody>"))
    model, data = generator.create_mj_model_data()
    assert lowest_gap(model, data) == pytest.approx(1e-3, abs=1e-6)


def test_robot_stands_on_what_is_below_it(tmp_path):
    generator = make(tmp_path, floating_base=True)
    generator.merge_xml(
        fragment(f'<worldbody>{FLOOR.format(0)}<geom type="box" size="3 3 0.25" pos="0 0 0.25"/></worldbody>')
    )
    model, data = generator.create_mj_model_data()
    assert lowest_gap(model, data) == pytest.approx(1e-3, abs=1e-6)


def test_a_free_joint_of_the_users_own_is_kept(tmp_path):
    generator = make(tmp_path, floating_base=True)
    generator.merge_xml(fragment('<reference element="body" name="base_link"><freejoint name="mine"/></reference>'))
    model, _ = generator.create_mj_model_data()
    assert model.joint(0).name == "mine"
    assert model.njnt == 3


def test_bodies_can_be_edited_while_running(tmp_path):
    generator = make(tmp_path)
    generator.merge_xml(
        fragment('<worldbody><body name="free"><freejoint/><geom type="box" size="1 1 1"/></body></worldbody>')
    )
    model, _ = generator.create_mj_model_data()
    assert generator.generate_mjcf_string().count('simple="false"') == model.nbody - 1
    for body in range(1, model.nbody):
        model.body_ipos[body] += 0.1
    mujoco.mj_setConst(model, mujoco.MjData(model))  # raises for bodies that were compiled as simple
