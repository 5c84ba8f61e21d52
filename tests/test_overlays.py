"""Spheres of a terrain scan in a viewer's scene."""

import colorsys

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xbot2_fast import overlays
from xbot2_fast._kernels import _scan_markers

GRID = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(0, 1, 4), indexing="ij")
SET_BY_MUJOCO = [
    "type",
    "size",
    "pos",
    "mat",
    "rgba",
    "dataid",
    "matid",
    "texcoord",
    "emission",
    "specular",
    "shininess",
    "reflectance",
    "label",
]  # the members that mjv_initGeom sets


def _scene(maxgeom=100):
    model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size=".1"/></worldbody></mujoco>')
    return mujoco.MjvScene(model, maxgeom)


def _colors(scene):
    return np.array([g.rgba for g in scene.geoms[: scene.ngeom]])


@given(st.floats(-10, 10), st.floats(0.001, 10), st.lists(st.floats(-30, 30), min_size=1, max_size=20))
def test_colours_are_those_of_colorsys(low, span, heights):
    rgb = np.empty((len(heights), 3), np.float32)
    _scan_markers.colors(np.array(heights), low, low + span, rgb)
    part = np.clip((np.array(heights) - low) / (low + span - low), 0, 1)
    expected = [colorsys.hsv_to_rgb((1 - p) * 2 / 3, 0.7, 1.0) for p in part]
    np.testing.assert_allclose(rgb, expected, atol=1e-7, rtol=0)


@pytest.mark.requirement("S0-267", "S0-268", "S0-269", "S0-270", "S0-271")
def test_blue_lowest_green_midway_red_highest():
    scene = _scene()
    heights = np.linspace(0.2, 0.6, 5).reshape(1, 5)
    overlays.add_height_spheres(scene, heights, heights, heights)
    expected = [(0.3, 0.3, 1), (0.3, 1, 1), (0.3, 1, 0.3), (1, 1, 0.3), (1, 0.3, 0.3)]
    np.testing.assert_allclose(_colors(scene)[:, :3], expected, atol=1e-6)
    np.testing.assert_array_equal(_colors(scene)[:, 3], 1)


@pytest.mark.requirement("S0-272")
def test_flat_ground_is_green():
    scene = _scene()
    overlays.add_height_spheres(scene, *GRID, np.full((3, 4), 0.7))
    np.testing.assert_allclose(_colors(scene)[:, :3], np.tile([0.3, 1, 0.3], (12, 1)), atol=1e-7)


@pytest.mark.requirement("S0-278", "S0-279")
def test_a_given_range_fixes_the_scale_and_clamps():
    scene = _scene()
    heights = np.array([[-5.0, -0.5, 0.0, 0.5, 5.0]])
    overlays.add_height_spheres(scene, heights, heights, heights, height_range=(-0.5, 0.5))
    blue, green, red = (0.3, 0.3, 1), (0.3, 1, 0.3), (1, 0.3, 0.3)
    np.testing.assert_allclose(_colors(scene)[:, :3], [blue, blue, green, red, red], atol=1e-6)


@pytest.mark.requirement("S0-266", "S0-273", "S0-265")
def test_spheres_of_25_mm_at_the_hits_and_none_at_misses():
    scene = _scene()
    heights = np.arange(12.0).reshape(3, 4)
    heights[1, 2] = np.nan
    assert overlays.add_height_spheres(scene, *GRID, heights) == 11
    hits = np.stack([*GRID, heights], axis=-1).reshape(-1, 3)
    hits = hits[np.isfinite(hits[:, 2])]
    spheres = scene.geoms[: scene.ngeom]
    np.testing.assert_array_equal([g.pos for g in spheres], hits.astype(np.float32))
    np.testing.assert_array_equal([g.size for g in spheres], np.full((11, 3), 0.025, np.float32))


@pytest.mark.requirement("S0-280")
def test_markers_are_appended_behind_what_is_there():
    scene = _scene()
    scene.ngeom = 1
    mujoco.mjv_initGeom(
        scene.geoms[0], mujoco.mjtGeom.mjGEOM_BOX, np.ones(3), np.ones(3), np.eye(3).ravel(), np.ones(4)
    )
    overlays.add_height_spheres(scene, *GRID, np.zeros((3, 4)))
    assert scene.ngeom == 13
    assert scene.geoms[0].type == mujoco.mjtGeom.mjGEOM_BOX


@pytest.mark.requirement("S0-282")
@pytest.mark.parametrize(("maxgeom", "added"), [(0, 0), (1, 1), (11, 11), (12, 12), (13, 12)])
def test_the_scene_s_room_limits_them(maxgeom, added):
    scene = _scene(maxgeom)
    assert overlays.add_height_spheres(scene, *GRID, np.zeros((3, 4))) == added
    assert scene.ngeom == added


@pytest.mark.requirement("S0-281")
def test_a_sphere_is_all_that_mjv_initGeom_makes_of_it():
    scene, plain = _scene(4), _scene(4)
    for g in scene.geoms:  # what an earlier frame left in the slot must not show
        mujoco.mjv_initGeom(g, mujoco.mjtGeom.mjGEOM_ARROW, np.ones(3) * 9, np.ones(3) * 9, np.ones(9), np.ones(4))
        g.label, g.emission, g.objid, g.segid = "F=100 N", 0.5, 7, 3
    overlays.add_height_spheres(scene, [[1.0]], [[2.0]], [[3.0]], radius=0.1)
    rgba = scene.geoms[0].rgba
    mujoco.mjv_initGeom(
        plain.geoms[0], mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, 0.1), np.array([1.0, 2, 3]), np.eye(3).ravel(), rgba
    )
    for name in SET_BY_MUJOCO:
        np.testing.assert_array_equal(getattr(scene.geoms[0], name), getattr(plain.geoms[0], name), err_msg=name)
    assert scene.geoms[0].category == mujoco.mjtCatBit.mjCAT_DECOR
    assert scene.geoms[0].objid == -1
    assert scene.geoms[0].objtype == mujoco.mjtObj.mjOBJ_UNKNOWN
    assert scene.geoms[1].label == "F=100 N"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((2, 4))}, r"x, y, heights: expected one shape \(N, M\), got \(2, 4\), \(3, 4\), \(3, 4\)"),
        ({"radius": 0}, "radius: expected a positive number of metres, got 0"),
        ({"height_range": (1, 0)}, r"height_range: expected two finite heights, the lower first, got \(1, 0\)"),
        ({"height_range": (0, np.nan)}, "height_range: expected two finite heights"),
        ({"height_range": 3}, "height_range: expected two finite heights, the lower first, got 3"),
    ],
)
def test_bad_arguments_are_refused_by_name_and_add_nothing(arguments, message):
    scene = _scene()
    with pytest.raises(ValueError, match=message):
        overlays.add_height_spheres(scene, **{"x": GRID[0], "y": GRID[1], "heights": np.zeros((3, 4)), **arguments})
    assert scene.ngeom == 0
