"""Commands that look at the simulation, and the one that moves its joints: status, list, get_state, set_state."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from xbot2_fast.remote_control.protocol import CommandError, as_choice, as_number, as_object, as_vector, refuse
from xbot2_fast.remote_control.table import CommandTable, Request

Plan = dict[str, Any]

_FREE, _BALL, _SLIDE, _HINGE = (int(kind) for kind in mujoco.mjtJoint.__members__.values())
_JOINT_TYPES = {_FREE: "free", _BALL: "ball", _SLIDE: "slide", _HINGE: "hinge"}
_JOINT_UNITS = {
    _FREE: {"position": "m, quaternion w x y z", "velocity": "m/s, rad/s"},
    _BALL: {"position": "quaternion w x y z", "velocity": "rad/s"},
    _SLIDE: {"position": "m", "velocity": "m/s", "effort": "N"},
    _HINGE: {"position": "rad", "velocity": "rad/s", "effort": "Nm"},
}
_BODY_UNITS, _GEOM_UNITS = {"mass": "kg"}, {"size": "m"}
_NQ = {_FREE: 7, _BALL: 4, _SLIDE: 1, _HINGE: 1}
_NV = {_FREE: 6, _BALL: 3, _SLIDE: 1, _HINGE: 1}
_QUATERNION_AT = {_FREE: 3, _BALL: 0}
_SENSOR_UNITS = {
    "accelerometer": "m/s^2", "gyro": "rad/s", "force": "N", "torque": "Nm", "touch": "N", "jointpos": "rad or m",
    "jointvel": "rad/s or m/s", "jointactuatorfrc": "Nm or N", "actuatorfrc": "N or Nm", "framepos": "m",
    "framequat": "quaternion w x y z", "framelinvel": "m/s", "frameangvel": "rad/s", "framelinacc": "m/s^2",
    "frameangacc": "rad/s^2", "rangefinder": "m", "magnetometer": "T", "velocimeter": "m/s", "clock": "s",
}  # fmt: skip
_GEOM_TYPES = {int(kind): name.removeprefix("mjGEOM_").lower() for name, kind in mujoco.mjtGeom.__members__.items()}
LISTS = ("bodies", "joints", "geoms", "actuators", "sensors")


class State(NamedTuple):
    """What set_state writes: joint id -> coordinates."""

    positions: dict[int, list[float]]
    velocities: dict[int, list[float]]


class StateCommands:
    """status, list, get_state and set_state."""

    def __init__(self, table: CommandTable, model: mujoco.MjModel, data: mujoco.MjData):
        self._names = table.names
        self._model = model
        self._data = data
        self._scratch = mujoco.MjData(model)  # for kinematics of now, those in `data` are one step old, and for trials
        self._providers: list[Callable[[], Mapping[str, Any]]] = []
        table.register("status", lambda request: None, self._status, while_paused=True)
        table.register("list", self._check_list, self._list, while_paused=True)
        table.register("get_state", self._check_get, self._get)
        table.register("set_state", self._check_set, self._set, ready=self._need_sane)

    # ---- status and list

    def add_status(self, provider: Callable[[], Mapping[str, Any]]) -> None:
        """Have `status` show what this returns, too; called at each request."""
        self._providers.append(provider)

    def _status(self, _: None) -> Plan:
        status: Plan = {"time": self._data.time, "timestep": self._model.opt.timestep}
        for provider in self._providers:
            status.update(provider())
        return status

    @staticmethod
    def _check_list(request: Request) -> str:
        return as_choice("kind", request.get("kind"), LISTS)

    def _list(self, kind: str) -> Plan:
        described: list[Plan] = list(getattr(self, f"_describe_{kind}")(self._names.of(kind)))
        return {"kind": kind, kind: described}

    # Whole arrays at once: a terrain has thousands of geoms, and the next step waits for the answer.

    def _describe_bodies(self, names: list[str]) -> Iterator[Plan]:
        parents, masses = self._model.body_parentid.tolist(), self._model.body_mass.tolist()
        for name, parent, mass in zip(names, parents, masses, strict=True):
            yield {"name": name, "parent": names[parent], "mass": mass, "units": _BODY_UNITS}

    def _describe_joints(self, names: list[str]) -> Iterator[Plan]:
        model = self._model
        for name, kind, limited, limits, effort_limited, effort in zip(
            names, model.jnt_type.tolist(), model.jnt_limited.tolist(), model.jnt_range.tolist(),
            model.jnt_actfrclimited.tolist(), model.jnt_actfrcrange.tolist(), strict=True,
        ):  # fmt: skip
            entry: Plan = {"name": name, "type": _JOINT_TYPES[kind], "range": limits if limited else None}
            if kind in (_SLIDE, _HINGE):
                entry["effort_range"] = effort if effort_limited else None
            yield {**entry, "units": _JOINT_UNITS[kind]}

    def _describe_geoms(self, names: list[str]) -> Iterator[Plan]:
        model, bodies = self._model, self._names.of("bodies")
        parents, kinds, sizes = model.geom_bodyid.tolist(), model.geom_type.tolist(), model.geom_size.tolist()
        for name, body, kind, size in zip(names, parents, kinds, sizes, strict=True):
            yield {"name": name, "body": bodies[body], "type": _GEOM_TYPES[kind], "size": size, "units": _GEOM_UNITS}

    def _describe_actuators(self, names: list[str]) -> Iterator[Plan]:
        model, joints = self._model, self._names.of("joints")
        kinds, transmissions = model.jnt_type.tolist(), model.actuator_trntype.tolist()
        for name, transmission, (joint, _) in zip(names, transmissions, model.actuator_trnid.tolist(), strict=True):
            if transmission == int(mujoco.mjtTrn.mjTRN_JOINT):
                effort = _JOINT_UNITS[kinds[joint]].get("effort", "N or Nm")
                yield {"name": name, "joint": joints[joint], "units": {"force": effort}}
            else:
                yield {"name": name, "joint": None, "units": {"force": "N or Nm"}}

    def _describe_sensors(self, names: list[str]) -> Iterator[Plan]:
        model = self._model
        for name, number, dim in zip(names, model.sensor_type.tolist(), model.sensor_dim.tolist(), strict=True):
            kind = mujoco.mjtSensor(number).name.removeprefix("mjSENS_").lower()
            yield {"name": name, "type": kind, "dim": dim, "units": {"value": _SENSOR_UNITS.get(kind, "SI")}}

    # ---- get_state

    def _check_get(self, request: Request) -> tuple[list[int], list[int]]:
        bodies = self._names.bodies(request) if "bodies" in request else []
        if "joints" in request:
            joints = self._names.joints(request)
        else:
            joints = [] if bodies else [i for i, name in enumerate(self._names.of("joints")) if name]
        return joints, bodies

    def _get(self, plan: tuple[list[int], list[int]]) -> Plan:
        joints, bodies = plan
        result: Plan = {"time": self._data.time}
        if joints:
            result["joints"] = {self._names.of("joints")[joint]: self._joint_state(joint) for joint in joints}
        if bodies:
            self._refresh()
            result["bodies"] = {self._names.of("bodies")[body]: self._body_state(body) for body in bodies}
        return result

    def _joint_state(self, joint: int) -> Plan:
        position, velocity = self._slices(joint)
        state = {"position": _plain(self._data.qpos[position]), "velocity": _plain(self._data.qvel[velocity])}
        if int(self._model.jnt_type[joint]) in (_SLIDE, _HINGE):
            state["effort"] = _plain(self._data.qfrc_actuator[velocity])
        return state

    def _copy_to_scratch(self) -> mujoco.MjData:
        mujoco.mj_copyState(self._model, self._data, self._scratch, mujoco.mjtState.mjSTATE_INTEGRATION)
        return self._scratch

    def _refresh(self) -> None:
        model, scratch = self._model, self._copy_to_scratch()
        mujoco.mj_kinematics(model, scratch)
        mujoco.mj_comPos(model, scratch)
        mujoco.mj_comVel(model, scratch)

    def _body_state(self, body: int) -> Plan:
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self._model, self._scratch, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
        return {
            "position": self._scratch.xpos[body].tolist(),
            "orientation": self._scratch.xquat[body].tolist(),
            "linear_velocity": velocity[3:].tolist(),
            "angular_velocity": velocity[:3].tolist(),
        }

    def _slices(self, joint: int) -> tuple[slice, slice]:
        model, kind = self._model, int(self._model.jnt_type[joint])
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        return slice(q, q + _NQ[kind]), slice(v, v + _NV[kind])

    # ---- set_state

    def _check_set(self, request: Request) -> State:
        if "joints" not in request and "velocities" not in request:
            raise CommandError("invalid_parameter", "expected joints, velocities or both")
        given = [(field, as_object(field, request[field])) for field in ("joints", "velocities") if field in request]
        ids = {field: self._names.select("joints", list(values), regex=False) for field, values in given}
        plan: dict[str, dict[int, list[float]]] = {"joints": {}, "velocities": {}}
        for field, values in given:
            for joint, (name, value) in zip(ids[field], values.items(), strict=True):
                plan[field][joint] = self._coordinates(f"{field}.{name[:40]}", field, joint, value)
        return State(plan["joints"], plan["velocities"])

    def _coordinates(self, label: str, field: str, joint: int, value: Any) -> list[float]:
        kind = int(self._model.jnt_type[joint])
        size = (_NQ if field == "joints" else _NV)[kind]
        if size == 1:
            return [as_number(label, value)]
        numbers = as_vector(label, value, size)
        if field == "joints":
            first = _QUATERNION_AT[kind]
            norm = math.hypot(*numbers[first : first + 4])
            if norm < 1e-6:
                raise refuse(label, "a quaternion that is not zero", value)
            numbers[first : first + 4] = [element / norm for element in numbers[first : first + 4]]
        return numbers

    def _need_sane(self, plans: list[State]) -> None:
        """Refuse what would end the simulation in its next step, which checks these three."""
        trial = self._copy_to_scratch()
        for plan in plans:
            self._write(plan, trial)
        mujoco.mj_forwardSkip(self._model, trial, mujoco.mjtStage.mjSTAGE_NONE, True)
        for name, values in (("position", trial.qpos), ("velocity", trial.qvel), ("acceleration", trial.qacc)):
            if not np.all(np.abs(values) < mujoco.mjMAXVAL):
                raise CommandError(
                    "invalid_parameter", f"the simulation would diverge: a joint would have a {name} beyond 1e10"
                )

    def _write(self, state: State, data: mujoco.MjData) -> None:
        for joint, numbers in state.positions.items():
            data.qpos[self._slices(joint)[0]] = numbers
        for joint, numbers in state.velocities.items():
            data.qvel[self._slices(joint)[1]] = numbers

    def _set(self, state: State) -> Plan:
        self._write(state, self._data)
        names = self._names.of("joints")
        return {
            "time": self._data.time,
            "joints": {
                names[joint]: self._joint_state(joint) for joint in dict.fromkeys([*state.positions, *state.velocities])
            },
        }


def _plain(values: NDArray[np.float64]) -> float | list[float]:
    return float(values[0]) if len(values) == 1 else values.tolist()
