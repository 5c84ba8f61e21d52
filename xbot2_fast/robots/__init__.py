"""Robots that come with the package."""

from pathlib import Path

_HERE = Path(__file__).parent


def demo() -> tuple[Path, list[Path]]:
    """The demo quadruped: its URDF, and the XML files to merge into it (robot first, then the world).

    12 position-controlled joints, an IMU (site "imu"), a free base; it stands on its q_init.
    """
    folder = _HERE / "demo"
    return folder / "demo.urdf", [folder / "demo.xml", folder / "world.xml"]
