"""Commands that push: apply_wrench, apply_wrenches, push, list_wrenches, cancel_wrench."""

from dataclasses import replace
from typing import Any, NamedTuple

import mujoco

from xbot2_fast.remote_control.protocol import (
    CommandError,
    as_choice,
    as_integer,
    as_list,
    as_number,
    as_vector,
    refuse,
    refusing,
)
from xbot2_fast.remote_control.table import CommandTable, Request
from xbot2_fast.wrenches import ActiveWrench, Vector, Wrench, WrenchEngine

Result = dict[str, Any]


class Entry(NamedTuple):
    """One wrench on each of some bodies; `wrench` names the first."""

    bodies: list[int]
    wrench: Wrench


MAX_ACTIVE = 1024  # wrenches: more would take longer than a step


def _triple(field: str, value: Any) -> Vector:
    x, y, z = as_vector(field, value, 3)
    return x, y, z


def _frame(request: Request, prefix: str = "") -> str:
    return as_choice(f"{prefix}frame", request.get("frame", "world"), ("world", "body"))


class WrenchCommands:
    """The wrench commands, and the part of `restore` that cancels wrenches and clears applied forces."""

    def __init__(self, table: CommandTable, model: mujoco.MjModel, data: mujoco.MjData, engine: WrenchEngine):
        self._names = table.names
        self._model = model
        self._data = data
        self._engine = engine
        table.register("apply_wrench", self._check_wrench, self._apply_wrench, ready=self._need_room)
        table.register("apply_wrenches", self._check_wrenches, self._apply_wrenches, ready=self._need_room)
        table.register("push", self._check_push, self._push, ready=self._need_room)
        table.register("list_wrenches", lambda request: None, self._list)
        table.register("cancel_wrench", self._check_cancel, self._cancel, ready=self._need_active)
        table.on_restore(self._clear)

    def _need_room(self, plans: list[list[Entry]]) -> None:
        wanted = sum(len(entry.bodies) for plan in plans for entry in plan)
        active = self._engine.count()
        if active + wanted > MAX_ACTIVE:
            raise CommandError(
                "invalid_parameter",
                f"expected at most {MAX_ACTIVE} active wrenches in all, got {wanted} more than the {active} that act: "
                "cancel some, or restore",
            )

    def _add(self, entry: Entry) -> tuple[Result, int]:
        """The bodies as a reply names them, and the id of the wrenches on them."""
        names = [self._names.of("bodies")[body] for body in entry.bodies]
        others = (replace(entry.wrench, body=body) for body in entry.bodies[1:])
        identifier = self._engine.add([entry.wrench, *others])
        return {"body": names[0]} if len(names) == 1 else {"bodies": names}, identifier

    # ---- one wrench, on one body or several

    def _check_wrench(self, request: Request) -> list[Entry]:
        bodies = self._names.body_or_bodies(request)
        force = _triple("force", request.get("force"))
        torque = _triple("torque", request.get("torque"))
        duration = as_number("duration", request.get("duration"), above=0)
        return [Entry(bodies, Wrench(bodies[0], force, torque, duration, _frame(request)))]

    def _apply_wrench(self, plan: list[Entry]) -> Result:
        (entry,) = plan
        return self._applied(entry)

    def _applied(self, entry: Entry) -> Result:
        selection, identifier = self._add(entry)
        return selection | {"expires_at": self._data.time + entry.wrench.duration, "id": identifier}

    # ---- several wrenches at once

    def _check_wrenches(self, request: Request) -> list[Entry]:
        entries = as_list("wrenches", request.get("wrenches"))
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise refuse(f"wrenches[{i}]", "an object", entry)
        bodies = [self._entry_bodies(i, entry) for i, entry in enumerate(entries)]
        return [
            Entry(bodies[i], self._entry(f"wrenches[{i}].", entry, bodies[i][0])) for i, entry in enumerate(entries)
        ]

    def _entry_bodies(self, index: int, entry: Request) -> list[int]:
        try:
            return self._names.body_or_bodies(entry)
        except CommandError as error:
            raise CommandError(error.code, f"wrenches[{index}]: {error.message}") from None

    @staticmethod
    def _entry(prefix: str, entry: Request, body: int) -> Wrench:
        point = _triple(f"{prefix}point", entry["point"]) if entry.get("point") is not None else None
        with refusing(prefix):
            return Wrench(
                body,
                _triple(f"{prefix}force", entry.get("force")),
                _triple(f"{prefix}torque", entry.get("torque")),
                as_number(f"{prefix}duration", entry.get("duration"), minimum=0),
                _frame(entry, prefix),
                point,
                as_number(f"{prefix}ramp_up_duration", entry.get("ramp_up_duration", 0), minimum=0),
                as_number(f"{prefix}ramp_down_duration", entry.get("ramp_down_duration", 0), minimum=0),
            )

    def _apply_wrenches(self, plan: list[Entry]) -> Result:
        return {"wrenches": [self._applied(entry) for entry in plan]}

    # ---- a push

    def _check_push(self, request: Request) -> list[Entry]:
        bodies = self._names.body_or_bodies(request)
        if "linear" not in request and "angular" not in request:
            raise CommandError("invalid_parameter", "expected linear [N s], angular [N m s] or both")
        linear = _triple("linear", request.get("linear", [0, 0, 0]))
        angular = _triple("angular", request.get("angular", [0, 0, 0]))
        timestep = self._model.opt.timestep
        force = (linear[0] / timestep, linear[1] / timestep, linear[2] / timestep)
        torque = (angular[0] / timestep, angular[1] / timestep, angular[2] / timestep)
        return [Entry(bodies, Wrench(bodies[0], force, torque, 0.0, _frame(request)))]

    def _push(self, plan: list[Entry]) -> Result:
        (entry,) = plan
        selection, identifier = self._add(entry)
        return selection | {"id": identifier}

    # ---- those that act

    def _list(self, _: None) -> Result:
        return {"wrenches": [self._described(active) for active in self._engine.active()]}

    def _described(self, active: ActiveWrench) -> Result:
        wrench = active.wrench
        return {
            "id": active.id,
            "body": self._names.of("bodies")[wrench.body],
            "force": wrench.force,
            "torque": wrench.torque,
            "frame": wrench.frame,
            "point": wrench.point,
            "duration": wrench.duration,
            "ramp_up_duration": wrench.ramp_up_duration,
            "ramp_down_duration": wrench.ramp_down_duration,
            "expires_at": active.expires_at,
        }

    @staticmethod
    def _check_cancel(request: Request) -> tuple[str, int]:
        # the wrench's id; a request without it names the wrench by its own id
        field = "wrench" if "wrench" in request else "id"
        return field, as_integer(field, request.get(field), minimum=1)

    def _need_active(self, plans: list[tuple[str, int]]) -> None:
        active = {wrench.id for wrench in self._engine.active()}
        for field, identifier in plans:
            if identifier not in active:
                raise CommandError("invalid_parameter", f"{field}: no active wrench has the id {identifier}")
            active.discard(identifier)

    def _cancel(self, plan: tuple[str, int]) -> Result:
        _, identifier = plan
        return {"cancelled": self._engine.cancel(identifier), "id": identifier}

    def _clear(self) -> Result:
        cleared = self._engine.clear()
        self._data.qfrc_applied[:] = 0
        return {"cleared_wrenches": cleared}
