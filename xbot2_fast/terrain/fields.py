"""Height fields of smooth or rough ground: noise, slopes, waves, Perlin noise, and heights from a file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xbot2_fast.terrain.config import (
    Range,
    SubTerrainCfg,
    at,
    count,
    length,
    length_or_none,
    length_or_zero,
    length_range_or_zero,
    number,
    number_range,
    refuse,
)
from xbot2_fast.terrain.images import read_gray
from xbot2_fast.terrain.shapes import Array, Frame, Tile, field_tile, grid_points

# Width of the square whose highest point is the origin, where there is no platform.
START_WIDTH = 1.0


def edge_distance(frame: Frame) -> Array:
    """Distance of each point of a field from the nearest edge of the tile, shape (along y, along x)."""
    x, y = grid_points(frame)
    return np.minimum(frame.half[0] - np.abs(x), (frame.half[1] - np.abs(y))[:, None])


def flatten_border(heights: Array, frame: Frame, border_width: float) -> Array:
    """Height 0 within border_width of the edge of the tile."""
    return np.where(edge_distance(frame) < border_width - 1e-9, 0.0, heights)


@dataclass
class FieldCfg(SubTerrainCfg):
    """A height field.

    Args:
        border_width: width of the flat border at height 0.
    """

    border_width: float = length_or_zero(0.0)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("border_width", 2 * self.border_width + 2 * frame.horizontal_scale, frame)


@dataclass
class HfRandomUniformTerrainCfg(SubTerrainCfg):
    """Independent random heights; the difficulty plays no part.

    Args:
        noise_range: lowest and highest height, which a point draws whatever the difficulty.
        noise_step: heights are noise_range[0] plus whole multiples of it.
        border_width: width of the flat border at height 0.
        downsampled_scale: distance of the random points, heights between them are interpolated; None: horizontal_scale.
    """

    noise_range: Range = number_range((0.02, 0.1))
    noise_step: float = length(0.02)
    border_width: float = length_or_zero(0.25)
    downsampled_scale: float | None = length_or_none()

    def check(self) -> None:
        super().check()
        if self.noise_range[0] > self.noise_range[1]:
            refuse(self, "noise_range", f"expected the lower height first, got {self.noise_range!r}")

    def check_fit(self, frame: Frame) -> None:
        self._need_room("border_width", 2 * self.border_width + 2 * frame.horizontal_scale, frame)
        if self.downsampled_scale is not None and not frame.horizontal_scale <= self.downsampled_scale <= frame.width:
            refuse(
                self,
                "downsampled_scale",
                f"expected between horizontal_scale {frame.horizontal_scale:g} and "
                f"the tile's {frame.width:g} m, got {self.downsampled_scale!r}",
            )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        low, high = self.noise_range
        levels = low + self.noise_step * np.arange(int(np.floor((high - low) / self.noise_step + 1e-9)) + 1)
        coarse = (
            frame
            if self.downsampled_scale is None
            else Frame(frame.size_x, frame.size_y, self.downsampled_scale, frame.vertical_scale)
        )
        heights = rng.choice(levels, size=coarse.field_shape()[::-1]).T
        if coarse is not frame:
            heights = stretched(heights, frame)
        return field_tile(flatten_border(heights, frame, self.border_width), frame, START_WIDTH)


def stretched(values: Array, frame: Frame) -> Array:
    """Bilinear interpolation of a grid over the whole tile at the points of the tile's field."""
    rows, columns = values.shape
    x, y = grid_points(frame)
    across, along = np.linspace(x[0], x[-1], columns), np.linspace(y[0], y[-1], rows)
    along_x = np.array([np.interp(x, across, row) for row in values])
    return np.array([np.interp(y, along, column) for column in along_x.T]).T


@dataclass
class HfPyramidSlopedTerrainCfg(SubTerrainCfg):
    """Slopes up to a platform.

    Args:
        slope_range: slope, as rise over run.
        platform_width: width of the platform.
        border_width: width of the flat border at height 0.
    """

    slope_range: Range = length_range_or_zero((0.0, 0.4))
    platform_width: float = length(2.0)
    border_width: float = length_or_zero(0.25)

    def check_fit(self, frame: Frame) -> None:
        self._need_room("platform_width", self.platform_width + 2 * self.border_width, frame)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        return self._tile(frame, at(self.slope_range, difficulty))

    def _tile(self, frame: Frame, slope: float) -> Tile:
        run = 0.5 * (frame.width - self.platform_width) - self.border_width
        heights = slope * np.clip(edge_distance(frame) - self.border_width, 0.0, run)
        return field_tile(heights, frame, min(self.platform_width, START_WIDTH))


@dataclass
class HfInvertedPyramidSlopedTerrainCfg(HfPyramidSlopedTerrainCfg):
    """Slopes down to a platform."""

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        return self._tile(frame, -at(self.slope_range, difficulty))


