"""The heights that the generator tells are those that a robot's scanner sees."""

import mujoco
import numpy as np
import pytest

from tests.terrain.kinds import NAMES, kinds, world
from xbot2_fast.terrain_scan import TerrainScanner

# Off the lines of the height fields' grids: a ray that meets an edge exactly may fall through MuJoCo's height fields.
ROBOT = """<body name="base" pos="0.01373 0.00719 6"><freejoint/>
  <geom type="sphere" size="0.1" group="1"/></body></worldbody>"""


@pytest.mark.parametrize("name", NAMES)
def test_scan_over_the_tile(name, tmp_path):
    generator = world(kinds(tmp_path)[name], difficulty_range=(0.8, 0.8), seed=4)
    model = mujoco.MjModel.from_xml_string(generator.to_xml_string().replace("</worldbody>", ROBOT))
    data = mujoco.MjData(model)
    scanner = TerrainScanner(model, robot_body="base", shape=(61, 41), spacing=(0.1231, 0.1713), max_distance=20.0)
    scan = scanner.scan(data)
    assert (scan.valid == ~np.isnan(generator.height(scan.x, scan.y))).all()
    seen = scan.valid
    steady = np.ones(seen.shape, bool)
    for dx, dy in ((1e-6, 0), (-1e-6, 0), (0, 1e-6), (0, -1e-6)):
        steady &= np.abs(generator.height(scan.x + dx, scan.y + dy) - generator.height(scan.x, scan.y)) < 1e-4
    compared = seen & steady
    assert compared.sum() > 500
    np.testing.assert_allclose(scan.heights[compared], generator.height(scan.x, scan.y)[compared], rtol=0, atol=1e-6)
