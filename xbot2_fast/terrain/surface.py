"""Height of a terrain at points: the same surface as a vertical ray from far above meets, without MuJoCo."""

from collections.abc import Callable

import numpy as np

from xbot2_fast.terrain.shapes import Array, HeightField, Mesh, Tile, hull_faces, rotation

# Rows of a table of points x boxes that are looked at together: bounds the memory.
_CHUNK = 4096


def tile_height(tile: Tile, half: tuple[float, float], x: Array, y: Array) -> Array:
    """Height at points (n,) of the frame of a tile with half sizes (x, y); NaN where there is nothing."""
    top = np.full(x.shape, -np.inf)
    upright = tile.boxes[:, 6] == 1.0
    for start in range(0, len(x), _CHUNK):
        part = slice(start, start + _CHUNK)
        _raise(top[part], upright_boxes(tile.boxes[upright], x[part], y[part]))
    for row in tile.boxes[~upright]:
        _raise_near(
            top, x, y, row, float(np.linalg.norm(row[3:6])), lambda px, py, r=row: _convex(*_box_planes(r), px, py)
        )
    for row in tile.cylinders:
        _raise_near(top, x, y, row, float(np.hypot(row[3], row[4])), lambda px, py, r=row: _cylinder(r, px, py))
    for mesh in tile.meshes:
        reach = float(np.linalg.norm(mesh.vertices, axis=1).max())
        _raise_near(top, x, y, mesh.pos, reach, lambda px, py, m=mesh: _convex(*_mesh_planes(m), px, py))
    if tile.surface is not None:
        _raise(top, field_height(tile.surface, half, x, y))
    return np.where(np.isneginf(top), np.nan, top)


def _raise(top: Array, height: Array) -> None:
    np.maximum(top, height, out=top)


def _raise_near(top: Array, x: Array, y: Array, centre: Array, reach: float, height: Callable[..., Array]) -> None:
    """Raise the points that a solid within `reach` of its centre can cover."""
    near = np.flatnonzero((np.abs(x - centre[0]) <= reach) & (np.abs(y - centre[1]) <= reach))
    if len(near):
        top[near] = np.maximum(top[near], height(x[near], y[near]))


def upright_boxes(boxes: Array, x: Array, y: Array) -> Array:
    """Highest of the boxes' tops at each point, -inf where there is none."""
    if not len(boxes) or not len(x):
        return np.full(x.shape, -np.inf)
    covers = np.abs(x[:, None] - boxes[:, 0]) <= boxes[:, 3]
    covers &= np.abs(y[:, None] - boxes[:, 1]) <= boxes[:, 4]
    return np.where(covers, boxes[:, 2] + boxes[:, 5], -np.inf).max(1)


def _box_planes(row: Array) -> tuple[Array, Array]:
    turn = rotation(row[6:]).T
    normals = np.concatenate([turn, -turn])
    return normals, np.tile(row[3:6], 2) + normals @ row[:3]


def _mesh_planes(mesh: Mesh) -> tuple[Array, Array]:
    faces = hull_faces(mesh.vertices)
    normals = np.array([normal for normal, _, _ in faces]) @ rotation(mesh.quat).T
    return normals, np.array([offset for _, offset, _ in faces]) + normals @ mesh.pos


def _convex(normals: Array, offsets: Array, x: Array, y: Array) -> Array:
    """Upper end of the part of each vertical line within all half spaces normal . p <= offset; -inf when it misses."""
    rest = offsets[:, None] - normals[:, :1] * x - normals[:, 1:2] * y
    up, down = normals[:, 2] > 1e-12, normals[:, 2] < -1e-12
    high = (rest[up] / normals[up, 2:]).min(0, initial=np.inf)
    low = (rest[down] / normals[down, 2:]).max(0, initial=-np.inf)
    beside = (rest[~(up | down)] < 0).any(0)
    return np.where((low <= high) & ~beside, high, -np.inf)


def _cylinder(row: Array, x: Array, y: Array) -> Array:
    """A cylinder is two half spaces along its axis, and a quadratic inequality across it."""
    axis = rotation(row[5:])[:, 2]
    px, py = x - row[0], y - row[1]
    # Squared distance from the axis at height z over the centre: a z^2 + 2 b z + c.
    along = px * axis[0] + py * axis[1]
    a = 1.0 - axis[2] ** 2
    b, c = -along * axis[2], px**2 + py**2 - along**2 - row[3] ** 2
    ends = ((axis[2] * sign, row[4] - sign * along) for sign in (1, -1))
    low, high = np.full(x.shape, -np.inf), np.full(x.shape, np.inf)
    for slope, rest in ends:
        bound = rest / slope
        if slope > 0:
            high = np.minimum(high, bound)
        else:
            low = np.maximum(low, bound)
    if a < 1e-15:
        return np.where(c <= 0, high + row[2], -np.inf)
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    low, high = np.maximum(low, (-b - root) / a), np.minimum(high, (-b + root) / a)
    return np.where((b * b >= a * c) & (low <= high), high + row[2], -np.inf)


def field_height(field: HeightField, half: tuple[float, float], x: Array, y: Array) -> Array:
    """Height on the two triangles of each cell, which MuJoCo divides from its (-x, -y) to its (+x, +y) corner."""
    data = field.data.astype(np.float64)
    rows, columns = data.shape
    u = np.clip((x + half[0]) * (columns - 1) / (2 * half[0]), 0, columns - 1)
    v = np.clip((y + half[1]) * (rows - 1) / (2 * half[1]), 0, rows - 1)
    i, j = np.minimum(u.astype(int), columns - 2), np.minimum(v.astype(int), rows - 2)
    u, v = u - i, v - j
    low, high = data[j, i], data[j + 1, i + 1]
    along_x = low + u * (data[j, i + 1] - low) + v * (high - data[j, i + 1])
    along_y = low + v * (data[j + 1, i] - low) + u * (high - data[j + 1, i])
    return field.minimum + field.span * np.where(u >= v, along_x, along_y)
