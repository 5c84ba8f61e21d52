"""A frame: what a viewer needs to draw one moment, in memory that the simulator and the viewer's process share.

The simulator writes the next frame only after the viewer said that it took the last one, so neither needs a lock.
"""

import ctypes
import mmap
from collections.abc import Callable, Iterable

import mujoco
import numpy as np
from numpy.typing import NDArray

MAX_MARKERS = 1024  # what MuJoCo Studio's browser client takes
STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)

MarkerSource = Callable[[mujoco.MjvScene], None]
"""Appends its markers to a scene, from `scene.ngeom` on, at most up to `scene.maxgeom`."""


def geom_bytes(scene: mujoco.MjvScene) -> NDArray[np.uint8]:
    """The memory of the scene's geoms, shape (maxgeom, bytes of one geom); valid while the scene lives."""
    first, second = scene.geoms[0], scene.geoms[1]
    vectors = first.size.ctypes.data
    stride = second.size.ctypes.data - vectors
    old, first.type = first.type, 0x5EED
    try:
        start = next(at for at in range(vectors - 4, vectors - stride, -4) if _int_at(at) == 0x5EED)
    finally:
        first.type = old
    memory = (ctypes.c_uint8 * (stride * scene.maxgeom)).from_address(start)
    return np.frombuffer(memory, np.uint8).reshape(scene.maxgeom, stride)


def _int_at(address: int) -> int:
    return ctypes.c_int.from_address(address).value


def draw_markers(scene: mujoco.MjvScene, sources: Iterable[MarkerSource]) -> None:
    """Rebuild the scene's geoms from the sources, in their order; what exceeds the scene's capacity is left out."""
    scene.ngeom = 0
    for source in sources:
        source(scene)


class Frame:
    """State, joint torques and markers of one moment in shared memory.

    Args:
        fd: a file of `Frame.size(model)` bytes; it is mapped, and may be closed afterwards.

    Attributes:
        state: the integration state (STATE), float64.
        torque: generalised actuator forces (nv,) [Nm or N].
        references: velocity and torque references (2, nv); NaN where there is none.
        geoms: room for MAX_MARKERS geoms as bytes.
    """

    def __init__(self, model: mujoco.MjModel, fd: int):
        nstate = mujoco.mj_stateSize(model, STATE)
        self._scene = mujoco.MjvScene(model, MAX_MARKERS)
        self._scene_geoms = geom_bytes(self._scene)
        memory = mmap.mmap(fd, self.size(model))
        numbers = np.frombuffer(memory, np.float64, nstate + 3 * model.nv)
        self.state = numbers[:nstate]
        self.torque = numbers[nstate : nstate + model.nv]
        self.references = numbers[nstate + model.nv :].reshape(2, model.nv)
        self.geoms = np.frombuffer(memory, np.uint8, offset=numbers.nbytes).reshape(MAX_MARKERS, -1)

    @staticmethod
    def size(model: mujoco.MjModel) -> int:
        geom = geom_bytes(mujoco.MjvScene(model, 2)).shape[1]
        return 8 * (mujoco.mj_stateSize(model, STATE) + 3 * model.nv) + MAX_MARKERS * geom

    def write(self, model: mujoco.MjModel, data: mujoco.MjData, sources: Iterable[MarkerSource]) -> int:
        """Store the present moment; returns the number of markers."""
        mujoco.mj_getState(model, data, self.state, STATE)
        self.torque[:] = data.qfrc_actuator
        draw_markers(self._scene, sources)
        count = self._scene.ngeom
        self.geoms[:count] = self._scene_geoms[:count]
        return count

    def read(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Take over the state, and compute all that follows from it."""
        mujoco.mj_setState(model, data, self.state, STATE)
        mujoco.mj_forward(model, data)