@dataclass
class HfWaveTerrainCfg(FieldCfg):
    """Waves along x and along y, added to each other.

    Args:
        amplitude_range: amplitude of the sum.
        num_waves: number of waves along each side.
    """

    amplitude_range: Range = length_range_or_zero((0.02, 0.2))
    num_waves: int = count(3)

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        x, y = grid_points(frame)
        turn = 2 * np.pi * self.num_waves
        waves = np.sin(turn * x / frame.size_x) + np.cos(turn * y / frame.size_y)[:, None]
        heights = 0.5 * at(self.amplitude_range, difficulty) * waves
        return field_tile(flatten_border(heights, frame, self.border_width), frame, START_WIDTH)


@dataclass
class HfPerlinTerrainCfg(FieldCfg):
    """Perlin noise: smooth random hills, with finer and lower ones on top.

    Args:
        amplitude_range: greatest possible deviation from height 0.
        wavelength: distance of the hills of the first octave.
        octaves: number of layers of noise.
        persistence: amplitude of a layer relative to the one before.
        lacunarity: how many times finer a layer is than the one before.
    """

    amplitude_range: Range = length_range_or_zero((0.05, 0.5))
    wavelength: float = length(2.0)
    octaves: int = count(3)
    persistence: float = length(0.5)
    lacunarity: float = length(2.0)

    def check_fit(self, frame: Frame) -> None:
        super().check_fit(frame)
        if self.wavelength / self.lacunarity ** (self.octaves - 1) < frame.horizontal_scale - 1e-9:
            refuse(
                self,
                "octaves",
                f"the last of {self.octaves} octaves is finer than horizontal_scale {frame.horizontal_scale:g} m",
            )

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        x, y = grid_points(frame)
        weights = self.persistence ** np.arange(self.octaves)
        noise = sum(
            weight * perlin(x + frame.half[0], y + frame.half[1], self.wavelength / self.lacunarity**k, rng)
            for k, weight in enumerate(weights)
        )
        heights = at(self.amplitude_range, difficulty) * noise / weights.sum()
        return field_tile(flatten_border(heights, frame, self.border_width), frame, START_WIDTH)


def perlin(x: Array, y: Array, wavelength: float, rng: np.random.Generator) -> Array:
    """One layer of gradient noise between -1 and 1 over the grid of x and y, both >= 0; shape (len(y), len(x)).

    Source: Perlin, "Improving Noise", SIGGRAPH 2002 (fade curve), with random unit gradients.
    """
    u, v = x / wavelength, y / wavelength
    i, j = np.floor(u).astype(int), np.floor(v).astype(int)
    angle = rng.uniform(-np.pi, np.pi, size=(j.max() + 2, i.max() + 2))
    gx, gy = np.cos(angle), np.sin(angle)
    u, v = u - i, (v - j)[:, None]

    def corner(right: int, up: int) -> Array:
        cell = np.ix_(j + up, i + right)
        return gx[cell] * (u - right) + gy[cell] * (v - up)

    fade_u, fade_v = (t**3 * (t * (6 * t - 15) + 10) for t in (u, v))
    low = corner(0, 0) + fade_u * (corner(1, 0) - corner(0, 0))
    high = corner(0, 1) + fade_u * (corner(1, 1) - corner(0, 1))
    return np.sqrt(2) * (low + fade_v * (high - low))


@dataclass
class HfFromImageTerrainCfg(FieldCfg):
    """Heights from a gray image (PNG, 8 or 16 bits) or a two-dimensional array (.npy), stretched over the tile.

    An image counts from 0 (black) to 1 (white) and its upper edge lies at the tile's edge towards +y; rows of an array
    go from -y to +y. The difficulty plays no part.

    Args:
        path: the file.
        height_scale: height [m] of the value 1.
        height_offset: height [m] of the value 0.
    """

    path: str | Path = ""
    height_scale: float = number(1.0)
    height_offset: float = number(0.0)

    def check(self) -> None:
        super().check()
        if not self.path or Path(self.path).suffix.lower() not in (".png", ".npy"):
            refuse(self, "path", f"expected a .png or .npy file, got {str(self.path)!r}")
        if not Path(self.path).is_file():
            refuse(self, "path", f"no such file: {str(self.path)!r}")

    def inputs(self) -> dict[str, str]:
        return {"path": hashlib.sha256(Path(self.path).read_bytes()).hexdigest()}

    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        heights = self.height_offset + self.height_scale * stretched(self._read(), frame)
        return field_tile(flatten_border(heights, frame, self.border_width), frame, START_WIDTH)

    def _read(self) -> Array:
        if Path(self.path).suffix.lower() == ".npy":
            values = np.load(self.path, allow_pickle=False)
        else:
            values = read_gray(Path(self.path))[::-1]
        if values.ndim != 2 or min(values.shape) < 2 or values.dtype.kind not in "fiub":
            refuse(
                self,
                "path",
                f"expected at least 2 x 2 numbers, got shape {values.shape} of {values.dtype} in {str(self.path)!r}",
            )
        values = values.astype(np.float64)
        if not np.isfinite(values).all():
            refuse(self, "path", f"expected finite numbers, got NaN or infinity in {str(self.path)!r}")
        return values
