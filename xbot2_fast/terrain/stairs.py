"""Solid stairs around a square landing: up, down, and up with random steps."""

from dataclasses import dataclass

import numpy as np

from xbot2_fast.terrain.config import Range, SubTerrainCfg, at, length, length_or_zero, length_range_or_zero, switch
from xbot2_fast.terrain.shapes import GROUND_DEPTH, Array, Frame, Tile, block, box, ring, square_ring, tile


def tread_edges(frame: Frame, step_width: float, platform_width: float, border_width: float) -> Array:
    """Half widths of the inner edges of the square treads, outermost first; the last is the edge of the landing.

    As many treads as fit between the landing and the border. What remains widens the border, so that the landing is
    exactly platform_width wide.
    """
    room = 0.5 * (frame.width - platform_width) - border_width
    treads = int(np.floor(room / step_width + 1e-9))
    return 0.5 * platform_width + step_width * np.arange(treads - 1, -1, -1)


@dataclass
class StairsCfg(SubTerrainCfg):
    """Square treads around a landing in the middle.

    Args:
        step_height_range: height of a step.
        step_width: horizontal advance from one tread to the next.
        platform_width: width of the landing.
        border_width: least width of the flat border at height 0.
    """

    step_height_range: Range = length_range_or_zero((0.05, 0.2))
    step_width: float = length(0.3)
    platform_width: float = length(2.0)
    border_width: float = length_or_zero(0.5)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("step_width", self.platform_width + 2 * self.border_width + 2 * self.step_width, frame)

    def _edges(self, frame: Frame) -> Array:
        return tread_edges(frame, self.step_width, self.platform_width, self.border_width)


@dataclass
class MeshPyramidStairsTerrainCfg(StairsCfg):
    """Stairs up to a landing.

    Args:
        holes: keep only the four flights of platform_width, with nothing between them.
    """

    holes: bool = switch(False)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        edges = self._edges(frame)
        step = at(self.step_height_range, difficulty)
        return _up(self, frame, edges, step * np.arange(1, len(edges) + 2))


@dataclass
class MeshInvertedPyramidStairsTerrainCfg(StairsCfg):
    """Stairs down to a landing.

    Args:
        holes: keep only the four flights of platform_width, with nothing between them.
    """

    holes: bool = switch(False)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        edges = self._edges(frame)
        step = at(self.step_height_range, difficulty)
        return _down(self, frame, edges, -step * np.arange(1, len(edges) + 2))


@dataclass
class MeshRandomStairsTerrainCfg(StairsCfg):
    """Stairs up to a landing, each step of another height: between the first of step_height_range and the value of
    step_height_range at the difficulty."""

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        edges = self._edges(frame)
        bounds = sorted((self.step_height_range[0], at(self.step_height_range, difficulty)))
        return _up(self, frame, edges, np.cumsum(rng.uniform(*bounds, size=len(edges) + 1)))


def _up(cfg: StairsCfg, frame: Frame, edges: Array, tops: Array) -> Tile:
    """Blocks within each other, each higher than the one around it: one box a step shows the same faces as a ring."""
    outer = np.append(edges + cfg.step_width, 0.5 * cfg.platform_width)
    holes = getattr(cfg, "holes", False)
    if holes:
        boxes = ring(frame.half, (outer[0], outer[0]), -GROUND_DEPTH, 0.0)
    else:
        boxes = [block(*frame.half, -GROUND_DEPTH, 0.0)]
    below = 0.0
    for half, top in zip(outer, tops, strict=True):
        if top == below and not holes:
            continue
        arm = min(half, 0.5 * cfg.platform_width)
        if not holes or half == arm:
            boxes.append(block(half, half, -GROUND_DEPTH, top))
        else:
            boxes += _arms(half, arm, 0.0, top)
        below = top
    return tile(boxes, tops[-1])


def _down(cfg: MeshInvertedPyramidStairsTerrainCfg, frame: Frame, edges: Array, tops: Array) -> Tile:
    outer = edges + cfg.step_width
    landing = 0.5 * cfg.platform_width
    bottom = tops[-1] - GROUND_DEPTH
    if tops[-1] == 0 and not cfg.holes:
        return tile([block(*frame.half, bottom, 0.0)], 0.0)
    boxes = ring(frame.half, (outer[0], outer[0]), bottom, 0.0)
    for out, edge, top in zip(outer, edges, tops[:-1], strict=True):
        boxes += _arms(out, landing, edge, top, bottom) if cfg.holes else square_ring(out, edge, bottom, top)
    return tile([*boxes, block(landing, landing, bottom, tops[-1])], tops[-1])


def _arms(
    outer: float, half_width: float, inner: float, top: float, bottom: float = -GROUND_DEPTH
) -> list[list[float]]:
    """Steps in the four directions. With inner = 0 opposite ones are one box: what meets in the middle is covered."""
    side, z = (-half_width, half_width), (bottom, top)
    if inner == 0:
        return [box((-outer, outer), side, z), box(side, (-outer, outer), z)]
    spans = ((inner, outer), (-outer, -inner))
    return [box(x, side, z) for x in spans] + [box(side, y, z) for y in spans]
