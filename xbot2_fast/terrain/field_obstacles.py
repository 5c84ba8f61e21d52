"""Height fields of flat parts at different heights: a step is a steep slope between two points of the field."""

from dataclasses import dataclass

import numpy as np

from xbot2_fast.terrain.config import (
    Range,
    SubTerrainCfg,
    at,
    choice,
    count,
    interval,
    length,
    length_or_zero,
    length_range,
    length_range_or_zero,
    refuse,
)
from xbot2_fast.terrain.fields import START_WIDTH, FieldCfg, edge_distance, flatten_border
from xbot2_fast.terrain.grids import cell_centres, need_depth
from xbot2_fast.terrain.shapes import Array, Frame, Tile, field_tile, grid_points


@dataclass
class HfPyramidStairsTerrainCfg(SubTerrainCfg):
    """Stairs up to a platform.

    Args:
        step_height_range: height of a step.
        step_width: horizontal advance from one tread to the next.
        platform_width: least width of the platform.
        border_width: width of the flat border at height 0.
    """

    step_height_range: Range = length_range_or_zero((0.05, 0.2))
    step_width: float = length(0.3)
    platform_width: float = length(1.5)
    border_width: float = length_or_zero(0.5)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("step_width", self.platform_width + 2 * self.border_width + 2 * self.step_width, frame)
        if self.step_width < frame.horizontal_scale - 1e-9:
            refuse(
                self,
                "step_width",
                f"expected at least horizontal_scale {frame.horizontal_scale:g}, got {self.step_width!r}",
            )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        return self._tile(frame, at(self.step_height_range, difficulty))

    def _tile(self, frame: Frame, step: float) -> Tile:
        inward = edge_distance(frame) - self.border_width
        run = 0.5 * (frame.width - self.platform_width) - self.border_width
        steps = np.clip(np.floor(inward / self.step_width + 1e-9) + 1, 0, int(run / self.step_width + 1e-9) + 1)
        return field_tile(step * steps, frame, min(self.platform_width, START_WIDTH))


@dataclass
class HfInvertedPyramidStairsTerrainCfg(HfPyramidStairsTerrainCfg):
    """Stairs down to a platform."""

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        return self._tile(frame, -at(self.step_height_range, difficulty))


@dataclass
class HfDiscreteObstaclesTerrainCfg(FieldCfg):
    """Rectangles at random places, raised or sunk.

    Args:
        obstacle_height_mode: "choice": each height is -1, -1/2, 1/2 or 1 times the obstacle height; "fixed": it.
        obstacle_widths: each of the two horizontal edges is drawn between these.
        obstacle_height_range: obstacle height.
        num_obstacles: number of rectangles; later ones cover earlier ones.
        platform_width: width of the flat square in the middle.
    """

    obstacle_height_mode: str = choice("choice", "choice", "fixed")
    obstacle_widths: Range = interval((0.25, 0.75))
    obstacle_height_range: Range = length_range_or_zero((0.02, 0.2))
    num_obstacles: int = count(40)
    platform_width: float = length(1.5)

    def check_fit(self, frame: Frame) -> None:
        super().check_fit(frame)
        self._need_room("obstacle_widths", self.obstacle_widths[1] + 2 * self.border_width, frame)
        self._need_room("platform_width", self.platform_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        height = at(self.obstacle_height_range, difficulty)
        factors = (-1.0, -0.5, 0.5, 1.0) if self.obstacle_height_mode == "choice" else (1.0,)
        x, y = grid_points(frame)
        heights = np.zeros((len(y), len(x)))
        for _ in range(self.num_obstacles):
            half = 0.5 * rng.uniform(*self.obstacle_widths, size=2)
            room = np.asarray(frame.half) - self.border_width - half
            centre = rng.uniform(-room, room)
            heights[_square(x, y, centre, half)] = height * rng.choice(factors)
        heights[_square(x, y, np.zeros(2), np.full(2, 0.5 * self.platform_width))] = 0.0
        return field_tile(
            flatten_border(heights, frame, self.border_width), frame, min(self.platform_width, START_WIDTH)
        )


@dataclass
class HfSteppingStonesTerrainCfg(FieldCfg):
    """Square stones apart from each other over holes.

    Args:
        stone_width_range: width of a stone.
        stone_distance_range: gap between stones.
        stone_height_max: stones are at random heights between minus and plus this.
        holes_depth: depth of the holes.
        platform_width: width of the flat square in the middle.
    """

    stone_width_range: Range = length_range((0.8, 0.3))
    stone_distance_range: Range = length_range((0.1, 0.25))
    stone_height_max: float = length_or_zero(0.03)
    holes_depth: float = length(1.0)
    platform_width: float = length(1.5)

    def check(self) -> None:
        super().check()
        need_depth(self, self.holes_depth, self.stone_height_max)

    def check_fit(self, frame: Frame) -> None:
        super().check_fit(frame)
        self._need_room("platform_width", self.platform_width, frame)
        self._need_room("stone_width_range", max(self.stone_width_range) + 2 * self.border_width, frame)
        for name in ("stone_width_range", "stone_distance_range"):
            if min(getattr(self, name)) < frame.horizontal_scale - 1e-9:
                refuse(
                    self,
                    name,
                    f"expected at least horizontal_scale {frame.horizontal_scale:g}, got {getattr(self, name)!r}",
                )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        width, distance = at(self.stone_width_range, difficulty), at(self.stone_distance_range, difficulty)
        x, y = grid_points(frame)
        cx, cy, _ = cell_centres(frame, width + distance, self.border_width)
        tops = rng.uniform(-self.stone_height_max, self.stone_height_max, size=(len(cx), len(cy)))
        heights = np.full((len(y), len(x)), -self.holes_depth)
        for i, j in np.ndindex(tops.shape):
            heights[_square(x, y, np.array([cx[i], cy[j]]), np.full(2, 0.5 * width))] = tops[i, j]
        heights[_square(x, y, np.zeros(2), np.full(2, 0.5 * self.platform_width))] = 0.0
        heights = flatten_border(heights, frame, self.border_width)
        return field_tile(heights, frame, min(self.platform_width, START_WIDTH))


def _square(x: Array, y: Array, centre: Array, half: Array) -> tuple[slice, slice]:
    """Points of a field in a rectangle, as (rows along y, columns along x)."""
    columns, rows = (
        slice(int(np.searchsorted(points, c - h - 1e-9)), int(np.searchsorted(points, c + h + 1e-9)))
        for points, c, h in zip((x, y), centre, half, strict=True)
    )
    return rows, columns
