"""Replies as JSON."""

import json
from typing import Any

import orjson

from xbot2_fast.remote_control.protocol import CommandError


def encode_result(identifier: Any, result: Any) -> bytes:
    """The reply to a request that was carried out; a number in it that is not finite becomes null."""
    return _encode({"id": identifier, "ok": True, "result": result})


def encode_error(identifier: Any, error: CommandError) -> bytes:
    """The reply to a request that was refused."""
    return _encode({"id": identifier, "ok": False, "error": {"code": error.code, "message": error.message}})


def _encode(reply: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(reply)
    except TypeError:  # an id with an integer beyond 64 bits or half of a surrogate pair, which came as JSON
        return json.dumps(reply).encode()
