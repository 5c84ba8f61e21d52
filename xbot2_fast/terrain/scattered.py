"""Many objects at random places on flat ground around a free platform."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from xbot2_fast.terrain.config import (
    Range,
    SubTerrainCfg,
    at,
    count_range,
    interval,
    length,
    length_or_zero,
    length_range,
    length_range_or_zero,
    refuse,
)
from xbot2_fast.terrain.obstacles import ground
from xbot2_fast.terrain.shapes import Array, Frame, Mesh, Tile, quaternion, tile

# Objects reach this far into the ground, so that a tilted one does not show its underside.
_ROOT = 0.05


def places(frame: Frame, radius: float, platform_width: float) -> tuple[Array, tuple[float, float]]:
    """Centres (n, 2) of cells for discs of a radius, beside the platform, and how far a disc can move in one."""
    counts = [int(size / (2 * radius) + 1e-9) for size in (frame.size_x, frame.size_y)]
    if min(counts) < 1:
        return np.empty((0, 2)), (0.0, 0.0)
    pitch = (frame.size_x / counts[0], frame.size_y / counts[1])
    gx, gy = (p * (np.arange(n) - 0.5 * (n - 1)) for p, n in zip(pitch, counts, strict=True))
    centres = np.stack(np.meshgrid(gx, gy, indexing="ij"), -1).reshape(-1, 2)
    free = (np.abs(centres) - 0.5 * np.asarray(pitch) >= 0.5 * platform_width - 1e-9).any(1)
    return centres[free], (0.5 * pitch[0] - radius, 0.5 * pitch[1] - radius)


def draw_places(frame: Frame, radius: float, platform_width: float, number: int, rng: np.random.Generator) -> Array:
    """Random centres (number, 2) of discs that touch neither each other, nor the platform, nor the tile's edge."""
    centres, play = places(frame, radius, platform_width)
    chosen = centres[rng.choice(len(centres), size=number, replace=False)]
    return chosen + rng.uniform(-1.0, 1.0, size=chosen.shape) * play


