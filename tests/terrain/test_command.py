"""`xbot2-terrain`, YAML configurations, images and pictures."""

import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml
from PIL import Image

from tests.terrain.kinds import classes, world
from xbot2_fast.terrain import (
    ROUGH_TERRAINS_CFG,
    HfFromImageTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    MeshOpenPyramidStairsTerrainCfg,
    TerrainGenerator,
)
from xbot2_fast.terrain.command import main
from xbot2_fast.terrain.configuration_file import load_configuration, sub_terrain_types

CONFIGURATION = """
size: [6, 5]
num_rows: 2
num_cols: 3
seed: 4
curriculum: true
spawn_height: 0.6
sub_terrains:
  steps: {type: MeshOpenPyramidStairs, step_height_range: [0.05, 0.2], platform_width: 2}
  image: {type: HfFromImageTerrainCfg, path: relief.png, height_scale: 0.4, proportion: 2}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "world.yaml").write_text(CONFIGURATION)
    pixels = np.arange(256 * 256, dtype=np.uint16).reshape(256, 256)
    Image.fromarray(pixels).save(tmp_path / "relief.png")
    return tmp_path


def test_writes_the_world_and_prints_its_path(folder, capsys):
    assert main([str(folder / "out"), "--filename", "w.xml", "--config", str(folder / "world.yaml")]) == 0
    assert capsys.readouterr().out == f"{folder / 'out' / 'w.xml'}\n"
    model = mujoco.MjModel.from_xml_path(str(folder / "out" / "w.xml"))
    assert model.nhfield == 4
    spawns = yaml.safe_load((folder / "out" / "spawn_locations.yaml").read_text())["spawn_locations"]
    assert len(spawns) == 6


def test_seed_in_place_of_the_configuration_s(folder):
    outputs = []
    for seed in (None, 4, 5):
        more = [] if seed is None else ["--seed", str(seed)]
        assert main([str(folder / "o"), "--config", str(folder / "world.yaml"), *more]) == 0
        outputs.append((folder / "o" / "rough_terrain.xml").read_bytes())
    assert outputs[0] == outputs[1] != outputs[2]


def test_without_configuration_it_is_the_rough_terrain(tmp_path):
    assert main([str(tmp_path)]) == 0
    TerrainGenerator(ROUGH_TERRAINS_CFG).save(tmp_path / "other" / "rough_terrain.xml")
    assert (tmp_path / "rough_terrain.xml").read_bytes() == (tmp_path / "other" / "rough_terrain.xml").read_bytes()


def test_console_script(tmp_path):
    script = Path(sys.executable).with_name("xbot2-terrain")
    run = subprocess.run([script, tmp_path], capture_output=True, text=True, check=True)
    assert run.stdout == f"{tmp_path / 'rough_terrain.xml'}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not YAML"),
        ("3", "expected a mapping, got 3"),
        ("sizes: [1, 2]", "unknown key 'sizes'; known: size, sub_terrains, "),
        ("seed: 1", "sub_terrains: expected names with configurations, got None"),
        ("sub_terrains: {a: 1}", "sub_terrains.a: expected a mapping with a type, got 1"),
        ("sub_terrains: {a: {type: Nope}}", "sub_terrains.a.type: no sub-terrain 'Nope'; known: Hf"),
        ("sub_terrains: {a: {type: MeshPit, deep: 1}}", "sub_terrains.a: unknown key 'deep'; known: proportion, "),
        ("sub_terrains: {a: {type: MeshPit, platform_width: -1}}", "MeshPitTerrainCfg.platform_width: expected"),
        ("{sub_terrains: {a: {type: MeshPit}}, num_rows: 0}", "TerrainGeneratorCfg.num_rows: expected"),
    ],
)
def test_bad_configurations_end_with_one_line(tmp_path, capsys, text, message):
    (tmp_path / "c.yaml").write_text(text)
    assert main([str(tmp_path / "out"), "--config", str(tmp_path / "c.yaml")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("xbot2-terrain: ")
    assert message in error
    assert not (tmp_path / "out").exists()


def test_missing_configuration(tmp_path, capsys):
    assert main([str(tmp_path), "--config", str(tmp_path / "none.yaml")]) == 1
    assert "none.yaml" in capsys.readouterr().err


def test_every_class_has_a_name_for_configurations():
    assert sorted(sub_terrain_types().values(), key=str) == sorted(classes().values(), key=str)


def test_image_keeps_16_bits_and_its_orientation(folder):
    """Black is the upper left corner of the image: the tile's corner towards -x and +y."""
    cfg = load_configuration(folder / "world.yaml").sub_terrains["image"]
    cfg.border_width = 0.0
    surface = world(cfg, size=(2.55, 2.55), horizontal_scale=0.01, vertical_scale=1e-7).tiles[0][0].surface
    wanted = 0.4 * np.arange(256 * 256).reshape(256, 256)[::-1] / 65535
    np.testing.assert_allclose(surface.heights, wanted, atol=1e-7)
    assert surface.heights[-1, 0] == 0.0


