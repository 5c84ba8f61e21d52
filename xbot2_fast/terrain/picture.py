"""Pictures of a generated world, rendered by MuJoCo without a window."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from xbot2_fast.terrain.images import write_rgb

if TYPE_CHECKING:
    from xbot2_fast.terrain.generator import TerrainGenerator

# Elevation and azimuth of the camera [deg]; the first view looks straight down with +y up.
_VIEWS = ((-90.0, 90.0), (-32.0, 120.0))
_SKY = """<asset>
    <texture type="skybox" builtin="flat" rgb1="1 1 1" width="8" height="48"/>"""
_LIGHT = """<worldbody>
    <light directional="true" pos="0 0 50" dir="0.75 0.35 -0.55" diffuse="0.75 0.75 0.75" specular="0 0 0"/>"""
# Half diagonal [m] of the largest world with shadows: MuJoCo's shadow map is too coarse for larger ones.
_SHADOWS_UP_TO = 15.0
_LOW, _HIGH = np.array([0.25, 0.42, 0.55]), np.array([0.93, 0.83, 0.66])


def write_picture(generator: "TerrainGenerator", path: Path, width: int = 960, colours: int = 0) -> Path:
    """Write a PNG of two square views side by side: from above with x to the right, and at an angle."""
    write_rgb(path, render(generator, width), colours)
    return path


def render(generator: "TerrainGenerator", width: int = 960) -> NDArray[np.uint8]:
    """Pixels (width / 2, width, 3) of the two views.

    Raises:
        RuntimeError: no OpenGL without a window; says what to install.
    """
    size = width // 2
    model, data = _lit_model(generator, size)
    with _opengl(size):
        context = mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
        try:
            mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), context)
            views = [_view(generator, model, data, context, size, *view) for view in _VIEWS]
        finally:
            context.free()
    return np.concatenate(views, axis=1)


def _lit_model(generator: "TerrainGenerator", size: int) -> tuple[Any, Any]:
    """The world with a low sun and a white sky, each geom coloured by the height of its top."""
    text = generator.to_xml_string().replace("<asset>", _SKY, 1).replace("<worldbody>", _LIGHT, 1)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    model.vis.global_.offwidth = model.vis.global_.offheight = size
    model.vis.quality.shadowsize, model.vis.quality.offsamples = 4096, 8
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.3, 0.2
    extent = 0.5 * float(np.hypot(*_extent(generator)))
    model.vis.map.shadowclip = extent / model.stat.extent
    model.light_castshadow[:] = extent < _SHADOWS_UP_TO
    tops = model.geom_pos[:, 2] + model.geom_aabb[:, 2] + model.geom_aabb[:, 5]
    above = (tops - tops.min()) / max(float(np.ptp(tops)), 1e-9)
    model.geom_matid[:] = -1
    model.geom_rgba[:, :3] = _LOW + (_HIGH - _LOW) * above[:, None]
    return model, data


def _extent(generator: "TerrainGenerator") -> NDArray[np.floating]:
    return np.array([generator.cfg.num_rows, generator.cfg.num_cols]) * generator.cfg.size


def _view(
    generator: "TerrainGenerator", model: Any, data: Any, context: Any, size: int, elevation: float, azimuth: float
) -> NDArray[np.uint8]:
    camera, options, scene = mujoco.MjvCamera(), mujoco.MjvOption(), mujoco.MjvScene(model, model.ngeom + 100)
    extent = _extent(generator)
    camera.lookat[:] = (0.0, 0.0, generator.terrain_origins[..., 2].mean())
    camera.elevation, camera.azimuth = elevation, azimuth
    camera.distance = float(extent.max()) * (1.35 if elevation == -90 else 1.5)
    everything = int(mujoco.mjtCatBit.mjCAT_ALL)
    mujoco.mjv_updateScene(model, data, options, mujoco.MjvPerturb(), camera, everything, scene)
    rectangle, pixels = mujoco.MjrRect(0, 0, size, size), np.empty((size, size, 3), np.uint8)
    mujoco.mjr_render(rectangle, scene, context)
    mujoco.mjr_readPixels(pixels, None, rectangle, context)
    return pixels[::-1]


@contextmanager
def _opengl(size: int) -> Iterator[None]:
    """A current OpenGL context without a window: the one that MUJOCO_GL names, else EGL, else OSMesa."""
    named = os.environ.get("MUJOCO_GL", "").strip().lower()
    failures = []
    for name in [named] if named in ("egl", "osmesa", "glfw") else ["egl", "osmesa"]:
        try:
            context = import_module(f"mujoco.{name}").GLContext(size, size)
            context.make_current()
        except Exception as error:  # every library fails in its own way when it is not there
            failures.append(f"{name}: {error}")
            continue
        try:
            yield
        finally:
            context.free()
        return
    raise RuntimeError(
        "no OpenGL for pictures; on Debian: apt install libegl1 libegl-mesa0 libgl1-mesa-dri (or libosmesa6); "
        + "; ".join(failures)
    )
