"""The simulator's side of a viewer: a window, a browser's page, or a picture, each drawn by a process of its own."""

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import mujoco
import numpy as np
import orjson

from xbot2_fast.viewing.frames import Frame, MarkerSource
from xbot2_fast.viewing.link import MESSAGE_SIZE

logger = logging.getLogger(__name__)

_PATIENCE = 5.0  # s for the process to go when told
_DRAWING = 60.0  # s for one picture


def display_available() -> bool:
    """Whether this process can open a window."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class Viewer:
    """A process that shows the simulation.

    `sync` costs the simulation some microseconds: it fills memory that the process shares, if the last frame was taken.

    Args:
        kind: "native" (MuJoCo's viewer in a window), "web" (MuJoCo Studio in a browser) or "picture".
        markers: what is drawn beside the model, rebuilt at each frame, in this order.
        user: what the user does: called with the viewer and each message of the process (a dict with "type"), on a
            thread of the viewer's.
        fill: writes the velocity and torque references of a frame.
        options: keyword arguments of the kind.
        environment: variables that the process gets beside ours.

    Attributes:
        failure: why the process could not show anything; None while it can.
        frames: how many frames the process took.
        url: the page of the browser viewer, once it is served.
        layout: widget -> (left, top, right, bottom) of the browser viewer's panel, in pixels of the page.
    """

    def __init__(
        self,
        kind: str,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        *,
        markers: Iterable[MarkerSource] = (),
        user: Callable[["Viewer", dict[str, Any]], None] | None = None,
        fill: Callable[[Frame], None] | None = None,
        options: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
    ):
        self._model, self._data = model, data
        self._markers = markers
        self._user = user
        self._fill = fill
        self._free = False  # the process took the last frame
        self._ended = False
        self.failure: str | None = None
        self.frames = 0
        self.url: str | None = None
        self.layout: dict[str, list[int]] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        model_fd, frame_fd = _model_file(model), _file(Frame.size(model))
        try:
            self._frame = Frame(model, frame_fd)
            self._frame.references[:] = np.nan
            descriptors = (theirs.fileno(), model_fd, frame_fd)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "xbot2_fast.viewing", kind, *map(str, descriptors),
                 orjson.dumps(options or {}).decode()],
                pass_fds=descriptors, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(model_fd)
            os.close(frame_fd)
        self._thread = threading.Thread(target=self._listen, name="viewer", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """False once the user closed it, or it failed."""
        return not self._ended

    def is_running(self) -> bool:
        """The same as `running`, as MuJoCo's own handle has it."""
        return self.running

    def sync(self, **info: Any) -> None:
        """Show the present state and markers, unless the process still draws; `info` goes with the frame."""
        if not self._free:
            return
        self._free = False
        markers = self._frame.write(self._model, self._data, self._markers)
        if self._fill is not None:
            self._fill(self._frame)
        self.send("frame", markers=markers, **info)

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message to the process; lost when it is gone, or too busy to take any."""
        try:
            self._socket.send(orjson.dumps({"type": kind, **fields}), socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except OSError:
            self._ended = True

    def close(self) -> None:
        """End the process, and wait for it."""
        self.send("exit")
        if threading.current_thread() is not self._thread:
            self._thread.join(_PATIENCE)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            logger.warning("the viewer's process did not end by itself")
            self._process.kill()
            self._process.wait()
        self._ended = True
        self._socket.close()

    def _listen(self) -> None:
        while datagram := self._read():
            message = orjson.loads(datagram)
            self._note(message)
            if self._user is not None and message["type"] not in ("taken", "layout"):
                self._user(self, message)
        self._ended = True
        self._process.wait()  # it ends with the connection
        if self._process.returncode and self.failure is None:
            self.failure = f"its process ended with code {self._process.returncode}"
        if self._user is not None:
            self._user(self, {"type": "ended"})

    def _note(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "taken":
                self.frames += 1
                self._free = True
            case "ready":
                self._free = True
                self.url = message.get("url")
            case "layout":
                self.layout = message["widgets"]
            case "failed":
                self.failure = message["message"]
                logger.debug("%s", message["detail"])

    def _read(self) -> bytes:
        try:
            return self._socket.recv(MESSAGE_SIZE)
        except OSError:
            return b""


class PictureError(RuntimeError):
    """No picture could be drawn or written."""


def take_picture(
    file: str | os.PathLike[str],
    model: mujoco.MjModel,
    data: mujoco.MjData,
    *,
    markers: Iterable[MarkerSource] = (),
    camera: str | None = None,
    width: int = 1280,
    height: int = 720,
) -> None:
    """Write a PNG picture of the present state; needs no display, but EGL or OSMesa.

    Args:
        camera: name of a camera of the model; None: MuJoCo's free camera where it starts.
        width, height: in pixels.
    Raises:
        ValueError: no camera of this name, or a file that cannot be written.
        PictureError: nothing can draw here.
    """
    check_camera(model, camera)
    check_picture_file(file)
    options = {"file": os.path.abspath(file), "camera": camera, "width": width, "height": height}
    failures = []
    for backend in [os.environ["MUJOCO_GL"]] if "MUJOCO_GL" in os.environ else ["egl", "osmesa"]:
        failure = _draw_with(backend, model, data, markers, options)
        if failure is None:
            return
        failures.append(f"{backend}: {failure}")
    raise PictureError(f"no picture in {file}: {'; '.join(failures)} (on Debian: apt install libegl1 or libosmesa6)")


def check_camera(model: mujoco.MjModel, camera: str | None) -> None:
    """Raise ValueError, with the names there are, unless the model has this camera."""
    names = [model.camera(i).name for i in range(model.ncam)]
    if camera is not None and camera not in names:
        known = ", ".join(filter(None, names)) or "none, as the model has none"
        raise ValueError(f"camera: expected one of {known}; got {camera!r}")


def check_picture_file(file: str | os.PathLike[str]) -> None:
    """Raise ValueError unless this file can be written, of which a process learns only behind seconds of drawing."""
    path = os.path.abspath(file)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ValueError(f"file: expected one in an existing folder, got {path}: make {folder} first")
    if os.path.isdir(path):
        raise ValueError(f"file: expected a file's name, got the folder {path}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise ValueError(f"file: expected one that this user may write, got {path}")


def _draw_with(backend, model, data, markers, options) -> str | None:
    """Draw in a process with this MUJOCO_GL; returns what went wrong."""
    ready, written = threading.Event(), threading.Event()

    def on_message(viewer: Viewer, message: dict[str, Any]) -> None:
        if message["type"] == "ready":
            ready.set()
        elif message["type"] in ("written", "ended"):
            ready.set()
            written.set()

    # MuJoCo leaves PYOPENGL_PLATFORM in the environment of a process that drew with another backend.
    environment = {"MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    viewer = Viewer("picture", model, data, markers=markers, user=on_message, options=options, environment=environment)
    ready.wait(_DRAWING)
    viewer.sync()
    written.wait(_DRAWING)
    viewer.close()
    return viewer.failure


def _file(size: int) -> int:
    fd = os.memfd_create("xbot2_fast-viewer")
    os.truncate(fd, size)
    return fd


def _model_file(model: mujoco.MjModel) -> int:
    """A file in memory that holds the compiled model."""
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    fd = os.memfd_create("xbot2_fast-model")
    with open(os.dup(fd), "wb") as file:
        file.write(buffer)
    return fd
