"""Random URDF trees: frames agree with an independent reader, and with MuJoCo's own importer."""

import io
import math
import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest
import yourdfpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mjcf.urdfs import INERTIAL, link, robot
from tests.reference import urdf_kinematics as reference
from xbot2_fast.mjcf import MjcfGenerator

_NUMBER = st.floats(-2, 2, allow_nan=False, width=32)
_VECTOR = st.tuples(_NUMBER, _NUMBER, _NUMBER)
# Of unit length, as URDF asks: the other reader moves prismatic joints by a multiple of longer ones.
_AXIS = _VECTOR.filter(lambda v: sum(x * x for x in v) > 1e-2).map(lambda v: tuple(x / math.hypot(*v) for x in v))
SCALAR = ("revolute", "continuous", "prismatic")


def text(vector) -> str:
    return " ".join(map(repr, vector))


@st.composite
def urdf_trees(draw, most: int = 8, kinds=(*SCALAR, "fixed")):
    """A URDF with up to `most` joints of some kinds hung on random links."""
    count = draw(st.integers(1, most))
    elements = [link("l0")]
    for k in range(1, count + 1):
        kind, parent = draw(st.sampled_from(kinds)), draw(st.integers(0, k - 1))
        elements.append(link(f"l{k}", INERTIAL))
        elements.append(
            f'<joint name="j{k}" type="{kind}"><origin xyz="{text(draw(_VECTOR))}" rpy="{text(draw(_VECTOR))}"/>'
            f'<parent link="l{parent}"/><child link="l{k}"/><axis xyz="{text(draw(_AXIS))}"/>'
            '<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>'
        )
    return robot(*elements)


def assert_same_frames(urdf: str, folder, configurations: int, tolerance: float) -> None:
    model, data = MjcfGenerator("r", urdf, folder).create_mj_model_data()
    other = yourdfpy.URDF.load(io.BytesIO(urdf.encode()), load_meshes=False, build_scene_graph=True)
    rng = np.random.default_rng(0)
    for _ in range(configurations):
        pose = {name: float(rng.uniform(-1, 1)) for name in other.actuated_joint_names}
        for name, value in pose.items():
            data.joint(name).qpos[0] = value
        mujoco.mj_kinematics(model, data)
        other.update_cfg(pose)
        for name in other.link_map:
            frame = other.get_transform(name)
            np.testing.assert_allclose(data.body(name).xpos, frame[:3, 3], atol=tolerance)
            np.testing.assert_allclose(data.body(name).xmat.reshape(3, 3), frame[:3, :3], atol=tolerance)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(urdf_trees())
def test_random_trees_agree_with_yourdfpy(tmp_path, urdf):
    assert_same_frames(urdf, tmp_path / "out", 2, 1e-6)


@pytest.mark.fuzz
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(urdf_trees(30))
def test_many_random_trees_agree_with_yourdfpy(tmp_path, urdf):
    assert_same_frames(urdf, tmp_path / "out", 3, 1e-6)


ALL_KINDS = (*SCALAR, "fixed", "planar", "floating")


def assert_all_joints_move_as_urdf_says(urdf: str, folder) -> None:
    """Every joint at a random place: planar ones along two axes across theirs and about it, floating ones anywhere."""
    model, data = MjcfGenerator("r", urdf, folder).create_mj_model_data()
    rng = np.random.default_rng(0)
    motions: dict[str, np.ndarray] = {}
    free = []
    for joint in ET.fromstring(urdf).findall("joint"):
        name, kind, axis = joint.get("name"), joint.get("type"), np.array(joint.find("axis").get("xyz").split(), float)
        if kind == "fixed":
            continue
        turn, shift = reference.rotation(rng.normal(size=3), rng.uniform(-1, 1)), rng.uniform(-1, 1, 3)
        value = float(rng.uniform(-1, 1))
        if kind == "planar":
            slides = [model.joint(f"{name}_{end}") for end in ("TX", "TY")]
            shift = sum(s * slide.axis for s, slide in zip(shift, slides, strict=False))
            for slide in slides:
                assert abs(slide.axis @ axis) < 1e-9
                data.joint(slide.id).qpos[0] = slide.axis @ shift
            turn = reference.rotation(axis, value)
            data.joint(f"{name}_RZ").qpos[0] = value
        elif kind == "floating" and name in {model.joint(j).name for j in range(model.njnt)}:
            free.append(name)
        elif kind == "floating":
            for k, end in enumerate("XYZ"):
                data.joint(f"{name}_T{end}").qpos[0] = shift[k]
            mujoco.mju_mat2Quat(data.joint(f"{name}_R").qpos, turn.ravel())
        else:
            data.joint(name).qpos[0] = value
            turn = None if kind == "prismatic" else reference.rotation(axis, value)
            shift = value * axis if kind == "prismatic" else np.zeros(3)
        motions[name] = reference.placed(turn, shift)
    frames = reference.link_frames(urdf, motions)
    for name in free:  # what is free stands in the world, wherever its parent is
        child = model.body(int(model.joint(name).bodyid[0])).name
        data.joint(name).qpos[:3] = frames[child][:3, 3]
        mujoco.mju_mat2Quat(data.joint(name).qpos[3:], np.ascontiguousarray(frames[child][:3, :3]).ravel())
    mujoco.mj_kinematics(model, data)
    for name, frame in frames.items():
        np.testing.assert_allclose(data.body(name).xpos, frame[:3, 3], atol=1e-6, err_msg=name)
        np.testing.assert_allclose(data.body(name).xmat.reshape(3, 3), frame[:3, :3], atol=1e-6, err_msg=name)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(urdf_trees(kinds=ALL_KINDS))
def test_all_kinds_of_joints_move_as_urdf_says(tmp_path, urdf):
    assert_all_joints_move_as_urdf_says(urdf, tmp_path / "out")


@pytest.mark.fuzz
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(urdf_trees(30, ALL_KINDS))
def test_many_trees_of_all_kinds_of_joints_move_as_urdf_says(tmp_path, urdf):
    assert_all_joints_move_as_urdf_says(urdf, tmp_path / "out")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(urdf_trees())
def test_random_trees_agree_with_the_importer_of_mujoco(tmp_path, urdf):
    MjcfGenerator("r", urdf, tmp_path / "out")
    ours = mujoco.MjModel.from_xml_path(str(tmp_path / "out" / "r.orig.xml"))
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "out" / "r.urdf"))
    assert [ours.joint(j).name for j in range(ours.njnt)] == [theirs.joint(j).name for j in range(theirs.njnt)]
    assert [ours.body(b).name for b in range(ours.nbody)] == [theirs.body(b).name for b in range(theirs.nbody)]
    for field in ("body_pos", "body_quat", "body_mass", "body_inertia", "jnt_axis", "jnt_range", "jnt_actfrcrange"):
        a, b = getattr(ours, field), getattr(theirs, field)
        if field == "body_quat":  # q and -q are one rotation
            a, b = a * np.sign(np.sum(a * b, axis=1, keepdims=True)), b
        np.testing.assert_allclose(a, b, atol=1e-12, err_msg=field)
