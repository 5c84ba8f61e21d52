"""The grid of tiles: layout, numbers, files, and that equal seeds give equal bytes."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.terrain.kinds import compiled, kinds, random_points, ray_heights, world
from xbot2_fast.terrain import (
    ROUGH_TERRAINS_CFG,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
    MeshBoxTerrainCfg,
    MeshOpenPyramidStairsTerrainCfg,
    MeshPlaneTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    TerrainGenerator,
    TerrainGeneratorCfg,
)
from xbot2_fast.terrain.generator import column_types
from xbot2_fast.terrain.triangles import tile_parts

ROOT = Path(__file__).resolve().parents[2]
PLANE = {"plane": MeshPlaneTerrainCfg()}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.requirement("S0-147", "S0-154", "S0-155", "S0-156", "S0-157", "S0-158", "S0-159", "S0-160", "S0-161")
@pytest.mark.requirement("S0-169", "S0-170")
def test_the_example_of_the_original_system(tmp_path):
    """The example, verbatim but for the package's name and the folder."""
    example = """
from xbot2_fast.utils.terrain_generator import (
    MeshOpenPyramidStairsTerrainCfg,
    MeshOpenInvertedPyramidStairsTerrainCfg,
    TerrainGenerator,
    TerrainGeneratorCfg,
)

stairs = dict(
    step_height_range=(0.10, 0.30),
    step_width=0.3,
    platform_width=3.0,
    border_width=1.0,
    tread_thickness=0.02,
    tread_overlap=0.05,
)
generator = TerrainGenerator(TerrainGeneratorCfg(
    seed=0,
    size=(8.0, 8.0),
    num_rows=4,
    num_cols=2,
    curriculum=True,
    sub_terrains={
        "open_stairs": MeshOpenPyramidStairsTerrainCfg(**stairs),
        "open_stairs_inv": MeshOpenInvertedPyramidStairsTerrainCfg(**stairs),
    },
))
generator.save("/tmp/open_stairs/world.xml")
"""
    space: dict = {}
    exec(example.replace("/tmp/open_stairs", str(tmp_path / "missing" / "open_stairs")), space)
    path = tmp_path / "missing" / "open_stairs" / "world.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert model.ngeom == 8 * 26
    spawns = np.array(yaml.safe_load((path.parent / "spawn_locations.yaml").read_text())["spawn_locations"])
    assert spawns.shape == (8, 3)
    np.testing.assert_allclose(spawns[:, 0], np.repeat([-12, -4, 4, 12], 2))
    np.testing.assert_allclose(spawns[:, 1], np.tile([-4, 4], 4))
    np.testing.assert_allclose(spawns[:, 2] - ray_heights(model, data, *spawns[:, :2].T), 1.0, atol=1e-9)
    types = space["generator"].terrain_types
    assert types.tolist() == [["open_stairs", "open_stairs_inv"]] * 4
    assert (np.diff(space["generator"].difficulties, axis=0) > 0).all()


@pytest.mark.requirement("S0-170")
@pytest.mark.parametrize("spawn_height", [0.0, 0.4, 2.5])
def test_spawn_height(spawn_height, tmp_path):
    generator = world(MeshPyramidStairsTerrainCfg(), spawn_height=spawn_height, num_rows=2)
    generator.save(tmp_path / "w.xml")
    spawns = np.array(yaml.safe_load((tmp_path / "spawn_locations.yaml").read_text())["spawn_locations"])
    np.testing.assert_allclose(spawns[:, 2], generator.height(*spawns[:, :2].T) + spawn_height, atol=1e-9)


