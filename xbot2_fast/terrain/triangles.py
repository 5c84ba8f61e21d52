"""The surfaces of a terrain as triangles, for other programs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xbot2_fast.terrain.shapes import Array, HeightField, Mesh, Tile, hull_faces, rotation

if TYPE_CHECKING:
    from xbot2_fast.terrain.generator import TerrainGenerator

Part = tuple[Array, NDArray[np.signedinteger]]

_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
_SIDES = 32


def as_trimesh(generator: "TerrainGenerator") -> Any:
    """One `trimesh.Trimesh` of the whole world. Raises ImportError that says what to install."""
    try:
        import trimesh
    except ImportError as error:
        raise ImportError("to_trimesh needs trimesh: pip install 'xbot2-fast[terrain]'") from error
    vertices, faces = triangles(generator)
    return trimesh.Trimesh(vertices, faces, process=False)


def triangles(generator: "TerrainGenerator") -> Part:
    """Vertices (n, 3) in the world [m] and triangles (m, 3), counter-clockwise from outside.

    Boxes, cylinders (of 32 sides, inside the round ones) and other solids are closed; of a height field there is the
    upper surface alone.
    """
    half = generator.cfg.frame.half
    parts: list[Part] = [
        (points + middle, faces)
        for _, middle, tile in generator.named_tiles()
        for points, faces in tile_parts(tile, half)
    ]
    if len(generator.border):
        parts.append(_boxes(np.pad(generator.border, ((0, 0), (0, 4)))))
    starts = np.cumsum([0, *(len(points) for points, _ in parts)])
    faces = np.concatenate([part[1] + start for part, start in zip(parts, starts, strict=False)])
    return np.concatenate([points for points, _ in parts]), faces


def tile_parts(tile: Tile, half: tuple[float, float]) -> Iterator[Part]:
    """Vertices and triangles in the frame of the tile: its upright boxes together, then each other solid by itself."""
    upright = tile.boxes[:, 6] == 1.0
    yield _boxes(tile.boxes[upright])
    for row in tile.boxes[~upright]:
        points, faces = _boxes(np.concatenate([np.zeros(3), row[3:]])[None])
        yield points @ rotation(row[6:]).T + row[:3], faces
    for row in tile.cylinders:
        points, faces = _drum(row[3], row[4])
        yield points @ rotation(row[5:]).T + row[:3], faces
    for mesh in tile.meshes:
        yield _solid(mesh)
    if tile.surface is not None:
        yield _field(tile.surface, half)


def _boxes(rows: Array) -> Part:
    points = (rows[:, None, :3] + _CORNERS * rows[:, None, 3:6]).reshape(-1, 3)
    return points, (_fan(_CORNERS)[None] + 8 * np.arange(len(rows))[:, None, None]).reshape(-1, 3)


def _drum(radius: float, half: float) -> Part:
    """A cylinder: two rings of points, a fan over each end, and the sides."""
    angle = 2 * np.pi * np.arange(_SIDES) / _SIDES
    ring = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    points = np.concatenate([np.column_stack([ring, np.full(_SIDES, z)]) for z in (-half, half)])
    here = np.arange(_SIDES)
    there, fan = (here + 1) % _SIDES, np.arange(1, _SIDES - 1)
    faces = (
        (0 * fan, fan + 1, fan),
        (0 * fan + _SIDES, fan + _SIDES, fan + 1 + _SIDES),
        (here, there, there + _SIDES),
        (here, there + _SIDES, here + _SIDES),
    )
    return points, np.concatenate([np.column_stack(face) for face in faces])


def _fan(vertices: Array) -> NDArray[np.signedinteger]:
    """Triangles of a convex solid: each face from its first corner."""
    corners = [face for _, _, face in hull_faces(vertices)]
    return np.array([(face[0], face[i], face[i + 1]) for face in corners for i in range(1, len(face) - 1)])


def _solid(mesh: Mesh) -> Part:
    return mesh.vertices @ rotation(mesh.quat).T + mesh.pos, _fan(mesh.vertices)


def _field(field: HeightField, half: tuple[float, float]) -> Part:
    rows, columns = field.data.shape
    x, y = np.linspace(-half[0], half[0], columns), np.linspace(-half[1], half[1], rows)
    gx, gy = np.meshgrid(x, y)
    points = np.column_stack([gx.ravel(), gy.ravel(), field.minimum + field.span * field.data.ravel()])
    corner = (columns * np.arange(rows - 1)[:, None] + np.arange(columns - 1)).ravel()
    right, up, across = corner + 1, corner + columns, corner + columns + 1
    return points, np.concatenate([np.column_stack(t) for t in ((corner, right, across), (corner, across, up))])
