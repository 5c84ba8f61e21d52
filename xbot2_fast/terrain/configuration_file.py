"""Generator configurations in YAML."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from xbot2_fast.terrain.config import SubTerrainCfg, TerrainGeneratorCfg

_SUFFIX = "TerrainCfg"


def load_configuration(path: str | Path) -> TerrainGeneratorCfg:
    """Read a configuration.

    The keys are the fields of `TerrainGeneratorCfg`; each of `sub_terrains` has a `type`, the name of a sub-terrain
    configuration with or without "TerrainCfg", beside the fields of that. `path` of HfFromImage counts from the file.

    Raises:
        ValueError: no mapping, an unknown key or type (the known ones are listed), or a value out of its rule.
    """
    import yaml

    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from error
    values = _known(content, TerrainGeneratorCfg, str(path))
    subs = values.get("sub_terrains")
    if not isinstance(subs, Mapping):
        raise ValueError(f"{path}: sub_terrains: expected names with configurations, got {subs!r}")
    values["sub_terrains"] = {str(name): _sub_terrain(sub, path, str(name)) for name, sub in subs.items()}
    configuration = TerrainGeneratorCfg(**values)
    configuration.check()
    return configuration


def _sub_terrain(content: Any, path: Path, name: str) -> SubTerrainCfg:
    where = f"{path}: sub_terrains.{name}"
    if not isinstance(content, Mapping) or not isinstance(content.get("type"), str):
        raise ValueError(f"{where}: expected a mapping with a type, got {content!r}")
    kinds = sub_terrain_types()
    kind = content["type"].removesuffix(_SUFFIX)
    if kind not in kinds:
        raise ValueError(f"{where}.type: no sub-terrain {content['type']!r}; known: {', '.join(kinds)}")
    values = _known({key: value for key, value in content.items() if key != "type"}, kinds[kind], where)
    if "path" in values:
        values["path"] = path.parent / str(values["path"])
    return kinds[kind](**values)


def _known(content: Any, configuration: type, where: str) -> dict[str, Any]:
    names = [each.name for each in fields(configuration)]
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: expected a mapping, got {content!r}")
    for key in content:
        if key not in names:
            raise ValueError(f"{where}: unknown key {key!r}; known: {', '.join(names)}")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}


def sub_terrain_types() -> dict[str, type[SubTerrainCfg]]:
    """Name without "TerrainCfg" -> class, of every public sub-terrain configuration."""
    from xbot2_fast import terrain

    return {
        name.removesuffix(_SUFFIX): getattr(terrain, name)
        for name in terrain.__all__
        if name.endswith(_SUFFIX) and name != "SubTerrainCfg"
    }
