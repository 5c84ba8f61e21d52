"""IIT's Centauro from example-robot-data, with its meshes, on a floor, in the homing pose of its SRDF."""

from importlib.metadata import distribution
from pathlib import Path

from xbot2_fast.mjcf import MjcfGenerator

OPTIONS_AND_FLOOR = """
<mujoco>
  <option timestep="0.001" integrator="implicitfast"/>
  <worldbody>
    <light pos="0 0 4"/>
    <geom name="floor" type="plane" size="0 0 0.05" group="2"/>
  </worldbody>
</mujoco>
"""


def robots_folder() -> Path:
    """The robots of the example-robot-data package."""
    return Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))


def centauro_generator(output_dir: Path) -> MjcfGenerator:
    """A generator with everything merged: floating base, position actuators (kp 3000, kd 50), homing_nominal."""
    folder = robots_folder() / "centauro_description"
    urdf = folder / "urdf" / "centauro.urdf"
    generator = MjcfGenerator(
        "centauro", urdf.read_bytes(), output_dir,
        urdf_path=urdf, floating_base=True, auto_actuators="position", kp=3000.0, kd=50.0,
    )  # fmt: skip
    generator.merge_srdf(folder / "srdf" / "centauro.srdf", pose="homing_nominal")
    generator.merge_xml(OPTIONS_AND_FLOOR)
    return generator