@pytest.mark.requirement("S0-168", "S0-178", "S0-179")
def test_group_and_contact_come_from_the_class(tmp_path):
    cfg = TerrainGeneratorCfg(
        sub_terrains=kinds(tmp_path), num_rows=2, num_cols=43, border_width=2.0, seed=0, curriculum=True
    )
    generator = TerrainGenerator(cfg)
    assert set(generator.terrain_types.ravel()) == set(cfg.sub_terrains)
    tree = generator.build_xml()
    (default,) = tree.findall("default/default")
    assert default.get("class") == "terrain"
    assert default.find("geom").get("group") == "2"
    geoms = tree.findall("worldbody/geom")
    assert all(geom.get("class") == "terrain" and geom.get("material") == "terrain_grid" for geom in geoms)
    assert all(geom.get("group") is None for geom in geoms)
    model = mujoco.MjModel.from_xml_string(generator.to_xml_string())
    assert model.ngeom == len(geoms)
    assert (model.geom_group == 2).all()
    assert (model.geom_condim == 3).all()
    np.testing.assert_allclose(model.geom_friction, np.tile([0.7, 0.005, 0.001], (model.ngeom, 1)))
    np.testing.assert_allclose(model.geom_solref, np.tile([0.004, 1.2], (model.ngeom, 1)))
    borders = [model.geom(f"terrain_outer_border_{i}") for i in range(4)]
    assert all(border.group == 2 for border in borders)
    for r in range(2):
        for c in range(43):
            name = f"terrain_r{r}_c{c}_{generator.terrain_types[r, c]}"
            tile = generator.tiles[r][c]
            assert all(model.geom(f"{name}_box_{i}") for i in range(len(tile.boxes)))
            if tile.surface is not None:
                assert model.hfield(f"{name}_hfield").id == model.geom(name).dataid


@pytest.mark.parametrize(("height", "surface", "top"), [(1.0, -0.5, 0.0), (-2.0, 1.0, 2.0)])
def test_border_is_a_floor_or_a_wall(height, surface, top):
    generator = world(MeshPlaneTerrainCfg(), border_width=3.0, border_height=height, num_rows=2)
    model, data = compiled(generator)
    border = [g for g in range(model.ngeom) if "border" in model.geom(g).name]
    np.testing.assert_allclose(model.geom_pos[border, 2], surface)
    np.testing.assert_allclose(model.geom_size[border, 2], abs(height) / 2)
    assert (generator.height([9.0, -10.9, 0.0], [0.0, 6.9, -5.0]) == top).all()
    assert np.isnan(generator.height([11.1, 0.0], [0.0, -7.1])).all()
    x, y = random_points(generator, 1000, beyond=3.5)
    np.testing.assert_allclose(generator.height(x, y), ray_heights(model, data, x, y), atol=1e-9)


def test_heights_of_the_compiled_model_are_the_generated_ones(tmp_path):
    """Binary files: within half a float32 step of the range, with y the right way round."""
    sub = HfRandomUniformTerrainCfg(noise_range=(-0.3, 0.7), noise_step=0.01, border_width=0.0)
    generator = world(sub, size=(4.0, 6.0))
    model = mujoco.MjModel.from_xml_path(str(generator.save(tmp_path / "w.xml")))
    field = generator.tiles[0][0].surface
    assert field.heights.shape == (61, 41) == (model.hfield_nrow[0], model.hfield_ncol[0])
    np.testing.assert_allclose(model.hfield_size[0], [2.0, 3.0, 1.0, 0.005], atol=1e-12)
    stored = model.hfield_data.reshape(61, 41)
    np.testing.assert_array_equal(stored, field.data)
    compiled_heights = model.geom_pos[0, 2] + stored.astype(float) * model.hfield_size[0, 2]
    assert np.abs(compiled_heights - field.heights).max() <= np.spacing(np.float32(1.0))
    assert len(np.unique(compiled_heights)) == 101  # not 8 bits of an image


def test_fields_within_the_xml_are_those_of_the_files(tmp_path):
    generator = TerrainGenerator(ROUGH_TERRAINS_CFG)
    saved = mujoco.MjModel.from_xml_path(str(generator.save(tmp_path / "w.xml")))
    inline = mujoco.MjModel.from_xml_string(generator.to_xml_string())
    np.testing.assert_array_equal(saved.hfield_data, inline.hfield_data)
    np.testing.assert_array_equal(saved.geom_pos, inline.geom_pos)


