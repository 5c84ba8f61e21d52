"""The page of the terrain: its example runs, and its gallery shows every kind."""

import re
from pathlib import Path

import mujoco
import yaml

from xbot2_fast.terrain.configuration_file import sub_terrain_types

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "terrain.md").read_text(encoding="utf-8")


def test_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(example.replace("/tmp/terrain", str(tmp_path)), {})
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "world.xml")).nhfield == 4


def test_configuration_is_known():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    assert {sub["type"] for sub in yaml.safe_load(example)["sub_terrains"].values()} <= set(sub_terrain_types())


def test_gallery_shows_every_kind():
    for name in sub_terrain_types():
        assert f"**{name}TerrainCfg**" in PAGE
        assert f"![{name}](terrain/{name}.png)" in PAGE
        assert (DOCS / "terrain" / f"{name}.png").is_file()
    assert sum(path.stat().st_size for path in (DOCS / "terrain").glob("*.png")) < 1.5e6
