"""One obstacle around or under the middle of the tile: rails, a pit, a box, a gap, rings; and the plain ground."""

from dataclasses import dataclass

import numpy as np

from xbot2_fast.terrain.config import (
    Range,
    SubTerrainCfg,
    at,
    count,
    length,
    length_range,
    length_range_or_zero,
    refuse,
    switch,
)
from xbot2_fast.terrain.shapes import GROUND_DEPTH, Frame, Tile, block, ring, square_ring, tile


def ground(frame: Frame) -> list[float]:
    """A slab under the whole tile with its top at 0."""
    return block(*frame.half, -GROUND_DEPTH, 0.0)


@dataclass
class MeshPlaneTerrainCfg(SubTerrainCfg):
    """Flat ground at height 0."""

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        return tile([ground(frame)], 0.0)


@dataclass
class MeshRailsTerrainCfg(SubTerrainCfg):
    """Two square rails on flat ground, one around the platform and one half way to the edge.

    Args:
        rail_thickness_range: width of a rail.
        rail_height_range: height of a rail.
        platform_width: inner width of the inner rail.
    """

    rail_thickness_range: Range = length_range((0.3, 0.1))
    rail_height_range: Range = length_range_or_zero((0.05, 0.25))
    platform_width: float = length(1.5)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("rail_thickness_range", self.platform_width + 4 * max(self.rail_thickness_range), frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        thickness, height = at(self.rail_thickness_range, difficulty), at(self.rail_height_range, difficulty)
        inner = 0.5 * self.platform_width
        outer = 0.5 * (inner + 0.5 * frame.width)
        rails = (
            []
            if height == 0
            else [
                *square_ring(inner + thickness, inner, 0.0, height),
                *square_ring(outer + thickness, outer, 0.0, height),
            ]
        )
        return tile([ground(frame), *rails], 0.0)


@dataclass
class MeshPitTerrainCfg(SubTerrainCfg):
    """A square pit to climb out of; the start is at its bottom.

    Args:
        pit_depth_range: depth of one level.
        platform_width: width of the bottom.
        double_pit: two levels, with a ledge of ledge_width between them.
        ledge_width: width of that ledge.
    """

    pit_depth_range: Range = length_range_or_zero((0.05, 0.5))
    platform_width: float = length(2.0)
    double_pit: bool = switch(False)
    ledge_width: float = length(0.5)

    def check_fit(self, frame: Frame) -> None:
        _check_levels(self, self.platform_width, self.double_pit, self.ledge_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        depth, inner = at(self.pit_depth_range, difficulty), 0.5 * self.platform_width
        if depth == 0:
            return tile([ground(frame)], 0.0)
        levels = 2 if self.double_pit else 1
        bottom = -levels * depth - GROUND_DEPTH
        outer = inner + (levels - 1) * self.ledge_width
        boxes = ring(frame.half, (outer, outer), bottom, 0.0)
        if self.double_pit:
            boxes += square_ring(outer, inner, bottom, -depth)
        return tile([*boxes, block(inner, inner, bottom, -levels * depth)], -levels * depth)


@dataclass
class MeshBoxTerrainCfg(SubTerrainCfg):
    """A square block in the middle to climb down from; the start is on its top.

    Args:
        box_height_range: height of one level.
        platform_width: width of the top.
        double_box: two levels, with a ledge of ledge_width around the upper one.
        ledge_width: width of that ledge.
    """

    box_height_range: Range = length_range_or_zero((0.05, 0.5))
    platform_width: float = length(2.0)
    double_box: bool = switch(False)
    ledge_width: float = length(0.5)

    def check_fit(self, frame: Frame) -> None:
        _check_levels(self, self.platform_width, self.double_box, self.ledge_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        height, inner = at(self.box_height_range, difficulty), 0.5 * self.platform_width
        levels = 2 if self.double_box else 1
        boxes = [ground(frame)]
        if height > 0:
            outer = inner + (levels - 1) * self.ledge_width
            boxes += [block(outer, outer, -GROUND_DEPTH, height)]
            boxes += [block(inner, inner, -GROUND_DEPTH, 2 * height)] if self.double_box else []
        return tile(boxes, levels * height)


def _check_levels(cfg: SubTerrainCfg, platform_width: float, two: bool, ledge_width: float, frame: Frame) -> None:
    cfg._need_room("platform_width", platform_width + (2 * ledge_width if two else 0.0), frame)


@dataclass
class MeshGapTerrainCfg(SubTerrainCfg):
    """A platform with a gap around it.

    Args:
        gap_width_range: width of the gap.
        platform_width: width of the platform.
        gap_depth: depth of the floor of the gap.
    """

    gap_width_range: Range = length_range_or_zero((0.05, 0.8))
    platform_width: float = length(2.0)
    gap_depth: float = length(1.0)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("gap_width_range", self.platform_width + 2 * max(self.gap_width_range), frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        gap, inner, floor = at(self.gap_width_range, difficulty), 0.5 * self.platform_width, -self.gap_depth
        if gap == 0:
            return tile([ground(frame)], 0.0)
        outer = (inner + gap, inner + gap)
        return tile(
            [
                block(*frame.half, floor - GROUND_DEPTH, floor),
                *ring(frame.half, outer, floor, 0.0),
                block(inner, inner, floor, 0.0),
            ],
            0.0,
        )


@dataclass
class MeshFloatingRingTerrainCfg(SubTerrainCfg):
    """A square ring that floats above flat ground, to go over or under.

    Args:
        ring_width_range: width of the ring.
        ring_height_range: height of its underside.
        ring_thickness: thickness of the ring.
        platform_width: inner width of the ring.
    """

    ring_width_range: Range = length_range((0.4, 1.0))
    ring_height_range: Range = length_range_or_zero((0.4, 0.05))
    ring_thickness: float = length(0.05)
    platform_width: float = length(2.0)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("ring_width_range", self.platform_width + 2 * max(self.ring_width_range), frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        width, height = at(self.ring_width_range, difficulty), at(self.ring_height_range, difficulty)
        inner = 0.5 * self.platform_width
        return tile([ground(frame), *square_ring(inner + width, inner, height, height + self.ring_thickness)], 0.0)


@dataclass
class MeshNestedRingsTerrainCfg(SubTerrainCfg):
    """Square rings around a platform, at random heights and apart from each other.

    Args:
        num_rings: number of rings.
        ring_width_range: width of a ring.
        gap_width_range: gap before and behind each ring.
        ring_height_range: largest deviation of a ring's height from 0.
        gap_depth: depth of the floor of the gaps.
        platform_width: width of the platform.
    """

    num_rings: int = count(4)
    ring_width_range: Range = length_range((0.5, 0.3))
    gap_width_range: Range = length_range_or_zero((0.0, 0.2))
    ring_height_range: Range = length_range_or_zero((0.02, 0.15))
    gap_depth: float = length(0.5)
    platform_width: float = length(1.5)

    def check(self) -> None:
        super().check()
        if self.gap_depth <= max(self.ring_height_range):
            refuse(
                self,
                "gap_depth",
                f"expected more than the greatest ring height {max(self.ring_height_range):g}, got {self.gap_depth!r}",
            )

    def check_fit(self, frame: Frame) -> None:
        ends = zip(self.ring_width_range, self.gap_width_range, strict=True)
        rings = max(self.num_rings * width + (self.num_rings + 1) * gap for width, gap in ends)
        self._need_room("num_rings", self.platform_width + 2 * rings, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        width, gap = at(self.ring_width_range, difficulty), at(self.gap_width_range, difficulty)
        height = at(self.ring_height_range, difficulty)
        tops = rng.uniform(-height, height, size=self.num_rings)
        floor, inner = -self.gap_depth, 0.5 * self.platform_width
        boxes = [block(*frame.half, floor - GROUND_DEPTH, floor), block(inner, inner, floor, 0.0)]
        edge = inner
        for top in tops:
            boxes += square_ring(edge + gap + width, edge + gap, floor, top)
            edge += gap + width
        return tile([*boxes, *ring(frame.half, (edge + gap, edge + gap), floor, 0.0)], 0.0)
