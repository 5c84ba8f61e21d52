"""The terrain scanner: what its documentation says, fact by fact."""

import dataclasses
import math
import sys
import threading
import time
import tracemalloc

import mujoco
import numpy as np
import pytest

from tests.reference import terrain_scan as reference
from xbot2_fast.terrain_scan import TerrainScanner

SEED_MODEL = """<mujoco>
<default>
  <default class="robot_visual"><geom group="0" contype="0" conaffinity="0"/></default>
  <default class="robot_collision"><geom group="1"/></default>
</default>
<worldbody>
  <geom name="terrain" type="plane" size="10 10 0.1" group="2"/>
  <body name="base_link" pos="0 0 0.5"><freejoint/>
    <geom name="shell" class="robot_visual" type="box" size="0.2 0.1 0.1"/>
    <geom class="robot_collision" type="box" size="0.2 0.1 0.1"/>
    <body name="leg" pos=".3 0 0"><joint/><geom name="foot" class="robot_collision" size=".05"/></body>
  </body>
  {}
</worldbody></mujoco>"""


def _make(extra="", **options):
    model = mujoco.MjModel.from_xml_string(SEED_MODEL.format(extra))
    return model, mujoco.MjData(model), TerrainScanner(model, "base_link", **options)


def _turned(data, *, axis=(0, 0, 1), angle=0.0, pos=None):
    quat = np.empty(4)
    mujoco.mju_axisAngle2Quat(quat, np.array(axis, float), angle)
    data.qpos[3:7] = quat
    if pos is not None:
        data.qpos[:3] = pos


def _same(a, b):
    np.testing.assert_array_equal(np.ascontiguousarray(a).view(np.int64), np.ascontiguousarray(b).view(np.int64))


# ---- a scan that can see nothing


def _floor_in(group, **options):
    """A scan over the plane in this group."""
    model = mujoco.MjModel.from_xml_string(SEED_MODEL.format(""))
    model.geom("terrain").group = group
    return TerrainScanner(model, "base_link", **options).scan(mujoco.MjData(model))


def test_a_floor_that_rays_cannot_see_is_named_when_the_scanner_is_made(caplog):
    scan = _floor_in(0)
    assert np.isnan(scan.heights).all()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "terrain (group 0)" in record.message
    assert "Every height will be NaN" in record.message


@pytest.mark.parametrize(("group", "options"), [(2, {}), (0, {"exclude": "subtree"})])
def test_a_floor_that_rays_can_see_needs_no_warning(caplog, group, options):
    assert _floor_in(group, **options).valid.all()
    assert not caplog.records


# ---- the seed's example


@pytest.mark.requirement("S0-171", "S0-172", "S0-174", "S0-176", "S0-180", "S0-196", "S0-198")
def test_the_seed_s_model_sees_its_plane_at_height_zero():
    model = mujoco.MjModel.from_xml_string(SEED_MODEL.format(""))
    scanner = TerrainScanner(
        model, robot_body="base_link", shape=(17, 11), spacing=(0.1, 0.1), z_offset=2.0, max_distance=5.0,
        excluded_geom_groups=(0, 1),
    )  # fmt: skip
    scan = scanner.scan(mujoco.MjData(model))
    assert scan.heights.shape == scan.geom_ids.shape == (17, 11)
    np.testing.assert_array_equal(scan.heights, 0.0)
    np.testing.assert_array_equal(scan.geom_ids, model.geom("terrain").id)
    assert scan.valid.all()
    assert model.nsensor == 0


@pytest.mark.requirement("S0-198", "S0-199")
def test_defaults_are_those_of_the_seed():
    _, _, scanner = _make()
    assert (scanner.shape, scanner.spacing, scanner.z_offset) == ((17, 11), (0.1, 0.1), 2.0)
    assert (scanner.max_distance, scanner.excluded_geom_groups) == (5.0, (0, 1))
    assert (scanner.exclude, scanner.method) == ("groups", "indexed")


def test_a_scan_is_frozen_and_its_arrays_are_its_own():
    _, data, scanner = _make()
    first = scanner.scan(data)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.time = 3.0
    before = first.x.copy(), first.heights.copy(), first.center.copy(), first.rotation.copy()
    data.qpos[:3] += 1
    scanner.scan(data)
    for kept, was in zip((first.x, first.heights, first.center, first.rotation), before, strict=True):
        _same(kept, was)


