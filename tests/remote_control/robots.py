"""The robot of these tests: names as in the seed's examples, none of its bodies compiled as simple."""

import mujoco

LEG = """
<body name="{side}_thigh" pos="0 {y} 0" simple="false">
  <joint name="{side}_knee" axis="0 1 0" damping="0.1"/>
  <geom name="{side}_thigh_geom" type="capsule" fromto="0 0 0 0.02 0 -.3" size=".03" mass="1.5"/>
  <body name="{side}_foot" pos="0 0 -.3" simple="false">
    <joint name="{side}_ankle_pitch" axis="0 1 0" damping="0.1"/>
    <geom name="{side}_sole" type="box" size=".08 .04 .02" pos=".02 0 -.03" mass=".5"/>
    <geom name="{side}_heel" type="sphere" size=".03" pos="-.05 0 -.03" mass=".2"/>
    <body name="{side}_toe" pos=".1 0 0" simple="false">
      <joint name="{side}_toe_slide" type="slide" axis="1 0 0" range="-.1 .1" limited="true"/>
      <geom name="{side}_toe_geom" type="sphere" size=".02" mass=".1"/>
    </body>
  </body>
</body>"""

XML = f"""
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="10 10 .1"/>
    <body name="base_link" pos="0 0 .6" simple="false">
      <freejoint name="root"/>
      <geom name="trunk" type="box" size=".2 .1 .08" pos=".01 0 .02" mass="10"/>
      <site name="imu"/>
      {LEG.format(side="left", y=0.12)}{LEG.format(side="right", y=-0.12)}
      <body name="ball_link" pos="0 0 .1" simple="false">
        <joint name="neck" type="ball" damping="0.1"/>
        <geom type="sphere" size=".04" pos="0 0 .1" mass=".3"/>
      </body>
    </body>
    <body name="crate" pos="2 0 .2"><freejoint name="crate_free"/>
      <geom name="crate_geom" type="box" size=".1 .1 .1"/></body>
    <body name="empty" pos="3 0 0"/>
  </worldbody>
  <actuator>
    <position name="left_knee" joint="left_knee" kp="50" kv="2" forcerange="-80 80"/>
    <position name="right_knee" joint="right_knee" kp="50" kv="2" forcerange="-80 80"/>
    <motor name="left_ankle_pitch" joint="left_ankle_pitch" gear="2"/>
    <motor name="right_ankle_pitch" joint="right_ankle_pitch" gear="2"/>
    <motor name="left_toe" joint="left_toe_slide" gear="3"/>
  </actuator>
  <sensor>
    <gyro name="imu_gyro" site="imu"/>
    <accelerometer name="imu_acc" site="imu"/>
    <jointpos name="left_knee_pos" joint="left_knee"/>
  </sensor>
</mujoco>"""


def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(XML)


def bytes_of(model: mujoco.MjModel) -> bytes:
    """The whole model, to the bit."""
    import numpy as np

    buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()
