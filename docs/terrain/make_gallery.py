"""Makes the gallery in docs/terrain.md: `python docs/terrain/make_gallery.py` renders one picture a sub-terrain.

Needs the extra `terrain` and OpenGL (MuJoCo's MUJOCO_GL counts). With `--check` it only says whether a kind of
sub-terrain has no picture.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from xbot2_fast.terrain import TerrainGenerator, TerrainGeneratorCfg
from xbot2_fast.terrain.configuration_file import sub_terrain_types
from xbot2_fast.terrain.picture import write_picture

PICTURES = Path(__file__).parent
WIDTH, COLOURS, DIFFICULTY = 400, 48, 0.7


def relief(folder: Path) -> Path:
    """An array for HfFromImage: a hill with a crater."""
    x = np.linspace(-1, 1, 41)
    r = np.hypot(x, x[:, None])
    np.save(folder / "relief.npy", np.exp(-4 * r**2) - 0.7 * np.exp(-25 * r**2))
    return folder / "relief.npy"


def make() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in sub_terrain_types().items():
            sub = kind(path=relief(Path(folder))) if name == "HfFromImage" else kind()
            cfg = TerrainGeneratorCfg(seed=3, difficulty_range=(DIFFICULTY, DIFFICULTY), sub_terrains={"tile": sub})
            write_picture(TerrainGenerator(cfg), PICTURES / f"{name}.png", WIDTH, COLOURS)


def missing() -> list[str]:
    return [name for name in sub_terrain_types() if not (PICTURES / f"{name}.png").is_file()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="render nothing, list the kinds without a picture")
    if not parser.parse_args().check:
        make()
    if missing():
        sys.stderr.write(f"without a picture: {', '.join(missing())}\n")
    return 1 if missing() else 0


if __name__ == "__main__":
    sys.exit(main())
