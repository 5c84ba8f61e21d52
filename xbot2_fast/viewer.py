"""The native viewer behind a small interface: open, sync, running, close."""

import os
import sys
import threading
from collections.abc import Callable

import mujoco


def display_available() -> bool:
    """Whether this process can open a window."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class NativeViewer:
    """MuJoCo's passive viewer in a window of its own.

    Args:
        key_callback: called with the GLFW key code on the viewer's thread.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, key_callback: Callable[[int], None] | None = None):
        import mujoco.viewer

        before = set(threading.enumerate())
        self._handle = mujoco.viewer.launch_passive(model, data, key_callback=key_callback)
        self._threads = [thread for thread in threading.enumerate() if thread not in before]

    @property
    def handle(self):
        """MuJoCo's own viewer handle."""
        return self._handle

    @property
    def running(self) -> bool:
        """False once the user closed the window."""
        return self._handle.is_running()

    def sync(self) -> None:
        """Show the present state. MuJoCo's viewer takes its perturbations into `xfrc_applied` here."""
        self._handle.sync()

    def close(self) -> None:
        """Close the window and wait for the viewer's thread: left running, it crashes some ends of the interpreter."""
        self._handle.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=10)
