"""What a URDF gets wrong: refused with all problems at once, or mended and reported."""
# ruff: noqa: E501  (XML in one piece)

import mujoco
import numpy as np
import pytest

from tests.mjcf.urdfs import BOX, INERTIAL, arm, generate, joint, link, robot
from xbot2_fast.mjcf import ModelError
from xbot2_fast.mjcf.generator import ALL_REPAIRS
from xbot2_fast.mjcf.inertia import mended_inertia

LIMIT = '<axis xyz="0 0 1"/><limit lower="{}" upper="{}" effort="{}" velocity="1"/>'


def inertial(mass: float, *moments: float, off: float = 0.0) -> str:
    ixx, iyy, izz = moments
    inertia = f'<inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="{off}" ixz="0" iyz="0"/>'
    return f'<inertial><mass value="{mass}"/>{inertia}</inertial>'


def model_and_notes(urdf, folder, **arguments):
    generator = generate(urdf, folder, **arguments)
    model, _ = generator.create_mj_model_data()
    return model, [(note.kind, note.link, note.what) for note in generator.report.notes]


# ---- refused


@pytest.mark.parametrize(
    ("urdf", "message"),
    [
        (robot(link("a"), link("a")), r"link name 'a' is used twice: line 1 and line 1"),
        (robot(link("")), "the link at line 1 has no name"),
        (robot(link("a"), link("b"), joint("j", "a", "c")), r"joint 'j' \(line 1\): its child link 'c' does not exist"),
        (robot(link("a"), link("b"), joint("j", "x", "b")), "its parent link 'x' does not exist"),
        (robot(link("a"), link("b"), link("c"), joint("j", "a", "c"), joint("k", "b", "c")), "link 'c' has 2 parents"),
        (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")), "links form a cycle: "),
        (
            robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("j", "a", "c")),
            r"joint name 'j' is used twice: line 1, 'a' to 'b' and line 1, 'a' to 'c'",
        ),
        (robot(link("a"), link("world"), joint("j", "a", "world")), "link 'world' is not the root"),
        (arm(inside='<axis xyz="0 0 0"/><limit lower="0" upper="1"/>'), "axis: expected a direction, got '0 0 0'"),
        (arm(inside=LIMIT.format(1, -1, 5)), r"joint 'j' \(line 1\): limit: lower 1 is above upper -1"),
        (arm(inside=LIMIT.format("${pi}", 4, 5)), "lower='\\${pi}' was not filled in; run the file through xacro"),
        (arm(inside=LIMIT.format("a", 4, 5)), "limit lower: expected 1 finite number, got 'a'"),
        (arm(inside=LIMIT.format("nan", 4, 5)), "limit lower: expected 1 finite number, got 'nan'"),
        (arm(inside=LIMIT.format(-1, 1, -3)), "limit effort: expected >= 0, got '-3'"),
        (arm("wobbly"), "type: expected one of revolute, .*got 'wobbly'"),
        (arm(tip="<inertial/>"), "inertial: <mass value> is missing"),
        (arm(tip=inertial(-1, 1, 1, 1)), "inertial mass value: expected >= 0, got '-1"),
        (arm(tip="<visual><geometry/></visual>"), "<geometry> needs one of box, .*it holds nothing"),
        (arm(tip='<visual><geometry><box size="1 1"/></geometry></visual>'), "box size: expected 3 numbers, got '1 1'"),
        (arm(tip='<visual><geometry><sphere radius="0"/></geometry></visual>'), "sphere radius: expected > 0, got '0'"),
        (
            robot(link("a"), link("b"), joint("j", "a", "b", inside='<mimic joint="j"/><limit lower="0" upper="1"/>')),
            "joints follow each other in a circle: j -> j",
        ),
        (
            robot("<mujoco><compiler fuzestatic='false'/></mujoco>", link("a")),
            "<compiler> has no attribute 'fuzestatic'",
        ),
    ],
)
def test_what_no_repair_can_mend_is_refused(tmp_path, urdf, message):
    with pytest.raises(ModelError, match=message):
        generate(urdf, tmp_path)


def test_all_problems_come_at_once_sorted_by_link(tmp_path):
    urdf = robot(
        link("z", '<visual><geometry><sphere radius="-1"/></geometry></visual>'),
        link("b", "<inertial/>"),
        link("a", '<visual><geometry><mesh filename="nowhere.stl"/></geometry></visual>'),
        joint("jb", "z", "b", inside=LIMIT.format(2, 1, 1)),
        joint("ja", "z", "a"),
    )
    with pytest.raises(ModelError) as error:
        generate(urdf, tmp_path)
    problems = error.value.problems
    assert len(problems) == 4
    assert [next(name for name in "abz" if f"'{name}'" in text or f"'j{name}'" in text) for text in problems] == list(
        "abbz"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["<robot name='r'/>", "<robot/>"])