def test_saving_again_shows_the_new_terrain_at_once(tmp_path):
    """MuJoCo caches files by name and whole second: two terrains of one name within a second must not be mixed up."""
    for seed in range(3):
        generator = world(HfRandomUniformTerrainCfg(), seed=seed)
        model = mujoco.MjModel.from_xml_path(str(generator.save(tmp_path / "w.xml")))
        np.testing.assert_array_equal(model.hfield_data, generator.tiles[0][0].surface.data.ravel())
    assert len(list((tmp_path / "w_assets").iterdir())) == 1


def test_saving_leaves_files_of_others_alone(tmp_path):
    (tmp_path / "w_assets").mkdir()
    mine = tmp_path / "w_assets" / "terrain_r0_c0_mine.hfield"
    mine.write_text("mine")
    world(HfRandomUniformTerrainCfg()).save(tmp_path / "w.xml")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("curriculum", [True, False])
def test_equal_seeds_give_equal_bytes(tmp_path, curriculum):
    cfg = TerrainGeneratorCfg(sub_terrains=kinds(tmp_path), num_rows=2, num_cols=15, curriculum=curriculum, seed=5)
    np.random.seed(1)
    TerrainGenerator(cfg).save(tmp_path / "a" / "w.xml")
    np.random.seed(2)
    TerrainGenerator(cfg).save(tmp_path / "b" / "w.xml")
    TerrainGenerator(dataclasses.replace(cfg, seed=6)).save(tmp_path / "c" / "w.xml")
    assert content(tmp_path / "a") == content(tmp_path / "b") != content(tmp_path / "c")


def test_numpy_s_global_random_numbers_are_not_touched():
    before = np.random.get_state()[1].copy()
    TerrainGenerator(dataclasses.replace(ROUGH_TERRAINS_CFG, seed=None))
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_seed_none_draws_one_and_records_it():
    cfg = dataclasses.replace(ROUGH_TERRAINS_CFG, seed=None)
    first, second = TerrainGenerator(cfg), TerrainGenerator(cfg)
    assert first.seed != second.seed
    again = TerrainGenerator(dataclasses.replace(cfg, seed=first.seed))
    assert again.to_xml_string() == first.to_xml_string()
    assert f"<!-- seed {first.seed} -->" in first.to_xml_string()
    assert cfg.seed is None


@pytest.mark.parametrize("curriculum", [True, False])
def test_order_of_random_draws(curriculum):
    """Columns outer, rows inner; per tile the type unless curriculum, the difficulty, then x outer and y inner."""
    sub = HfRandomUniformTerrainCfg(noise_range=(0.0, 0.1), noise_step=0.1, border_width=0.0)
    cfg = TerrainGeneratorCfg(
        size=(3.0, 2.0),
        horizontal_scale=1.0,
        vertical_scale=0.1,
        num_rows=2,
        num_cols=3,
        seed=9,
        curriculum=curriculum,
        difficulty_range=(0.2, 0.8),
        sub_terrains={"a": sub, "b": sub},
    )
    generator = TerrainGenerator(cfg)
    rng = np.random.default_rng(9)
    for column in range(3):
        for row in range(2):
            if curriculum:
                assert generator.difficulties[row, column] == pytest.approx(0.2 + 0.6 * (row + rng.uniform()) / 2)
            else:
                assert generator.terrain_types[row, column] == "ab"[rng.choice(2, p=[0.5, 0.5])]
                assert generator.difficulties[row, column] == rng.uniform(0.2, 0.8)
            heights = rng.choice([0.0, 0.1], size=(4, 3))
            np.testing.assert_allclose(generator.tiles[row][column].surface.heights, heights.T)


@given(shares=st.lists(st.floats(0.001, 10.0), min_size=1, max_size=8), columns=st.integers(1, 3000))
@settings(max_examples=100, deadline=None)
def test_columns_are_shared_out_as_whole_numbers_can(shares, columns):
    exact = np.array(shares) / sum(shares) * columns
    types = column_types(np.array(shares) / sum(shares), columns)
    assert len(types) == columns
    assert types == sorted(types)
    assert np.abs(np.bincount(types, minlength=len(shares)) - exact).max() < 1.0


def test_every_type_of_the_default_layout_appears():
    types = TerrainGenerator(ROUGH_TERRAINS_CFG).terrain_types
    assert types.shape == (4, 6)
    assert set(types[0]) == set(ROUGH_TERRAINS_CFG.sub_terrains)


