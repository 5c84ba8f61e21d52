"""Every kind of sub-terrain with its defaults, and with the options that change its shape; rays to compare with."""

import mujoco
import numpy as np

from xbot2_fast import terrain
from xbot2_fast.terrain import SubTerrainCfg, TerrainGenerator, TerrainGeneratorCfg

OPTIONS = {
    "MeshPyramidStairsTerrainCfg": {"holes": True},
    "MeshInvertedPyramidStairsTerrainCfg": {"holes": True},
    "MeshRandomGridTerrainCfg": {"holes": True},
    "MeshPitTerrainCfg": {"double_pit": True},
    "MeshBoxTerrainCfg": {"double_box": True},
    "MeshRepeatedPyramidsTerrainCfg": {"height_noise": 0.05},
    "MeshRepeatedBoxesTerrainCfg": {"height_noise": 0.05},
    "MeshRepeatedCylindersTerrainCfg": {"height_noise": 0.05},
    "HfRandomUniformTerrainCfg": {"downsampled_scale": 0.4},
    "HfDiscreteObstaclesTerrainCfg": {"obstacle_height_mode": "fixed", "border_width": 0.5},
    "HfPerlinTerrainCfg": {"octaves": 1, "border_width": 0.5},
}


def classes() -> dict[str, type[SubTerrainCfg]]:
    """Class name -> class, of all public sub-terrain configurations."""
    found = {name: getattr(terrain, name) for name in terrain.__all__}
    return {
        name: each
        for name, each in found.items()
        if isinstance(each, type) and issubclass(each, SubTerrainCfg) and each is not SubTerrainCfg
    }


def kinds(folder) -> dict[str, SubTerrainCfg]:
    """Name -> configuration: each class as it comes, and with its options."""
    ramp = np.add.outer(np.linspace(0, 0.3, 13), np.linspace(0, 0.5, 9) ** 2)
    np.save(folder / "heights.npy", ramp)
    result = {}
    for name, each in classes().items():
        given = {"path": folder / "heights.npy"} if name == "HfFromImageTerrainCfg" else {}
        result[name] = each(**given)
        if name in OPTIONS:
            result[name + "+" + "+".join(OPTIONS[name])] = each(**OPTIONS[name])
    return result


NAMES = sorted([*classes(), *(f"{name}+{'+'.join(more)}" for name, more in OPTIONS.items())])


def world(sub: SubTerrainCfg, **more) -> TerrainGenerator:
    return TerrainGenerator(TerrainGeneratorCfg(**{"seed": 0, "sub_terrains": {"kind": sub}, **more}))


def compiled(generator: TerrainGenerator) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(generator.to_xml_string())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def ray_heights(model, data, x, y, start=20.0):
    """World height of the first surface below `start` at each point, NaN where a ray meets nothing."""
    down, result = np.array([0.0, 0.0, -1.0]), np.full(len(x), np.nan)
    for i in range(len(x)):
        distance = mujoco.mj_ray(model, data, np.array([x[i], y[i], start]), down, None, 1, -1, None, None)
        if distance >= 0:
            result[i] = start - distance
    return result


def random_points(generator, number, seed=1, beyond=0.0):
    """Points over the tiles and `beyond` them, without those within 1e-6 m of an edge of the surface."""
    half = np.array([generator.cfg.num_rows, generator.cfg.num_cols]) * generator.cfg.size / 2 + beyond
    x, y = np.random.default_rng(seed).uniform(-half, half, size=(number, 2)).T
    here = generator.height(x, y)
    flat = np.ones(number, bool)
    for dx, dy in ((1e-6, 0), (-1e-6, 0), (0, 1e-6), (0, -1e-6)):
        there = generator.height(x + dx, y + dy)
        flat &= (np.abs(there - here) < 1e-4) | (np.isnan(here) & np.isnan(there))
    return x[flat], y[flat]
