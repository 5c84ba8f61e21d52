"""A client of the remote control: one request, one reply. Needs pyzmq only, neither MuJoCo nor NumPy."""

import json
import math
from typing import Any

import zmq

from xbot2_fast.remote_control.protocol import DEFAULT_ENDPOINT, CommandError

_FOREVER = (1 << 31) - 1  # ms: 25 days, the longest that ZeroMQ knows


class InvalidReply(RuntimeError):
    """What came back is not a reply of the remote-control protocol."""


class RemoteControlClient:
    """Sends requests to a running simulator and waits for each reply.

    Not thread-safe: give each thread a client of its own.

    Args:
        endpoint: ZeroMQ address of the server.
        timeout: wall-clock seconds to wait for sending, and again for the reply; finite and positive. It has nothing
            to do with a wrench's duration, which is simulation time.
    Raises:
        ValueError: a timeout that is not finite and positive, or an endpoint that ZeroMQ cannot read.
    """

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT, timeout: float = 5.0):
        if not (math.isfinite(timeout) and timeout > 0):
            raise ValueError(f"timeout: expected finite and positive seconds, got {timeout}")
        self.endpoint = endpoint
        self.timeout = timeout
        self._context = zmq.Context()
        self._socket: zmq.Socket | None = None
        try:
            self._connect()
        except ValueError:
            self._context.term()
            raise

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return the whole reply, also that of a refused request.

        Raises:
            TimeoutError: no server took the request, or no reply came; the message says which. A request that was
                sent may have taken effect, or may still: look before sending it again.
            InvalidReply: the answer is not a JSON object with "ok" and "result" or "error".
        """
        if self._socket is None:
            self._connect()
        assert self._socket is not None
        try:
            self._socket.send(json.dumps(request).encode())
        except zmq.Again:
            self._disconnect()
            raise TimeoutError(
                f"no server at {self.endpoint} within {self.timeout:g} s: the request was not sent. "
                "Is the simulator running with --remote-control-endpoint?"
            ) from None
        try:
            reply = self._socket.recv()
        except zmq.Again:
            self._disconnect()
            raise TimeoutError(
                f"no reply from {self.endpoint} within {self.timeout:g} s. The request was sent and may have taken "
                "effect, or may still: check the simulation before retrying, above all additive wrenches. (A paused "
                "simulation answers status, list, resume, advance and set_rtf only; the rest waits for its next step.)"
            ) from None
        except BaseException:
            self._disconnect()  # a REQ socket that waits for a reply cannot send
            raise
        return _checked(reply)

    def call(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send one command and return its result: `client.call("apply_wrench", body="base_link", force=[...], ...)`.

        Raises:
            CommandError: the server refused the request; nothing was changed.
            TimeoutError, InvalidReply: as `request`.
        """
        reply = self.request({"command": command, **fields})
        if reply["ok"]:
            return reply["result"]
        raise CommandError(reply["error"]["code"], reply["error"]["message"])

    def close(self) -> None:
        self._disconnect()
        self._context.term()

    def __enter__(self) -> "RemoteControlClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> None:
        socket = self._context.socket(zmq.REQ)
        milliseconds = min(max(1, math.ceil(self.timeout * 1e3)), _FOREVER)
        socket.setsockopt(zmq.SNDTIMEO, milliseconds)
        socket.setsockopt(zmq.RCVTIMEO, milliseconds)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IMMEDIATE, 1)  # without a server the request is not queued, so it was surely not sent
        try:
            socket.connect(self.endpoint)
        except zmq.ZMQError as error:
            socket.close()
            raise ValueError(
                f"endpoint: expected an address such as {DEFAULT_ENDPOINT}, got {self.endpoint!r}: {error}"
            ) from None
        self._socket = socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _checked(raw: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(raw)
    except (ValueError, RecursionError):
        raise InvalidReply(f"invalid reply, not JSON: {raw[:200]!r}") from None
    if isinstance(reply, dict):
        error = reply.get("error")
        if reply.get("ok") is True and "result" in reply:
            return reply
        if reply.get("ok") is False and isinstance(error, dict) and {"code", "message"} <= error.keys():
            return reply
    raise InvalidReply(f"invalid reply, not a remote-control answer: {raw[:200]!r}")