# ---- the grid


@pytest.mark.requirement("S0-211", "S0-218", "S0-219", "S0-220", "S0-221", "S0-228", "S0-230")
@pytest.mark.parametrize("shape", [(17, 11), (4, 2), (1, 1), (2, 5)])
def test_the_grid_is_centred_and_symmetric_about_the_body(shape):
    _, data, scanner = _make(shape=shape, spacing=(0.2, 0.05))
    _turned(data, pos=(1.5, -2.5, 0.7))
    scan = scanner.scan(data)
    np.testing.assert_array_equal(scan.center, [1.5, -2.5, 0.7])
    ahead = (np.arange(shape[0]) - (shape[0] - 1) / 2) * 0.2
    aside = (np.arange(shape[1]) - (shape[1] - 1) / 2) * 0.05
    np.testing.assert_allclose(scan.x, np.tile(1.5 + ahead[:, None], (1, shape[1])), atol=1e-12)
    np.testing.assert_allclose(scan.y, np.tile(-2.5 + aside, (shape[0], 1)), atol=1e-12)
    has_centre = any(np.allclose([a, b], [1.5, -2.5]) for a, b in zip(scan.x.ravel(), scan.y.ravel(), strict=True))
    assert has_centre == (shape[0] % 2 == 1 and shape[1] % 2 == 1)


@pytest.mark.requirement("S0-212", "S0-213", "S0-214")
@pytest.mark.parametrize("yaw", [0.3, 2.0, -3.0])
def test_the_grid_follows_the_yaw(yaw):
    _, data, scanner = _make()
    _turned(data, angle=yaw)
    scan = scanner.scan(data)
    forward = np.array([scan.x[-1, 5] - scan.x[0, 5], scan.y[-1, 5] - scan.y[0, 5]])
    lateral = np.array([scan.x[8, -1] - scan.x[8, 0], scan.y[8, -1] - scan.y[8, 0]])
    np.testing.assert_allclose(forward, 1.6 * np.array([math.cos(yaw), math.sin(yaw)]), atol=1e-12)
    np.testing.assert_allclose(lateral, 1.0 * np.array([-math.sin(yaw), math.cos(yaw)]), atol=1e-12)


@pytest.mark.requirement("S0-215", "S0-216", "S0-222", "S0-223")
def test_roll_and_pitch_tilt_neither_grid_nor_rays():
    model, data, scanner = _make('<geom type="box" size=".3 .3 .1" group="2"/>')
    level = scanner.scan(data)
    roll, pitch, quat = np.empty(4), np.empty(4), np.empty(4)
    mujoco.mju_axisAngle2Quat(roll, np.array([1.0, 0, 0]), 0.7)
    mujoco.mju_axisAngle2Quat(pitch, np.array([0, 1.0, 0]), -0.4)
    mujoco.mju_mulQuat(quat, pitch, roll)
    data.qpos[3:7] = quat
    tilted = scanner.scan(data)
    np.testing.assert_allclose(tilted.x, level.x, atol=1e-12)
    np.testing.assert_allclose(tilted.y, level.y, atol=1e-12)
    np.testing.assert_array_equal(tilted.geom_ids, level.geom_ids)
    assert tilted.ray_start_height == level.ray_start_height
    mat = np.empty(9)
    mujoco.mju_quat2Mat(mat, quat)
    np.testing.assert_allclose(tilted.rotation, mat.reshape(3, 3), atol=1e-12)


@pytest.mark.requirement("S0-217")
@pytest.mark.parametrize("angle", [math.pi / 2, -math.pi / 2])
def test_a_vertical_x_axis_falls_back_to_world_x(angle):
    _, data, scanner = _make()
    level = scanner.scan(data)
    _turned(data, axis=(0, 1, 0), angle=angle)
    scan = scanner.scan(data)
    _same(scan.x, level.x)
    _same(scan.y, level.y)


# ---- the rays