def test_eight_bit_and_colour_images(tmp_path):
    gray = np.array([[0, 51], [102, 255]], dtype=np.uint8)
    Image.fromarray(gray).save(tmp_path / "gray.png")
    Image.fromarray(np.repeat(gray[..., None], 3, 2)).save(tmp_path / "colour.png")
    for name in ("gray.png", "colour.png"):
        sub = HfFromImageTerrainCfg(path=tmp_path / name, height_scale=1.0, height_offset=-0.5)
        generator = world(sub)
        np.testing.assert_allclose(generator.height([-3.999, 3.999], [3.999, -3.999]), [-0.5, 0.5], atol=5e-3)


def test_array_rows_go_from_minus_y(tmp_path):
    np.save(tmp_path / "h.npy", [[0.0, 0.1], [0.2, 0.3]])
    generator = world(HfFromImageTerrainCfg(path=tmp_path / "h.npy"))
    np.testing.assert_allclose(generator.height([-4, 4, -4, 4], [-4, -4, 4, 4]), [0.0, 0.1, 0.2, 0.3], atol=1e-7)


def test_picture_shows_both_views(tmp_path):
    """The landing of the stairs is brighter than the border, in the view from above as well as at an angle."""
    generator = world(MeshOpenPyramidStairsTerrainCfg(platform_width=3.0, border_width=1.5))
    path = generator.picture(tmp_path / "new" / "p.png", width=320)
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=float)
    assert pixels.shape == (160, 320, 3)
    assert pixels[80, 80].sum() > pixels[80, 30].sum() + 60
    assert (pixels[:5, 165:].min(axis=2) > 250).all()  # the sky behind the view at an angle


def test_picture_from_above_has_x_to_the_right(tmp_path):
    """The tile towards +x is a hill, the other one flat: the right half of the view from above varies, the left not."""
    generator = TerrainGenerator(
        type(ROUGH_TERRAINS_CFG)(
            seed=0, num_rows=2, curriculum=True, sub_terrains={"s": HfPyramidSlopedTerrainCfg(slope_range=(0.0, 0.8))}
        )
    )
    from xbot2_fast.terrain.picture import render

    above = render(generator, 320)[:, :160].astype(float).mean(axis=2)
    left, right = above[60:100, 15:75], above[60:100, 85:145]
    assert right.std() > 1.5 * left.std()


def test_command_line_picture(folder):
    assert main([str(folder), "--config", str(folder / "world.yaml"), "--picture", str(folder / "p.png")]) == 0
    with Image.open(folder / "p.png") as image:
        assert image.size == (960, 480)


def test_no_opengl_says_what_to_install(tmp_path):
    code = "from xbot2_fast.terrain import *; TerrainGenerator(ROUGH_TERRAINS_CFG).picture('p.png')"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['mujoco.egl'] = sys.modules['mujoco.osmesa'] = None; {code}"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert run.returncode == 1
    assert "RuntimeError: no OpenGL for pictures; on Debian: apt install libegl1" in run.stderr


def test_neither_opengl_nor_images_are_imported_before_they_are_needed():
    code = (
        "import sys; from xbot2_fast.terrain import *; TerrainGenerator(ROUGH_TERRAINS_CFG).to_xml_string();"
        "print([m for m in ('OpenGL', 'PIL', 'trimesh', 'yaml', 'mujoco') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() in ("[]", "['mujoco']")
