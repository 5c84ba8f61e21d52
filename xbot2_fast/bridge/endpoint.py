"""The server's datagram socket: its place in the file system, and what goes through it."""

import errno
import logging
import os
import re
import socket
import stat
from glob import escape, glob

from xbot2_fast._kernels._datagram import DatagramReader
from xbot2_fast.bridge.permissions import Access
from xbot2_fast.bridge.segment import process_alive
from xbot2_fast.socket_file import SocketFile

logger = logging.getLogger(__name__)

LONGEST_PATH = 107  # bytes, of sockaddr_un

# What sending to a controller can come to.
SENT, BUSY, GONE = "sent", "busy", "gone"
_BUSY_ERRORS = {errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.EINTR}


class Endpoint:
    """A datagram socket bound to a path, and removed from there by `close()`.

    Args:
        path: where; its directory is made, a socket that nobody listens on is replaced.
        access: mode and group of the socket file.
        longest: longest datagram that can be received whole [bytes].

    Attributes:
        receive: see `DatagramReader.receive`.

    Raises:
        OSError: a live simulator has the path, something that is no socket is there, or it cannot be bound.
        ValueError: the path is too long for a socket.
    """

    def __init__(self, path: str, access: Access, longest: int):
        self.path = os.path.abspath(path)
        if len(os.fsencode(self.path)) > LONGEST_PATH:
            raise ValueError(
                f"socket_path: at most {LONGEST_PATH} bytes, got {len(os.fsencode(self.path))}: {self.path!r}; "
                "choose a shorter one with --socket-path"
            )
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        _make_way(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            os.fchmod(self.socket.fileno(), 0o600)  # from the first moment; Linux binds with the socket's own mode
            self.socket.bind(self.path)
            self._file = SocketFile(self.path)
            access.apply(self.path)
            self.socket.setblocking(False)
        except BaseException:
            self.socket.close()
            raise
        self.receive = DatagramReader(self.socket.fileno(), longest).receive
        _remove_dead_clients(self.path)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes, address: str | bytes) -> str:
        """SENT; BUSY where the receiver's queue is full; GONE where nobody receives at the address any more."""
        try:
            self.socket.sendto(data, address)
        except OSError as error:
            return BUSY if error.errno in _BUSY_ERRORS else GONE
        return SENT

    def close(self) -> None:
        self.socket.close()
        self._file.remove()


def is_live(path: str | bytes) -> bool:
    """Whether some process receives datagrams at this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # of another type, or not ours to connect to: no reason to think that it is dead
    return True


def _make_way(path: str) -> None:
    """Remove a socket that nobody listens on."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, f"{path} exists and is no socket; choose another path with --socket-path")
    if is_live(path):
        raise OSError(
            errno.EADDRINUSE, f"{path} belongs to a simulator that is running; choose another path with --socket-path"
        )
    os.unlink(path)
    logger.info("replaced the socket %s of a simulator that is gone", path)


def _remove_dead_clients(path: str) -> None:
    """Remove what killed controllers left: sockets named <path>.client.<pid>."""
    for client in glob(escape(path) + ".client.*"):
        match = re.fullmatch(r".*\.client\.(\d+)", client)
        if match and not process_alive(int(match[1])) and not is_live(client):
            try:
                os.unlink(client)
            except OSError:
                continue
            logger.info("removed the socket %s of a controller that is gone", client)
