"""The scan on generated terrain: the heights that the terrain generator gives in closed form."""

import mujoco
import numpy as np

from xbot2_fast.terrain import ROUGH_TERRAINS_CFG, TerrainGenerator
from xbot2_fast.terrain_scan import TerrainScanner

ROBOT = '<body name="base" pos="0 0 1"><freejoint/><geom size=".1" group="1"/></body></worldbody>'


def test_heights_are_those_of_the_terrain_generator():
    generator = TerrainGenerator(ROUGH_TERRAINS_CFG)
    model = mujoco.MjModel.from_xml_string(generator.to_xml_string().replace("</worldbody>", ROBOT))
    data = mujoco.MjData(model)
    scanner = TerrainScanner(model, "base", shape=(29, 23), max_distance=50.0)
    rng = np.random.default_rng(0)
    compared = 0
    for tile in generator.spawn_locations.reshape(-1, 3):
        data.qpos[:3] = tile + np.append(rng.uniform(-2, 2, 2), 3.0)
        data.qpos[3:7] = rng.normal(size=4)
        scan = scanner.scan(data)
        assert scan.valid.all()
        x, y = scan.x, scan.y
        expected = generator.height(x, y)
        edges = [np.abs(generator.height(x + a, y + b) - expected) for a, b in ((1e-6, 0), (-1e-6, 0), (0, 1e-6))]
        smooth = np.max(edges, axis=0) < 1e-4
        np.testing.assert_allclose(scan.heights[smooth], expected[smooth], atol=1e-6)
        compared += smooth.sum()
    assert compared > 10_000