def test_a_robot_without_links_is_an_empty_model(tmp_path, text):
    assert model_and_notes(text, tmp_path)[0].nbody == 1


# ---- mended: joints


def test_effort_zero_means_no_limit(tmp_path):
    model, notes = model_and_notes(arm(inside=LIMIT.format(-1, 1, 0)), tmp_path)
    assert not model.jnt_actfrclimited[0]
    assert notes == [("repaired", "tip", "joint 'j': effort 0 taken as no effort limit")]


@pytest.mark.parametrize("inside", ['<axis xyz="0 0 1"/>', '<axis xyz="0 0 1"/><limit effort="3" velocity="1"/>'])
def test_missing_limits_are_reported(tmp_path, inside):
    model, notes = model_and_notes(arm(inside=inside), tmp_path)
    assert not model.jnt_limited[0]
    assert notes[0][:2] == ("guessed", "tip")
    assert "no position limits" in notes[0][2]


def test_equal_limits_lock_the_joint_and_zeros_mean_none(tmp_path):
    model, notes = model_and_notes(arm(inside=LIMIT.format(0.5, 0.5, 1)), tmp_path / "a")
    assert model.jnt_limited[0]
    np.testing.assert_allclose(model.jnt_range[0], [0.5, 0.5], atol=2e-6)
    assert notes[0][0] == "repaired"
    model, notes = model_and_notes(arm(inside=LIMIT.format(0, 0, 1)), tmp_path / "b")
    assert not model.jnt_limited[0]
    assert notes == [("guessed", "tip", "joint 'j': limits 0 and 0 taken as none")]


def test_planar_joint_moves_across_its_axis_and_turns_about_it(tmp_path):
    model, notes = model_and_notes(arm("planar", '<axis xyz="1 2 3"/><limit lower="0" upper="1"/>'), tmp_path)
    assert [model.joint(j).name for j in range(3)] == ["j_TX", "j_TY", "j_RZ"]
    axes = model.jnt_axis
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(axes[2], np.array([1, 2, 3]) / 14**0.5)
    assert not model.jnt_limited.any()
    assert [kind for kind, *_ in notes] == ["repaired", "dropped"]


def test_floating_joint_is_free_at_the_root_and_four_joints_below(tmp_path):
    model, notes = model_and_notes(arm("floating", '<origin xyz="1 2 3" rpy="0 0 1"/>'), tmp_path / "a")
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    np.testing.assert_allclose(model.qpos0[:3], [1, 2, 3])
    assert notes == []
    urdf = robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("f", "b", "c", "floating", ""))
    model, notes = model_and_notes(urdf, tmp_path / "b")
    assert [model.joint(j).name for j in range(1, 5)] == ["f_TX", "f_TY", "f_TZ", "f_R"]
    assert model.jnt_type[4] == mujoco.mjtJoint.mjJNT_BALL
    assert notes[0][0] == "repaired"


def test_floating_joint_behind_fixed_ones_keeps_its_place_in_the_world(tmp_path):
    urdf = robot(
        link("a"), link("b"), link("c"),
        joint("f", "a", "b", "fixed", '<origin xyz="0 0 1" rpy="0 0 1.5707963267948966"/>'),
        joint("j", "b", "c", "floating", '<origin xyz="1 0 0"/>'),
    )  # fmt: skip
    model, _ = model_and_notes(urdf, tmp_path)
    np.testing.assert_allclose(model.qpos0[:3], [0, 1, 1], atol=1e-12)


def test_mimic_is_an_equality_and_a_lost_leader_is_reported(tmp_path):
    follow = '<axis xyz="0 0 1"/><limit lower="-4" upper="4"/><mimic joint="{}" multiplier="2" offset="0.1"/>'
    urdf = robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("k", "b", "c", inside=follow.format("j")))
    model, _ = model_and_notes(urdf, tmp_path / "a", auto_actuators="position")
    assert model.neq == 1
    np.testing.assert_allclose(model.eq_data[0, :5], [0.1, 2, 0, 0, 0])
    assert [model.actuator(a).name for a in range(model.nu)] == ["j"]
    model, notes = model_and_notes(urdf.replace('joint="j"', 'joint="lost"'), tmp_path / "b")
    assert model.neq == 0
    assert ("dropped", "c", "joint 'k': mimic of 'lost': there is no such joint") in notes


