"""MjcfGenerator: the seed's API, steps and output layout."""

import inspect
import os
import shutil
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

import xbot2_fast
from xbot2_fast.mjcf import MjcfGenerator, ModelError

URDF = """<?xml version="1.0" encoding="utf-8"?>
<robot name="arm">
  <link name="base_link">
    <inertial>
      <mass value="2.123456789012345"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <visual><geometry><mesh filename="package://arm/meshes/base.stl"/></geometry></visual>
    <collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision>
  </link>
  <link name="tip">
    <inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.05"/></geometry></collision>
  </link>
  <joint name="turn" type="revolute">
    <origin xyz="0 0 0.12345678901234567" rpy="0.1 0.2 0.3"/>
    <parent link="base_link"/><child link="tip"/><axis xyz="0 1 0"/>
    <limit lower="-1.2345678901234567" upper="1" effort="12" velocity="1"/>
  </joint>
</robot>
"""


def write_tetrahedron(path):
    """A binary STL of four faces."""
    points = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]], np.float32)
    record = np.dtype([("n", "<f4", 3), ("v", "<f4", (3, 3)), ("a", "<u2")])
    faces = np.zeros(4, record)
    faces["v"] = points[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0" * 80 + np.uint32(4).tobytes() + faces.tobytes())


@pytest.fixture
def package(tmp_path):
    write_tetrahedron(tmp_path / "ws" / "arm" / "meshes" / "base.stl")
    return {"arm": tmp_path / "ws" / "arm"}


@pytest.fixture
def generator(tmp_path, package):
    return MjcfGenerator(name="arm", urdf_str=URDF, output_dir=tmp_path / "out", packages=package)


@pytest.mark.requirement("S0-001")
def test_the_two_main_components_are_public():
    assert xbot2_fast.MjcfGenerator is MjcfGenerator
    assert "MjXbot2Bridge" in xbot2_fast.__all__
    from xbot2_fast.mjcf_tools import MjcfGenerator as old

    assert old is MjcfGenerator


@pytest.mark.requirement("S0-002", "S0-111", "S0-113")
def test_seed_usage_gives_a_model(generator):
    parameters = list(inspect.signature(MjcfGenerator).parameters)
    assert parameters[:4] == ["name", "urdf_str", "output_dir", "copy_assets"]
    text = generator.generate_mjcf_string()
    assert isinstance(text, str)
    model = mujoco.MjModel.from_xml_string(text)
    assert [model.body(b).name for b in range(model.nbody)] == ["world", "base_link", "tip"]
    assert [model.joint(j).name for j in range(model.njnt)] == ["turn"]


@pytest.mark.requirement("S0-112")
def test_merge_xml_is_repeatable_and_each_call_adds(generator, tmp_path):
    options, world = tmp_path / "options.xml", tmp_path / "world.xml"
    options.write_text('<mujoco><option timestep="0.004"/></mujoco>')
    world.write_text(
        '<mujoco><option integrator="RK4"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>'
        "</worldbody></mujoco>"
    )
    generator.merge_xml(options)
    generator.merge_xml(world)
    model = mujoco.MjModel.from_xml_string(generator.generate_mjcf_string())
    assert model.opt.timestep == 0.004
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    assert model.geom("floor").id >= 0


@pytest.mark.requirement("S0-115", "S0-116", "S0-138", "S0-135")
def test_package_files_are_resolved_and_linked_into_assets(generator, tmp_path, package):
    stored = tmp_path / "out" / "assets" / "0_base.stl"
    assert stored.is_symlink()
    assert stored.resolve() == (package["arm"] / "meshes" / "base.stl").resolve()
    urdf = (tmp_path / "out" / "arm.urdf").read_text()
    assert "package://" not in urdf
    assert 'filename="assets/0_base.stl"' in urdf


@pytest.mark.requirement("S0-117", "S0-138")
def test_copied_assets_make_a_folder_that_can_be_moved(tmp_path, package):
    out = tmp_path / "out"
    MjcfGenerator("arm", URDF, out, True, packages=package).generate_mjcf_string()
    assert not (out / "assets" / "0_base.stl").is_symlink()
    shutil.rmtree(package["arm"])
    moved = out.rename(tmp_path / "elsewhere")
    assert mujoco.MjModel.from_xml_path(str(moved / "arm.xml")).nmesh == 1


@pytest.mark.requirement("S0-118", "S0-136")
def test_orig_xml_is_the_conversion_before_merges(generator, tmp_path):
    original = (tmp_path / "out" / "arm.orig.xml").read_text()
    generator.merge_xml('<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/></worldbody></mujoco>')
    generator.generate_mjcf_string()
    assert (tmp_path / "out" / "arm.orig.xml").read_text() == original
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "out" / "arm.orig.xml"))
    assert (model.nbody, model.ngeom) == (3, 3)


