"""Faults for some simulation time: joints that lock, weaken or lose their commands, sensors that read wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from xbot2_fast._kernels._timers import AtTime

KINDS = ("lock", "weak", "sensor", "drop")

_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
_TO_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
# A locked joint's limit: as stiff as MuJoCo's limits get.
_STIFF_SOLIMP = (0.99, 0.9999, 0.0001, 0.5, 2.0)
_COMMAND = ("actuator_gainprm", "actuator_biasprm")


@dataclass
class Fault:
    """A fault that lasts until `end` [s of simulation time]; `targets` are joint ids, or sensor ids for "sensor"."""

    kind: str
    targets: tuple[int, ...]
    end: float
    scale: float = 0.0
    held: dict[str, Any] = field(default_factory=dict)


class Faults:
    """The faults of one simulation. Calls on the simulation thread, between steps.

    Attributes:
        before: stage between the commands and mj_step; its handler is `on_before`.
        after: stage behind mj_step and before the state goes out; its handler is `on_after`.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._model = model
        self._data = data
        self._active: list[Fault] = []
        self.before = AtTime()
        self.after = AtTime()

    @property
    def active(self) -> list[Fault]:
        return list(self._active)

    def check(self, kind: str, targets: Sequence[int]) -> None:
        """Whether such a fault can be made at all.

        Raises:
            ValueError: a joint that is neither hinge nor slide, or has no actuator whose commands could drop.
        """
        if kind == "sensor":
            return
        for joint in targets:
            name = self._model.joint(joint).name
            if int(self._model.jnt_type[joint]) not in _SCALAR:
                raise ValueError(f"joints: expected hinges and slides, got {name!r}")
            if kind == "drop" and not self._actuators(joint):
                raise ValueError(f"joints: {name!r} has no actuator whose commands could drop")

    def check_now(self, faults: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Whether these faults, kind and targets of each, can begin now, one behind the other.

        Raises:
            ValueError: a joint that has a fault of that kind already, or no limit to weaken.
        """
        faulty = {(fault.kind, target) for fault in self._active for target in fault.targets}
        for kind, targets in faults:
            for joint in targets if kind != "sensor" else ():
                name = self._model.joint(joint).name
                if (kind, joint) in faulty:
                    raise ValueError(f"joints: {name!r} has a fault of kind {kind} already")
                if kind == "weak" and self._effort_limit(joint) is None:
                    raise ValueError(
                        f"joints: {name!r} has no torque limit to weaken; set one with set_joint_torque_limits"
                    )
            faulty.update((kind, target) for target in targets)

    def begin(self, kind: str, targets: Sequence[int], duration: float, scale: float | None = None) -> float:
        """Begin a fault; returns the simulation time of its end [s].

        Args:
            kind: "lock": the joints stay where they are. "weak": their effort limits times `scale`. "drop": their
                actuators keep the command they have. "sensor": readings times `scale` (default 0: dead).
            duration: simulation time [s], rounded up to full steps.
        """
        timestep = self._model.opt.timestep
        steps = max(1, math.ceil(duration / timestep - 1e-9))
        fault = Fault(kind, tuple(targets), self._data.time + (steps - 0.5) * timestep, scale or 0.0)
        getattr(self, f"_begin_{kind}")(fault)
        self._active.append(fault)
        self._schedule()
        return self._data.time + duration

    def clear(self) -> int:
        """End all faults; returns how many there were."""
        ended, self._active = self._active, []
        for fault in reversed(ended):
            self._end(fault)
        self._schedule()
        return len(ended)

    # ---- handlers

    def on_before(self) -> None:
        """End what is over, and hold what is held, for the step that begins now."""
        over = [fault for fault in self._active if self._data.time >= fault.end]
        self._active = [fault for fault in self._active if self._data.time < fault.end]
        for fault in reversed(over):
            self._end(fault)
        for fault in self._active:
            if fault.kind == "drop":
                self._hold_commands(fault)
        self._schedule()

    def on_after(self) -> None:
        """Spoil the readings of the step that was just taken."""
        for fault in self._active:
            if fault.kind == "sensor":
                for sensor in fault.targets:
                    first = self._model.sensor_adr[sensor]
                    self._data.sensordata[first : first + self._model.sensor_dim[sensor]] *= fault.scale

    def _schedule(self) -> None:
        kinds = {fault.kind for fault in self._active}
        self.before.when = (
            -math.inf if "drop" in kinds else min((fault.end for fault in self._active), default=math.inf)
        )
        self.after.when = -math.inf if "sensor" in kinds else math.inf

    # ---- kinds

    def _begin_lock(self, fault: Fault) -> None:
        model, joints = self._model, list(fault.targets)
        for name in ("jnt_limited", "jnt_range", "jnt_solref", "jnt_solimp", "jnt_margin"):
            fault.held[name] = getattr(model, name)[joints].copy()
        here = self._data.qpos[model.jnt_qposadr[joints]]
        model.jnt_limited[joints] = True
        model.jnt_range[joints] = np.stack([here, here], axis=1)
        model.jnt_solref[joints] = (2 * model.opt.timestep, 1.0)
        model.jnt_solimp[joints] = _STIFF_SOLIMP
        model.jnt_margin[joints] = 0.0

    def _begin_weak(self, fault: Fault) -> None:
        model, joints = self._model, list(fault.targets)
        limits = np.array([self._effort_limit(joint) for joint in joints])
        fault.held["jnt_actfrcrange"] = model.jnt_actfrcrange[joints].copy()
        fault.held["jnt_actfrclimited"] = model.jnt_actfrclimited[joints].copy()
        model.jnt_actfrcrange[joints] = fault.scale * limits
        model.jnt_actfrclimited[joints] = True
        fault.held["written"] = model.jnt_actfrcrange[joints].copy()

    def _begin_drop(self, fault: Fault) -> None:
        actuators = [actuator for joint in fault.targets for actuator in self._actuators(joint)]
        fault.held["actuators"] = actuators
        fault.held["ctrl"] = self._data.ctrl[actuators].copy()
        for name in _COMMAND:
            fault.held[name] = getattr(self._model, name)[actuators].copy()

    def _begin_sensor(self, fault: Fault) -> None:
        """Nothing is held: readings are spoilt anew behind each step."""

    def _hold_commands(self, fault: Fault) -> None:
        actuators = fault.held["actuators"]
        self._data.ctrl[actuators] = fault.held["ctrl"]
        for name in _COMMAND:
            getattr(self._model, name)[actuators] = fault.held[name]

    def _end(self, fault: Fault) -> None:
        joints = list(fault.targets)
        if fault.kind == "lock":
            for name, values in fault.held.items():
                getattr(self._model, name)[joints] = values
        elif fault.kind == "weak":
            for row, joint in enumerate(joints):
                # a limit that was set meanwhile is not ours to take back
                if np.array_equal(self._model.jnt_actfrcrange[joint], fault.held["written"][row]):
                    self._model.jnt_actfrcrange[joint] = fault.held["jnt_actfrcrange"][row]
                    self._model.jnt_actfrclimited[joint] = fault.held["jnt_actfrclimited"][row]

    # ---- the model

    def _actuators(self, joint: int) -> list[int]:
        model = self._model
        return [
            a for a in range(model.nu)
            if int(model.actuator_trntype[a]) in _TO_JOINT and model.actuator_trnid[a, 0] == joint
        ]  # fmt: skip

    def _effort_limit(self, joint: int) -> tuple[float, float] | None:
        """Least and greatest net actuator effort at a joint [Nm or N]; None when it has no limit."""
        model = self._model
        if model.jnt_actfrclimited[joint]:
            low, high = model.jnt_actfrcrange[joint]
            return float(low), float(high)
        actuators = self._actuators(joint)
        if not actuators or not all(model.actuator_forcelimited[a] for a in actuators):
            return None
        efforts = np.array([model.actuator_gear[a, 0] * model.actuator_forcerange[a] for a in actuators])
        return float(efforts.min(axis=1).sum()), float(efforts.max(axis=1).sum())
