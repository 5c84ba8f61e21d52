"""Messages from a ROUTER socket, read part by part: none of them may hold up who reads it."""

import time
from typing import cast

import zmq

MAX_PARTS = 8  # of a message: its sender, the empty one and the request, and a few of proxies on the way
MAX_PART = 1 << 20  # bytes of a part; beyond it ZeroMQ closes the connection
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)  # arithmetic with their enumerations takes longer than the call


class Inbox:
    """The messages of a socket that do not end the time of the reader.

    `recv_multipart` reads all parts of a message, and ZeroMQ bounds their size but not their number. Here the parts
    behind the first MAX_PARTS are counted and dropped, as many as there is time for; the next call goes on with them.

    Args:
        socket: a ROUTER socket, read by nobody else.
    Attributes:
        unfinished: the last call ended within a message.
        parts: of the message returned last; more than it has frames when the rest was dropped.
    """

    def __init__(self, socket: zmq.Socket):
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_PART)
        self._socket = socket
        self._frames: list[bytes] = []
        self.unfinished = False
        self.parts = 0

    def next(self, until: float) -> list[bytes] | None:
        """The first MAX_PARTS frames of the next message, or None: nothing is there, or it is `unfinished`.

        Args:
            until: time.monotonic() [s] after which no further part is dropped.
        """
        if not self.unfinished:
            if not cast(int, self._socket.getsockopt(_EVENTS)) & _READABLE:  # a third of what zmq.Again costs
                return None
            self._frames, self.parts, self.unfinished = [], 0, True
        while self.unfinished:
            part = self._socket.recv(zmq.NOBLOCK, copy=False, track=False)  # a whole message is there, or none of it
            self.parts += 1
            self.unfinished = part.more
            if self.parts <= MAX_PARTS:
                self._frames.append(part.bytes)
            elif self.unfinished and time.monotonic() > until:
                return None
        return self._frames
