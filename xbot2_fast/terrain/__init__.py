"""Terrain: configurations of sub-terrains, and the generator that makes a MuJoCo world of them."""

from xbot2_fast.terrain.beams import MeshNarrowBeamsTerrainCfg, MeshStarTerrainCfg
from xbot2_fast.terrain.config import SubTerrainCfg, TerrainGeneratorCfg
from xbot2_fast.terrain.field_obstacles import (
    HfDiscreteObstaclesTerrainCfg,
    HfInvertedPyramidStairsTerrainCfg,
    HfPyramidStairsTerrainCfg,
    HfSteppingStonesTerrainCfg,
)
from xbot2_fast.terrain.fields import (
    HfFromImageTerrainCfg,
    HfInvertedPyramidSlopedTerrainCfg,
    HfPerlinTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
    HfWaveTerrainCfg,
)
from xbot2_fast.terrain.generator import TerrainGenerator
from xbot2_fast.terrain.grids import MeshRandomGridTerrainCfg, MeshSteppingStonesTerrainCfg, MeshTiltedGridTerrainCfg
from xbot2_fast.terrain.obstacles import (
    MeshBoxTerrainCfg,
    MeshFloatingRingTerrainCfg,
    MeshGapTerrainCfg,
    MeshNestedRingsTerrainCfg,
    MeshPitTerrainCfg,
    MeshPlaneTerrainCfg,
    MeshRailsTerrainCfg,
)
from xbot2_fast.terrain.open_stairs import (
    MeshOpenInvertedPyramidStairsTerrainCfg,
    MeshOpenPyramidStairsTerrainCfg,
    MeshSuspendedStairsTerrainCfg,
)
from xbot2_fast.terrain.presets import ROUGH_TERRAINS_CFG
from xbot2_fast.terrain.scattered import (
    MeshRandomSpreadTerrainCfg,
    MeshRepeatedBoxesTerrainCfg,
    MeshRepeatedCylindersTerrainCfg,
    MeshRepeatedPyramidsTerrainCfg,
)
from xbot2_fast.terrain.stairs import (
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    MeshRandomStairsTerrainCfg,
)

__all__ = [
    "ROUGH_TERRAINS_CFG",
    "HfDiscreteObstaclesTerrainCfg",
    "HfFromImageTerrainCfg",
    "HfInvertedPyramidSlopedTerrainCfg",
    "HfInvertedPyramidStairsTerrainCfg",
    "HfPerlinTerrainCfg",
    "HfPyramidSlopedTerrainCfg",
    "HfPyramidStairsTerrainCfg",
    "HfRandomUniformTerrainCfg",
    "HfSteppingStonesTerrainCfg",
    "HfWaveTerrainCfg",
    "MeshBoxTerrainCfg",
    "MeshFloatingRingTerrainCfg",
    "MeshGapTerrainCfg",
    "MeshInvertedPyramidStairsTerrainCfg",
    "MeshNarrowBeamsTerrainCfg",
    "MeshNestedRingsTerrainCfg",
    "MeshOpenInvertedPyramidStairsTerrainCfg",
    "MeshOpenPyramidStairsTerrainCfg",
    "MeshPitTerrainCfg",
    "MeshPlaneTerrainCfg",
    "MeshPyramidStairsTerrainCfg",
    "MeshRailsTerrainCfg",
    "MeshRandomGridTerrainCfg",
    "MeshRandomSpreadTerrainCfg",
    "MeshRandomStairsTerrainCfg",
    "MeshRepeatedBoxesTerrainCfg",
    "MeshRepeatedCylindersTerrainCfg",
    "MeshRepeatedPyramidsTerrainCfg",
    "MeshStarTerrainCfg",
    "MeshSteppingStonesTerrainCfg",
    "MeshSuspendedStairsTerrainCfg",
    "MeshTiltedGridTerrainCfg",
    "SubTerrainCfg",
    "TerrainGenerator",
    "TerrainGeneratorCfg",
]
