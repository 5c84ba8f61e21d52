"""What led to a simulation that diverged: the last states and commands, written when it fails."""

import tempfile

import mujoco
import numpy as np
from numpy.typing import NDArray

from xbot2_fast._kernels._recorder import Recorder

STEPS = 100


class NanGuard:
    """Remembers time, qpos, qvel, act and ctrl of the last 100 steps, as they went into `mj_step`.

    `stage` is to stand directly before `mj_step`; it costs one copy of these arrays a step.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._data = data
        self._model = model
        self._arrays = {name: getattr(data, name) for name in ("qpos", "qvel", "act", "ctrl")}
        self._rows = np.zeros((STEPS, 1 + sum(array.size for array in self._arrays.values())))
        self.stage = Recorder(self._rows, list(self._arrays.values()))

    def history(self) -> dict[str, NDArray[np.float64]]:
        """Copies of what is remembered: time (n,) [s], and qpos, qvel, act, ctrl (n, their size), oldest first."""
        written = self.stage.written
        rows = np.roll(self._rows, -(written % STEPS), axis=0)[max(STEPS - written, 0) :]
        columns = np.cumsum([1] + [array.size for array in self._arrays.values()])
        parts = np.split(rows, columns[:-1], axis=1)
        return {"time": parts[0][:, 0], **dict(zip(self._arrays, parts[1:], strict=True))}

    def write(self, joint: str) -> str:
        """Write the history and the state that failed into a new .npz file in the temporary folder; returns its path.

        Beside the arrays of `history` it holds failed_time, failed_qpos, failed_qvel, joint (the name), joint_names,
        and the gains in force: actuator_gainprm and actuator_biasprm.

        Raises:
            OSError: the file cannot be written.
        """
        with tempfile.NamedTemporaryFile(prefix="xbot2_fast_diverged_", suffix=".npz", delete=False) as file:
            np.savez(file, **self._failed(joint), **self.history())  # type: ignore[arg-type]
        return file.name

    def _failed(self, joint: str) -> dict[str, object]:
        model, data = self._model, self._data
        return {
            "failed_time": data.time,
            "failed_qpos": data.qpos,
            "failed_qvel": data.qvel,
            "joint": joint,
            "joint_names": [model.joint(j).name for j in range(model.njnt)],
            "actuator_gainprm": model.actuator_gainprm,
            "actuator_biasprm": model.actuator_biasprm,
        }
