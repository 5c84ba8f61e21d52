"""One picture, drawn without a display."""

import struct
import zlib

import mujoco
import numpy as np
from numpy.typing import NDArray

from xbot2_fast.viewing.frames import geom_bytes
from xbot2_fast.viewing.link import Link


def run(link: Link, file: str, camera: str | None, width: int, height: int) -> None:
    """Draw the first frame that comes, with its markers, and write it as a PNG file."""
    link.send("ready")
    while not link.receive(timeout=1.0):
        pass
    pixels = draw(link, camera, width, height)
    with open(file, "wb") as output:
        output.write(png(pixels))
    link.send("written")


def draw(link: Link, camera: str | None, width: int, height: int) -> NDArray[np.uint8]:
    """Pixels (height, width, 3) of the present frame; camera None is MuJoCo's free camera at its start."""
    link.model.vis.global_.offwidth, link.model.vis.global_.offheight = width, height
    with mujoco.Renderer(link.model, height, width, max_geom=2 * link.model.ngeom + 10_000) as renderer:
        renderer.update_scene(link.data, camera=-1 if camera is None else camera)
        scene = renderer.scene
        first, count = scene.ngeom, min(link.info["markers"], scene.maxgeom - scene.ngeom)
        geom_bytes(scene)[first : first + count] = link.geoms[:count]
        scene.ngeom = first + count
        return renderer.render()


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An RGB image (height, width, 3) as a PNG file."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
