"""Ready configurations."""

from xbot2_fast.terrain.config import TerrainGeneratorCfg
from xbot2_fast.terrain.fields import (
    HfInvertedPyramidSlopedTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
)
from xbot2_fast.terrain.grids import MeshRandomGridTerrainCfg
from xbot2_fast.terrain.stairs import MeshInvertedPyramidStairsTerrainCfg, MeshPyramidStairsTerrainCfg

_STAIRS = (0.2, (0.05, 0.1), 0.3, 3.0, 1.0)
_SLOPE = (0.1, (0.0, 0.4), 2.0, 0.25)

ROUGH_TERRAINS_CFG = TerrainGeneratorCfg(
    size=(8.0, 8.0),
    border_width=20.0,
    border_height=1.0,
    num_rows=4,
    num_cols=6,
    curriculum=True,
    seed=0,
    sub_terrains={
        "pyramid_stairs": MeshPyramidStairsTerrainCfg(*_STAIRS),
        "pyramid_stairs_inv": MeshInvertedPyramidStairsTerrainCfg(*_STAIRS),
        "boxes": MeshRandomGridTerrainCfg(0.2, 0.45, (0.05, 0.1), 2.0),
        "random_rough": HfRandomUniformTerrainCfg(0.2, (0.02, 0.2), 0.02, 0.25),
        "hf_pyramid_slope": HfPyramidSlopedTerrainCfg(*_SLOPE),
        "hf_pyramid_slope_inv": HfInvertedPyramidSlopedTerrainCfg(*_SLOPE),
    },
)
