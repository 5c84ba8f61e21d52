"""Narrow ways over a pit, from the platform in the middle to the border."""

from dataclasses import dataclass

import numpy as np

from xbot2_fast.terrain.config import Range, SubTerrainCfg, at, count, length, length_range, refuse
from xbot2_fast.terrain.shapes import GROUND_DEPTH, Array, Frame, Mesh, Tile, block, box, clip, prism, ring, tile


@dataclass
class MeshStarTerrainCfg(SubTerrainCfg):
    """Bars that cross in the middle of a pit, with a square platform on the crossing.

    Args:
        num_bars: number of bars; each runs through the middle.
        bar_width_range: width of a bar.
        bar_height_range: depth of the pit under the bars.
        platform_width: width of the platform.
        border_width: width of the flat border at height 0.
    """

    num_bars: int = count(4)
    bar_width_range: Range = length_range((0.8, 0.25))
    bar_height_range: Range = length_range((0.2, 0.6))
    platform_width: float = length(1.5)
    border_width: float = length(0.5)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("platform_width", self.platform_width + 2 * self.border_width + 1e-3, frame)
        self._need_room("bar_width_range", max(self.bar_width_range) + 2 * self.border_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        width, depth = at(self.bar_width_range, difficulty), at(self.bar_height_range, difficulty)
        half = (frame.half[0] - self.border_width, frame.half[1] - self.border_width)
        platform = 0.5 * self.platform_width
        bars = [
            prism(piece, -depth, 0.0)
            for k in range(2 * self.num_bars)
            for piece in _bar(k * np.pi / self.num_bars, np.pi / self.num_bars, 0.5 * width, half, platform)
        ]
        boxes = [
            block(*frame.half, -depth - GROUND_DEPTH, -depth),
            *ring(frame.half, half, -depth, 0.0),
            block(platform, platform, -depth, 0.0),
        ]
        return tile(boxes, 0.0, meshes=tuple[Mesh, ...](bars))


def _bar(angle: float, between: float, half_width: float, half: tuple[float, float], platform: float) -> list[Array]:
    """Convex polygons of the half bar that leaves the middle in one direction, without the platform.

    It ends at the pit's edge, and where it meets its neighbours at half the angle between them, so that no two tops lie
    in the same place.
    """
    (hx, hy), out = half, np.array([np.cos(angle), np.sin(angle)])
    bar = np.array([(-hx, -hy), (hx, -hy), (hx, hy), (-hx, hy)])
    side = np.array([-out[1], out[0]])
    bar = clip(clip(clip(bar, side, half_width), -side, half_width), -out, 0.0)
    for sign in (1.0, -1.0):
        turn = angle + sign * 0.5 * between
        bar = clip(bar, (-sign * np.sin(turn), sign * np.cos(turn)), 0.0)
    right, left = clip(bar, (-1.0, 0.0), -platform), clip(bar, (1.0, 0.0), -platform)
    middle = clip(clip(bar, (1.0, 0.0), platform), (-1.0, 0.0), platform)
    pieces = (right, left, clip(middle, (0.0, -1.0), -platform), clip(middle, (0.0, 1.0), -platform))
    return [piece for piece in pieces if len(piece)]


@dataclass
class MeshNarrowBeamsTerrainCfg(SubTerrainCfg):
    """Parallel beams from each side of the platform to the border, over a pit.

    Args:
        num_beams: number of beams at each side.
        beam_width_range: width of a beam.
        pit_depth: depth of the pit.
        platform_width: width of the platform.
        border_width: width of the flat border at height 0.
    """

    num_beams: int = count(2)
    beam_width_range: Range = length_range((0.5, 0.15))
    pit_depth: float = length(1.0)
    platform_width: float = length(2.0)
    border_width: float = length(0.5)

    def check(self) -> None:
        super().check()
        if self.num_beams * max(self.beam_width_range) > self.platform_width:
            refuse(
                self,
                "num_beams",
                f"{self.num_beams} beams of {max(self.beam_width_range):g} m are wider than "
                f"platform_width {self.platform_width:g}",
            )

    def check_fit(self, frame: Frame) -> None:
        self._need_room("platform_width", self.platform_width + 2 * self.border_width + 1e-3, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        width, floor, platform = at(self.beam_width_range, difficulty), -self.pit_depth, 0.5 * self.platform_width
        half = (frame.half[0] - self.border_width, frame.half[1] - self.border_width)
        boxes = [
            block(*frame.half, floor - GROUND_DEPTH, floor),
            *ring(frame.half, half, floor, 0.0),
            block(platform, platform, floor, 0.0),
        ]
        lanes = self.platform_width / self.num_beams * (np.arange(self.num_beams) - 0.5 * (self.num_beams - 1))
        for lane in lanes:
            across = (lane - 0.5 * width, lane + 0.5 * width)
            for sign in (1, -1):
                along_x, along_y = (tuple(sorted((sign * platform, sign * end))) for end in half)
                boxes += [box(along_x, across, (floor, 0.0)), box(across, along_y, (floor, 0.0))]
        return tile(boxes, 0.0)
