"""Every rule and its message: class, field, what was expected, what came."""

import numpy as np
import pytest

from tests.terrain.kinds import classes, world
from xbot2_fast import terrain
from xbot2_fast.terrain import MeshPlaneTerrainCfg, TerrainGenerator, TerrainGeneratorCfg

PLANE = {"plane": MeshPlaneTerrainCfg()}


@pytest.mark.parametrize(("change", "message"), [
    ({"size": (0.0, 8.0)}, r"size: expected two finite numbers above 0, got \(0.0, 8.0\)"),
    ({"size": 8.0}, "size: expected two finite numbers above 0, got 8.0"),
    ({"border_width": -1.0}, "border_width: expected a finite number >= 0, got -1.0"),
    ({"border_height": 0.0}, "border_height: expected a finite number other than 0, got 0.0"),
    ({"num_rows": 0}, "num_rows: expected a whole number >= 1, got 0"),
    ({"num_cols": 2.5}, "num_cols: expected a whole number >= 1, got 2.5"),
    ({"num_cols": True}, "num_cols: expected a whole number >= 1, got True"),
    ({"horizontal_scale": float("nan")}, "horizontal_scale: expected a finite number above 0, got nan"),
    ({"horizontal_scale": 9.0}, "horizontal_scale: 9 m is wider than the tile of 8 m"),
    ({"vertical_scale": 0.0}, "vertical_scale: expected a finite number above 0, got 0.0"),
    ({"slope_threshold": 0.75}, "slope_threshold: expected None, got 0.75: .*Mesh"),
    ({"difficulty_range": (0.5, 0.2)}, "difficulty_range: expected two numbers between 0 and 1, the smaller first"),
    ({"difficulty_range": (0.0, 1.1)}, "difficulty_range: expected two numbers between 0 and 1, the smaller first"),
    ({"spawn_height": None}, "spawn_height: expected a finite number, got None"),
    ({"seed": -1}, "seed: expected a whole number >= 0 or None, got -1"),
    ({"curriculum": 1}, "curriculum: expected True or False, got 1"),
    ({"use_cache": "yes"}, "use_cache: expected True or False, got 'yes'"),
    ({"sub_terrains": {}}, "sub_terrains: expected at least one name -> configuration, got {}"),
    ({"sub_terrains": {"": MeshPlaneTerrainCfg()}}, "sub_terrains: expected names of printable characters, got ''"),
    ({"sub_terrains": {"a\n": MeshPlaneTerrainCfg()}}, "sub_terrains: expected names of printable characters"),
    ({"sub_terrains": {"a": MeshPlaneTerrainCfg(0.0)}}, "sub_terrains: expected at least one with a proportion"),
])  # fmt: skip
def test_generator_rules(change, message):
    with pytest.raises(ValueError, match=f"^TerrainGeneratorCfg.{message}"):
        TerrainGenerator(TerrainGeneratorCfg(**{"sub_terrains": PLANE, **change}))


def test_a_sub_terrain_of_another_type_is_refused():
    with pytest.raises(TypeError, match=r"sub_terrains\['a'\]: expected a sub-terrain configuration, got 3"):
        TerrainGenerator(TerrainGeneratorCfg(sub_terrains={"a": 3}))


