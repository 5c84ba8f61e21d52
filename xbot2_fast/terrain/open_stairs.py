"""Open stairs: treads of thin plates with nothing under them but a catch floor."""

from dataclasses import dataclass

import numpy as np

from xbot2_fast.terrain.config import Range, at, length, length_or_zero, length_range, length_range_or_zero, refuse
from xbot2_fast.terrain.shapes import Array, Frame, Tile, block, ring, square_ring, tile
from xbot2_fast.terrain.stairs import StairsCfg

# Depth of the catch floor below the lowest surface to walk on.
CATCH_DEPTH = 0.5
_FLOOR_THICKNESS = 0.5


@dataclass
class OpenStairsCfg(StairsCfg):
    """Four thin plates a tread, a landing of one plate, a solid border, and a floor to catch what falls through.

    Args:
        tread_thickness: thickness of the plates, less than the smallest step height.
        tread_overlap: how far an upper tread reaches over its lower neighbour, less than step_width.
    """

    step_height_range: Range = length_range((0.1, 0.3))
    tread_thickness: float = length(0.02)
    tread_overlap: float = length_or_zero(0.05)

    def check(self) -> None:
        super().check()
        _check_thickness(self, self.tread_thickness)
        if self.tread_overlap >= self.step_width:
            refuse(
                self, "tread_overlap", f"expected less than step_width {self.step_width:g}, got {self.tread_overlap!r}"
            )

    def _plates(self, inner: float, outer: float, top: float) -> list[list[float]]:
        return square_ring(outer, inner, top - self.tread_thickness, top)

    def _landing(self, top: float) -> list[float]:
        half = 0.5 * self.platform_width
        return block(half, half, top - self.tread_thickness, top)


@dataclass
class MeshOpenPyramidStairsTerrainCfg(OpenStairsCfg):
    """Open stairs up to a landing: treads reach outwards over the next lower tread, the lowest over the border."""

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        edges = self._edges(frame)
        step = at(self.step_height_range, difficulty)
        boxes = _surroundings(frame, edges[0] + self.step_width, 0.0)
        for k, edge in enumerate(edges):
            outer = min(edge + self.step_width + self.tread_overlap, 0.5 * frame.width)
            boxes += self._plates(edge, outer, (k + 1) * step)
        top = (len(edges) + 1) * step
        return tile([*boxes, self._landing(top)], top)


@dataclass
class MeshOpenInvertedPyramidStairsTerrainCfg(OpenStairsCfg):
    """Open stairs down to a landing: treads reach inwards over the next lower tread, the lowest over the landing."""

    def check(self) -> None:
        super().check()
        opening = self.platform_width - 2 * self.tread_overlap
        if opening <= 0:
            refuse(
                self,
                "platform_width",
                f"expected more than twice tread_overlap, so that the landing has an opening "
                f"above it; got {self.platform_width!r}, which leaves {opening:g} m",
            )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        edges = self._edges(frame)
        step = at(self.step_height_range, difficulty)
        top = -(len(edges) + 1) * step
        boxes = _surroundings(frame, edges[0] + self.step_width, top)
        for k, edge in enumerate(edges):
            boxes += self._plates(edge - self.tread_overlap, edge + self.step_width, -(k + 1) * step)
        return tile([*boxes, self._landing(top)], top)


@dataclass
class MeshSuspendedStairsTerrainCfg(StairsCfg):
    """Stairs up to a landing whose plates hang in the air with gaps between them.

    Args:
        tread_thickness: thickness of the plates, less than the smallest step height.
        gap_width_range: horizontal gap in front of each tread, less than step_width.
    """

    step_height_range: Range = length_range((0.05, 0.2))
    tread_thickness: float = length(0.04)
    gap_width_range: Range = length_range_or_zero((0.02, 0.12))

    def check(self) -> None:
        super().check()
        _check_thickness(self, self.tread_thickness)
        if max(self.gap_width_range) >= self.step_width:
            refuse(
                self,
                "gap_width_range",
                f"expected less than step_width {self.step_width:g}, got {self.gap_width_range!r}",
            )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        edges = self._edges(frame)
        step, gap = at(self.step_height_range, difficulty), at(self.gap_width_range, difficulty)
        boxes = _surroundings(frame, edges[0] + self.step_width, 0.0)
        for k, edge in enumerate(edges):
            top = (k + 1) * step
            boxes += square_ring(edge + self.step_width - gap, edge, top - self.tread_thickness, top)
        top, half = (len(edges) + 1) * step, 0.5 * self.platform_width - gap
        return tile([*boxes, block(half, half, top - self.tread_thickness, top)], top)

    def check_fit(self, frame: Frame) -> None:
        super().check_fit(frame)
        if max(self.gap_width_range) >= 0.5 * self.platform_width:
            refuse(
                self,
                "gap_width_range",
                f"expected less than half of platform_width {self.platform_width:g}, got {self.gap_width_range!r}",
            )


def _surroundings(frame: Frame, outer: float, lowest: float) -> list[list[float]]:
    """The catch floor under the whole tile and a border on it up to height 0."""
    floor = lowest - CATCH_DEPTH
    border: Array | list[list[float]] = ring(frame.half, (outer, outer), floor, 0.0)
    return [block(*frame.half, floor - _FLOOR_THICKNESS, floor), *border]


def _check_thickness(cfg: OpenStairsCfg | MeshSuspendedStairsTerrainCfg, thickness: float) -> None:
    least = min(cfg.step_height_range)
    if thickness >= least:
        refuse(cfg, "tread_thickness", f"expected less than the smallest step height {least:g}, got {thickness!r}")
