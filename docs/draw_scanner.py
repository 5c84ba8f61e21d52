"""Draws scanner.png: python docs/draw_scanner.py (offscreen: MUJOCO_GL=egl or osmesa)."""

from pathlib import Path

import mujoco
import numpy as np

from xbot2_fast.terrain_scan import TerrainScanner
from xbot2_fast.viewer import take_picture

STAIRS = "".join(
    f'<geom type="box" size=".15 1.2 {0.04 * (k + 1)}" pos="{0.3 * k + 0.3} 0 {0.04 * (k + 1)}" '
    'group="2" rgba=".6 .6 .65 1"/>'
    for k in range(6)
)
WORLD = f"""<mujoco>
<visual><global offwidth="1280" offheight="720"/><headlight ambient=".45 .45 .45" diffuse=".5 .5 .5"/></visual>
<asset><texture name="sky" type="skybox" builtin="gradient" rgb1=".9 .93 1" rgb2=".6 .7 .85" width="64" height="64"/>
<mesh name="rock" vertex="-.3 -.3 0  .3 -.3 0  .3 .3 0  -.3 .3 0  .1 -.05 .35  -.1 .12 .25"/></asset>
<worldbody>
  <light pos="0 -2 4" dir="0 .4 -1"/><camera name="side" pos="-1.6 -2.6 2.2" xyaxes=".82 -.57 0 .31 .45 .84"/>
  <geom type="plane" size="5 5 .1" group="2" rgba=".45 .5 .45 1"/>{STAIRS}
  <geom type="mesh" mesh="rock" pos="-.5 .35 0" group="2" rgba=".55 .45 .35 1"/>
  <body pos="-.4 -.35 .15"><freejoint/><geom size=".15" group="2" rgba=".3 .4 .6 1"/></body>
  <body name="base" pos=".15 0 .75" euler="0 0 10"><freejoint/>
    <geom type="box" size=".3 .15 .07" group="0" rgba=".9 .9 .9 .35"/></body>
</worldbody></mujoco>"""

if __name__ == "__main__":
    model = mujoco.MjModel.from_xml_string(WORLD)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    scan = TerrainScanner(model, "base", spacing=(0.1, 0.12)).scan(data)
    assert np.ptp(scan.heights) > 0.2
    take_picture(str(Path(__file__).with_name("scanner.png")), model, data, markers=[scan.add_visuals], camera="side")
