"""Configuration of the generator, and what all sub-terrain configurations share: fields with rules, checked by name."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from xbot2_fast.terrain.shapes import Frame, Tile

Range = tuple[float, float]
_Rule = tuple[str, Callable[[Any], bool]]


def _number(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _pair_of(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (tuple, list)) and len(value) == 2 and all(rule(part) for part in value)


def _field(default: Any, expected: str, rule: Callable[[Any], bool]) -> Any:
    return field(default=default, metadata={"rule": (expected, rule)})


def length(default: float) -> Any:
    return _field(default, "a finite number above 0", lambda v: _number(v) and v > 0)


def length_or_zero(default: float) -> Any:
    return _field(default, "a finite number >= 0", lambda v: _number(v) and v >= 0)


def length_or_none() -> Any:
    return _field(None, "a finite number above 0 or None", lambda v: v is None or (_number(v) and v > 0))


def number(default: float) -> Any:
    return _field(default, "a finite number", _number)


def count(default: int) -> Any:
    return _field(default, "a whole number >= 1", lambda v: _whole(v) and v >= 1)


def switch(default: bool) -> Any:
    return _field(default, "True or False", lambda v: isinstance(v, (bool, np.bool_)))


def choice(default: str, *names: str) -> Any:
    return _field(default, "one of " + ", ".join(names), lambda v: v in names)


def length_range(default: Range) -> Any:
    """Value at difficulty 0 and at difficulty 1, either may be the greater."""
    return _field(default, "two finite numbers above 0", _pair_of(lambda v: _number(v) and v > 0))


def length_range_or_zero(default: Range) -> Any:
    return _field(default, "two finite numbers >= 0", _pair_of(lambda v: _number(v) and v >= 0))


def number_range(default: Range) -> Any:
    return _field(default, "two finite numbers", _pair_of(_number))


def count_range(default: tuple[int, int]) -> Any:
    return _field(default, "two whole numbers >= 0", _pair_of(lambda v: _whole(v) and v >= 0))


def interval(default: Range) -> Any:
    """Bounds between which each value is drawn, whatever the difficulty."""
    rule = _pair_of(lambda v: _number(v) and v > 0)
    return _field(default, "two finite numbers above 0, the smaller first", lambda v: rule(v) and v[0] <= v[1])


def at(span: Range, difficulty: float) -> float:
    """Value of a range at a difficulty: exactly the first at 0 and the second at 1."""
    return span[0] + difficulty * (span[1] - span[0]) if difficulty < 1 else span[1]


def check_fields(configuration: Any) -> None:
    """Hold every field against its rule.

    Raises:
        ValueError: names the class, the field, what was expected and what came.
    """
    for each in fields(configuration):
        rule: _Rule | None = each.metadata.get("rule")
        value = getattr(configuration, each.name)
        if rule is not None and not rule[1](value):
            refuse(configuration, each.name, f"expected {rule[0]}, got {value!r}")


def refuse(configuration: Any, name: str, why: str) -> None:
    raise ValueError(f"{type(configuration).__name__}.{name}: {why}")


@dataclass
class SubTerrainCfg(ABC):
    """A kind of sub-terrain. All lengths in metres, angles in radians.

    Fields named `<what>_range` go with the difficulty: the first value at difficulty 0, the second at 1.

    Args:
        proportion: share of the tiles, relative to the other sub-terrains.
    """

    proportion: float = length_or_zero(1.0)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Rules that do not depend on the tile. Raises ValueError."""
        check_fields(self)

    def check_fit(self, frame: Frame) -> None:  # noqa: B027 (most need no more room than any tile has)
        """Rules that depend on the size of the tile. Raises ValueError."""

    @abstractmethod
    def tile(self, frame: Frame, difficulty: float, rng: np.random.Generator) -> Tile:
        """The sub-terrain: a pure function of its arguments."""

    def inputs(self) -> dict[str, str]:
        """Content of files that the sub-terrain reads, by field: part of the key in the cache."""
        return {}

    def _need_room(self, name: str, width: float, frame: Frame) -> None:
        """Refuse what does not fit into the shorter side of the tile."""
        if width > frame.width + 1e-9:
            refuse(self, name, f"needs {width:g} m, but the tile is only {frame.width:g} m wide")


