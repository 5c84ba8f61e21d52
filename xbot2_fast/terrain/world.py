"""The generated terrain as MJCF: text for MuJoCo, binary height field files, and the file of spawn locations."""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from xbot2_fast.terrain.shapes import Array, HeightField, Mesh, Tile

_GEOM = ' class="terrain" material="terrain_grid"'
_HEAD = """<mujoco model="generated_terrain">
  <!-- seed {seed} -->
  <default>
    <default class="terrain">
      <geom group="2" friction="0.7 0.005 0.001" condim="3" solref="0.004 1.2"/>
    </default>
  </default>
  <asset>
    <texture name="terrain_grid" type="2d" builtin="checker" rgb1="0.47 0.5 0.53" rgb2="0.4 0.43 0.46"
      width="256" height="256"/>
    <material name="terrain_grid" texture="terrain_grid" texrepeat="1 1" texuniform="true" reflectance="0"/>
"""
_PLACE = ' pos="%.12g %.12g %.12g"'
_BOX = '    <geom name="%s_%d"' + _GEOM + ' type="box"' + _PLACE + ' size="%.12g %.12g %.12g"/>\n'
_QUAT = ' quat="%.12g %.12g %.12g %.12g"/>\n'
_TILTED_BOX = _BOX[:-3] + _QUAT
_CYLINDER = '    <geom name="%s_%d"' + _GEOM + ' type="cylinder"' + _PLACE + ' size="%.12g %.12g"' + _QUAT

# Returns the attributes that give a height field asset its data.
FieldSource = Callable[[str, HeightField], str]


def world_xml(
    tiles: list[tuple[str, Array, Tile]], border: Array, half: tuple[float, float], seed: int, source: FieldSource
) -> str:
    """The whole world.

    Args:
        tiles: (name of the tile, its middle (3,) in the world, tile).
        border: outer boxes (n, 6) of the world.
        half: half size of a tile along x and y.
        source: how a height field's data are given: see `inline_data` and `FieldFiles`.
    """
    assets: list[str] = [_HEAD.format(seed=seed)]
    geoms: list[str] = ["  </asset>\n  <worldbody>\n"]
    meshes = _Meshes(assets)
    for name, middle, tile in tiles:
        geoms += _boxes(name, middle, tile.boxes)
        geoms += _cylinders(name, middle, tile.cylinders)
        geoms += _mesh_geoms(name, middle, tile.meshes, meshes)
        if tile.surface is not None:
            assets.append(_field_asset(name, tile.surface, half, source))
            geoms.append(_field_geom(name, middle, tile.surface))
    geoms += [_BOX % ("terrain_outer_border", i, *row) for i, row in enumerate(border.tolist())]
    return "".join([*assets, *geoms, "  </worldbody>\n</mujoco>\n"])


def _boxes(name: str, middle: Array, boxes: Array) -> Iterator[str]:
    label = _escaped(name + "_box")
    for i, row in enumerate(_moved(boxes, middle)):
        if row[6] == 1.0:
            yield _BOX % (label, i, *row[:6])
        else:
            yield _TILTED_BOX % (label, i, *row)


def _cylinders(name: str, middle: Array, cylinders: Array) -> Iterator[str]:
    label = _escaped(name + "_cylinder")
    for i, row in enumerate(_moved(cylinders, middle)):
        yield _CYLINDER % (label, i, *row)


def _moved(rows: Array, middle: Array) -> list[list[float]]:
    """Rows that begin with a position, in the world; 0.0 is added so that no -0 is printed."""
    rows = rows.copy()
    rows[:, :3] += middle
    return (rows + 0.0).tolist()


def _numbers(values: Iterable[float], between: str = " ") -> str:
    return between.join(f"{v + 0.0:.12g}" for v in values)


def _escaped(name: str) -> str:
    return escape(name, {'"': "&quot;"})


class _Meshes:
    """Mesh assets by their vertices: equal solids share one."""

    def __init__(self, assets: list[str]) -> None:
        self._assets = assets
        self._names: dict[bytes, str] = {}

    def name(self, vertices: Array) -> str:
        key = vertices.tobytes()
        if key not in self._names:
            self._names[key] = f"terrain_mesh_{len(self._names)}"
            self._assets.append(f'    <mesh name="{self._names[key]}" vertex="{_numbers(vertices.ravel())}"/>\n')
        return self._names[key]


def _mesh_geoms(name: str, middle: Array, meshes: tuple[Mesh, ...], assets: _Meshes) -> Iterator[str]:
    for i, mesh in enumerate(meshes):
        turn = "" if mesh.quat[0] == 1.0 else f' quat="{_numbers(mesh.quat)}"'
        yield (
            f'    <geom name="{_escaped(name)}_mesh_{i}"{_GEOM} type="mesh" mesh="{assets.name(mesh.vertices)}" '
            f'pos="{_numbers(mesh.pos + middle)}"{turn}/>\n'
        )


def _field_asset(name: str, field: HeightField, half: tuple[float, float], source: FieldSource) -> str:
    size = _numbers((*half, field.span, field.base))
    return f'    <hfield name="{_escaped(name)}_hfield" {source(name, field)} size="{size}"/>\n'


def _field_geom(name: str, middle: Array, field: HeightField) -> str:
    place = _numbers((middle[0], middle[1], middle[2] + field.minimum))
    return f'    <geom name="{_escaped(name)}"{_GEOM} type="hfield" hfield="{_escaped(name)}_hfield" pos="{place}"/>\n'


def inline_data(name: str, field: HeightField) -> str:
    """Data within the XML: nine digits give every 32-bit number exactly; rows go from +y to -y there."""
    rows, columns = field.data.shape
    numbers = " ".join(f"{v:.9g}" for v in field.data[::-1].ravel().tolist())
    return f'nrow="{rows}" ncol="{columns}" elevation="{numbers}"'


class FieldFiles:
    """Data in files of MuJoCo's binary format, in a folder beside the XML.

    The file name carries a hash of the content: MuJoCo keeps loaded files in memory by name and time in whole seconds,
    and would show an older terrain that was saved under the same name a moment ago.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[Path] = set()

    def __call__(self, name: str, field: HeightField) -> str:
        content = binary(field.data)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:100]
        path = self._folder / f"{plain}-{hashlib.sha256(content).hexdigest()[:16]}.hfield"
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._written.add(path)
        return f'file="{self._folder.name}/{path.name}" content_type="image/vnd.mujoco.hfield"'

    def remove_others(self) -> None:
        """Delete the height fields that an earlier terrain of the same file name left in the folder."""
        for path in self._folder.glob("terrain_r*_c*-" + 16 * "[0-9a-f]" + ".hfield"):
            if path not in self._written:
                path.unlink()


def binary(data: NDArray[np.float32]) -> bytes:
    """MuJoCo's binary height field: rows and columns as 32-bit integers, then the heights, all little-endian."""
    return struct.pack("<ii", *data.shape) + data.astype("<f4").tobytes()


def spawn_yaml(locations: Array) -> str:
    """Spawn locations (n, 3) as YAML: `{spawn_locations: [[x, y, z], ...]}`."""
    lines = "".join(f"- [{_numbers(row, ', ')}]\n" for row in locations)
    return "spawn_locations:\n" + lines
