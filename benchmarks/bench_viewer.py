"""What a frame of a viewer costs the simulation: it must fit between two steps."""

import os

import mujoco
import numpy as np

from benchmarks.interleave import compare, report
from xbot2_fast.overlays import add_height_spheres
from xbot2_fast.viewing.frames import STATE, Frame

LONGEST = 0.2e-3  # s: what the loop grants to work in one piece; the gate is twice that
BOXES = 20


def _model() -> mujoco.MjModel:
    bodies = "".join(
        f'<body pos="{i % 5} {i // 5} .5"><freejoint/><geom size=".1 .1 .1" type="box"/></body>' for i in range(BOXES)
    )
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")


def test_a_frame_with_a_terrain_scan(benchmark):
    """Against the copy of the state alone, which any viewer needs."""
    model = _model()
    data = mujoco.MjData(model)
    x, y = np.meshgrid(np.linspace(-1, 1, 17), np.linspace(-0.5, 0.5, 11))
    heights = 0.1 * x * y
    fd = os.memfd_create("frame")
    os.truncate(fd, Frame.size(model))
    frame = Frame(model, fd)
    os.close(fd)
    state = np.empty(mujoco.mj_stateSize(model, STATE))

    def write() -> int:
        return frame.write(model, data, [lambda scene: add_height_spheres(scene, x, y, heights)])

    assert write() == heights.size
    copy = mujoco.MjData(model)
    frame.read(model, copy)
    assert np.array_equal(copy.qpos, data.qpos)
    comparison = compare(lambda: mujoco.mj_getState(model, data, state, STATE), write, calls=20)
    report(benchmark, write, comparison)
    assert comparison.candidate < 2 * LONGEST
