"""merge_xml: what matches is extended, what is new is appended, and a fragment's own conventions stay its own."""
# ruff: noqa: E501  (XML in one piece)

import math

import mujoco
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.mjcf.test_generator import write_tetrahedron
from tests.mjcf.urdfs import ROBOT, fragment
from tests.reference import merge as reference
from xbot2_fast.mjcf import MjcfGenerator, ModelError
from xbot2_fast.mjcf.merge import Merger


@pytest.fixture
def generator(tmp_path):
    return MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "out")


def compiled(generator) -> mujoco.MjModel:
    return generator.create_mj_model_data()[0]


def names(elements) -> list[str]:
    return [element.get("name") for element in elements]


@pytest.mark.requirement("S0-106", "S0-119", "S0-120")
def test_text_and_files_are_merged(generator, tmp_path):
    generator.merge_xml(fragment('<worldbody><geom name="a" size="1"/></worldbody>'))
    (tmp_path / "world.xml").write_text(fragment('<worldbody><geom name="b" size="1"/></worldbody>'))
    generator.merge_xml(tmp_path / "world.xml")
    model = compiled(generator)
    assert model.geom("a").bodyid == 0
    assert model.geom("b").bodyid == 0
    with pytest.raises(TypeError, match=r"expected XML text \(str\) or a pathlib.Path, got bytes"):
        generator.merge_xml(b"<mujoco/>")


@pytest.mark.requirement("S0-107")
def test_every_section_of_mjcf_is_accepted(generator):
    generator.merge_xml(fragment("""
      <compiler boundmass="1e-6"/><option timestep="0.003"/><size memory="10M"/><statistic extent="3"/>
      <visual><global fovy="50"/></visual><default><geom friction="0.5"/></default><custom><numeric name="n" data="1"/></custom>
      <asset><material name="m"/></asset><worldbody><geom name="g" size="1"/></worldbody>
      <contact><exclude body1="base_link" body2="fl_hip_link"/></contact>
      <equality><joint joint1="fl_hip"/></equality><tendon><fixed name="t"><joint joint="fl_hip" coef="1"/></fixed></tendon>
      <actuator><motor name="a" joint="fl_hip"/></actuator><sensor><jointpos name="s" joint="fl_hip"/></sensor>
      <keyframe><key name="k"/></keyframe>"""))  # fmt: skip
    model = compiled(generator)
    counts = (model.nnumeric, model.nmat, model.nexclude, model.neq, model.ntendon, model.nu, model.nsensor, model.nkey)
    assert counts == (1,) * 8
    assert model.opt.timestep == 0.003
    assert model.stat.extent == 3


@pytest.mark.requirement("S0-121", "S0-122", "S0-123", "S0-124")
def test_matching_elements_are_extended_and_new_ones_appended(generator):
    generator.merge_xml(fragment('<worldbody><body name="base_link"><site name="s" size="0.1"/></body></worldbody>'))
    generator.merge_xml(fragment('<worldbody><body name="other"><geom name="g" size="0.1"/></body></worldbody>'))
    generator.merge_xml(fragment('<worldbody><body name="other"><site name="s2" size="0.1"/></body></worldbody>'))
    generator._finalize_xml()
    bodies = generator._tree.find("worldbody").findall("body")
    assert names(bodies) == ["base_link", "other"]
    assert names(bodies[1]) == ["g", "s2"]
    assert len(generator._tree.findall("worldbody")) == 1


@pytest.mark.requirement("S0-125")
def test_defaults_match_by_class(generator):
    generator.merge_xml(fragment('<default><default class="c"><geom group="3"/></default></default>'))
    generator.merge_xml(
        fragment('<default class="main"><default class="c"><geom rgba="1 0 0 1"/><site group="2"/></default></default>')
    )
    generator._finalize_xml()
    (top,) = generator._tree.findall("default")
    (c,) = top.findall("default")
    assert dict(c.find("geom").attrib) == {"group": "3", "rgba": "1 0 0 1"}
    assert len(c) == 2
    compiled(generator)


@pytest.mark.requirement("S0-126", "S0-127", "S0-129")
def test_leaf_of_the_same_identity_is_merged_and_later_attributes_win(generator):
    generator.merge_xml(fragment('<option timestep="0.001"/><actuator><motor name="a" joint="fl_hip" gear="2"/></actuator>'
                                 '<sensor><jointpos name="s" joint="fl_hip"/></sensor>'))  # fmt: skip
    generator.merge_xml(fragment('<option iterations="7"/><actuator><motor name="a" joint="fl_hip" gear="3"/></actuator>'
                                 '<sensor><jointpos name="s" joint="fl_knee"/></sensor>'))  # fmt: skip
    model = compiled(generator)
    assert (model.opt.timestep, model.opt.iterations) == (0.001, 7)
    assert (model.nu, model.nsensor) == (1, 1)
    assert model.actuator("a").gear[0] == 3
    assert model.sensor("s").objid == model.joint("fl_knee").id