def test_damping_and_friction_are_kept(tmp_path):
    dynamics = LIMIT.format(-1, 1, 5) + '<dynamics damping="0.7" friction="0.3"/>'
    model, _ = model_and_notes(arm(inside=dynamics), tmp_path)
    assert (model.dof_damping[0], model.dof_frictionloss[0]) == (0.7, 0.3)


def test_continuous_joints_under_velocity_actuators_have_no_activation_range(tmp_path):
    model, data = generate(
        arm("continuous", '<axis xyz="0 0 1"/>'), tmp_path, auto_actuators="intvelocity"
    ).create_mj_model_data()
    assert not model.actuator_actlimited[0]
    data.ctrl[0] = 1.0
    for _ in range(3000):
        mujoco.mj_step(model, data)
    assert data.qvel[0] == pytest.approx(1.0, abs=0.1)


def test_several_roots_become_bodies_of_the_world(tmp_path):
    model, notes = model_and_notes(robot(link("a"), link("b")), tmp_path / "a")
    assert model.nbody == 3
    assert notes == [("repaired", "b", "a root beside 'a': it is fixed to the world at the origin")]
    with pytest.raises(ModelError, match="floating_base: expected one root link, the URDF has a, b"):
        generate(robot(link("a"), link("b")), tmp_path / "b", floating_base=True).generate_mjcf_string()


def test_root_link_called_world_is_the_world(tmp_path):
    urdf = robot(link("world", BOX), link("b"), joint("j", "world", "b", "fixed", '<origin xyz="0 0 1"/>'))
    model, _ = model_and_notes(urdf, tmp_path)
    assert [model.body(b).name for b in range(model.nbody)] == ["world", "b"]
    assert model.geom_bodyid[0] == 0


# ---- mended: masses


def test_moving_link_without_mass_and_shape_gets_the_least(tmp_path):
    model, notes = model_and_notes(arm(tip=""), tmp_path)
    assert model.body("tip").mass[0] == 1e-3
    assert notes == [("guessed", "tip", "no mass and no shape: 0.001 kg with inertia 1e-06 kg m2")]


def test_moving_link_without_mass_gets_that_of_its_shape(tmp_path):
    model, notes = model_and_notes(arm(tip=BOX), tmp_path)
    assert model.body("tip").mass[0] == pytest.approx(1.0)
    assert notes[0][:2] == ("guessed", "tip")


def test_link_without_inertial_on_a_rigid_group_with_mass_weighs_nothing(tmp_path):
    urdf = robot(link("a"), link("b"), link("c", BOX), joint("j", "a", "b"), joint("f", "b", "c", "fixed", ""))
    model, notes = model_and_notes(urdf, tmp_path)
    assert model.body("c").mass[0] == 0
    assert notes == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((3, 1, 1, 0), "largest principal moment above"),
        ((1, 1, 1, 1.5), "negative principal moment"),
        ((-1, 1, 1, 0), "negative principal moment"),
        ((1, 1, 0, 0), "zero principal moment"),
        ((0, 0, 0, 0), "no inertia"),
    ],
)
def test_impossible_inertias_are_mended_with_the_mass_kept(tmp_path, given, why):
    *moments, off = given
    model, notes = model_and_notes(arm(tip=inertial(2.5, *moments, off=off)), tmp_path)
    assert model.body("tip").mass[0] == 2.5
    low, middle, high = sorted(model.body("tip").inertia)
    assert low > 0
    assert low + middle >= high
    assert notes[0][1] == "tip"
    assert why in notes[0][2]


@pytest.mark.parametrize("moments", [(2, 1, 1), (1, 1, 1), (1e-12, 1e-12, 1e-12)])
def test_possible_inertias_are_left_alone(tmp_path, moments):
    model, notes = model_and_notes(arm(tip=inertial(1, *moments)), tmp_path)
    np.testing.assert_array_equal(model.body("tip").inertia, moments)
    assert notes == []
    ixx, iyy, izz = moments
    assert mended_inertia([ixx, 0, 0, iyy, 0, izz]) == (None, "")


def test_full_inertia_in_a_turned_frame(tmp_path):
    turned = INERTIAL.replace("<mass", '<origin xyz="0.1 0.2 0.3" rpy="0.3 -0.7 1.1"/><mass').replace(
        'ixy="0"', 'ixy="0.02"'
    )
    ours, _ = model_and_notes(arm(tip=turned), tmp_path)
    theirs = mujoco.MjModel.from_xml_string(
        arm(tip=turned).replace("<link", "<mujoco><compiler fusestatic='false'/></mujoco><link", 1)
    )
    a, b = ours.body("tip"), theirs.body("tip")
    np.testing.assert_allclose(a.ipos, b.ipos, atol=1e-15)
    tensors = []
    for body in (a, b):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, body.iquat)
        rotation = rotation.reshape(3, 3)
        tensors.append(rotation @ np.diag(body.inertia) @ rotation.T)
    np.testing.assert_allclose(tensors[0], tensors[1], atol=1e-14)


