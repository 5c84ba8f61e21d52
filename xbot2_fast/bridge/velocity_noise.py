"""Gaussian noise on the velocities that controllers are told."""

import math
from collections.abc import Sequence

import numpy as np

from xbot2_fast._kernels._noise import VelocityNoiseKernel


class VelocityNoise:
    """Independent zero-mean Gaussian noise per joint and per state, only in what is sent.

    Args:
        joint_names: the bridge's joints. seed: of an own generator; None takes one from the system.
    """

    def __init__(self, joint_names: Sequence[str], seed: int | None = None):
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise ValueError(f"seed: expected an integer >= 0 or None, got {seed!r}")
        self._index = {name: i for i, name in enumerate(joint_names)}
        self._sigma = np.zeros(len(self._index))
        words = np.random.SeedSequence(seed).generate_state(4, np.uint64)
        self.kernel = VelocityNoiseKernel(self._sigma, words)

    def set(self, joint_names: Sequence[str], stddev: float) -> None:
        """Give these joints this standard deviation [rad/s of a hinge, m/s of a slide]; 0 ends their noise.

        Raises:
            ValueError: a name that is none of the bridge's joints, or a bad number; nothing was changed.
        """
        if isinstance(stddev, bool) or not isinstance(stddev, (int, float)) or not 0 <= stddev < math.inf:
            raise ValueError(f"stddev: expected a finite number >= 0, got {stddev!r}")
        unknown = [name for name in joint_names if name not in self._index]
        if unknown:
            raise ValueError(f"joint_names: the bridge has no joints {unknown}")
        for name in joint_names:
            self._sigma[self._index[name]] = stddev
        self.kernel.changed()

    def clear(self) -> None:
        """End the noise of all joints."""
        self._sigma[:] = 0
        self.kernel.changed()

    @property
    def stddev(self) -> dict[str, float]:
        """Joint name -> standard deviation, of the joints with noise."""
        return {name: float(self._sigma[i]) for name, i in self._index.items() if self._sigma[i] > 0}
