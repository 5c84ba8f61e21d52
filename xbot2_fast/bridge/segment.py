"""Shared-memory segments of servers: made, found, and removed when their process is gone.

A segment is a file in /dev/shm, which is what POSIX shared memory is on Linux. Its server holds a lock on it, so that a
server in another container, whose process ids mean nothing here, does not take it for left over.
"""

import fcntl
import logging
import mmap
import os
import re
import secrets

from xbot2_fast.bridge.permissions import Access

logger = logging.getLogger(__name__)

FOLDER = "/dev/shm"
_PREFIX = "xbot2-pybridge-"
_NAME = re.compile(re.escape(_PREFIX) + r".*-(\d+)-[0-9a-f]{16}")


def process_alive(pid: int) -> bool:
    """Whether a process of this id exists, also one of another user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


class Segment:
    """A new segment of `size` zero bytes, mapped; unlinked by `close()`.

    Raises:
        OSError: there is no shared memory, or not enough.
    """

    def __init__(self, name: str, size: int, access: Access):
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:128]
        self.name = f"{_PREFIX}{safe}-{os.getpid()}-{secrets.token_hex(8)}"
        self.path = os.path.join(FOLDER, self.name)
        self.descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH)
            access.apply(self.path)
            os.posix_fallocate(self.descriptor, 0, size)  # a full /dev/shm is an error here, not a SIGBUS later
            self.memory = mmap.mmap(self.descriptor, size)
        except BaseException:
            os.unlink(self.path)
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Unmap and remove it; whoever holds a buffer of `memory` must have let go of it."""
        self.memory.close()
        os.close(self.descriptor)
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            logger.warning("the shared memory %s was already gone", self.name)


def remove_dead_segments() -> list[str]:
    """Remove the segments of servers that ended without doing so (SIGKILL); returns their names."""
    try:
        names = os.listdir(FOLDER)
    except OSError:
        return []
    return [name for name in names if _is_dead(name) and _unlink(name)]


def _is_dead(name: str) -> bool:
    match = _NAME.fullmatch(name)
    if match is None or process_alive(int(match[1])):
        return False
    try:
        descriptor = os.open(os.path.join(FOLDER, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _unlink(name: str) -> bool:
    try:
        os.unlink(os.path.join(FOLDER, name))
    except OSError:
        return False
    logger.info("removed the shared memory %s of a simulator that is gone", name)
    return True