@pytest.mark.requirement("S0-128")
def test_excludes_and_pairs_match_by_what_they_name(generator):
    generator.merge_xml(fragment('<worldbody><geom name="a" size="1"/><body name="x"><geom name="b" size="1"/></body></worldbody>'
                                 '<contact><exclude body1="base_link" body2="fl_shank_link"/>'
                                 '<pair geom1="a" geom2="b" condim="1"/></contact>'))  # fmt: skip
    generator.merge_xml(fragment('<contact><exclude body1="fl_shank_link" body2="base_link"/>'
                                 '<exclude body1="base_link" body2="x"/><pair geom1="a" geom2="b" condim="3"/></contact>'))  # fmt: skip
    model = compiled(generator)
    assert (model.nexclude, model.npair) == (2, 1)
    assert model.pair_dim[0] == 3


def test_nested_bodies_are_extended_wherever_they_are(generator):
    generator.merge_xml(
        fragment('<worldbody><body name="fl_shank_link"><site name="foot" size="0.1"/></body></worldbody>')
    )
    generator.merge_xml(fragment('<worldbody><body name="new"><body name="fl_hip_link"><site name="hip" size="0.1"/></body>'
                                 "</body></worldbody>"))  # fmt: skip
    model = compiled(generator)
    assert model.body(model.site("foot").bodyid[0]).name == "fl_shank_link"
    assert model.body(model.site("hip").bodyid[0]).name == "fl_hip_link"
    assert model.body("fl_hip_link").parentid == model.body("base_link").id


def test_a_new_orientation_replaces_one_in_another_notation(generator):
    generator.merge_xml(fragment('<worldbody><geom name="g" size="1" quat="0 1 0 0"/></worldbody>'))
    generator.merge_xml(fragment('<worldbody><geom name="g" euler="0 0 0.5"/></worldbody>'))
    np.testing.assert_allclose(compiled(generator).geom("g").quat, [math.cos(0.25), 0, 0, math.sin(0.25)])


def test_unnamed_elements_are_always_new(generator):
    world = fragment('<worldbody><geom size="1"/><geom size="1"/><body><geom size="1"/></body></worldbody>')
    before = compiled(generator).ngeom
    generator.merge_xml(world)
    generator.merge_xml(world)
    assert compiled(generator).ngeom == before + 6


# ---- conventions of a fragment


def test_degrees_of_a_fragment_do_not_touch_the_robot(generator):
    generator.merge_xml(fragment('<compiler angle="degree"/><worldbody><body name="door">'
                                 '<joint name="hinge" range="-90 90" ref="10"/><joint name="rail" type="slide" range="-1 1"/>'
                                 '<geom name="g" type="box" size="1 1 1" euler="0 0 90"/><site name="s" axisangle="0 0 1 90"/>'
                                 "</body></worldbody>"))  # fmt: skip
    model = compiled(generator)
    np.testing.assert_allclose(model.joint("hinge").range, [-math.pi / 2, math.pi / 2])
    np.testing.assert_allclose(model.joint("hinge").qpos0, [math.radians(10)])
    np.testing.assert_allclose(model.joint("rail").range, [-1, 1])
    np.testing.assert_allclose(model.joint("fl_hip").range, [-1, 1])
    half = math.sqrt(0.5)
    np.testing.assert_allclose(model.geom("g").quat, [half, 0, 0, half])
    np.testing.assert_allclose(model.site("s").quat, [half, 0, 0, half])


def test_degrees_in_defaults_follow_the_joint_type_of_the_class(generator):
    generator.merge_xml(fragment('<compiler angle="degree"/><default><default class="h"><joint range="-90 90"/></default>'
                                 '<default class="p"><joint type="slide" range="-2 2"/></default></default>'
                                 '<worldbody><body><joint name="h" class="h"/><joint name="p" class="p"/>'
                                 '<geom size="1"/></body></worldbody>'))  # fmt: skip
    model = compiled(generator)
    np.testing.assert_allclose(model.joint("h").range, [-math.pi / 2, math.pi / 2])
    np.testing.assert_allclose(model.joint("p").range, [-2, 2])