@pytest.mark.requirement("S0-132", "S0-137")
def test_final_xml_is_the_string_with_relative_directories(generator, tmp_path):
    out = tmp_path / "out"
    assert not (out / "arm.xml").exists()
    text = generator.generate_mjcf_string()
    assert text.replace(f'"{out}"', '"."') == (out / "arm.xml").read_text()


@pytest.mark.requirement("S0-114")
def test_string_compiles_from_any_working_directory(generator, tmp_path, monkeypatch):
    text = generator.generate_mjcf_string()
    (tmp_path / "far").mkdir()
    monkeypatch.chdir(tmp_path / "far")
    assert mujoco.MjModel.from_xml_string(text).nmesh == 1


def test_relative_output_dir_works_from_any_working_directory(tmp_path, package, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = MjcfGenerator("arm", URDF, "rel", packages=package).generate_mjcf_string()
    monkeypatch.chdir("/")
    assert mujoco.MjModel.from_xml_string(text).nmesh == 1


@pytest.mark.requirement("S0-133", "S0-134")
def test_create_mj_model_data_applies_q_init(generator):
    generator.merge_xml('<mujoco><q_init><joint name="turn" value="0.25"/></q_init></mujoco>')
    model, data = generator.create_mj_model_data()
    assert isinstance(model, mujoco.MjModel)
    assert data.joint("turn").qpos[0] == 0.25
    again = mujoco.MjModel.from_xml_string(generator.generate_mjcf_string())
    assert (again.nq, again.nbody, again.ngeom) == (model.nq, model.nbody, model.ngeom)


def test_numbers_survive_exactly(generator):
    model, _ = generator.create_mj_model_data()
    assert model.body("base_link").mass[0] == 2.123456789012345
    assert model.body("tip").pos[2] == 0.12345678901234567
    assert model.joint("turn").range[0] == -1.2345678901234567
    assert tuple(model.jnt_actfrcrange[model.joint("turn").id]) == (-12.0, 12.0)


def test_visuals_are_group_one_without_contact_and_collisions_group_zero(generator):
    model, _ = generator.create_mj_model_data()
    assert [(int(model.geom_group[g]), int(model.geom_contype[g])) for g in range(model.ngeom)] == [
        (1, 0),
        (0, 1),
        (0, 1),
    ]


# ---- the output folder


def test_second_run_replaces_its_own_files_only(tmp_path, package):
    out = tmp_path / "out"
    MjcfGenerator("arm", URDF, out, packages=package).generate_mjcf_string()
    (out / "notes.txt").write_text("mine")
    (out / "assets" / "mine.stl").write_text("mine")
    MjcfGenerator("arm", URDF, out, packages=package).generate_mjcf_string()
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "assets" / "mine.stl").read_text() == "mine"


def test_foreign_file_in_the_way_is_refused_with_its_name(tmp_path, package):
    out = tmp_path / "out"
    out.mkdir()
    (out / "arm.urdf").write_text("precious")
    with pytest.raises(ModelError, match=r"arm\.urdf exists and was not written by the generator"):
        MjcfGenerator("arm", URDF, out, packages=package)
    assert (out / "arm.urdf").read_text() == "precious"


def test_folder_of_the_old_simulator_is_taken_over(tmp_path, package):
    out = tmp_path / "out"
    (out / "assets").mkdir(parents=True)
    for name in ("arm.urdf", "arm.orig.xml", "arm.xml", "assets/0_base.stl", "assets/notes.txt"):
        (out / name).write_text("old")
    MjcfGenerator("arm", URDF, out, packages=package).generate_mjcf_string()
    assert (out / "arm.urdf").read_text() != "old"
    assert (out / "assets" / "notes.txt").read_text() == "old"