def default_cache_dir() -> Path:
    from xbot2_fast.terrain.cache import user_cache_dir

    return user_cache_dir()


@dataclass
class TerrainGeneratorCfg:
    """A world of tiles: `num_rows` along x, `num_cols` along y, centred on the origin. Lengths in metres.

    Args:
        size: (x, y) of one tile.
        sub_terrains: free name -> configuration; names end up in the names of the geoms.
        border_width: width of the border around all tiles, 0 for none.
        border_height: above 0 the border is a floor of that thickness at height 0, below 0 a wall of that height.
        horizontal_scale: distance of the points of height fields.
        vertical_scale: heights of height fields are whole multiples of it.
        slope_threshold: must stay None. MuJoCo's height fields have one height a point and cannot have vertical faces.
        use_cache: keep generated worlds in `cache_dir` and take them from there.
        curriculum: difficulty grows with the row and each column has one type; else both are drawn for each tile.
        difficulty_range: difficulties lie between these, within 0 and 1.
        spawn_height: height of the spawn locations above the landings.
        seed: of the random numbers; None draws one, which `TerrainGenerator.seed` tells.
    """

    size: tuple[float, float] = length_range((8.0, 8.0))
    sub_terrains: Mapping[str, SubTerrainCfg] = field(default_factory=dict)
    border_width: float = length_or_zero(0.0)
    border_height: float = _field(1.0, "a finite number other than 0", lambda v: _number(v) and v != 0)
    num_rows: int = count(1)
    num_cols: int = count(1)
    horizontal_scale: float = length(0.1)
    vertical_scale: float = length(0.005)
    slope_threshold: float | None = None
    use_cache: bool = switch(False)
    cache_dir: Path | str = field(default_factory=default_cache_dir)
    curriculum: bool = switch(False)
    difficulty_range: Range = _field(
        (0.0, 1.0),
        "two numbers between 0 and 1, the smaller first",
        lambda v: _pair_of(_number)(v) and 0 <= v[0] <= v[1] <= 1,
    )
    spawn_height: float = number(1.0)
    seed: int | None = _field(None, "a whole number >= 0 or None", lambda v: v is None or (_whole(v) and v >= 0))

    @property
    def frame(self) -> Frame:
        return Frame(float(self.size[0]), float(self.size[1]), self.horizontal_scale, self.vertical_scale)

    def check(self) -> None:
        """Every rule of this configuration and of its sub-terrains. Raises ValueError or TypeError."""
        check_fields(self)
        if self.slope_threshold is not None:
            refuse(
                self,
                "slope_threshold",
                f"expected None, got {self.slope_threshold!r}: MuJoCo's height fields have "
                "one height a point, so no vertical faces; take a Mesh... sub-terrain where faces must be vertical",
            )
        if self.horizontal_scale > min(self.size) + 1e-9:
            refuse(
                self, "horizontal_scale", f"{self.horizontal_scale:g} m is wider than the tile of {min(self.size):g} m"
            )
        self._check_sub_terrains()

    def _check_sub_terrains(self) -> None:
        if not isinstance(self.sub_terrains, Mapping) or not self.sub_terrains:
            refuse(self, "sub_terrains", f"expected at least one name -> configuration, got {self.sub_terrains!r}")
        for name, configuration in self.sub_terrains.items():
            if not isinstance(name, str) or not name or not name.isprintable():
                refuse(self, "sub_terrains", f"expected names of printable characters, got {name!r}")
            if not isinstance(configuration, SubTerrainCfg):
                raise TypeError(
                    f"TerrainGeneratorCfg.sub_terrains[{name!r}]: expected a sub-terrain configuration, "
                    f"got {configuration!r}"
                )
            configuration.check()
            configuration.check_fit(self.frame)
        if not sum(configuration.proportion for configuration in self.sub_terrains.values()) > 0:
            refuse(self, "sub_terrains", "expected at least one with a proportion above 0")