RULES = [
    ("MeshTiltedGrid", {"tilt_range": (0.0, 0.8)}, "tilt_range: expected at most 0.7 rad"),
    ("MeshTiltedGrid", {"plate_thickness": 1.5}, "plate_thickness: 1.5 is too thick to tilt within grid_width 0.5"),
    ("MeshRepeatedBoxes", {"tilt_range": (0.8, 0.0)}, "tilt_range: expected at most 0.7 rad"),
    ("MeshSteppingStones", {"holes_depth": 0.02}, "holes_depth: expected more than stone_height_max 0.03, got 0.02"),
    ("HfSteppingStones", {"holes_depth": 0.03}, "holes_depth: expected more than stone_height_max 0.03, got 0.03"),
    ("MeshNestedRings", {"gap_depth": 0.1}, "gap_depth: expected more than the greatest ring height 0.15, got 0.1"),
    ("MeshNarrowBeams", {"num_beams": 5}, "num_beams: 5 beams of 0.5 m are wider than platform_width 2"),
    ("MeshSuspendedStairs", {"gap_width_range": (0, 0.3)}, "gap_width_range: expected less than step_width 0.3"),
    ("MeshSuspendedStairs", {"tread_thickness": 0.05}, "tread_thickness: expected less than the smallest step height"),
    ("MeshRandomSpread", {"box_widths": (0.6, 0.2)}, "box_widths: expected two finite numbers above 0, the smaller"),
    ("HfRandomUniform", {"noise_range": (0.1, 0.0)}, r"noise_range: expected the lower height first, got \(0.1, 0.0\)"),
    ("HfRandomUniform", {"downsampled_scale": 0}, "downsampled_scale: expected a finite number above 0 or None, got 0"),
    ("HfDiscreteObstacles", {"obstacle_height_mode": "some"}, "obstacle_height_mode: expected one of choice, fixed"),
    ("HfFromImage", {"path": "a.jpg"}, "path: expected a .png or .npy file, got 'a.jpg'"),
    ("HfFromImage", {"path": ""}, "path: expected a .png or .npy file, got ''"),
    ("HfFromImage", {"path": "missing.png"}, "path: no such file: 'missing.png'"),
    ("MeshPit", {"pit_depth_range": (0.1,)}, "pit_depth_range: expected two finite numbers >= 0"),
    ("MeshPit", {"double_pit": 1}, "double_pit: expected True or False, got 1"),
    ("MeshStar", {"num_bars": 0}, "num_bars: expected a whole number >= 1, got 0"),
    ("MeshRepeatedBoxes", {"num_objects_range": (1, 2.5)}, "num_objects_range: expected two whole numbers >= 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), RULES)
def test_sub_terrain_rules(name, change, message):
    with pytest.raises(ValueError, match=f"^{name}TerrainCfg.{message}"):
        getattr(terrain, f"{name}TerrainCfg")(**change)


@pytest.mark.parametrize("name", sorted(classes()))
def test_every_number_is_held_against_its_rule(name, tmp_path):
    """NaN, infinity, a word and a negative proportion are refused for every field that is a number or a range."""
    np.save(tmp_path / "h.npy", np.zeros((2, 2)))
    given = {"path": tmp_path / "h.npy"} if name == "HfFromImageTerrainCfg" else {}
    values = vars(classes()[name](**given))
    for field, value in values.items():
        if isinstance(value, bool | str) or value is None or field == "path":
            continue
        numbers = [np.nan, np.inf, "far"]
        bad = [(np.nan, np.nan), (np.inf, 0), "far", None, 1.0] if isinstance(value, tuple) else numbers
        for each in bad:
            with pytest.raises(ValueError, match=f"^{name}.{field}: expected"):
                classes()[name](**{**values, field: each})
    with pytest.raises(ValueError, match=f"^{name}.proportion: expected a finite number >= 0, got -0.1"):
        classes()[name](**{**values, "proportion": -0.1})


ROOM = {
    "MeshPyramidStairs": "step_width: needs 3.6 m",
    "MeshRandomGrid": "platform_width: needs 1.5 m",
    "MeshTiltedGrid": "platform_width: needs 2 m",
    "MeshSteppingStones": "platform_width: needs 2.5 m",
    "MeshRails": "rail_thickness_range: needs 2.7 m",
    "MeshPit": "platform_width: needs 2 m",
    "MeshBox": "platform_width: needs 2 m",
    "MeshGap": "gap_width_range: needs 3.6 m",
    "MeshFloatingRing": "ring_width_range: needs 4 m",
    "MeshNestedRings": "num_rings: needs 5.9 m",
    "MeshStar": "platform_width: needs 2.501 m",
    "MeshNarrowBeams": "platform_width: needs 3.001 m",
    "MeshRepeatedPyramids": "num_objects_range: 21 objects that reach .* m around them do not fit",
    "MeshRandomSpread": "num_boxes_range: 60 boxes of up to 0.6 m do not fit beside the platform: at most 6 do",
    "HfPyramidSloped": "platform_width: needs 2.5 m",
    "HfPyramidStairs": "step_width: needs 3.1 m",
    "HfSteppingStones": "platform_width: needs 1.5 m",
    "HfDiscreteObstacles": "platform_width: needs 1.5 m",
}


@pytest.mark.parametrize("name", sorted(ROOM))
def test_what_does_not_fit_the_tile_is_refused(name):
    sub = getattr(terrain, f"{name}TerrainCfg")()
    with pytest.raises(ValueError, match=f"^{name}TerrainCfg.{ROOM[name]}"):
        world(sub, size=(1.4, 8.0))


@pytest.mark.parametrize(("name", "change", "message"), [
    ("HfRandomUniform", {"border_width": 3.95}, "border_width: needs 8.1 m"),
    ("HfRandomUniform", {"downsampled_scale": 0.05}, "downsampled_scale: expected between horizontal_scale 0.1 and"),
    ("HfPerlin", {"octaves": 7}, "octaves: the last of 7 octaves is finer than horizontal_scale 0.1 m"),
    ("HfPyramidStairs", {"step_width": 0.05}, "step_width: expected at least horizontal_scale 0.1, got 0.05"),
    ("HfSteppingStones", {"stone_distance_range": (0.1, 0.01)}, "stone_distance_range: expected at least horizontal_"),
    ("MeshSuspendedStairs", {"platform_width": 0.2}, "gap_width_range: expected less than half of platform_width 0.2"),
])  # fmt: skip
def test_rules_of_the_tile(name, change, message):
    with pytest.raises(ValueError, match=f"^{name}TerrainCfg.{message}"):
        world(getattr(terrain, f"{name}TerrainCfg")(**change))


@pytest.mark.parametrize(("values", "message"), [
    (np.zeros(4), r"expected at least 2 x 2 numbers, got shape \(4,\)"),
    (np.zeros((1, 4)), r"expected at least 2 x 2 numbers, got shape \(1, 4\)"),
    (np.array([["a", "b"]] * 2), "expected at least 2 x 2 numbers, got shape .* of <U1"),
    (np.full((2, 2), np.nan), "expected finite numbers, got NaN or infinity"),
])  # fmt: skip
def test_arrays_that_are_no_heights_are_refused(tmp_path, values, message):
    np.save(tmp_path / "h.npy", values)
    with pytest.raises(ValueError, match=f"HfFromImageTerrainCfg.path: {message}"):
        world(terrain.HfFromImageTerrainCfg(path=tmp_path / "h.npy"))
