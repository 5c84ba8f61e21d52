"""Timed external wrenches on bodies: when they act, in which frame, and how they share `xfrc_applied` with others."""

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco

from xbot2_fast._kernels._wrenches import WrenchSchedule

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Wrench:
    """A force and a torque on one body for some simulation time, from the next step on.

    Attributes:
        body: id of the body.
        force, torque: [N] and [Nm], in the axes of `frame`.
        duration: simulation time [s], rounded up to full steps; 0 is exactly one step.
        frame: "world", or "body": axes that turn with the body, looked at anew in each step.
        point: where the force acts, in the body's frame from its origin [m]; None: at the centre of mass.
        ramp_up_duration, ramp_down_duration: linear ramps [s] inside the duration, evaluated in the middle of a step.

    Raises:
        ValueError: a value that is not finite, a negative time, ramps longer than the duration, or another frame.
    """

    body: int
    force: Vector
    torque: Vector
    duration: float
    frame: str = "world"
    point: Vector | None = None
    ramp_up_duration: float = 0.0
    ramp_down_duration: float = 0.0

    def __post_init__(self) -> None:
        for name in ("force", "torque", "point"):
            value = getattr(self, name)
            if value is None and name == "point":
                continue
            if len(value) != 3 or not all(math.isfinite(element) for element in value):
                raise ValueError(f"{name}: expected three finite numbers, got {value!r}")
        for name in ("duration", "ramp_up_duration", "ramp_down_duration"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}: expected finite seconds >= 0, got {value!r}")
        if self.ramp_up_duration + self.ramp_down_duration > self.duration * (1 + 1e-9):
            raise ValueError(
                f"ramp_up_duration and ramp_down_duration: expected at most the duration of {self.duration:g} s "
                f"together, got {self.ramp_up_duration:g} s and {self.ramp_down_duration:g} s"
            )
        if self.frame not in ("world", "body"):
            raise ValueError(f"frame: expected world or body, got {self.frame!r}")


@dataclass(frozen=True)
class ActiveWrench:
    """A wrench that acts, under the id that cancels it, from `start` [s of simulation time] on."""

    id: int
    wrench: Wrench
    start: float

    @property
    def expires_at(self) -> float:
        """Simulation time [s] at which its duration is over."""
        return self.start + self.wrench.duration


class WrenchEngine:
    """All wrenches on the bodies of one simulation. Calls on the simulation thread, between steps.

    Each body's slot of `data.xfrc_applied` is shared with others bit-exactly: what they leave there is kept apart, ours
    is added to it before each step, and a slot without wrenches gets theirs back. Two engines on the same data would
    take each other for such others: use `shared_engine`.

    Attributes:
        stage: applies the wrenches inside a step.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._model = model
        self._data = data
        self.stage = WrenchSchedule(model, data)

    def add(self, wrenches: Sequence[Wrench]) -> int:
        """Schedule wrenches under one id, all from the next step on; returns the id."""
        identifier = self.stage.next_id()
        for wrench in wrenches:
            self._add(identifier, wrench)
        return identifier

    def add_each(self, wrenches: Sequence[Wrench]) -> list[int]:
        """Schedule wrenches, all from the next step on, each under an id of its own; returns the ids."""
        return [self.add([wrench]) for wrench in wrenches]

    def _add(self, identifier: int, wrench: Wrench) -> None:
        start, timestep = self._data.time, self._model.opt.timestep
        steps = max(1, math.ceil(wrench.duration / timestep - 1e-9))
        self.stage.add(
            identifier, wrench.body, wrench.frame == "body", wrench.force, wrench.torque, wrench.point,
            start, start + (steps - 0.5) * timestep, timestep / 2,
            wrench.duration, wrench.ramp_up_duration, wrench.ramp_down_duration,
        )  # fmt: skip

    def apply(self) -> None:
        """Write what acts in the step that begins now into `data.xfrc_applied`; the stage does it in a running loop."""
        self.stage.apply(self._data.time)

    def active(self) -> list[ActiveWrench]:
        """The wrenches that act in a step beginning now, in the order in which they were added."""
        return [
            ActiveWrench(
                identifier,
                Wrench(body, force, torque, duration, "body" if body_frame else "world", point, up, down),
                start,
            )
            for identifier, body, body_frame, force, torque, point, start, duration, up, down in self.stage.active(
                self._data.time
            )
        ]

    def count(self) -> int:
        """How many wrenches act in a step beginning now."""
        return self.stage.count(self._data.time)

    def net(self) -> dict[int, tuple[Vector, Vector]]:
        """Body id -> sum of the active wrenches: force [N] and torque about the centre of mass [Nm], world axes."""
        return self.stage.net(self._data.time)

    def cancel(self, identifier: int) -> int:
        """End the wrenches with this id; returns how many there were."""
        active = sum(wrench.id == identifier for wrench in self.active())
        self.stage.cancel(identifier)
        return active

    def clear(self) -> int:
        """End all wrenches and zero the whole `xfrc_applied`; returns how many were active."""
        active = self.count()
        self.stage.clear()
        return active


_engines: "weakref.WeakValueDictionary[int, WrenchEngine]" = weakref.WeakValueDictionary()


def shared_engine(model: mujoco.MjModel, data: mujoco.MjData) -> WrenchEngine:
    """The one engine of this data, made at the first call; whoever uses it holds it."""
    engine = _engines.get(data._address)
    if engine is None:
        engine = _engines[data._address] = WrenchEngine(model, data)  # holds the data, so its address stays taken
    return engine
