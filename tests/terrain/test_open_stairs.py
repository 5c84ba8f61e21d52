"""The open stairs of the original system, plate by plate."""

import mujoco
import numpy as np
import pytest

from tests.terrain.kinds import compiled, ray_heights, world
from xbot2_fast.terrain import MeshOpenInvertedPyramidStairsTerrainCfg, MeshOpenPyramidStairsTerrainCfg

STAIRS = {
    "step_height_range": (0.10, 0.30),
    "step_width": 0.3,
    "platform_width": 3.0,
    "border_width": 1.0,
    "tread_thickness": 0.02,
    "tread_overlap": 0.05,
}
BOTH = pytest.mark.parametrize("cls", [MeshOpenPyramidStairsTerrainCfg, MeshOpenInvertedPyramidStairsTerrainCfg])


def boxes(sub, difficulty=0.0):
    """(centre, half sizes) of all boxes of one tile of 8 x 8 m, from the compiled model."""
    model, _ = compiled(world(sub, difficulty_range=(difficulty, difficulty)))
    assert set(model.geom_type) == {int(mujoco.mjtGeom.mjGEOM_BOX)}
    return np.column_stack([model.geom_pos, model.geom_size])


def plates(inner, outer, top, thickness):
    """Closed form of a tread: two plates of the full length along x, two between them along y."""
    middle, depth = 0.5 * (inner + outer), 0.5 * (outer - inner)
    z, t = top - 0.5 * thickness, 0.5 * thickness
    return [(0, middle, z, outer, depth, t), (0, -middle, z, outer, depth, t),
            (middle, 0, z, depth, inner, t), (-middle, 0, z, depth, inner, t)]  # fmt: skip


def assert_has(rows, expected):
    for row in expected:
        assert np.isclose(rows, row, rtol=0, atol=1e-9).all(1).sum() == 1, row


@pytest.mark.requirement("S0-139", "S0-141", "S0-142", "S0-143", "S0-144", "S0-145", "S0-162", "S0-163")
@pytest.mark.parametrize(("difficulty", "step"), [(0.0, 0.1), (0.25, 0.15), (1.0, 0.3)])
def test_upright_geometry(difficulty, step):
    rows = boxes(MeshOpenPyramidStairsTerrainCfg(**STAIRS), difficulty)
    expected = []
    for k in range(5):  # (8 - 2 - 3) / 2 / 0.3 treads; the outer ones reach outwards over the next lower one
        inner = 3.0 - 0.3 * (k + 1)
        expected += plates(inner, inner + 0.3 + 0.05, (k + 1) * step, 0.02)
    landing = (0, 0, 6 * step - 0.01, 1.5, 1.5, 0.01)
    assert_has(rows, [*expected, landing])
    floor = rows[(rows[:, 3] == 4.0) & (rows[:, 4] == 4.0)]
    np.testing.assert_allclose(floor[:, 2] + floor[:, 5], -0.5)
    assert len(rows) == 4 * 5 + 1 + 1 + 4


@pytest.mark.requirement("S0-140", "S0-141", "S0-142", "S0-143", "S0-144", "S0-145", "S0-162", "S0-163")
@pytest.mark.parametrize(("difficulty", "step"), [(0.0, 0.1), (0.25, 0.15), (1.0, 0.3)])
def test_inverted_geometry(difficulty, step):
    rows = boxes(MeshOpenInvertedPyramidStairsTerrainCfg(**STAIRS), difficulty)
    expected = []
    for k in range(5):  # the outer ones are the upper ones and reach inwards
        inner = 3.0 - 0.3 * (k + 1)
        expected += plates(inner - 0.05, inner + 0.3, -(k + 1) * step, 0.02)
    landing = (0, 0, -6 * step - 0.01, 1.5, 1.5, 0.01)
    assert_has(rows, [*expected, landing])
    floor = rows[(rows[:, 3] == 4.0) & (rows[:, 4] == 4.0)]
    np.testing.assert_allclose(floor[:, 2] + floor[:, 5], -6 * step - 0.5)
    assert len(rows) == 4 * 5 + 1 + 1 + 4


