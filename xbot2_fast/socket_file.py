"""The file of a UNIX socket, which outlives the socket."""

import contextlib
import os


class SocketFile:
    """A socket's file, from the moment it was bound.

    Args:
        path: of a file that exists; relative ones are meant now, wherever the process goes later.
    Raises:
        OSError: there is no such file.
    """

    def __init__(self, path: str):
        self._path = os.path.abspath(path)
        self._inode = os.lstat(self._path).st_ino

    def remove(self) -> None:
        """Remove it, unless it is gone, or somebody else's by now."""
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(self._path).st_ino == self._inode:
                os.unlink(self._path)
