"""What a sub-terrain is made of: convex solids, at most one height field, and an origin.

A tile has its own frame: the origin in the middle of the tile, x along the rows of the grid, y along its columns, z up,
z = 0 the level at which neighbouring tiles meet. All lengths in metres.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

# Solid ground reaches this far below the lowest surface on it, so that nothing fast falls through.
GROUND_DEPTH = 1.0
_EPS = 1e-9

Face = tuple[Array, float, list[int]]


@dataclass(frozen=True)
class Frame:
    """Size of a tile [m] along x and y, and the resolution of height fields in it: grid pitch and height step [m]."""

    size_x: float
    size_y: float
    horizontal_scale: float
    vertical_scale: float

    @property
    def half(self) -> tuple[float, float]:
        return 0.5 * self.size_x, 0.5 * self.size_y

    @property
    def width(self) -> float:
        """The shorter side: what square rings and platforms must fit in."""
        return min(self.size_x, self.size_y)

    def field_shape(self) -> tuple[int, int]:
        """Points of a height field over the whole tile: (along y, along x)."""
        return (
            max(2, round(self.size_y / self.horizontal_scale) + 1),
            max(2, round(self.size_x / self.horizontal_scale) + 1),
        )


@dataclass(frozen=True)
class Mesh:
    """A convex solid: vertices (k, 3) in its own frame, which is turned by quat (w, x, y, z) and put at pos."""

    pos: Array
    quat: Array
    vertices: Array


@dataclass(frozen=True)
class HeightField:
    """Heights [m] over the whole tile, shape (points along y, points along x), both from the negative side.

    MuJoCo keeps heights as 32-bit numbers between 0 and 1; `data`, `minimum` and `span` are these.
    """

    heights: Array
    vertical_scale: float

    @cached_property
    def minimum(self) -> float:
        return float(self.heights.min())

    @cached_property
    def span(self) -> float:
        """Difference of the highest and the lowest height, at least the height step."""
        return max(float(self.heights.max()) - self.minimum, self.vertical_scale)

    @cached_property
    def data(self) -> NDArray[np.float32]:
        """What the compiled model holds: (heights - minimum) / span, rounded to 32 bits."""
        if not np.ptp(self.heights):
            return np.zeros(self.heights.shape, np.float32)
        return ((self.heights - self.minimum) / self.span).astype(np.float32)

    @property
    def base(self) -> float:
        """Thickness of the material below the lowest point."""
        return max(self.vertical_scale, 1e-3)


def height_field(heights: Array, frame: Frame) -> HeightField:
    """Heights rounded to whole steps of the vertical scale."""
    return HeightField(np.rint(heights / frame.vertical_scale) * frame.vertical_scale + 0.0, frame.vertical_scale)


@dataclass(frozen=True)
class Tile:
    """One sub-terrain in its own frame.

    Args:
        boxes: (n, 10): centre, half sizes, quaternion (w, x, y, z).
        origin_z: height of the surface where a robot starts, in the middle of the tile.
        cylinders: (n, 9): centre, radius, half length, quaternion; the axis is the local z.
        meshes: convex solids.
        surface: a height field over the whole tile.
    """

    boxes: Array
    origin_z: float
    cylinders: Array = field(default_factory=lambda: np.empty((0, 9)))
    meshes: tuple[Mesh, ...] = ()
    surface: HeightField | None = None


def tile(boxes: list[list[float]] | Array, origin_z: float, **more) -> Tile:
    """A tile of boxes in rows as `box` makes them, without those that have no volume."""
    rows = np.asarray(boxes, dtype=np.float64).reshape(-1, 10)
    return Tile(rows[(rows[:, 3:6] > 0.5 * _EPS).all(1)], float(origin_z), **more)


def field_tile(heights: Array, frame: Frame, platform_width: float) -> Tile:
    """A tile of one height field; its origin is the highest point of the square of platform_width in the middle."""
    surface = height_field(heights, frame)
    x, y = grid_points(frame)
    half = 0.5 * platform_width + _EPS
    middle = surface.heights[np.ix_(np.abs(y) <= max(half, np.abs(y).min()), np.abs(x) <= max(half, np.abs(x).min()))]
    return Tile(np.empty((0, 10)), float(middle.max()), surface=surface)


def grid_points(frame: Frame) -> tuple[Array, Array]:
    """x and y of the points of a height field."""
    ny, nx = frame.field_shape()
    return np.linspace(-frame.half[0], frame.half[0], nx), np.linspace(-frame.half[1], frame.half[1], ny)


def box(x: Sequence[float], y: Sequence[float], z: Sequence[float]) -> list[float]:
    """An upright box between two values of x, y and z."""
    spans = (x, y, z)
    return [0.5 * (a + b) for a, b in spans] + [0.5 * (b - a) for a, b in spans] + [1.0, 0.0, 0.0, 0.0]


def block(half_x: float, half_y: float, bottom: float, top: float) -> list[float]:
    """An upright box about the middle of the tile."""
    return box((-half_x, half_x), (-half_y, half_y), (bottom, top))


def ring(outer: tuple[float, float], inner: tuple[float, float], bottom: float, top: float) -> list[list[float]]:
    """Four upright boxes between two rectangles of half sizes (x, y): the two along x have the full length."""
    (ox, oy), (ix, iy) = outer, inner
    z = (bottom, top)
    return [
        box((-ox, ox), (iy, oy), z),
        box((-ox, ox), (-oy, -iy), z),
        box((ix, ox), (-iy, iy), z),
        box((-ox, -ix), (-iy, iy), z),
    ]


def square_ring(outer: float, inner: float, bottom: float, top: float) -> list[list[float]]:
    return ring((outer, outer), (inner, inner), bottom, top)


def prism(polygon: Array, bottom: float, top: float) -> Mesh:
    """An upright solid over a convex polygon (k, 2)."""
    middle = np.append(polygon.mean(0), 0.5 * (bottom + top))
    levels = [np.column_stack([polygon, np.full(len(polygon), z)]) for z in (bottom, top)]
    return Mesh(middle, np.array([1.0, 0, 0, 0]), np.concatenate(levels) - middle)


def clip(polygon: Array, normal: Sequence[float] | Array, offset: float) -> Array:
    """The part of a convex polygon (k, 2) where normal . p <= offset; (0, 2) when nothing of size is left."""
    distance = polygon @ np.asarray(normal) - offset
    points = []
    for i, d in enumerate(distance):
        j = (i + 1) % len(polygon)
        if d <= 0:
            points.append(polygon[i])
        if (d < 0 < distance[j]) or (distance[j] < 0 < d):
            points.append(polygon[i] + (polygon[j] - polygon[i]) * (d / (d - distance[j])))
    result = np.asarray(points).reshape(-1, 2)
    return result if area(result) > 1e-6 else np.empty((0, 2))


def area(polygon: Array) -> float:
    x, y = polygon.T if len(polygon) else (np.empty(0), np.empty(0))
    return 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))


def rotation(quat: Array) -> Array:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quat
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def quaternion(axis: tuple[float, float, float], angle: float) -> Array:
    """Unit quaternion of a turn [rad] about a unit axis."""
    return np.array([np.cos(0.5 * angle), *(np.sin(0.5 * angle) * np.asarray(axis))])


def hull_faces(vertices: Array) -> list[Face]:
    """Faces of a small convex solid: outward normal, offset (normal . p <= offset inside), corners in turn."""
    return _hull_faces(vertices.tobytes())


@lru_cache(maxsize=4096)
def _hull_faces(content: bytes) -> list[Face]:
    """Every plane through three vertices that has no vertex on its outer side."""
    vertices = np.frombuffer(content).reshape(-1, 3)
    middle = vertices.mean(0)
    scale = float(np.abs(vertices - middle).max())
    i, j, k = np.array(list(combinations(range(len(vertices)), 3))).T
    normals = np.cross(vertices[j] - vertices[i], vertices[k] - vertices[i])
    size = np.linalg.norm(normals, axis=1)
    keep = size > _EPS * scale * scale
    normals, first = normals[keep] / size[keep, None], vertices[i[keep]]
    normals *= np.where(((first - middle) * normals).sum(1) > 0, 1.0, -1.0)[:, None]
    offsets = (first * normals).sum(1)
    distance = normals @ vertices.T - offsets[:, None]
    faces: dict[tuple[int, ...], Face] = {}
    for n in np.flatnonzero(distance.max(1) <= _EPS * scale):
        face = tuple(int(v) for v in np.flatnonzero(distance[n] > -_EPS * scale))
        if face not in faces:
            faces[face] = (normals[n], float(offsets[n]), _counter_clockwise(vertices, face, normals[n]))
    return list(faces.values())


def _counter_clockwise(vertices: Array, face: tuple[int, ...], normal: Array) -> list[int]:
    points = vertices[list(face)] - vertices[list(face)].mean(0)
    first = points[0] / np.linalg.norm(points[0])
    angle = np.arctan2(points @ np.cross(normal, first), points @ first)
    return [face[i] for i in np.argsort(angle)]