def test_thousands_of_columns():
    cfg = TerrainGeneratorCfg(
        num_cols=2500,
        curriculum=True,
        seed=0,
        sub_terrains={"a": MeshPlaneTerrainCfg(), "b": MeshPlaneTerrainCfg(proportion=3.0)},
    )
    generator = TerrainGenerator(cfg)
    assert (generator.terrain_types[0] == "a").sum() == 625
    assert generator.height(0.0, 9999.0) == 0.0


def test_proportion_of_random_layouts():
    subs = {"a": MeshPlaneTerrainCfg(proportion=1.0), "b": MeshPlaneTerrainCfg(3.0), "never": MeshPlaneTerrainCfg(0.0)}
    types = TerrainGenerator(TerrainGeneratorCfg(num_rows=20, num_cols=50, seed=1, sub_terrains=subs)).terrain_types
    assert (types == "b").mean() == pytest.approx(0.75, abs=0.04)
    assert "never" not in types


def test_difficulty_range():
    for curriculum in (True, False):
        cfg = TerrainGeneratorCfg(
            num_rows=5, num_cols=9, seed=1, difficulty_range=(0.25, 0.5), curriculum=curriculum, sub_terrains=PLANE
        )
        difficulties = TerrainGenerator(cfg).difficulties
        assert difficulties.min() >= 0.25
        assert difficulties.max() <= 0.5


def test_names_that_are_hard_on_files_and_xml(tmp_path):
    hard = 'a/b "c" <d> & 50% \N{GREEK SMALL LETTER ALPHA}'
    generator = TerrainGenerator(
        TerrainGeneratorCfg(seed=0, sub_terrains={hard: HfRandomUniformTerrainCfg()}, num_rows=2)
    )
    model = mujoco.MjModel.from_xml_path(str(generator.save(tmp_path / "w.xml")))
    assert model.geom(0).name == f"terrain_r0_c0_{hard}"
    boxes = world(MeshBoxTerrainCfg())
    boxes.terrain_types[:] = hard
    assert mujoco.MjModel.from_xml_string(boxes.to_xml_string()).geom(0).name == f"terrain_r0_c0_{hard[:4]}_box_0"


def test_height_takes_any_shape_and_scalars():
    generator = world(MeshPyramidStairsTerrainCfg())
    assert generator.height(0.0, 0.0).shape == ()
    grid = generator.height(np.linspace(-1, 1, 4)[:, None], np.linspace(-1, 1, 3))
    assert grid.shape == (4, 3)
    assert generator.height(np.empty((0, 2)), np.empty((0, 2))).shape == (0, 2)
    assert np.isnan(generator.height([np.nan, np.inf], 0.0)).all()


def test_cache_gives_the_same_world_without_pickle(tmp_path):
    cfg = TerrainGeneratorCfg(
        sub_terrains=kinds(tmp_path), num_rows=2, num_cols=43, curriculum=True, seed=3, border_width=1.0
    )
    cached = dataclasses.replace(cfg, use_cache=True, cache_dir=tmp_path / "cache")
    TerrainGenerator(cfg).save(tmp_path / "a" / "w.xml")
    for _ in range(2):
        TerrainGenerator(cached).save(tmp_path / "b" / "w.xml")
        assert content(tmp_path / "a") == content(tmp_path / "b")
    (file,) = (tmp_path / "cache").iterdir()
    with np.load(file, allow_pickle=False) as data:
        assert all(data[name].dtype != object for name in data.files)


