"""Programs that tests drive: a window's display and keys, a browser."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest


def needs(*programs: str) -> None:
    """Skip the test, by name, where a program is missing; fail in CI, where .ci/apt-packages.txt brings them all."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"CI must have {', '.join(missing)}: .ci/apt-packages.txt")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def eventually(condition: Callable[[], object], seconds: float = 240.0) -> None:
    """Wait until the condition holds; the generous limit only ends a test that hangs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@contextlib.contextmanager
def display() -> Iterator[str]:
    """A virtual display of 1280 x 800 pixels; yields its name, such as ":1"."""
    needs("Xvfb")
    read, write = os.pipe()
    # A number of our own: servers that look for a free one at the same time remove each other's sockets.
    # No reset: a server that restarts when its last client leaves refuses the client that comes meanwhile.
    number = 1000 + os.getpid() % 50000
    server = subprocess.Popen(
        ["Xvfb", f":{number}", "-displayfd", str(write), "-noreset", "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
        pass_fds=[write], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    try:
        with open(read) as name:
            yield f":{name.readline().strip()}"
    finally:
        server.terminate()
        server.wait()
