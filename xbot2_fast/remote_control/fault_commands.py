"""The command that breaks joints and sensors for some time: fault."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from xbot2_fast.faults import KINDS, Faults
from xbot2_fast.remote_control.protocol import CommandError, as_choice, as_number, refusing
from xbot2_fast.remote_control.table import CommandTable, Request


class Plan(NamedTuple):
    kind: str
    targets: list[int]
    scale: float | None
    duration: float


class FaultCommands:
    """fault, and the part of `restore` that ends all faults."""

    def __init__(self, table: CommandTable, faults: Faults):
        self._names = table.names
        self._faults = faults
        table.register("fault", self._check, self._begin, ready=self._ready)
        table.on_restore(self._clear)

    def _check(self, request: Request) -> Plan:
        kind = as_choice("kind", request.get("kind"), KINDS)
        other = "joints" if kind == "sensor" else "sensors"
        if other in request:
            raise CommandError("invalid_parameter", f"{other}: not for a fault of kind {kind}")
        targets = self._names.sensors(request) if kind == "sensor" else self._names.joints(request)
        scale = self._scale(kind, request)
        duration = as_number("duration", request.get("duration"), above=0)
        with refusing():
            self._faults.check(kind, targets)
        return Plan(kind, targets, scale, duration)

    def _ready(self, plans: list[Plan]) -> None:
        with refusing():
            self._faults.check_now([(plan.kind, plan.targets) for plan in plans])

    @staticmethod
    def _scale(kind: str, request: Request) -> float | None:
        if kind == "weak":
            scale = as_number("scale", request.get("scale"), minimum=0)
            if scale > 1:
                raise CommandError("invalid_parameter", f"scale: expected 0 to 1 for a weak joint, got {scale:g}")
            return scale
        if kind == "sensor":
            return as_number("scale", request.get("scale", 0))
        if "scale" in request:
            raise CommandError("invalid_parameter", f"scale: not for a fault of kind {kind}")
        return None

    def _begin(self, plan: Plan) -> dict[str, Any]:
        expires_at = self._faults.begin(plan.kind, plan.targets, plan.duration, plan.scale)
        result = self._described(plan.kind, plan.targets, expires_at)
        return result if plan.scale is None else {**result, "scale": plan.scale}

    def active(self) -> list[dict[str, Any]]:
        """The faults that last, as `status` shows them."""
        return [self._described(fault.kind, fault.targets, fault.end) for fault in self._faults.active]

    def _described(self, kind: str, targets: Sequence[int], expires_at: float) -> dict[str, Any]:
        field = "sensors" if kind == "sensor" else "joints"
        names = self._names.of(field)
        return {"kind": kind, field: [names[target] for target in targets], "expires_at": expires_at}

    def _clear(self) -> None:
        self._faults.clear()