@pytest.mark.requirement("S0-222", "S0-231", "S0-232")
def test_time_and_start_height_are_recorded():
    _, data, scanner = _make(z_offset=0.25)
    data.time = 12.5
    data.qpos[2] = 0.75
    scan = scanner.scan(data)
    assert (scan.time, scan.ray_start_height) == (12.5, 1.0)


@pytest.mark.requirement("S0-224", "S0-233", "S0-234", "S0-235", "S0-229", "S0-230")
def test_rays_end_at_the_maximum_distance():
    _, data, scanner = _make(
        '<geom name="table" type="box" size=".2 .2 .05" pos="0 0 .2" group="2"/>', max_distance=2.3
    )
    scan = scanner.scan(data)
    table = (np.abs(scan.x) <= 0.2) & (np.abs(scan.y) <= 0.2)
    np.testing.assert_array_equal(scan.valid, table)
    np.testing.assert_allclose(scan.heights[table], 0.25, atol=1e-12)
    assert np.isnan(scan.heights[~table]).all()
    assert (scan.geom_ids[~table] == -1).all()
    assert np.isfinite(scan.x).all()
    assert np.isfinite(scan.y).all()


def test_a_surface_just_at_the_maximum_distance_is_hit():
    _, data, scanner = _make(z_offset=2.0, max_distance=2.5)
    assert scanner.scan(data).valid.all()
    data.qpos[2] = 0.5 + 1e-12
    assert not scanner.scan(data).valid.any()


@pytest.mark.requirement("S0-226", "S0-227")
def test_the_first_surface_below_the_start_height_wins():
    roof = '<geom type="box" size="9 9 .1" pos="0 0 2" group="2"/>'
    _, data, scanner = _make(roof)
    np.testing.assert_allclose(scanner.scan(data).heights, 2.1, atol=1e-12)
    _, data, scanner = _make(roof, z_offset=1.0)  # starts below the roof
    np.testing.assert_array_equal(scanner.scan(data).heights, 0.0)


@pytest.mark.requirement("S0-227", "S0-228")
def test_heights_are_indexed_forward_then_lateral():
    ramp = '<geom type="box" size="2 2 .1" pos="2.2 0 .3" group="2"/>'
    ramp += '<geom type="box" size="2 2 .1" pos="0 2.2 .5" group="2"/>'
    _, data, scanner = _make(ramp)
    heights = scanner.scan(data).heights
    np.testing.assert_allclose(heights[-1, 0], 0.4, atol=1e-12)  # ahead, to the right
    np.testing.assert_allclose(heights[0, -1], 0.6, atol=1e-12)  # behind, to the left
    assert heights[0, 0] == 0.0


@pytest.mark.requirement("S0-205", "S0-206", "S0-207", "S0-208", "S0-209", "S0-210")
def test_a_scan_uses_the_current_qpos_and_writes_nothing():
    model, data, scanner = _make('<body mocap="true"><geom size=".1" group="2"/></body>')
    data.qvel[:] = 0.1
    data.xfrc_applied[:] = 0.2
    mujoco.mj_step(model, data)
    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, state, spec)
    derived = data.xpos.copy(), data.geom_xpos.copy(), data.qfrc_applied.copy()
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    scan = scanner.scan(data)
    np.testing.assert_array_equal(scan.center, data.qpos[:3])
    assert not np.array_equal(data.xpos[model.body("base_link").id], data.qpos[:3])
    after = np.empty_like(state)
    mujoco.mj_getState(model, data, after, spec)
    _same(after, state)
    for now, was in zip((data.xpos, data.geom_xpos, data.qfrc_applied), derived, strict=True):
        _same(now, was)
    again = np.empty_like(buffer)
    mujoco.mj_saveModel(model, None, again)
    np.testing.assert_array_equal(again, buffer)


@pytest.mark.requirement("S0-203", "S0-204")
def test_scans_between_steps_do_not_change_the_simulation():
    def final(scans):
        model, data, scanner = _make('<body pos="0 0 1"><freejoint/><geom size=".1" group="2"/></body>')
        for _ in range(50):
            mujoco.mj_step(model, data)
            if scans:
                scanner.scan(data)
        return data.qpos.copy()

    _same(final(True), final(False))


# ---- what is seen

