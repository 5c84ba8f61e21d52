"""Commands that act some simulation time after they came, as over a slow fieldbus."""

import math

import numpy as np

from xbot2_fast._kernels._delay import DelayRing

RING = 1024  # commands that can wait


def check_delay(seconds: float) -> float:
    """A delay [s], or ValueError."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"actuator delay: expected a finite number of seconds >= 0, got {seconds!r}")
    return float(seconds)


class CommandDelay:
    """Holds complete commands back until their deadline.

    The deadline is the time of the step that received a command plus the delay at that moment; a command is due when
    the time of a step reaches its deadline less a quarter of a timestep, so that a delay of n timesteps is exactly n
    steps. Each step applies the newest received command that is due and drops all that came before it: an older
    command never acts after a newer one. Time is simulation time: a pause stops it, a reset keeps waiting commands.
    A full ring of 1,024 drops its oldest command and counts it.

    Args:
        words: numbers of a command. timestep: of the model [s]. delay: at the start [s].
    """

    def __init__(self, words: int, timestep: float, delay: float = 0.0):
        self.ring = DelayRing(words, 0.25 * timestep)
        self._words = words
        self._initial = check_delay(delay)
        self.set_delay(self._initial)

    @property
    def delay(self) -> float:
        """Delay of the commands that come from now on [s]."""
        return self.ring.delay

    def set_delay(self, seconds: float) -> None:
        """Change the delay of the commands that come from now on; those that wait keep their deadlines.

        Raises:
            ValueError: negative or not finite.
        """
        seconds = check_delay(seconds)
        if seconds > 0 and not self.ring.allocated:
            self.ring.allocate(np.zeros((RING, max(self._words, 1))), np.zeros(RING))
        self.ring.delay = seconds

    def restore(self) -> None:
        """Back to the delay of the start; waiting commands keep their deadlines."""
        self.set_delay(self._initial)

    @property
    def waiting(self) -> int:
        """Commands that wait."""
        return self.ring.waiting

    @property
    def overflowed(self) -> int:
        """Commands dropped because the ring was full."""
        return self.ring.overflowed
