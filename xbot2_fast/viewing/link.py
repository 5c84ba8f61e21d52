"""The viewer's end of the connection to the simulator."""

import contextlib
import os
import select
import socket
from typing import Any

import mujoco
import numpy as np
import orjson

from xbot2_fast.viewing.frames import Frame

MESSAGE_SIZE = 1 << 17


class SimulatorGone(Exception):
    """The simulator ended, or told us to."""


class Link:
    """Frames and messages from the simulator, messages to it. One JSON object a datagram.

    Attributes:
        model, data: our own copies; `receive` keeps the data at the newest frame.
        info: what the newest frame said beside the state: markers, paused, target_rtf, rtf and more.
    """

    def __init__(self, descriptor: int, model_fd: int, frame_fd: int):
        self._socket = socket.socket(fileno=descriptor)
        self.model = mujoco.MjModel.from_binary_path(f"/proc/self/fd/{model_fd}")
        self.data = mujoco.MjData(self.model)
        self.frame = Frame(self.model, frame_fd)
        self.geoms = np.zeros_like(self.frame.geoms)
        self.info: dict[str, Any] = {"markers": 0, "paused": False, "target_rtf": 1.0, "rtf": None}
        self.replies: list[dict[str, Any]] = []
        for fd in (model_fd, frame_fd):
            os.close(fd)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, **fields: Any) -> None:
        """From any thread; lost when the simulator is gone, which `receive` tells."""
        with contextlib.suppress(OSError):
            self._socket.send(orjson.dumps({"type": kind, **fields}))

    def receive(self, timeout: float) -> bool:
        """Wait for messages, at most this long [s]; True when a frame came, which `data` and `geoms` hold then.

        Raises:
            SimulatorGone: the simulator ended.
        """
        fresh = False
        while select.select([self._socket], [], [], 0 if fresh else timeout)[0]:
            message = self._read()
            if message["type"] == "frame":
                self.info = message
                self.frame.read(self.model, self.data)
                count = message["markers"]
                self.geoms[:count] = self.frame.geoms[:count]
                self.send("taken")
                fresh = True
            else:
                self.replies.append(message)
                timeout = 0
        return fresh

    def _read(self) -> dict[str, Any]:
        try:
            datagram = self._socket.recv(MESSAGE_SIZE)
        except OSError as error:
            raise SimulatorGone from error
        if not datagram:
            raise SimulatorGone
        message = orjson.loads(datagram)
        if message["type"] == "exit":
            raise SimulatorGone
        return message
