"""Small URDFs for the tests of the generator."""

from pathlib import Path

from xbot2_fast.mjcf import MjcfGenerator

HERE = Path(__file__).parent
ROBOT = HERE / "robot.urdf"
CONFIG = HERE / "config.xml"

INERTIAL = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
BOX = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'


def robot(*elements: str, name: str = "r") -> str:
    return f'<robot name="{name}">{"".join(elements)}</robot>'


def link(name: str, inside: str = INERTIAL) -> str:
    return f'<link name="{name}">{inside}</link>'


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str | None = None) -> str:
    """A joint; revolute and prismatic ones get limits of -1 and 1 and an effort of 10 unless `inside` is given."""
    if inside is None:
        inside = '<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="10" velocity="1"/>'
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


def arm(kind: str = "revolute", inside: str | None = None, tip: str = INERTIAL) -> str:
    """Two links and one joint."""
    return robot(link("base"), link("tip", tip), joint("j", "base", "tip", kind, inside))


def generate(urdf: str | bytes, folder: Path, **arguments) -> MjcfGenerator:
    return MjcfGenerator("r", urdf, folder / "out", **arguments)


def fragment(text: str) -> str:
    return f"<mujoco>{text}</mujoco>"
