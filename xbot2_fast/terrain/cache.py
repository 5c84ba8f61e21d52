"""Generated tiles on disk, keyed by everything that they depend on. Arrays and JSON only: loading runs no code."""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from xbot2_fast.terrain.config import TerrainGeneratorCfg
from xbot2_fast.terrain.shapes import HeightField, Mesh, Tile

# Part of every key: raise it when the geometry of any sub-terrain changes.
GEOMETRY = 1
_NOT_GEOMETRY = ("border_width", "border_height", "spawn_height", "use_cache", "cache_dir", "sub_terrains", "seed")


def user_cache_dir() -> Path:
    """$XDG_CACHE_HOME/xbot2_fast/terrain, or ~/.cache/xbot2_fast/terrain."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "xbot2_fast" / "terrain"


def key(cfg: TerrainGeneratorCfg, seed: int) -> str:
    """Hash of the configuration, the seed, and the content of the files that sub-terrains read."""
    world = {f.name: getattr(cfg, f.name) for f in fields(cfg) if f.name not in _NOT_GEOMETRY}
    parts = [[name, type(sub).__name__, asdict(sub), sub.inputs()] for name, sub in cfg.sub_terrains.items()]
    return hashlib.sha256(json.dumps([GEOMETRY, seed, world, parts], default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def load(folder: Path, name: str) -> tuple[list[Tile], dict[str, Any]] | None:
    """Tiles and the facts stored with them; None when they are not there or the file is damaged."""
    try:
        with (folder / f"{name}.npz").open("rb") as file, np.load(file, allow_pickle=False) as data:
            facts = json.loads(bytes(data["facts"]))
            return [_unpack(data, i, tile) for i, tile in enumerate(facts["tiles"])], facts
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def store(folder: Path, name: str, tiles: list[Tile], facts: dict[str, Any]) -> None:
    """Write whole or not at all: others may read and write the same folder."""
    arrays: dict[str, Any] = {}
    about = [_pack(arrays, i, tile) for i, tile in enumerate(tiles)]
    arrays["facts"] = np.frombuffer(json.dumps({**facts, "tiles": about}).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{name}.{os.getpid()}.tmp"
    unfinished.write_bytes(buffer.getvalue())
    unfinished.replace(folder / f"{name}.npz")


def _pack(arrays: dict[str, Any], index: int, tile: Tile) -> dict[str, Any]:
    for what in ("boxes", "cylinders"):
        if len(getattr(tile, what)):
            arrays[f"{index}_{what}"] = getattr(tile, what)
    for k, mesh in enumerate(tile.meshes):
        arrays[f"{index}_mesh_{k}"] = np.concatenate([mesh.pos, mesh.quat, mesh.vertices.ravel()])
    if tile.surface is not None:
        arrays[f"{index}_field"] = tile.surface.heights
    step = None if tile.surface is None else tile.surface.vertical_scale
    return {"origin_z": tile.origin_z, "meshes": len(tile.meshes), "vertical_scale": step}


def _unpack(data: Any, index: int, about: dict[str, Any]) -> Tile:
    def array(what: str, width: int) -> Any:
        return data[f"{index}_{what}"] if f"{index}_{what}" in data else np.empty((0, width))

    packed = [data[f"{index}_mesh_{k}"] for k in range(about["meshes"])]
    meshes = tuple(Mesh(row[:3], row[3:7], row[7:].reshape(-1, 3)) for row in packed)
    step = about["vertical_scale"]
    surface = None if step is None else HeightField(data[f"{index}_field"], step)
    return Tile(array("boxes", 10), about["origin_z"], array("cylinders", 9), meshes, surface)