KINDS = {
    "box": '<geom name="g" type="box" size=".2 .2 .2" group="3"/>',
    "sphere": '<geom name="g" size=".2" group="4"/>',
    "capsule": '<geom name="g" type="capsule" size=".2 .2" group="2"/>',
    "cylinder": '<geom name="g" type="cylinder" size=".2 .2" group="5"/>',
    "ellipsoid": '<geom name="g" type="ellipsoid" size=".2 .3 .2" group="2"/>',
    "mesh": '<geom name="g" type="mesh" mesh="m" group="2"/>',
    "sdf": '<geom name="g" type="sdf" mesh="m" group="2"/>',
    "hfield": '<geom name="g" type="hfield" hfield="h" group="2"/>',
}
ASSETS = """<asset><mesh name="m" vertex="-1 -1 -1  1 -1 -1  -1 1 -1  1 1 -1  0 0 1" scale=".3 .3 .2"/>
<hfield name="h" nrow="3" ncol="3" size=".3 .3 .2 .1" elevation="0 0 0  0 1 0  0 0 0"/></asset>"""


@pytest.mark.requirement("S0-237", "S0-238", "S0-239", "S0-240", "S0-241", "S0-176")
@pytest.mark.parametrize("how", ["static", "mocap", "free", "hinge"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_geom_is_seen_as_mj_ray_sees_it(kind, how):
    geom, inertial = KINDS[kind], '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    world = {
        "static": geom.replace("/>", ' pos=".1 0 .3"/>'),
        "mocap": f'<body mocap="true" pos=".1 0 .3">{geom}</body>',
        "free": f'<body pos=".1 0 .3"><freejoint/>{inertial}{geom}</body>',
        "hinge": f'<body pos=".1 0 .3"><joint axis="1 1 0"/>{inertial}{geom}</body>',
    }[how]
    xml = SEED_MODEL.format(world).replace("<worldbody>", ASSETS + "<worldbody>")
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    scanner = TerrainScanner(model, "base_link", spacing=(0.05, 0.05))
    for _ in range(3):
        scan = scanner.scan(data)
        x, y, heights, ids = reference.scan(model, data, "base_link", (17, 11), (0.05, 0.05), 2.0, 5.0, (0, 1))
        for got, expected in ((scan.x, x), (scan.y, y), (scan.heights, heights)):
            _same(got, expected)
        np.testing.assert_array_equal(scan.geom_ids, ids)
        assert (ids == model.geom("g").id).sum() > 10
        data.qpos[7:] += 0.07
        data.mocap_pos[:] += 0.07


@pytest.mark.requirement("S0-183", "S0-181", "S0-177")
def test_the_compiled_group_decides_and_the_scanner_changes_none():
    extra = '<geom name="hidden" type="box" size=".2 .2 .2" group="1"/>'
    extra += '<geom name="seen" type="box" size=".2 .2 .1" group="3"/>'
    model, data, scanner = _make(extra)
    groups = model.geom_group.copy()
    scan = scanner.scan(data)
    assert set(scan.geom_ids.ravel()) == {model.geom("terrain").id, model.geom("seen").id}
    np.testing.assert_array_equal(model.geom_group, groups)
    model.geom_group[model.geom("seen").id] = 0  # live
    assert set(scanner.scan(data).geom_ids.ravel()) == {model.geom("terrain").id}


@pytest.mark.requirement("S0-181")
def test_nested_default_classes_and_attributes_override_groups():
    xml = SEED_MODEL.replace(
        '<default class="robot_collision"><geom group="1"/></default>',
        '<default class="robot_collision"><geom group="1"/><default class="odd"><geom group="2"/></default></default>',
    ).replace('name="foot" class="robot_collision"', 'name="foot" class="odd"')
    model = mujoco.MjModel.from_xml_string(xml.format(""))
    with pytest.raises(ValueError, match=r"rays would see foot \(group 2\)"):
        TerrainScanner(model, "base_link")


@pytest.mark.requirement("S0-175", "S0-177")
def test_groups_of_the_viewer_are_independent_of_those_of_the_scan():
    model, data, scanner = _make()
    option = mujoco.MjvOption()
    expected = scanner.scan(data).heights
    for shown in (0, 1):
        option.geomgroup[:] = shown
        scene = mujoco.MjvScene(model, maxgeom=50)
        mujoco.mjv_updateScene(model, data, option, None, mujoco.MjvCamera(), mujoco.mjtCatBit.mjCAT_ALL, scene)
        assert (scene.ngeom > 0) == bool(shown)
        _same(scanner.scan(data).heights, expected)


@pytest.mark.requirement("S0-242")
def test_fully_transparent_geoms_are_skipped_live():
    model, data, scanner = _make('<geom name="box" type="box" size=".2 .2 .1" group="2" rgba="1 1 1 0"/>')
    assert set(scanner.scan(data).geom_ids.ravel()) == {model.geom("terrain").id}
    model.geom("box").rgba[3] = 0.01
    assert model.geom("box").id in scanner.scan(data).geom_ids


@pytest.mark.requirement("S0-182", "S0-199")
def test_a_robot_geom_that_rays_would_see_is_refused_by_name():
    model = mujoco.MjModel.from_xml_string(SEED_MODEL.format(""))
    model.geom("foot").group = 3
    message = r"'base_link' and its descendants in the excluded groups \(0, 1\), but rays would see foot \(group 3\)"
    with pytest.raises(ValueError, match=message):
        TerrainScanner(model, "base_link")
    TerrainScanner(model, "base_link", excluded_geom_groups=[0, 1, 3])


def test_exclude_subtree_hides_the_robot_alone_whatever_its_groups():
    obstacle = '<geom name="obstacle" type="box" size=".2 .2 .1" group="0"/>'
    model, data, scanner = _make(obstacle, exclude="subtree")
    model.geom_group[:] = np.arange(model.ngeom) % 6
    scanner = TerrainScanner(model, "base_link", exclude="subtree")
    scan = scanner.scan(data)
    assert set(scan.geom_ids.ravel()) == {model.geom("terrain").id, model.geom("obstacle").id}
    hidden = mujoco.MjModel.from_xml_string(SEED_MODEL.format(obstacle))
    for geom in ("shell", "foot", model.geom("shell").id + 1):
        hidden.geom(geom).rgba[3] = 0
    *_, heights, ids = reference.scan(hidden, data, "base_link", (17, 11), (0.1, 0.1), 2.0, 5.0, ())
    _same(scan.heights, heights)
    np.testing.assert_array_equal(scan.geom_ids, ids)
    every_ray = TerrainScanner(model, "base_link", exclude="subtree", method="mj_ray").scan(data)
    _same(every_ray.heights, heights)


def test_rebuild_sees_static_geoms_that_were_moved():
    model, data, scanner = _make('<geom name="box" type="box" size=".2 .2 .1" group="2" pos="5 0 0"/>')
    assert model.geom("box").id not in scanner.scan(data).geom_ids
    model.geom("box").pos[0] = 0.0
    model.geom("box").sameframe = 0
    scanner.rebuild()
    scan = scanner.scan(data)
    assert model.geom("box").id in scan.geom_ids
    _same(scan.heights, reference.scan(model, data, "base_link", (17, 11), (0.1, 0.1), 2.0, 5.0, (0, 1))[2])


def test_far_from_the_terrain_and_without_a_position_rays_go_through_mj_ray():
    model, data, scanner = _make('<geom type="ellipsoid" size=".3 .3 .3" group="2"/>', max_distance=math.inf)
    data.qpos[2] = 5e4
    scan = scanner.scan(data)
    expected = reference.scan(model, data, "base_link", (17, 11), (0.1, 0.1), 2.0, math.inf, (0, 1))
    _same(scan.heights, expected[2])
    data.qpos[0] = math.nan
    assert not scanner.scan(data).valid.any()


def test_an_empty_world_is_all_misses():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="b"><freejoint/><geom size=".1" group="1"/></body></worldbody></mujoco>'
    )
    assert not TerrainScanner(model, "b").scan(mujoco.MjData(model)).valid.any()