@pytest.mark.parametrize("sequence", ["XYZ", "zyx", "ZXZ", "xYz"])
def test_eulerseq_of_a_fragment_is_translated(generator, sequence):
    geom = '<geom name="g" size="1" type="box" euler="0.1 0.2 0.3"/>'
    alone = mujoco.MjModel.from_xml_string(fragment(
        f'<compiler angle="radian" eulerseq="{sequence}"/><worldbody>{geom}</worldbody>'.replace('size="1"', 'size="1 1 1"')))  # fmt: skip
    generator.merge_xml(fragment(
        f'<compiler angle="radian" eulerseq="{sequence}"/><worldbody>{geom}</worldbody>'.replace('size="1"', 'size="1 1 1"')))  # fmt: skip
    generator.merge_xml(fragment('<worldbody><geom name="h" type="box" size="1 1 1" euler="0.1 0.2 0.3"/></worldbody>'))
    model = compiled(generator)
    np.testing.assert_allclose(model.geom("g").quat, alone.geom("g").quat, atol=1e-15)
    assert sequence == "xyz" or not np.allclose(model.geom("h").quat, model.geom("g").quat)


def test_autolimits_off_in_a_fragment_leaves_the_robot_limited(generator):
    generator.merge_xml(fragment('<compiler autolimits="false"/>'))
    assert compiled(generator).joint("fl_hip").limited[0] == 1


def test_global_coordinates_are_refused(generator):
    with pytest.raises(ModelError, match="no longer has global coordinates"):
        generator.merge_xml(fragment('<compiler coordinate="global"/>'))


# ---- files of a fragment


def world_with_mesh(folder, meshdir="meshes", size=1.0):
    write_tetrahedron(folder / meshdir / "rock.stl")
    path = folder / "world.xml"
    path.write_text(fragment(f'<compiler meshdir="{meshdir}"/><asset><mesh name="{folder.name}" file="rock.stl"/></asset>'
                             f'<worldbody><geom type="mesh" mesh="{folder.name}"/></worldbody>'))  # fmt: skip
    return path


def test_two_worlds_with_the_same_file_name_keep_their_own_files(generator, tmp_path):
    for name, heights in (("one", "0 0 0 1"), ("two", "5 5 5 6")):
        (tmp_path / name).mkdir()
        values = np.array(heights.split(), np.float32)
        (tmp_path / name / "h.bin").write_bytes(np.array([2, 2], np.int32).tobytes() + values.tobytes())
        (tmp_path / name / "world.xml").write_text(fragment(
            f'<asset><hfield name="{name}" file="h.bin" content_type="image/vnd.mujoco.hfield" size="1 1 1 1"/></asset>'
            f'<worldbody><geom type="hfield" hfield="{name}"/></worldbody>'))  # fmt: skip
        generator.merge_xml(tmp_path / name / "world.xml")
    stored = sorted(path.name for path in (tmp_path / "out" / "assets").iterdir())
    assert stored == ["0_h.bin", "1_h.bin"]


def test_meshdir_of_a_fragment_is_its_own(generator, tmp_path):
    generator.merge_xml(world_with_mesh(tmp_path / "a"))
    generator.merge_xml(world_with_mesh(tmp_path / "b", meshdir="deep/er"))
    assert compiled(generator).nmesh == 2


def test_includes_are_relative_to_their_own_file(generator, tmp_path):
    world_with_mesh(tmp_path / "parts" / "inner")
    (tmp_path / "parts" / "mid.xml").write_text(fragment('<include file="inner/floor.xml"/><option timestep="0.005"/>'))
    (tmp_path / "parts" / "inner" / "floor.xml").write_text(
        fragment('<worldbody><geom name="floor" size="1"/></worldbody>')
    )
    (tmp_path / "world.xml").write_text(fragment('<include file="parts/mid.xml"/>'))
    generator.merge_xml(tmp_path / "world.xml")
    model = compiled(generator)
    assert model.geom("floor").bodyid == 0
    assert model.opt.timestep == 0.005


def test_an_include_of_itself_and_a_missing_one_are_refused(generator, tmp_path):
    (tmp_path / "loop.xml").write_text(fragment('<include file="loop.xml"/>'))
    with pytest.raises(ModelError, match=r"loop\.xml includes itself"):
        generator.merge_xml(tmp_path / "loop.xml")
    with pytest.raises(ModelError, match=r"nothing\.xml: cannot be read"):
        generator.merge_xml(fragment('<include file="nothing.xml"/>'))


