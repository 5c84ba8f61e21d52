"""Requests as JSON: how text becomes a request, how its fields are read, and how errors are named."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5555"

MAX_DEPTH = 64  # levels of nesting in a request
MAX_IDENTIFIER = 1024  # bytes of an id as JSON: it is sent back
MAX_MAGNITUDE = 1e10  # MuJoCo's own bound on numbers (mjMAXVAL): beyond it a simulation diverges


class CommandError(Exception):
    """A request was refused; nothing was changed.

    Attributes:
        code: invalid_json, invalid_request, unknown_command, unknown_body, unknown_joint, invalid_regex, no_matches,
            no_geoms, invalid_parameter or internal_error.
        message: what was expected and what came.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


# ---- text


def decode(raw: bytes) -> dict[str, Any]:
    """The request in a message.

    Raises:
        CommandError: invalid_json (not UTF-8, not JSON, nested deeper than MAX_DEPTH), or invalid_request (not an
            object, or an id that is no JSON value).
    """
    try:
        request = json.loads(raw.decode("utf-8"))
        too_deep = raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _deeper_than(request, MAX_DEPTH)
    except RecursionError:
        too_deep = True
    except ValueError as error:
        raise CommandError("invalid_json", f"expected a JSON object in UTF-8: {error}") from None
    if too_deep:
        raise CommandError("invalid_json", f"expected at most {MAX_DEPTH} levels of nesting")
    if not isinstance(request, dict):
        raise CommandError("invalid_request", f"expected a JSON object, got {kind(request)}")
    return request


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            child
            for parent in layer
            if isinstance(parent, (list, dict))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not layer:
            return False
    return True


def identifier_of(request: Mapping[str, Any]) -> Any:
    """The id to echo: any JSON value of at most MAX_IDENTIFIER bytes, None when absent.

    Raises:
        CommandError: invalid_request for a longer one, and for what Python's parser takes but JSON does not know: NaN
            and the infinities.
    """
    identifier = request.get("id")
    if identifier is None or (isinstance(identifier, int) and abs(identifier) < 1 << 64):
        return identifier
    try:
        if _may_be_short(identifier) and len(json.dumps(identifier, allow_nan=False)) <= MAX_IDENTIFIER:
            return identifier
    except ValueError:
        raise CommandError("invalid_request", "id: expected a JSON value, got one with NaN or an infinity") from None
    raise CommandError("invalid_request", f"id: expected at most {MAX_IDENTIFIER} bytes of JSON, got more")


def _may_be_short(value: Any) -> bool:
    """False for what is longer than MAX_IDENTIFIER bytes as JSON in any case; writing it to see would cost time."""
    pending, size = [value], 0
    while pending:
        value = pending.pop()
        if isinstance(value, (str, list, dict)):
            size += len(value)  # characters and elements take a byte each, or more
            if size > MAX_IDENTIFIER:
                return False
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend([*value, *value.values()])
    return True


def kind(value: Any) -> str:
    """What a JSON value is called in an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"the string {value[:40]!r}"
        case int() | float():
            return f"the number {brief(value)}"
        case list():
            return f"a list of {len(value)}"
        case _:
            return "an object" if value else "an empty object"


def brief(value: int | float) -> str:
    """A number for an error message; an integer may be too long to print."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return "with more than 20 digits"
    return repr(value)


# ---- values


@contextmanager
def refusing(prefix: str = "") -> Iterator[None]:
    """Turn a ValueError of the simulator's parts into a refusal: invalid_parameter, with this before its message."""
    try:
        yield
    except ValueError as error:
        raise CommandError("invalid_parameter", f"{prefix}{error}") from None


def refuse(field: str, expected: str, got: Any) -> CommandError:
    return CommandError("invalid_parameter", f"{field}: expected {expected}, got {kind(got)}")


def as_number(field: str, value: Any, *, minimum: float = -math.inf, above: float = -math.inf) -> float:
    """A finite number >= minimum and > above, at most MAX_MAGNITUDE; booleans are not numbers.

    Raises:
        CommandError: invalid_parameter.
    """
    expected = "a finite number" + (f" >= {minimum:g}" if minimum > -math.inf else "")
    expected += f" > {above:g}" if above > -math.inf else ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse(field, expected, value)
    if not abs(value) <= MAX_MAGNITUDE:
        raise refuse(field, f"{expected}, at most {MAX_MAGNITUDE:g} in magnitude", value)
    if not (value >= minimum and value > above):
        raise refuse(field, expected, value)
    return float(value)


def as_vector(field: str, value: Any, size: int, *, minimum: float = -math.inf) -> list[float]:
    """A list of `size` numbers as `as_number` takes them.

    Raises:
        CommandError: invalid_parameter.
    """
    if not isinstance(value, list) or len(value) != size:
        raise refuse(field, f"a list of {size} numbers", value)
    return [as_number(f"{field}[{i}]", element, minimum=minimum) for i, element in enumerate(value)]


def as_integer(field: str, value: Any, *, minimum: int = 0) -> int:
    """An integer >= minimum; 3.0 counts as one.

    Raises:
        CommandError: invalid_parameter.
    """
    number = as_number(field, value, minimum=minimum)
    if number != int(number) or number >= 2**31:
        raise refuse(field, f"an integer >= {minimum}", value)
    return int(number)


def as_choice(field: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """One of the choices.

    Raises:
        CommandError: invalid_parameter.
    """
    if not isinstance(value, str) or value not in choices:
        raise refuse(field, "one of " + ", ".join(choices), value)
    return value


def as_flag(field: str, value: Any) -> bool:
    """A boolean, nothing else.

    Raises:
        CommandError: invalid_parameter.
    """
    if not isinstance(value, bool):
        raise refuse(field, "true or false", value)
    return value


def as_object(field: str, value: Any) -> dict[str, Any]:
    """A non-empty JSON object.

    Raises:
        CommandError: invalid_parameter.
    """
    if not isinstance(value, dict) or not value:
        raise refuse(field, "a non-empty object", value)
    return value


def as_list(field: str, value: Any) -> list[Any]:
    """A non-empty JSON list.

    Raises:
        CommandError: invalid_parameter.
    """
    if not isinstance(value, list) or not value:
        raise refuse(field, "a non-empty list", value)
    return value
