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
    x, y, heights = (np.ascontiguousarray(a, dtype=np.float64) for a in (x, y, heights))
    if heights.ndim != 2 or x.shape != heights.shape or y.shape != heights.shape:
        raise ValueError(f"x, y, heights: expected one shape (N, M), got {x.shape}, {y.shape}, {heights.shape}")
    if not 0 < radius < math.inf:
        raise ValueError(f"radius: expected a positive number of metres, got {radius!r}")
    low, high = finite_range(heights) if height_range is None else _ascending(height_range)
    added = write_spheres(scene.geoms, scene.ngeom, x, y, heights, radius, low, high)
    scene.ngeom += added
    return added


def _ascending(height_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in height_range)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"height_range: expected two finite heights, the lower first, got {height_range!r}")
    return low, high