@dataclass
class RepeatedCfg(SubTerrainCfg):
    """Objects of one shape.

    Args:
        num_objects_range: number of objects.
        object_height_range: height of an object above the ground.
        tilt_range: largest tilt of an object about a random horizontal axis [rad].
        height_noise: largest random deviation of an object's height.
        platform_width: width of the free square in the middle.
    """

    num_objects_range: tuple[int, int] = count_range((15, 40))
    object_height_range: Range = length_range_or_zero((0.05, 0.25))
    tilt_range: Range = length_range_or_zero((0.0, 0.2))
    height_noise: float = length_or_zero(0.0)
    platform_width: float = length(1.5)

    def check(self) -> None:
        super().check()
        if max(self.tilt_range) > 0.7:
            refuse(self, "tilt_range", f"expected at most 0.7 rad, got {self.tilt_range!r}")

    def check_fit(self, frame: Frame) -> None:
        for difficulty in np.linspace(0.0, 1.0, 21):
            number, reach = round(at(self.num_objects_range, difficulty)), self._reach(difficulty)
            room = len(places(frame, reach, self.platform_width)[0])
            if number > room:
                refuse(
                    self,
                    "num_objects_range",
                    f"{number} objects that reach {reach:g} m around them do not fit "
                    f"beside the platform: at most {room} do",
                )

    @abstractmethod
    def _base(self, difficulty: float) -> float:
        """Radius of the circle around an upright object."""

    def _reach(self, difficulty: float) -> float:
        """Radius that an object keeps within when it tilts about the middle of its base."""
        height = max(at(self.object_height_range, difficulty) + self.height_noise, _ROOT)
        tilt = np.sin(at(self.tilt_range, difficulty))
        depth = self._depth(difficulty)
        return self._base(difficulty) + max(height, depth) * tilt

    def _depth(self, difficulty: float) -> float:
        """How far an object goes below the ground so that its underside stays there when it tilts."""
        return _ROOT + self._base(difficulty) * np.tan(at(self.tilt_range, difficulty))

    def _draw(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Centres (n, 2), heights (n,) and quaternions (n, 4); objects without height are left out."""
        number = round(at(self.num_objects_range, difficulty))
        centres = draw_places(frame, self._reach(difficulty), self.platform_width, number, rng)
        noise = rng.uniform(-self.height_noise, self.height_noise, size=number)
        heights = np.maximum(at(self.object_height_range, difficulty) + noise, 0.0)
        tilts = rng.uniform(0.0, at(self.tilt_range, difficulty), size=number)
        axes = rng.uniform(-np.pi, np.pi, size=number)
        quats = np.array([quaternion((np.cos(a), np.sin(a), 0.0), t) for a, t in zip(axes, tilts, strict=True)])
        keep = heights > 1e-6
        return centres[keep], heights[keep], quats.reshape(-1, 4)[keep]


@dataclass
class MeshRepeatedPyramidsTerrainCfg(RepeatedCfg):
    """Four-sided pyramids.

    Args:
        object_radius_range: distance of the corners of the base from its centre.
    """

    object_radius_range: Range = length_range((0.3, 0.2))

    def _base(self, difficulty: float) -> float:
        return at(self.object_radius_range, difficulty)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        radius, depth = self._base(difficulty), self._depth(difficulty)
        base = radius * np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], float)
        levels = [np.column_stack([base, np.full(4, z)]) for z in (-depth, 0.0)]
        meshes = []
        for centre, height, quat in zip(*self._draw(frame, difficulty, rng), strict=True):
            vertices = np.concatenate([*levels, [(0.0, 0.0, height)]])
            meshes.append(Mesh(np.append(centre, 0.0), quat, vertices))
        return tile([ground(frame)], 0.0, meshes=tuple(meshes))


@dataclass
class MeshRepeatedBoxesTerrainCfg(RepeatedCfg):
    """Boxes, each turned about the vertical at random.

    Args:
        object_size_range: length of the two horizontal edges.
    """

    object_size_range: Range = length_range((0.5, 0.3))

    def _base(self, difficulty: float) -> float:
        return np.sqrt(0.5) * at(self.object_size_range, difficulty)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        half = 0.5 * at(self.object_size_range, difficulty)
        centres, heights, quats = self._draw(frame, difficulty, rng)
        rows = _standing(centres, heights, quats, self._depth(difficulty))
        for row, yaw in zip(rows, rng.uniform(-np.pi, np.pi, size=len(rows)), strict=True):
            row[6:] = _turned(row[6:], yaw)
        rows = np.column_stack([rows[:, :3], np.full((len(rows), 2), half), rows[:, 5:]])
        return tile(np.concatenate([[ground(frame)], rows]), 0.0)


@dataclass
class MeshRepeatedCylindersTerrainCfg(RepeatedCfg):
    """Standing cylinders.

    Args:
        object_radius_range: radius of a cylinder.
    """

    object_radius_range: Range = length_range((0.3, 0.15))

    def _base(self, difficulty: float) -> float:
        return at(self.object_radius_range, difficulty)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        rows = _standing(*self._draw(frame, difficulty, rng), self._depth(difficulty))
        rows = np.column_stack([rows[:, :3], np.full(len(rows), self._base(difficulty)), rows[:, 5:]])
        return tile([ground(frame)], 0.0, cylinders=rows)


def _standing(centres: Array, heights: Array, quats: Array, depth: float) -> Array:
    """Rows (n, 10) as of boxes (the horizontal half sizes are left 0) that tilt about the middle of their base."""
    rows = np.zeros((len(centres), 10))
    rows[:, :2], rows[:, 5], rows[:, 6:] = centres, 0.5 * (heights + depth), quats
    w, x, y, z = quats.T
    up = np.column_stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
    rows[:, :3] += up * (0.5 * (heights - depth))[:, None]
    return rows


def _turned(quat: Array, yaw: float) -> Array:
    """A quaternion after a turn about the local z axis."""
    w, x, y, z = quat
    c, s = np.cos(0.5 * yaw), np.sin(0.5 * yaw)
    return np.array([w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s])


@dataclass
class MeshRandomSpreadTerrainCfg(SubTerrainCfg):
    """Boxes of random sizes and heights, each turned about the vertical at random.

    Args:
        num_boxes_range: number of boxes.
        box_height_range: greatest height of a box; each has a random height between half of it and it.
        box_widths: each of the two horizontal edges is drawn between these.
        platform_width: width of the free square in the middle.
    """

    num_boxes_range: tuple[int, int] = count_range((20, 60))
    box_height_range: Range = length_range_or_zero((0.05, 0.3))
    box_widths: Range = interval((0.2, 0.6))
    platform_width: float = length(1.5)

    def check_fit(self, frame: Frame) -> None:
        room = len(places(frame, np.sqrt(0.5) * self.box_widths[1], self.platform_width)[0])
        if max(self.num_boxes_range) > room:
            refuse(
                self,
                "num_boxes_range",
                f"{max(self.num_boxes_range)} boxes of up to {self.box_widths[1]:g} m do "
                f"not fit beside the platform: at most {room} do",
            )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        number, height = round(at(self.num_boxes_range, difficulty)), at(self.box_height_range, difficulty)
        centres = draw_places(frame, np.sqrt(0.5) * self.box_widths[1], self.platform_width, number, rng)
        heights = rng.uniform(0.5 * height, height, size=number)
        sizes, yaws = rng.uniform(*self.box_widths, size=(number, 2)), rng.uniform(-np.pi, np.pi, size=number)
        rows = np.zeros((number, 10))
        rows[:, :2], rows[:, 2], rows[:, 3:5], rows[:, 5] = centres, 0.5 * heights, 0.5 * sizes, 0.5 * heights
        rows[:, 6], rows[:, 9] = np.cos(0.5 * yaws), np.sin(0.5 * yaws)
        return tile(np.concatenate([[ground(frame)], rows]), 0.0)
