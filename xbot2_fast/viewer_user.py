"""What the user does in a viewer: keys, requests, pulling with the mouse, closing it."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import mujoco

from xbot2_fast.remote_control.protocol import CommandError
from xbot2_fast.remote_control.table import CommandTable
from xbot2_fast.run_control import Requests, RunControl
from xbot2_fast.viewer import Viewer

logger = logging.getLogger(__name__)


class Commands(Protocol):
    """What carries out requests: `remote_control.RemoteControl`."""

    table: CommandTable


class ViewerUser:
    """Hands what comes from a viewer to the simulation. Called on the viewer's thread; only files requests.

    Args:
        on_key: called with GLFW key codes, on the viewer's thread.
        commands: what carries out requests of the browser's panel, on the simulation thread; None where there is none.
    """

    def __init__(
        self,
        data: mujoco.MjData,
        control: RunControl,
        requests: Requests,
        on_key: Callable[[int], None],
        commands: Commands | None,
    ):
        self._data = data
        self._control = control
        self._requests = requests
        self._on_key = on_key
        self._commands = commands
        self._pulled: list[int] = []

    def __call__(self, viewer: Viewer, message: dict[str, Any]) -> None:
        match message["type"]:
            case "key":
                self._press(message["code"])
            case "request":
                self._file(viewer, message["request"])
            case "pull":
                self._requests.file(lambda: self._pull(message["forces"]), while_paused=False)
            case "ready" if viewer.url is not None:
                logger.info("browser viewer: %s (from another machine through ssh -L)", viewer.url)
            case "ended":
                self._end(viewer)

    def _press(self, key: int) -> None:
        try:
            self._on_key(key)
        except Exception:
            logger.exception("the viewer's key callback failed at key %d", key)

    def _file(self, viewer: Viewer, request: dict[str, Any]) -> None:
        if self._commands is None:
            viewer.send("reply", ok=False, error={"message": "this simulator takes no requests"})
            return
        now = self._commands.table.answers_while_paused(request)
        self._requests.file(lambda: self._serve(viewer, request), while_paused=now)

    def _serve(self, viewer: Viewer, request: dict[str, Any]) -> None:
        assert self._commands is not None
        try:
            result = self._commands.table.handle(request)
        except CommandError as error:
            viewer.send("reply", ok=False, error={"code": error.code, "message": error.message})
        else:
            viewer.send("reply", ok=True, result=result)

    def _pull(self, forces: Mapping[str, list[float]]) -> None:
        """Apply what the mouse pulls with, body -> force and torque, instead of what it pulled with before."""
        for body in self._pulled:
            self._data.xfrc_applied[body] = 0
        self._pulled = [int(body) for body in forces]
        for body, force in zip(self._pulled, forces.values(), strict=True):
            self._data.xfrc_applied[body] = force

    def _end(self, viewer: Viewer) -> None:
        if viewer.failure is not None:
            logger.warning("the viewer shows nothing, running headless: %s", viewer.failure)
            return
        self._control.end()
        self._requests.wake()
