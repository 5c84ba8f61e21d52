"""TerrainGenerator: lays sub-terrains out on a grid and hands the world out as XML, heights, triangles or pictures."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xbot2_fast.terrain import cache, world
from xbot2_fast.terrain.config import SubTerrainCfg, TerrainGeneratorCfg
from xbot2_fast.terrain.shapes import Array, Tile, ring
from xbot2_fast.terrain.surface import tile_height, upright_boxes

SPAWN_FILE = "spawn_locations.yaml"


class TerrainGenerator:
    """A world of sub-terrains, generated when it is made. Equal configurations and seeds give equal bytes.

    Args:
        cfg: what to generate. Later changes of it have no effect.

    Attributes:
        seed: of the random numbers; the one drawn when the configuration has none.
        terrain_origins: (num_rows, num_cols, 3), where robots start: the surface in the middle of each tile [m].
        terrain_types: (num_rows, num_cols), name of the sub-terrain of each tile.
        difficulties: (num_rows, num_cols), between 0 and 1.
        tiles: what each tile is made of, by row, then column.
    Raises:
        ValueError: a value of the configuration, with its name, what was expected and what came.
    """

    def __init__(self, cfg: TerrainGeneratorCfg) -> None:
        cfg.check()
        self.cfg = cfg
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if cfg.seed is None else int(cfg.seed)
        self._frame = cfg.frame
        self._shape = (cfg.num_rows, cfg.num_cols)
        self._border = _outer_border(cfg)
        self.terrain_types, self.difficulties, flat = self._from_cache() if cfg.use_cache else self._generate()
        self.tiles: list[list[Tile]] = [flat[r * cfg.num_cols : (r + 1) * cfg.num_cols] for r in range(cfg.num_rows)]
        self.terrain_origins = self._middles()
        self.terrain_origins[..., 2] = [[tile.origin_z for tile in row] for row in self.tiles]

    def _generate(self) -> tuple[NDArray[np.str_], Array, list[Tile]]:
        """Random numbers are drawn column by column, from the first to the last row of each."""
        cfg, rng = self.cfg, np.random.default_rng(self.seed)
        names = list(cfg.sub_terrains)
        shares = np.array([sub.proportion for sub in cfg.sub_terrains.values()], dtype=np.float64)
        shares /= shares.sum()
        of_column = column_types(shares, cfg.num_cols)
        types, difficulties = np.empty(self._shape, dtype=int), np.empty(self._shape)
        tiles: dict[tuple[int, int], Tile] = {}
        for column in range(cfg.num_cols):
            for row in range(cfg.num_rows):
                kind = of_column[column] if cfg.curriculum else int(rng.choice(len(names), p=shares))
                difficulty = self._difficulty(row, rng)
                sub: SubTerrainCfg = cfg.sub_terrains[names[kind]]
                tiles[row, column] = sub.tile(self._frame, difficulty, rng)
                types[row, column], difficulties[row, column] = kind, difficulty
        return np.array(names)[types], difficulties, [tiles[index] for index in np.ndindex(self._shape)]

    def _difficulty(self, row: int, rng: np.random.Generator) -> float:
        low, high = self.cfg.difficulty_range
        if self.cfg.curriculum:
            return low + (high - low) * (row + rng.uniform()) / self.cfg.num_rows
        return float(rng.uniform(low, high))

    def _from_cache(self) -> tuple[NDArray[np.str_], Array, list[Tile]]:
        folder, key = Path(self.cfg.cache_dir), cache.key(self.cfg, self.seed)
        found = cache.load(folder, key)
        if found is not None:
            tiles, facts = found
            return np.array(facts["types"]), np.array(facts["difficulties"]), tiles
        types, difficulties, tiles = self._generate()
        cache.store(folder, key, tiles, {"types": types.tolist(), "difficulties": difficulties.tolist()})
        return types, difficulties, tiles

    def _middles(self) -> Array:
        """Middle of each tile in the world, (rows, columns, 3): rows along x, columns along y."""
        x, y = (size * (np.arange(n) - 0.5 * (n - 1)) for size, n in zip(self.cfg.size, self._shape, strict=True))
        middles = np.zeros((*self._shape, 3))
        middles[..., 0], middles[..., 1] = x[:, None], y
        return middles

    @property
    def spawn_locations(self) -> Array:
        """(num_rows * num_cols, 3): spawn_height above each origin, row by row [m]."""
        return self.terrain_origins.reshape(-1, 3) + np.array([0.0, 0.0, self.cfg.spawn_height])

    def named_tiles(self) -> list[tuple[str, Array, Tile]]:
        """(name, middle in the world, tile), row by row."""
        middles = self._middles()
        return [
            (f"terrain_r{r}_c{c}_{self.terrain_types[r, c]}", middles[r, c], self.tiles[r][c])
            for r, c in np.ndindex(self._shape)
        ]

    @property
    def border(self) -> Array:
        """Boxes around all tiles in the world, (0 or 4, 6): centre and half sizes."""
        return self._border

    def height(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Height of the surface as seen from above.

        Args:
            x, y: world position [m], of shapes that broadcast together.
        Returns:
            World height [m] in their common shape, NaN where there is nothing.
        """
        x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
        shape, x, y = x.shape, x.ravel(), y.ravel()
        result = (
            upright_boxes(np.pad(self._border, ((0, 0), (0, 4))), x, y)
            if len(self._border)
            else np.full(x.shape, -np.inf)
        )
        result[np.isneginf(result)] = np.nan
        row, column, inside = self._tile_of(x, y)
        order = np.flatnonzero(inside)
        order = order[np.argsort(row[order] * self.cfg.num_cols + column[order], kind="stable")]
        tile_ids = row[order] * self.cfg.num_cols + column[order]
        middles = self._middles()
        for points in np.split(order, np.flatnonzero(np.diff(tile_ids)) + 1):
            if len(points):
                r, c = int(row[points[0]]), int(column[points[0]])
                local = (x[points] - middles[r, c, 0], y[points] - middles[r, c, 1])
                result[points] = tile_height(self.tiles[r][c], self._frame.half, *local)
        return result.reshape(shape)

    def _tile_of(self, x: Array, y: Array) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.bool_]]:
        """Row and column of the tile under each point, and whether there is one."""
        cells = [p / size + 0.5 * n for p, size, n in zip((x, y), self.cfg.size, self._shape, strict=True)]
        inside = (cells[0] >= 0) & (cells[0] <= self._shape[0]) & (cells[1] >= 0) & (cells[1] <= self._shape[1])
        row, column = (
            np.clip(np.where(inside, c, 0).astype(int), 0, n - 1) for c, n in zip(cells, self._shape, strict=True)
        )
        return row, column, inside

    def to_xml_string(self) -> str:
        """The world as one MJCF text that needs no other file."""
        return self._xml(world.inline_data)

    def build_xml(self) -> Any:
        """The world as the lxml element of `to_xml_string`."""
        from lxml import etree

        # A text node of inline heights may be longer than the 10 MB that lxml takes by default.
        return etree.fromstring(self.to_xml_string().encode(), etree.XMLParser(huge_tree=True))

    def save(self, path: str | Path) -> Path:
        """Write the world, its height fields in `<stem>_assets`, and `spawn_locations.yaml`, all in one folder.

        Missing folders are made, existing files replaced. Returns the path of the XML.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        files = world.FieldFiles(path.parent / f"{path.stem}_assets")
        text = self._xml(files)
        path.write_text(text, encoding="utf-8")
        files.remove_others()
        (path.parent / SPAWN_FILE).write_text(world.spawn_yaml(self.spawn_locations), encoding="utf-8")
        return path

    def _xml(self, source: world.FieldSource) -> str:
        return world.world_xml(self.named_tiles(), self._border, self._frame.half, self.seed, source)

    def to_trimesh(self) -> Any:
        """All surfaces as one `trimesh.Trimesh` in the world; needs the extra `terrain`. See `triangles`."""
        from xbot2_fast.terrain.triangles import as_trimesh

        return as_trimesh(self)

    def picture(self, path: str | Path, width: int = 960) -> Path:
        """Write a PNG of the world from above (left) and at an angle (right); needs the extra `terrain` and OpenGL."""
        from xbot2_fast.terrain.picture import write_picture

        return write_picture(self, Path(path), width)


def column_types(shares: Array, columns: int) -> list[int]:
    """Type of each column so that the numbers of columns are as close to the shares as whole numbers can be.

    Largest remainders first; the order of the types is kept.
    """
    exact = shares * columns
    counts = np.floor(exact + 1e-9).astype(int)
    by_remainder = np.argsort(-(exact - counts), kind="stable")
    counts[by_remainder[: columns - counts.sum()]] += 1
    return np.repeat(np.arange(len(shares)), counts).tolist()


def _outer_border(cfg: TerrainGeneratorCfg) -> Array:
    if cfg.border_width == 0:
        return np.empty((0, 6))
    inner = (0.5 * cfg.num_rows * cfg.size[0], 0.5 * cfg.num_cols * cfg.size[1])
    outer = (inner[0] + cfg.border_width, inner[1] + cfg.border_width)
    bottom, top = (-cfg.border_height, 0.0) if cfg.border_height > 0 else (0.0, -cfg.border_height)
    return np.array(ring(outer, inner, bottom, top))[:, :6]