# ---- switches and the block of MuJoCo


@pytest.mark.parametrize(
    ("repair", "urdf"),
    [
        ("effort", arm(inside=LIMIT.format(-1, 1, 0))),
        ("limits", arm(inside='<axis xyz="0 0 1"/>')),
        ("joints", arm("planar", "")),
        ("roots", robot(link("a"), link("b"))),
        ("inertia", arm(tip=inertial(1, 3, 1, 1))),
        ("mass", arm(tip="")),
    ],
)
def test_a_switched_off_repair_refuses(tmp_path, repair, urdf):
    others = [name for name in ALL_REPAIRS if name != repair]
    with pytest.raises(ModelError, match=f"needs the repair '{repair}', which is switched off"):
        generate(urdf, tmp_path / "off", repairs=others)
    generate(urdf, tmp_path / "on", repairs=[repair]).create_mj_model_data()


def test_mujoco_blocks_of_the_urdf_are_honoured(tmp_path):
    block = '<mujoco><compiler boundmass="0.5" fusestatic="true"/><option timestep="0.004"/></mujoco><mujoco><size nkey="0"/></mujoco>'
    urdf = robot(block, link("a"), link("b", ""), joint("f", "a", "b", "fixed", ""))
    model, notes = model_and_notes(urdf, tmp_path)
    assert model.nbody == 3
    assert model.opt.timestep == 0.004
    assert model.body("b").mass[0] == 0.5
    assert any("fusestatic" in what for kind, _, what in notes if kind == "dropped")


def test_ten_thousand_links(tmp_path):
    links = [link("root")]
    for chain in range(100):
        parent = "root"
        for k in range(100):
            name = f"l{chain}_{k}"
            links += [
                link(name),
                joint(f"j{chain}_{k}", parent, name, "fixed" if k % 10 else "revolute", None if k % 10 == 0 else ""),
            ]
            parent = name
    text = generate(robot(*links), tmp_path).generate_mjcf_string()
    assert text.count("<body ") == 10001


def test_a_chain_too_deep_for_mujoco_says_so(tmp_path):
    elements = [link("l0")]
    for k in range(1, 700):
        elements += [link(f"l{k}"), joint(f"j{k}", f"l{k - 1}", f"l{k}", "fixed", "")]
    with pytest.raises(ModelError, match="link 'l699' is nested 700 deep; MuJoCo reads 496 at most"):
        generate(robot(*elements), tmp_path)
    generate(robot(*elements[: 2 * 496 - 1]), tmp_path).create_mj_model_data()


# ---- extreme numbers

LIMITED = '<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
PLACES = {
    "upper": arm(inside='<axis xyz="0 0 1"/><limit lower="-1" upper="{}" effort="1" velocity="1"/>'),
    "effort": arm(inside='<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="{}" velocity="1"/>'),
    "origin": arm(inside='<origin xyz="{} 0 0" rpy="{} 0 0"/>' + LIMITED),
    "axis": arm(inside='<axis xyz="{} 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'),
    "damping": arm(inside=LIMITED + '<dynamics damping="{}" friction="{}"/>'),
    "mass": arm(tip=INERTIAL.replace('value="1"', 'value="{}"')),
    "inertia": arm(tip=INERTIAL.replace('"0.1"', '"{}"')),
    "size": arm(tip='<collision><geometry><box size="{} 1 1"/></geometry></collision>'),
    "color": arm(
        tip='<visual><geometry><sphere radius="1"/></geometry><material name="m"><color rgba="{} 0 0 1"/></material></visual>'
    ),
}


@pytest.mark.parametrize("number", ["1e300", "-1e300", "1e38", "1e-320", "1e400", "9" * 400])
@pytest.mark.parametrize("place", PLACES)
def test_extreme_numbers_give_a_model_or_a_refusal(tmp_path, place, number):
    """1e400 and 400 digits are no finite doubles and are refused by name; for the rest MuJoCo has the last word."""
    infinite = len(number) > 6 or number == "1e400"
    try:
        generate(PLACES[place].replace("{}", number), tmp_path).create_mj_model_data()
    except ModelError as error:
        assert infinite == ("finite number" in str(error))  # noqa: PT017
    else:
        assert not infinite