@pytest.mark.requirement("S0-236", "S0-225", "S0-243", "S0-244", "S0-173", "S0-280")
def test_the_documentation_states_the_rules_of_use():
    from pathlib import Path

    text = " ".join((Path(__file__).parents[1] / "docs" / "scanner.md").read_text().split())
    for words in (
        "group 0 for robot visuals and group 1 for robot collisions",
        "Choose the start height above the terrain of interest",
        "scan.heights - scan.center[2]",
        "scan.valid",
        "Keep group assignments unchanged",
        "a new scanner after recompiling the model",
        "scanner.rebuild()",
        "viewer.user_scn.ngeom = 0",
        "viewer.sync()",
        "viewer.lock()",
    ):
        assert words in text, words


def test_the_relative_observation_of_the_documentation():
    _, data, scanner = _make('<geom type="box" size=".3 .3 .05" group="2"/>', max_distance=2.48)
    scan = scanner.scan(data)
    observation = np.where(scan.valid, scan.heights - scan.center[2], -1.0)
    assert set(np.round(observation.ravel(), 6)) == {-0.45, -1.0}


# ---- bad input


@pytest.mark.requirement("S0-184")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"robot_body": "nobody"}, "robot_body: expected the name of a body of the model, got 'nobody'"),
        ({"robot_body": 3}, "robot_body: expected the name of a body of the model, got 3"),
        ({"robot_body": "world"}, "robot_body: expected the robot's root body, got 'world'"),
        ({"shape": (0, 3)}, r"shape: expected two integers >= 1, forward and lateral, got \(0, 3\)"),
        ({"shape": (3.0, 3)}, "shape: expected two integers"),
        ({"shape": (True, 3)}, "shape: expected two integers"),
        ({"shape": 5}, "shape: expected two integers >= 1, forward and lateral, got 5"),
        ({"shape": (1, 2, 3)}, "shape: expected two integers"),
        ({"shape": "17"}, "shape: expected two integers"),
        ({"spacing": (0.1, 0)}, "spacing: expected two finite positive numbers, forward and lateral, got 0"),
        ({"spacing": (math.inf, 0.1)}, "spacing: expected two finite positive numbers"),
        ({"spacing": ("a", 0.1)}, "spacing: expected two finite positive numbers"),
        ({"z_offset": math.nan}, "z_offset: expected a finite number, got nan"),
        ({"z_offset": "2"}, "z_offset: expected a finite number, got '2'"),
        ({"max_distance": 0}, "max_distance: expected a positive number, got 0"),
        ({"max_distance": math.nan}, "max_distance: expected a positive number, got nan"),
        ({"max_distance": True}, "max_distance: expected a positive number, got True"),
        (
            {"excluded_geom_groups": {0, 1}},
            r"excluded_geom_groups: expected a list or tuple of geom groups from 0 to 5",
        ),
        ({"excluded_geom_groups": (0, 6)}, r"excluded_geom_groups: .* got 6 in \(0, 6\)"),
        ({"excluded_geom_groups": (0, -1)}, r"excluded_geom_groups: .* got -1 in \(0, -1\)"),
        ({"excluded_geom_groups": [0, True]}, "excluded_geom_groups: .* got True in"),
        ({"excluded_geom_groups": (0, 1.0)}, "excluded_geom_groups: .* got 1.0 in"),
        ({"exclude": "robot"}, "exclude: expected 'groups' or 'subtree', got 'robot'"),
        ({"method": "fast"}, "method: expected 'indexed' or 'mj_ray', got 'fast'"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    model = mujoco.MjModel.from_xml_string(SEED_MODEL.format(""))
    with pytest.raises(ValueError, match=message):
        TerrainScanner(model, **{"robot_body": "base_link", **arguments})


def test_data_of_another_model_is_refused():
    _, data, _ = _make()
    _, _, scanner = _make()
    with pytest.raises(ValueError, match="data: expected an MjData of the scanner's model"):
        scanner.scan(data)


# ---- markers


@pytest.mark.requirement("S0-266", "S0-273", "S0-277")
def test_add_visuals_appends_a_sphere_at_each_hit():
    model, data, scanner = _make('<geom type="box" size=".3 .3 .05" group="2"/>', max_distance=2.48)
    scan = scanner.scan(data)
    scene = mujoco.MjvScene(model, maxgeom=500)
    scan.add_visuals(scene, radius=0.025, height_range=(-0.5, 0.5))
    assert scene.ngeom == scan.valid.sum() > 0
    hits = np.stack([scan.x, scan.y, scan.heights], -1)[scan.valid].astype(np.float32)
    np.testing.assert_array_equal([g.pos for g in scene.geoms[: scene.ngeom]], hits)


# ---- many robots


@pytest.mark.parametrize("nthread", [1, 2, 3, 7])
def test_a_batch_equals_single_scans(nthread):
    extra = '<geom type="box" size=".4 .3 .1" group="2" euler="10 5 0"/>'
    extra += '<body pos="0 0 1"><freejoint/><geom size=".2" group="2"/></body>'
    model, data, scanner = _make(extra)
    rng = np.random.default_rng(0)
    qpos = model.qpos0 + rng.normal(size=(20, model.nq)) * 0.2
    out, ids = np.empty((20, 17, 11)), np.empty((20, 17, 11), np.int32)
    assert scanner.scan_batch(model, qpos, out, ids, nthread=nthread) is out
    for k in range(20):
        data.qpos[:] = qpos[k]
        scan = scanner.scan(data)
        _same(out[k], scan.heights)
        np.testing.assert_array_equal(ids[k], scan.geom_ids)


def test_a_batch_is_scanned_without_the_gil():
    """With no forced switches another thread runs only while the batch has given the GIL up."""
    model, _, scanner = _make()
    qpos, out = np.tile(model.qpos0, (20_000, 1)), np.empty((20_000, 17, 11))
    events = []

    def work():
        events.append("starts")
        scanner.scan_batch(model, qpos, out, nthread=1)
        events.append("ends")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        while not events:
            time.sleep(0)
        events.append("meanwhile")
        thread.join()
    finally:
        sys.setswitchinterval(before)
    assert events == ["starts", "meanwhile", "ends"]
    np.testing.assert_array_equal(out, 0.0)


def test_a_batch_allocates_nothing_that_grows_with_it():
    model, _, scanner = _make()
    qpos, out = np.tile(model.qpos0, (2000, 1)), np.empty((2000, 17, 11))
    scanner.scan_batch(model, qpos, out, nthread=2)
    tracemalloc.start()
    scanner.scan_batch(model, qpos, out, nthread=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 < out.nbytes / 100


def test_an_empty_batch_is_fine_and_bad_batches_are_refused():
    model, _, scanner = _make()
    nq = model.nq
    scanner.scan_batch(model, np.empty((0, nq)), np.empty((0, 17, 11)))
    good, out = np.zeros((3, nq)), np.empty((3, 17, 11))
    other, _, _ = _make()
    fixed = np.empty((3, 17, 11))
    fixed.flags.writeable = False
    cases = [
        ((other, good, out), {}, "model: expected the scanner's own model"),
        ((model, np.zeros((3, nq - 1)), out), {}, rf"qpos: expected a float64 array of shape \(3, {nq}\)"),
        ((model, good.astype(np.float32), out), {}, "qpos: expected a float64 array"),
        ((model, None, out), {}, rf"qpos: expected a float64 array of shape \(nbatch, {nq}\), got NoneType"),
        ((model, good.tolist(), out), {}, r"qpos: expected a float64 array of shape .*, got list"),
        ((model, good[0], out), {}, rf"qpos: expected .* shape \(nbatch, {nq}\), got float64 \({nq},\)"),
        ((model, np.array(0.0), out), {}, r"qpos: expected a float64 array of shape .*, got float64 \(\)"),
        ((model, good, None), {}, r"out: expected a float64 array of shape \(3, 17, 11\), got NoneType"),
        ((model, np.asfortranarray(np.zeros((3, nq))), out), {}, "qpos: expected a C-contiguous array"),
        ((model, good, fixed), {}, "out: expected an array to write to, got a read-only one"),
        ((model, good, np.empty((3, 11, 17))), {}, r"out: expected a float64 array of shape \(3, 17, 11\)"),
        ((model, good, out, np.empty((3, 17, 11), np.int64)), {}, "geom_ids: expected a int32 array"),
        ((model, good, out), {"nthread": 0}, "nthread: expected an integer >= 1, got 0"),
    ]
    for arguments, options, message in cases:
        with pytest.raises(ValueError, match=message):
            scanner.scan_batch(*arguments, **options)
