"""All 69 URDFs of example-robot-data become models that move as their URDF says."""

import re
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yourdfpy
from lxml import etree

from tests.centauro import robots_folder
from xbot2_fast.mjcf import MjcfGenerator

ROBOTS = robots_folder()
URDFS = sorted(str(path.relative_to(ROBOTS)) for path in ROBOTS.rglob("*.urdf"))
WITHOUT_MESHES = "romeo_laas_small.urdf"  # its meshes are not in the package


def test_there_are_sixty_nine():
    assert len(URDFS) == 69


@pytest.mark.parametrize("name", URDFS)
def test_all_robots(tmp_path, name):
    check_robot(ROBOTS / name, tmp_path)


def check_robot(urdf: Path, folder: Path) -> None:
    missing = "skip" if urdf.name == WITHOUT_MESHES else "error"
    generator = MjcfGenerator("robot", urdf.read_bytes(), folder, urdf_path=urdf, missing_assets=missing)
    model, data = generator.create_mj_model_data()
    source = etree.fromstring(urdf.read_bytes())
    dropped = [note for note in generator.report.of("dropped") if "<mesh>" in note.what]
    assert len(dropped) == (20 if missing == "skip" else 0)
    check_names_and_limits(model, source, generator.report)
    check_mass(model, source, generator.report)
    if source.find("link") is not None:  # one file holds no robot
        check_frames(model, data, urdf)
    check_one_second(model)


def check_names_and_limits(model, source, report) -> None:
    bodies = {model.body(b).name for b in range(model.nbody)}
    assert {link.get("name") for link in source.findall("link")} <= bodies
    changed = {name for note in report.notes for name in re.findall(r"joint '([^']*)'", note.what)}
    for joint in source.findall("joint"):
        name, kind, limit = joint.get("name"), joint.get("type"), joint.find("limit")
        if kind not in ("revolute", "prismatic", "continuous"):
            continue
        identifier = model.joint(name).id
        if name in changed or limit is None:
            continue
        if kind != "continuous":
            given = [float(limit.get("lower", 0)), float(limit.get("upper", 0))]
            np.testing.assert_array_equal(model.jnt_range[identifier], given)
        effort = float(limit.get("effort", 0))
        np.testing.assert_array_equal(model.jnt_actfrcrange[identifier], [-effort, effort])


def check_mass(model, source, report) -> None:
    given = sum(float(mass.get("value")) for mass in source.iterfind("link/inertial/mass"))
    world = source.find("link[@name='world']/inertial/mass")
    guessed = {note.link for note in report.of("guessed") if "no mass" in note.what}
    extra = sum(float(model.body(link).mass[0]) for link in guessed)
    expected = given + extra - (0.0 if world is None else float(world.get("value")))
    assert model.body_mass.sum() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def check_frames(model, data, urdf: Path) -> None:
    """Forward kinematics at 5 random configurations, against yourdfpy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = yourdfpy.URDF.load(str(urdf), load_meshes=False, build_scene_graph=True)
    simple = {model.joint(j).name for j in range(model.njnt) if int(model.jnt_type[j]) in (2, 3)}
    names = [joint for joint in other.joint_map if joint in simple]
    rng = np.random.default_rng(0)
    root = data.body(other.base_link)
    for _ in range(5):
        pose = {}
        for name in other.actuated_joint_names:
            pose[name] = float(rng.uniform(-1, 1)) if name in simple else 0.0
        other.update_cfg(pose)
        for name in names:
            data.joint(name).qpos[0] = position(other, name, pose)
        mujoco.mj_kinematics(model, data)
        base, turn = root.xpos.copy(), root.xmat.reshape(3, 3).copy()
        for name in other.link_map:
            expected = turn @ other.get_transform(name)[:3, 3] + base
            np.testing.assert_allclose(data.body(name).xpos, expected, atol=1e-6, err_msg=name)


def position(other, name: str, pose: dict[str, float]) -> float:
    """A joint's position in yourdfpy's configuration: its own, or what its leader makes of it."""
    mimic = other.joint_map[name].mimic
    if mimic is None:
        return pose.get(name, 0.0)
    leader = position(other, mimic.joint, pose) if mimic.joint in other.joint_map else 0.0
    return leader * mimic.multiplier + mimic.offset


def check_one_second(model) -> None:
    data = mujoco.MjData(model)
    while data.time < 1.0:
        mujoco.mj_step(model, data)
    assert np.isfinite(data.qpos).all()
    assert np.isfinite(data.qvel).all()
    assert not data.warning.number.any(), data.warning.number
