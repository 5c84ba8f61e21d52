"""Markers that the simulator adds to a viewer's scene: one function a marker.

They append to `scene.geoms`, as many as the scene has room for, and touch nothing else. Call them with the viewer's
lock held, after setting `scene.ngeom = 0`.
"""

import math

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from xbot2_fast._kernels._scan_markers import finite_range, write_spheres


def add_height_spheres(
    scene: mujoco.MjvScene,
    x: ArrayLike,
    y: ArrayLike,
    heights: ArrayLike,
    radius: float = 0.025,
    height_range: tuple[float, float] | None = None,
) -> int:
    """A sphere at each point of a grid, coloured by its height: blue lowest, green midway, red highest.

    Args:
        x, y, heights: world coordinates [m], all of one shape (N, M). A height that is not finite gets no sphere.
        radius: of the spheres [m].
        height_range: heights shown blue and red [m], beyond them the end colours; default the lowest and highest given,
            green when they are equal.
    Returns:
        How many spheres were added; those for which the scene has no room are left out.
    Raises:
        ValueError: shapes differ, the radius is not positive, or the range is not two finite, ascending numbers.
    """
    x = np.ascontiguousarray(x, np.float64)
    y = np.ascontiguousarray(y, np.float64)
    heights = np.ascontiguousarray(heights, np.float64)
    if heights.ndim != 2 or x.shape != heights.shape or y.shape != heights.shape:
        raise ValueError(f"x, y, heights: expected one shape (N, M), got {x.shape}, {y.shape}, {heights.shape}")
    if not 0 < radius < math.inf:
        raise ValueError(f"radius: expected a positive number of metres, got {radius!r}")
    low, high = finite_range(heights) if height_range is None else _ascending(height_range)
    first = scene.ngeom
    added = write_spheres(scene.geoms, first, x, y, heights, radius, low, high)
    scene.ngeom = first + added
    return added


def _ascending(height_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in height_range)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"height_range: expected two finite heights, the lower first, got {height_range!r}")
    return low, high


_AMBER = np.array([1.0, 0.65, 0.1, 0.65], dtype=np.float32)
_RED = np.array([1.0, 0.15, 0.1, 1.0], dtype=np.float32)
_RADIUS_OF_1_KG = 0.05  # m
_METRES_PER_NEWTON = 0.005
_ARROW_WIDTH = 0.0333  # m


def add_payload_sphere(scene: mujoco.MjvScene, position: ArrayLike, mass: float) -> int:
    """An amber sphere for a payload, its volume proportional to its mass: 1 kg has a radius of 5 cm.

    Args:
        position: of the payload, world [m].
        mass: positive [kg].
    Returns:
        1, or 0 when the scene has no room.
    """
    radius = _RADIUS_OF_1_KG * math.cbrt(mass)
    return _add(scene, mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, radius), position, np.eye(3), _AMBER, f"{mass:g} kg")


def add_force_arrow(scene: mujoco.MjvScene, origin: ArrayLike, force: ArrayLike) -> int:
    """A red arrow for a force, from where it acts: 100 N are 0.5 m. None for a force of zero.

    Args:
        origin: world [m].
        force: world axes [N].
    Returns:
        1, or 0 when there is no force or the scene has no room.
    """
    force = np.asarray(force, dtype=np.float64)
    size = float(np.linalg.norm(force))
    if size == 0:
        return 0
    quat, mat = np.zeros(4), np.zeros(9)
    mujoco.mju_quatZ2Vec(quat, force / size)
    mujoco.mju_quat2Mat(mat, quat)
    shape = np.array([_ARROW_WIDTH, _ARROW_WIDTH, _METRES_PER_NEWTON * size])
    return _add(scene, mujoco.mjtGeom.mjGEOM_ARROW, shape, origin, mat, _RED, f"F={size:.4g} N")


def _add(scene, geom_type, size, position, mat, rgba, label: str) -> int:
    if scene.ngeom >= scene.maxgeom:
        return 0
    geom = scene.geoms[scene.ngeom]
    position = np.asarray(position, dtype=np.float64)
    mujoco.mjv_initGeom(geom, geom_type, np.asarray(size), position, np.asarray(mat, dtype=np.float64).ravel(), rgba)
    geom.category = int(mujoco.mjtCatBit.mjCAT_DECOR)
    geom.label = label
    scene.ngeom += 1
    return 1
