"""Commands that change the model's properties: contact, bodies, payloads, torque limits, gravity."""

from collections.abc import Callable
from typing import Any

import mujoco

from xbot2_fast.properties import ModelProperties, Payload
from xbot2_fast.remote_control.protocol import (
    CommandError,
    as_integer,
    as_number,
    as_object,
    as_vector,
    refuse,
    refusing,
)
from xbot2_fast.remote_control.table import CommandTable, Request

Plan = dict[str, Any]

_SCALAR_JOINTS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


def _condim(field: str, value: Any) -> int:
    number = as_integer(field, value)
    if number not in (1, 3, 4, 6):
        raise refuse(field, "1, 3, 4 or 6", value)
    return number


_CONTACT: dict[str, Callable[[str, Any], Any]] = {
    "friction": lambda field, value: as_vector(field, value, 3, minimum=0),
    "solref": lambda field, value: as_vector(field, value, 2),
    "solimp": lambda field, value: as_vector(field, value, 5),
    "margin": lambda field, value: as_number(field, value, minimum=0),
    "gap": as_number,
    "condim": _condim,
    "priority": as_integer,
}
_BODY: dict[str, Callable[[str, Any], Any]] = {
    "mass": lambda field, value: as_number(field, value, above=0),
    "com": lambda field, value: as_vector(field, value, 3),
}


def _read(field: str, given: Any, known: dict[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """The values of an object whose keys are among the known ones, in their order."""
    given = as_object(field, given)
    for name in given:
        if name not in known:
            raise CommandError("invalid_parameter", f"{field}: expected some of {', '.join(known)}, got {name[:40]!r}")
    return {name: read(f"{field}.{name}", given[name]) for name, read in known.items() if name in given}


class PropertyCommands:
    """set_contact_parameters, set_body_properties, add_payload, set_joint_torque_limits and set_gravity."""

    def __init__(self, table: CommandTable, properties: ModelProperties):
        self._names = table.names
        self._properties = properties
        self._model = properties.model
        table.register("set_contact_parameters", self._check_contact, self._set_contact)
        table.register("set_body_properties", self._check_body, self._set_body)
        table.register("add_payload", self._check_payload, self._add_payload)
        table.register("set_joint_torque_limits", self._check_limits, self._set_limits)
        table.register("set_gravity", self._check_gravity, self._set_gravity)
        table.on_restore(properties.restore)

    def _body_names(self, bodies: list[int]) -> list[str]:
        names = self._names.of("bodies")
        return [names[body] for body in bodies]

    # ---- contact

    def _check_contact(self, request: Request) -> Plan:
        bodies = self._names.bodies(request)
        geoms = self._properties.geoms_of(bodies)
        if not geoms:
            raise CommandError("no_geoms", f"no geom is attached directly to {', '.join(self._body_names(bodies))}")
        return {
            "bodies": bodies,
            "geoms": geoms,
            "parameters": _read("parameters", request.get("parameters"), _CONTACT),
        }

    def _set_contact(self, plan: Plan) -> Plan:
        with refusing():
            self._properties.set_contact(plan["geoms"], plan["parameters"])
        geoms = self._names.of("geoms")
        return {
            "bodies": self._body_names(plan["bodies"]),
            "geoms": [geoms[geom] for geom in plan["geoms"]],
            "parameters": plan["parameters"],
        }

    # ---- bodies

    def _check_body(self, request: Request) -> Plan:
        bodies = self._names.bodies(request)
        properties = _read("properties", request.get("properties"), _BODY)
        with refusing():
            self._properties.check_body(bodies, properties.get("com"))
        return {"bodies": bodies, "properties": properties}

    def _set_body(self, plan: Plan) -> Plan:
        with refusing():
            self._properties.set_body(plan["bodies"], **plan["properties"])
        return {"bodies": self._body_names(plan["bodies"]), "properties": plan["properties"]}

    def _check_payload(self, request: Request) -> tuple[list[int], Payload]:
        bodies = self._names.body_or_bodies(request)
        mass = as_number("mass", request.get("mass"), above=0)
        x, y, z = as_vector("position", request.get("position"), 3)
        payload = Payload(mass, (x, y, z))
        with refusing():
            self._properties.check_payload(bodies, payload)
        return bodies, payload

    def _add_payload(self, plan: tuple[list[int], Payload]) -> Plan:
        bodies, payload = plan
        with refusing():
            self._properties.add_payload(bodies, payload)
        result: Plan = {"payload": {"mass": payload.mass, "position": list(payload.position)}}
        properties = {
            name: {"mass": float(self._model.body_mass[body]), "com": self._model.body_ipos[body].tolist()}
            for name, body in zip(self._body_names(bodies), bodies, strict=True)
        }
        if len(properties) > 1:
            return result | {"bodies": list(properties), "properties": properties}
        ((name, single),) = properties.items()
        return result | {"body": name, "properties": single}

    # ---- joints and gravity

    def _check_limits(self, request: Request) -> tuple[list[int], float]:
        joints = self._names.joints(request)
        for joint in joints:
            if int(self._model.jnt_type[joint]) not in _SCALAR_JOINTS:
                name = self._names.of("joints")[joint]
                raise CommandError("invalid_parameter", f"joints: expected hinges and slides, got {name!r}")
        return joints, as_number("limit", request.get("limit"), minimum=0)

    def _set_limits(self, plan: tuple[list[int], float]) -> Plan:
        joints, limit = plan
        self._properties.set_torque_limits(joints, limit)
        names = self._names.of("joints")
        return {"joints": [names[joint] for joint in joints], "limit": limit}

    def _check_gravity(self, request: Request) -> list[float]:
        return as_vector("gravity", request.get("gravity"), 3)

    def _set_gravity(self, gravity: list[float]) -> Plan:
        self._properties.set_gravity(gravity)
        return {"gravity": gravity}