def test_directories_of_an_included_file_are_its_own(generator, tmp_path):
    """Two included files in folders of their own, each with its meshdir, and a main file with another."""
    for folder, size in (("a/m", 1), ("b/m", 2), ("main", 3)):
        (tmp_path / folder).mkdir(parents=True)
        trimesh.creation.box((size, size, size)).export(tmp_path / folder / "x.stl")
    for name in "ab":
        mesh = f'<compiler meshdir="m"/><asset><mesh name="{name}" file="x.stl"/></asset>'
        (tmp_path / name / "part.xml").write_text(fragment(mesh))
    geoms = "".join(f'<geom name="{name}" type="mesh" mesh="{name}"/>' for name in ("a", "b", "main"))
    (tmp_path / "w.xml").write_text(
        fragment(
            '<compiler meshdir="main"/><include file="a/part.xml"/><include file="b/part.xml"/>'
            f'<asset><mesh name="main" file="x.stl"/></asset><worldbody>{geoms}</worldbody>'
        )
    )
    generator.merge_xml(tmp_path / "w.xml")
    model = generator.create_mj_model_data()[0]
    assert [model.geom(name).size[0] * 2 for name in ("a", "b", "main")] == pytest.approx([1, 2, 3])


def test_included_settings_hold_for_the_including_file(generator, tmp_path):
    (tmp_path / "meshes").mkdir()
    trimesh.creation.box((1, 1, 1)).export(tmp_path / "meshes" / "x.stl")
    (tmp_path / "settings.xml").write_text(fragment('<compiler meshdir="meshes"/>'))
    text = '<include file="settings.xml"/><asset><mesh file="x.stl"/></asset><worldbody><geom type="mesh" mesh="x"/></worldbody>'
    (tmp_path / "w.xml").write_text(fragment(text))
    generator.merge_xml(tmp_path / "w.xml")
    assert generator.create_mj_model_data()[0].nmesh == 1


def test_includes_that_multiply_are_refused(generator, tmp_path):
    """Twelve files, each of which includes the next ten times: 10^12 elements."""
    for k in range(12):
        (tmp_path / f"{k}.xml").write_text(fragment(f'<include file="{k + 1}.xml"/>' * 10))
    (tmp_path / "12.xml").write_text(fragment(""))
    with pytest.raises(ModelError, match="more than 1000 files"):
        generator.merge_xml(tmp_path / "0.xml")


def test_missing_files_are_listed_together_and_can_be_skipped(tmp_path):
    world = fragment('<asset><mesh name="a" file="a.stl"/><hfield name="b" file="b.png" size="1 1 1 1"/></asset>'
                     '<worldbody><geom type="mesh" mesh="a"/><geom type="hfield" hfield="b"/><geom size="1"/></worldbody>')  # fmt: skip
    (tmp_path / "world.xml").write_text(world)
    strict = MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "strict")
    with pytest.raises(ModelError, match=r"(?s)a\.stl.*b\.png"):
        strict.merge_xml(tmp_path / "world.xml")
    lenient = MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "lenient", missing_assets="skip")
    before = compiled(lenient).ngeom
    lenient.merge_xml(tmp_path / "world.xml")
    assert compiled(lenient).ngeom == before + 1
    assert len(lenient.report.of("dropped")) == 2


def test_malformed_fragments_name_file_line_and_column(generator, tmp_path):
    (tmp_path / "bad.xml").write_text("<mujoco>\n  <option>\n</mujoco>")
    with pytest.raises(ModelError, match=r"bad\.xml: not well-formed XML at line 3, column"):
        generator.merge_xml(tmp_path / "bad.xml")
    with pytest.raises(ModelError, match=r"none\.xml: cannot be read: No such file"):
        generator.merge_xml(tmp_path / "none.xml")
    with pytest.raises(ModelError, match="expected the root element <mujoco>, got <robot>"):
        generator.merge_xml("<robot/>")


# ---- laws

_LEAF = st.builds(
    lambda tag, name, value: f'<{tag} {f"name={name!r} " if name else ""}group="{value}"/>',
    st.sampled_from(["geom", "site"]), st.sampled_from(["a", "b", "c", None]), st.integers(0, 5),
)  # fmt: skip
_BODY = st.recursive(
    st.lists(_LEAF, max_size=3).map("".join),
    lambda inner: st.tuples(st.sampled_from(["p", "q"]), inner, st.lists(_LEAF, max_size=2).map("".join)).map(
        lambda t: f"<frame name='{t[0]}'>{t[1]}</frame>{t[2]}"
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_BODY, min_size=1, max_size=4))
def test_equals_the_obvious_merge(fragments):
    tree = etree.fromstring("<mujoco><worldbody/></mujoco>")
    plain = etree.fromstring("<mujoco><worldbody/></mujoco>")
    merger = Merger(tree)
    for text in fragments:
        merger.merge(etree.fromstring(fragment(f"<worldbody>{text}</worldbody>")))
        reference.merge(plain, etree.fromstring(fragment(f"<worldbody>{text}</worldbody>")))
    assert etree.tostring(tree) == etree.tostring(plain)