def test_cache_key_is_the_content(tmp_path):
    np.save(tmp_path / "h.npy", np.zeros((3, 3)))
    from xbot2_fast.terrain import HfFromImageTerrainCfg

    cfg = TerrainGeneratorCfg(
        sub_terrains={"image": HfFromImageTerrainCfg(path=tmp_path / "h.npy")},
        seed=3,
        use_cache=True,
        cache_dir=tmp_path / "cache",
    )
    assert TerrainGenerator(cfg).height(0.0, 0.0) == 0.0
    np.save(tmp_path / "h.npy", np.ones((3, 3)))
    assert TerrainGenerator(cfg).height(0.0, 0.0) == 1.0
    TerrainGenerator(dataclasses.replace(cfg, seed=4))
    TerrainGenerator(dataclasses.replace(cfg, spawn_height=4.0))  # does not change the tiles
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_damaged_cache_is_replaced(tmp_path):
    cfg = dataclasses.replace(ROUGH_TERRAINS_CFG, use_cache=True, cache_dir=tmp_path)
    wanted = TerrainGenerator(cfg).to_xml_string()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-300])
    assert TerrainGenerator(cfg).to_xml_string() == wanted
    assert TerrainGenerator(cfg).to_xml_string() == wanted


def test_cache_is_in_the_user_s_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert TerrainGeneratorCfg().cache_dir == tmp_path / "xbot2_fast" / "terrain"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TerrainGeneratorCfg().cache_dir == tmp_path / ".cache" / "xbot2_fast" / "terrain"


def test_fewest_boxes_of_stairs():
    """A solid pyramid needs one box a step, not four."""
    (tile,) = world(MeshPyramidStairsTerrainCfg(platform_width=3.0, border_width=1.0)).tiles[0]
    assert len(tile.boxes) == 1 + 5 + 1


def test_old_path_runs(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "xbot2_fast.utils.terrain_generator", str(tmp_path), "--filename", "mine.xml"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.stdout == f"{tmp_path / 'mine.xml'}\n"
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "mine.xml")).nhfield == 12
    assert re.search(r"^- \[-12, -20, ", (tmp_path / "spawn_locations.yaml").read_text(), re.M)


def test_trimesh_has_the_same_surface():
    trimesh = pytest.importorskip("trimesh")
    sub = {"stairs": MeshOpenPyramidStairsTerrainCfg(), "slope": HfPyramidSlopedTerrainCfg()}
    generator = TerrainGenerator(
        TerrainGeneratorCfg(seed=0, sub_terrains=sub, num_cols=2, curriculum=True, border_width=1.0)
    )
    mesh = generator.to_trimesh()
    assert isinstance(mesh, trimesh.Trimesh)
    x, y = random_points(generator, 60, beyond=0.5)
    triangles = mesh.triangles
    for px, py in zip(x, y, strict=True):
        assert highest(triangles, px, py) == pytest.approx(float(generator.height(px, py)), abs=1e-6)


def highest(triangles, x, y):
    """Highest point of the triangles over (x, y): the slow way, by barycentric coordinates."""
    a, b, c = (triangles[:, k] for k in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
    keep = np.abs(area) > 1e-12
    a, b, c, area = a[keep], b[keep], c[keep], area[keep]
    v = ((x - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (y - a[:, 1])) / area
    w = ((b[:, 0] - a[:, 0]) * (y - a[:, 1]) - (x - a[:, 0]) * (b[:, 1] - a[:, 1])) / area
    inside = (v >= 0) & (w >= 0) & (v + w <= 1)
    return (a[:, 2] + v * (b[:, 2] - a[:, 2]) + w * (c[:, 2] - a[:, 2]))[inside].max()


@pytest.mark.parametrize("name", ["MeshRepeatedCylindersTerrainCfg", "MeshStarTerrainCfg", "MeshTiltedGridTerrainCfg",
                                  "MeshRepeatedPyramidsTerrainCfg"])  # fmt: skip
def test_triangles_of_solids_are_closed_and_face_outwards(name, tmp_path):
    """Each edge belongs to two triangles that run along it in opposite directions, and each volume is positive."""
    (tile,) = world(kinds(tmp_path)[name], difficulty_range=(1.0, 1.0)).tiles[0]
    parts = list(tile_parts(tile, (4.0, 4.0)))
    assert len(parts) > 10
    for points, faces in parts:
        edges = [(int(t[i]), int(t[(i + 1) % 3])) for t in faces for i in range(3)]
        assert len(set(edges)) == len(edges)
        assert {(b, a) for a, b in edges} == set(edges)
        a, b, c = (points[faces[:, k]] for k in range(3))
        assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() > 0