@pytest.mark.requirement("S0-146", "S0-148", "S0-149", "S0-150", "S0-151", "S0-152", "S0-153", "S0-162")
def test_dimensions_are_metres_in_the_world():
    """Rays along x: treads advance by step_width, rise by the step height; border and landing are as wide as asked."""
    generator = world(MeshOpenPyramidStairsTerrainCfg(**{**STAIRS, "tread_overlap": 0.0}), difficulty_range=(0.5, 0.5))
    model, data = compiled(generator)
    x = np.arange(-3.995, 0.0, 0.01)
    heights = ray_heights(model, data, x, np.zeros_like(x))
    edges = x[1:][np.diff(heights) > 0.01] - 0.005
    np.testing.assert_allclose(edges, [-3.0, -2.7, -2.4, -2.1, -1.8, -1.5], atol=1e-9)
    np.testing.assert_allclose(np.unique(heights.round(9)), 0.2 * np.arange(7), atol=1e-9)


@pytest.mark.requirement("S0-163")
@BOTH
def test_what_lies_under_a_tread_is_open(cls):
    """Two rays through each plate: below it there is air down to the next tread's overlap or the catch floor."""
    generator = world(cls(**STAIRS))
    model, data = compiled(generator)
    down = np.array([0.0, 0.0, -1.0])
    (origin,) = generator.terrain_origins.reshape(-1, 3)
    under = np.array([2.0, 0.0, generator.height(2.0, 0.0) - 0.021])
    distance = mujoco.mj_ray(model, data, under, down, None, 1, -1, None)
    floor = min(0.0, origin[2]) - 0.5
    assert under[2] - distance == pytest.approx(floor)


@pytest.mark.requirement("S0-164", "S0-165", "S0-166")
@BOTH
@pytest.mark.parametrize(("change", "message"), [
    ({"tread_thickness": 0.10}, "tread_thickness: expected less than the smallest step height 0.1, got 0.1"),
    ({"tread_thickness": 0.25}, "tread_thickness: expected less than the smallest step height 0.1, got 0.25"),
    ({"step_height_range": (0.3, 0.02)}, "tread_thickness: expected less than the smallest step height 0.02"),
    ({"tread_overlap": -0.01}, "tread_overlap: expected a finite number >= 0, got -0.01"),
    ({"tread_overlap": 0.3}, "tread_overlap: expected less than step_width 0.3, got 0.3"),
    ({"tread_overlap": 0.5}, "tread_overlap: expected less than step_width 0.3, got 0.5"),
])  # fmt: skip
def test_rules(cls, change, message):
    with pytest.raises(ValueError, match=message):
        cls(**{**STAIRS, **change})


@pytest.mark.requirement("S0-167")
@pytest.mark.parametrize("platform_width", [0.1, 0.4])
def test_inverted_stairs_need_an_opening_above_the_landing(platform_width):
    small = {**STAIRS, "platform_width": platform_width, "tread_overlap": 0.2}
    with pytest.raises(ValueError, match="platform_width: expected more than twice tread_overlap"):
        MeshOpenInvertedPyramidStairsTerrainCfg(**small)
    MeshOpenPyramidStairsTerrainCfg(**small)


def test_a_changed_configuration_is_checked_again():
    sub = MeshOpenPyramidStairsTerrainCfg(**STAIRS)
    sub.tread_overlap = 1.0
    with pytest.raises(ValueError, match="tread_overlap: expected less than step_width"):
        world(sub)


@BOTH
def test_room_that_is_left_widens_the_border(cls):
    """The landing is platform_width wide whatever the numbers; the lowest tread does not reach beyond the tile."""
    for border in (0.0, 0.17):
        rows = boxes(cls(**{**STAIRS, "border_width": border, "platform_width": 2.71}))
        assert (np.isclose(rows[:, 3], 1.355) & np.isclose(rows[:, 4], 1.355)).sum() == 1
        assert (np.abs(rows[:, :2]) + rows[:, 3:5]).max() <= 4.0 + 1e-12
