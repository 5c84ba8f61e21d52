"""Grids of columns: at random heights, tilted, or apart from each other over a pit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xbot2_fast.terrain.config import (
    Range,
    SubTerrainCfg,
    at,
    length,
    length_or_zero,
    length_range,
    length_range_or_zero,
    refuse,
    switch,
)
from xbot2_fast.terrain.shapes import GROUND_DEPTH, Array, Frame, Tile, block, quaternion, ring, tile

_UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def cell_centres(frame: Frame, pitch: float, border_width: float = 0.0) -> tuple[Array, Array, tuple[float, float]]:
    """Centres (along x, along y) of as many whole cells as fit within the border, and half sizes of all cells."""
    counts = [max(1, int((size - 2 * border_width) / pitch + 1e-9)) for size in (frame.size_x, frame.size_y)]
    x, y = (pitch * (np.arange(n) - 0.5 * (n - 1)) for n in counts)
    return x, y, (0.5 * pitch * counts[0], 0.5 * pitch * counts[1])


def columns(x: Array, y: Array, half: float, bottom: float | Array, tops: Array) -> Array:
    """Upright boxes (n, 10) over square cells, in the order of x, then y; tops has shape (len(x), len(y))."""
    gx, gy = np.meshgrid(x, y, indexing="ij")
    boxes = np.empty((tops.size, 10))
    boxes[:, 0], boxes[:, 1], boxes[:, 2] = gx.ravel(), gy.ravel(), (0.5 * (tops + bottom)).ravel()
    boxes[:, 3:5], boxes[:, 5] = half, (0.5 * (tops - bottom)).ravel()
    boxes[:, 6:] = _UPRIGHT
    return boxes


def need_depth(configuration: SubTerrainCfg, holes_depth: float, stone_height_max: float) -> None:
    """Refuse holes that are no deeper than the lowest stone."""
    if holes_depth <= stone_height_max:
        refuse(
            configuration,
            "holes_depth",
            f"expected more than stone_height_max {stone_height_max:g}, got {holes_depth!r}",
        )


def _make_room(x: Array, y: Array, half: float, platform: float) -> tuple[NDArray[np.bool_], tuple[float, float]]:
    """Cells (flat, x then y) that stay beside a platform, and the platform's half sizes, grown over the others."""
    inside = [np.abs(centres) - half < platform - 1e-9 for centres in (x, y)]
    grown = [max(platform, np.abs(c[i]).max(initial=0.0) + half) for c, i in zip((x, y), inside, strict=True)]
    return ~(inside[0][:, None] & inside[1]).ravel(), (grown[0], grown[1])