@pytest.mark.parametrize("inside", ["", "out"])
def test_unwritable_output_dir_is_named(tmp_path, package, inside):
    folder = tmp_path / "ro"
    folder.mkdir(mode=0o555)
    if os.geteuid() == 0:
        folder = Path("/proc/self")  # where even root cannot write
    with pytest.raises(ModelError, match=rf"output_dir {folder / inside}: cannot be written"):
        MjcfGenerator("arm", URDF, folder / inside, packages=package)


def test_output_dir_below_a_file_is_named(tmp_path, package):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"output_dir .*file/out: cannot be written"):
        MjcfGenerator("arm", URDF, tmp_path / "file" / "out", packages=package)


# ---- bad input


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<robot>", "not well-formed XML at line 1, column"),
        ("", "not well-formed"),
        ("<mujoco/>", "expected the root element <robot>, got <mujoco>"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><robot name="&a;"/>', "declares XML entities"),
        ('<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><robot>&a;</robot>', "declares XML entities"),
    ],
)
def test_bad_xml_is_refused(tmp_path, text, message):
    with pytest.raises(ModelError, match=message):
        MjcfGenerator("arm", text, tmp_path / "out")


def test_unknown_package_names_it_and_the_places_searched(tmp_path):
    with pytest.raises(ModelError, match=r"link 'base_link'.*package 'arm' was not found; searched .*ROS_PACKAGE_PATH"):
        MjcfGenerator("arm", URDF, tmp_path / "out", urdf_path=tmp_path / "x.urdf")


def test_missing_mesh_names_link_and_path_and_can_be_skipped(tmp_path):
    packages = {"arm": tmp_path / "ws"}
    with pytest.raises(ModelError, match=r"link 'base_link'.*meshes/base\.stl"):
        MjcfGenerator("arm", URDF, tmp_path / "out", packages=packages)
    generator = MjcfGenerator("arm", URDF, tmp_path / "out", packages=packages, missing_assets="skip")
    assert [note.link for note in generator.report.of("dropped")] == ["base_link"]
    assert generator.create_mj_model_data()[0].nmesh == 0


@pytest.mark.parametrize("form", ["package:///arm/meshes/base.stl", "package://arm/meshes/base.stl"])
@pytest.mark.parametrize("variable", ["ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", None])
def test_packages_are_found_in_every_place(tmp_path, package, monkeypatch, form, variable):
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    (package["arm"] / "package.xml").write_text("<package><name>arm</name></package>")
    urdf_path = tmp_path / "other" / "arm.urdf"
    if variable == "ROS_PACKAGE_PATH":
        monkeypatch.setenv(variable, f"/nowhere:{tmp_path / 'ws'}")
    elif variable == "AMENT_PREFIX_PATH":
        (tmp_path / "prefix" / "share").mkdir(parents=True)
        package["arm"].rename(tmp_path / "prefix" / "share" / "arm")
        monkeypatch.setenv(variable, str(tmp_path / "prefix"))
    else:
        urdf_path = package["arm"] / "urdf" / "arm.urdf"
    text = URDF.replace("package://arm/meshes/base.stl", form)
    assert MjcfGenerator("arm", text, tmp_path / "out", urdf_path=urdf_path).create_mj_model_data()[0].nmesh == 1


def test_packages_are_found_with_rospkg(tmp_path, package, monkeypatch):
    """ROS_ROOT is a place that only rospkg looks at."""
    for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(variable, raising=False)
    (package["arm"] / "package.xml").write_text("<package><name>arm</name></package>")
    monkeypatch.setenv("ROS_ROOT", str(tmp_path / "ws"))
    generator = MjcfGenerator("arm", URDF, tmp_path / "out", urdf_path=tmp_path / "arm.urdf")
    assert generator.create_mj_model_data()[0].nmesh == 1
    with pytest.raises(ModelError, match="package 'leg' was not found"):
        MjcfGenerator("arm", URDF.replace("//arm/", "//leg/"), tmp_path / "out", urdf_path=tmp_path / "arm.urdf")
    monkeypatch.setitem(sys.modules, "rospkg", None)  # as where it is not installed
    with pytest.raises(ModelError, match="package 'arm' was not found"):
        MjcfGenerator("arm", URDF, tmp_path / "out", urdf_path=tmp_path / "arm.urdf")
