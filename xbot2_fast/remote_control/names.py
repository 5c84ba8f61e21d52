"""The names of a model, and the selectors that pick among them."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import mujoco

from xbot2_fast.remote_control.patterns import PatternMatcher
from xbot2_fast.remote_control.protocol import CommandError, as_flag, as_list, refuse

_KINDS = {
    "bodies": ("nbody", mujoco.mjtObj.mjOBJ_BODY),
    "joints": ("njnt", mujoco.mjtObj.mjOBJ_JOINT),
    "sensors": ("nsensor", mujoco.mjtObj.mjOBJ_SENSOR),
    "geoms": ("ngeom", mujoco.mjtObj.mjOBJ_GEOM),
    "actuators": ("nu", mujoco.mjtObj.mjOBJ_ACTUATOR),
}
_PLAIN = re.compile("[A-Za-z0-9_]+").fullmatch
_UNKNOWN = {"bodies": "unknown_body", "joints": "unknown_joint", "sensors": "no_matches"}
_SINGULAR = {"bodies": "body", "joints": "joint", "sensors": "sensor"}


class Names:
    """The names of a model by kind, "" for what has none, and the selection of some of them.

    With `wait` false a pattern that is not answered yet raises PatternPending instead of blocking.
    """

    def __init__(self, model: mujoco.MjModel):
        self._model = model
        self.wait = True

    def of(self, kind: str) -> list[str]:
        """All names of a kind (bodies, joints, sensors, geoms, actuators) in the model's order."""
        return self._tables[kind]

    @cached_property
    def _tables(self) -> dict[str, list[str]]:
        return {
            kind: [mujoco.mj_id2name(self._model, object_type, i) or "" for i in range(getattr(self._model, count))]
            for kind, (count, object_type) in _KINDS.items()
        }

    @cached_property
    def _ids(self) -> dict[str, dict[str, int]]:
        return {kind: {name: i for i, name in enumerate(names) if name} for kind, names in self._tables.items()}

    @cached_property
    def matcher(self) -> PatternMatcher:
        """What answers patterns; close it at the end."""
        return PatternMatcher({kind: self._tables[kind] for kind in _UNKNOWN})

    def select(self, kind: str, selectors: list[str], regex: bool) -> list[int]:
        """Ids of what the selectors name, once each, in selection order.

        Raises:
            CommandError: unknown_body, unknown_joint, invalid_regex or no_matches.
        """
        found: dict[int, None] = {}
        for selector in selectors:
            for index in self._matching(kind, selector) if regex else [self._exact(kind, selector)]:
                found[index] = None
        return list(found)

    def _exact(self, kind: str, name: str) -> int:
        if name not in self._ids[kind]:
            raise CommandError(_UNKNOWN[kind], f"the model has no {_SINGULAR[kind]} {name[:100]!r}")
        return self._ids[kind][name]

    def _matching(self, kind: str, pattern: str) -> list[int]:
        if _PLAIN(pattern):  # matches itself only
            index = self._ids[kind].get(pattern)
            if index is not None:
                return [index]
        ask = self.matcher.matches if self.wait else self.matcher.matches_or_pending
        found = ask(kind, pattern)
        if not found:
            raise CommandError("no_matches", f"no {_SINGULAR[kind]} matches {pattern[:100]!r} entirely")
        return found

    # ---- selectors in requests

    def bodies(self, request: Mapping[str, Any]) -> list[int]:
        """The bodies of a request with a list `bodies`; `regex` is off unless given."""
        return self.select("bodies", _selectors(request, "bodies"), _regex(request, False))

    def body_or_bodies(self, request: Mapping[str, Any]) -> list[int]:
        """The bodies of a request with either one `body` or a list `bodies`."""
        regex = _regex(request, False)
        if "body" not in request:
            return self.select("bodies", _selectors(request, "bodies"), regex)
        if "bodies" in request:
            raise CommandError("invalid_parameter", "expected either body or bodies, got both")
        body = request["body"]
        if not isinstance(body, str):
            raise refuse("body", "a name", body)
        return self.select("bodies", [body], regex)

    def joints(self, request: Mapping[str, Any]) -> list[int]:
        """The joints of a request with a list `joints`; `regex` is on unless given."""
        return self.select("joints", _selectors(request, "joints"), _regex(request, True))

    def sensors(self, request: Mapping[str, Any]) -> list[int]:
        """The sensors of a request with a list `sensors`; `regex` is on unless given."""
        return self.select("sensors", _selectors(request, "sensors"), _regex(request, True))


def _selectors(request: Mapping[str, Any], field: str) -> list[str]:
    selectors = as_list(field, request.get(field))
    for i, selector in enumerate(selectors):
        if not isinstance(selector, str):
            raise refuse(f"{field}[{i}]", "a name", selector)
    return selectors


def _regex(request: Mapping[str, Any], default: bool) -> bool:
    return as_flag("regex", request.get("regex", default))