@dataclass
class MeshRandomGridTerrainCfg(SubTerrainCfg):
    """Square columns side by side, each at a random height between minus and plus the grid height.

    Args:
        grid_width: width of a column.
        grid_height_range: largest deviation of a column's height from 0.
        platform_width: width of the platform in the middle, as high as the highest possible column.
        holes: keep only the columns in the two strips of platform_width along x and y.
    """

    grid_width: float = length(0.45)
    grid_height_range: Range = length_range_or_zero((0.05, 0.2))
    platform_width: float = length(1.5)
    holes: bool = switch(False)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("platform_width", self.platform_width, frame)
        self._need_room("grid_width", self.grid_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        height = at(self.grid_height_range, difficulty)
        x, y, half = cell_centres(frame, self.grid_width)
        tops = rng.uniform(-height, height, size=(len(x), len(y)))
        if height == 0 and not self.holes:
            return tile([block(*frame.half, -GROUND_DEPTH, 0.0)], 0.0)
        platform, bottom = 0.5 * self.platform_width, -height - GROUND_DEPTH
        cells = columns(x, y, 0.5 * self.grid_width, bottom, tops)
        away = np.abs(cells[:, :2])
        keep = (away < platform).any(1) if self.holes else np.ones(len(cells), bool)
        others = [] if self.holes else ring(frame.half, half, bottom, 0.0)
        if height > 0:
            keep &= (away + 0.5 * self.grid_width > platform + 1e-9).any(1)
            others = [*others, block(platform, platform, bottom, height)]
        return tile(np.concatenate([cells[keep], np.reshape(others, (-1, 10))]), height)


@dataclass
class MeshTiltedGridTerrainCfg(SubTerrainCfg):
    """Square plates side by side over a floor, each at a random height and tilted about a random horizontal axis.

    Args:
        grid_width: width of a cell; a tilted plate stays within its cell.
        tilt_range: largest tilt [rad].
        grid_height_range: largest deviation of a plate's height from 0.
        plate_thickness: thickness of the plates.
        platform_width: least width of the level platform in the middle, which covers whole cells.
        border_width: least width of the flat border at height 0.
    """

    grid_width: float = length(0.5)
    tilt_range: Range = length_range_or_zero((0.0, 0.25))
    grid_height_range: Range = length_range_or_zero((0.0, 0.05))
    plate_thickness: float = length(0.1)
    platform_width: float = length(1.5)
    border_width: float = length_or_zero(0.25)

    def check(self) -> None:
        super().check()
        if max(self.tilt_range) > 0.7:
            refuse(self, "tilt_range", f"expected at most 0.7 rad, got {self.tilt_range!r}")
        if self._half_plate(max(self.tilt_range)) < 0.2 * self.grid_width:
            refuse(
                self,
                "plate_thickness",
                f"{self.plate_thickness!r} is too thick to tilt within grid_width {self.grid_width:g}",
            )

    def check_fit(self, frame: Frame) -> None:
        self._need_room("platform_width", self.platform_width + 2 * self.border_width, frame)
        self._need_room("grid_width", self.grid_width + 2 * self.border_width, frame)

    def _half_plate(self, tilt: float) -> float:
        """Half width of a plate whose corners stay within the cell when it tilts about any horizontal axis.

        Turning a square about an axis in its plane widens its shadow by (sqrt(2) - 1) / 2 of 1 - cos(tilt) at most.
        """
        lean = 0.5 * self.plate_thickness * np.sin(tilt)
        return (0.5 * self.grid_width - lean) / (1 + 0.5 * (np.sqrt(2) - 1) * (1 - np.cos(tilt)))

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        tilt, height = at(self.tilt_range, difficulty), at(self.grid_height_range, difficulty)
        x, y, half = cell_centres(frame, self.grid_width, self.border_width)
        shape = (len(x), len(y))
        heights = rng.uniform(-height, height, size=shape)
        tilts, axes = rng.uniform(0, tilt, size=shape), rng.uniform(-np.pi, np.pi, size=shape)
        plate, platform = self._half_plate(tilt), 0.5 * self.platform_width
        boxes = columns(x, y, plate, heights - self.plate_thickness, heights)
        for row, angle, axis in zip(boxes, tilts.ravel(), axes.ravel(), strict=True):
            row[6:] = quaternion((np.cos(axis), np.sin(axis), 0.0), angle)
        keep, island = _make_room(x, y, 0.5 * self.grid_width, platform)
        floor = -height - plate * np.sqrt(2) * np.sin(tilt) - self.plate_thickness - 0.1
        around = [
            block(*frame.half, floor - GROUND_DEPTH, floor),
            *ring(frame.half, half, floor, 0.0),
            block(*island, floor, 0.0),
        ]
        return tile(np.concatenate([boxes[keep], np.reshape(around, (-1, 10))]), 0.0)


@dataclass
class MeshSteppingStonesTerrainCfg(SubTerrainCfg):
    """Square stones apart from each other over a pit.

    Args:
        stone_width_range: width of a stone.
        stone_distance_range: gap between stones.
        stone_height_max: stones are at random heights between minus and plus this.
        holes_depth: depth of the pit.
        platform_width: least width of the platform in the middle, which takes the place of whole stones.
        border_width: least width of the flat border at height 0.
    """

    stone_width_range: Range = length_range((0.8, 0.3))
    stone_distance_range: Range = length_range((0.05, 0.25))
    stone_height_max: float = length_or_zero(0.03)
    holes_depth: float = length(1.0)
    platform_width: float = length(1.5)
    border_width: float = length_or_zero(0.5)

    def check(self) -> None:
        super().check()
        need_depth(self, self.holes_depth, self.stone_height_max)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("platform_width", self.platform_width + 2 * self.border_width, frame)
        pitch = max(sum(pair) for pair in zip(self.stone_width_range, self.stone_distance_range, strict=True))
        self._need_room("stone_width_range", pitch + 2 * self.border_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        width, distance = at(self.stone_width_range, difficulty), at(self.stone_distance_range, difficulty)
        x, y, _ = cell_centres(frame, width + distance, self.border_width)
        tops = rng.uniform(-self.stone_height_max, self.stone_height_max, size=(len(x), len(y)))
        floor, platform = -self.holes_depth, 0.5 * self.platform_width
        stones = columns(x, y, 0.5 * width, floor, tops)
        keep, island = _make_room(x, y, 0.5 * width, platform)
        inner = (frame.half[0] - self.border_width, frame.half[1] - self.border_width)
        around = [
            block(*frame.half, floor - GROUND_DEPTH, floor),
            *ring(frame.half, inner, floor, 0.0),
            block(*island, floor, 0.0),
        ]
        return tile(np.concatenate([stones[keep], np.reshape(around, (-1, 10))]), 0.0)
