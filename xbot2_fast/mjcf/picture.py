"""One picture of a model.

Rendered in a process of its own: which OpenGL MuJoCo uses is fixed when it is imported, and without a display it must
be EGL or OSMesa.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import mujoco
import numpy as np

from xbot2_fast.mjcf.errors import ModelError

_WIDTH, _HEIGHT = 1280, 960


def render(model: Path, qpos: np.ndarray, picture: Path) -> None:
    """Render the model of an XML file in a configuration, seen from the front left, into a PNG.

    Raises:
        ModelError: no OpenGL works here, or the picture cannot be written; the message has the reasons.
    """
    chosen = os.environ.get("MUJOCO_GL")
    platforms = [chosen] if chosen else ["glfw"] if os.environ.get("DISPLAY") else []
    reasons = []
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "qpos.npy"), qpos)
        command = [sys.executable, "-P", "-m", __name__, str(model), str(Path(folder, "qpos.npy")), str(picture)]
        for platform in platforms or ["egl", "osmesa"]:
            run = subprocess.run(command, env={**os.environ, "MUJOCO_GL": platform}, capture_output=True, text=True)
            if run.returncode == 0:
                return
            reasons.append(f"{platform}: {(run.stderr.strip().splitlines() or ['no message'])[-1]}")
    raise ModelError(f"picture {picture}: it could not be rendered:", reasons)


def _main(model_path: str, qpos_path: str, picture: str) -> None:
    from PIL import Image

    model = mujoco.MjModel.from_xml_path(model_path)
    model.vis.global_.offwidth, model.vis.global_.offheight = _WIDTH, _HEIGHT
    data = mujoco.MjData(model)
    data.qpos[:] = np.load(qpos_path)
    mujoco.mj_forward(model, data)
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    camera.azimuth, camera.elevation = 135, -20
    with mujoco.Renderer(model, _HEIGHT, _WIDTH) as renderer:
        renderer.update_scene(data, camera)
        Image.fromarray(renderer.render()).save(picture)


if __name__ == "__main__":
    _main(*sys.argv[1:])
