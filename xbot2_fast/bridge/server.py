"""The server that XBot2 controllers connect to, without any simulator."""

import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from xbot2_fast._kernels._command_log import CommandLog
from xbot2_fast._kernels._control import read_command, read_numbers
from xbot2_fast._kernels._port import Port
from xbot2_fast.bridge.controllers import Controller
from xbot2_fast.bridge.endpoint import GONE, SENT, Endpoint, is_live
from xbot2_fast.bridge.layout import COMMAND_FIELDS, IMU_FIELDS, JOINT_FIELDS, PROTOCOL, Layout, state_words
from xbot2_fast.bridge.messages import (
    ImuState,
    JointCommand,
    JointState,
    RobotCommand,
    RobotState,
    StateText,
    command_rows,
    parse,
)
from xbot2_fast.bridge.notices import Notices
from xbot2_fast.bridge.permissions import Access
from xbot2_fast.bridge.segment import Segment, remove_dead_segments

logger = logging.getLogger(__name__)

PROTOCOLS = ("auto", "shm", "json")
REPLY_BUFFER = 40_960  # of the C++ controller [bytes]
_MOST_DATAGRAMS = 64  # served in one go, so that a flood cannot hold a step up for long
_NUMBER_TEXT = 32  # bytes that one number of a JSON command may take


class BridgeServer:
    """Answers discoveries, publishes states, takes commands: over shared memory, JSON datagrams, or each as asked.

    Fill the arrays of `state` and call `commit_state(time)`, or hand a `RobotState` to `send_state`. Call `receive()`
    once a step and read `command`.

    Args:
        name: part of the default socket path /tmp/<name>_server.sock and of the segment's name.
        socket_path: where controllers find us; its directory is made.
        joint_names, imu_names: what controllers are told, in the order of all arrays.
        protocol: "shm", "json", or "auto": shared memory for a controller that announces itself there, JSON for others.
        command_freshness_sec: age up to which a command in shared memory counts [s].
        mode: who may connect: None for the same user only, an octal mode such as "0666", or a group.

    Attributes:
        state: RobotState whose arrays are live views of the numbers that the next commit publishes.
        command: RobotCommand whose arrays are live views of the last command taken, never of a controller's memory.
        clients: the controllers connected, a list of `Controller`.

    Raises:
        ValueError: a bad argument. OSError: the socket belongs to a live simulator or cannot be made; nothing is left.
    """

    def __init__(
        self,
        name: str,
        socket_path: str | None = None,
        joint_names: Sequence[str] = (),
        imu_names: Sequence[str] = (),
        protocol: str = "auto",
        command_freshness_sec: float = 0.1,
        *,
        mode: str | int | Access | None = None,
    ):
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
        if isinstance(command_freshness_sec, bool) or not 0 < command_freshness_sec < 1e9:
            raise ValueError(f"command_freshness_sec: expected a positive number, got {command_freshness_sec!r}")
        self.name = name
        self._protocol = protocol
        self.joint_names = _names("joint_names", joint_names)
        self.imu_names = _names("imu_names", imu_names)
        self.clients: list[Controller] = []
        self._last_discoverer: Controller | None = None
        self._closed = False
        self._note = Notices(logger)
        self._malformed: dict[str, int] = {}
        self._anonymous = CommandLog()  # of commands from sockets that are bound to no address
        self.discoveries = 0
        self._make_arrays(command_freshness_sec)
        access = Access.parse(mode)
        longest = 4096 + _NUMBER_TEXT * len(COMMAND_FIELDS) * len(self.joint_names)
        self.endpoint = Endpoint(socket_path or f"/tmp/{name}_server.sock", access, max(longest, 1 << 16))
        self.segment: Segment | None = None
        try:
            remove_dead_segments()
            if protocol != "json":
                self._open_segment(protocol, access)
            self._reply = self._discovery_reply()
        except BaseException:
            self.close()
            raise
        self._log_start()

    def _make_arrays(self, freshness: float) -> None:
        n, m = len(self.joint_names), len(self.imu_names)
        self._numbers = np.zeros(state_words(n, m))
        self._command_numbers = np.zeros(len(COMMAND_FIELDS) * n)
        self._incoming = np.zeros(len(COMMAND_FIELDS) * n)
        self.port = Port(self._numbers, self._command_numbers, self._incoming, n, freshness)
        joints = JointState(*(self._numbers[1 + i * n : 1 + (i + 1) * n] for i in range(len(JOINT_FIELDS))))
        imus, at = {}, 1 + len(JOINT_FIELDS) * n
        for name in self.imu_names:
            parts = np.split(self._numbers[at : at + 10], np.cumsum(list(IMU_FIELDS.values()))[:-1])
            imus[name] = ImuState(*parts)
            self._numbers[at + 3] = 1.0  # no rotation
            at += 10
        self.state = RobotState(0.0, joints, imus)
        rows = (self._command_numbers[i * n : (i + 1) * n] for i in range(len(COMMAND_FIELDS)))
        self.command = RobotCommand(JointCommand(0, *rows))
        self._text = StateText(self._numbers, n, self.imu_names)

    def _open_segment(self, protocol: str, access: Access) -> None:
        layout = Layout.of(len(self.joint_names), len(self.imu_names))
        self._session = secrets.randbits(64) or 1
        try:
            self.segment = Segment(self.name, layout.total_size, access)
        except OSError as error:
            if protocol == "shm":
                raise
            logger.warning("no shared memory (%s): controllers are served as JSON only", error)
            return
        self.port.attach(memoryview(self.segment.memory), layout.header(self._session))
        self._layout = layout

    def _discovery_reply(self) -> bytes:
        reply: dict = {"type": "discovery", "joint_names": self.joint_names, "imu_sensors": self.imu_names}
        if self.segment is not None:
            reply["protocol"] = PROTOCOL
            reply["shm_name"] = self.segment.name
            reply["server_session_id"] = self._session
            reply["layout"] = self._layout.message()
        data = orjson.dumps(reply)
        if len(data) > REPLY_BUFFER:
            logger.warning(
                "the discovery answer has %d bytes, XBot2 reads %d: use ignore_joints or shorter names",
                len(data),
                REPLY_BUFFER,
            )
        return data

    def _log_start(self) -> None:
        using = "json" if self.segment is None else f"shm ({self.segment.name})"
        # The words are those that users' scripts look for.
        logger.info("[BridgeServer] Initialized on socket %s using %s", self.endpoint.path, using)
        logger.info("[BridgeServer] Joint names: %s", self.joint_names)
        logger.info("[BridgeServer] IMU names: %s", self.imu_names)

    # ---- states out

    def commit_state(self, time: float) -> None:
        """Publish the numbers of `state`, stamped with this simulation time [s]."""
        self._check_open()
        self.state.time = time
        if not self.port.commit(time):
            self._note.once(logging.ERROR, "state", "a state is not finite: it is not sent as JSON")
            return
        self.publish_text()

    def send_state(self, state: RobotState) -> None:
        """Publish this state.

        Raises:
            ValueError: an array has not one number per joint, or an IMU is missing; nothing was published.
        """
        self._check_open()
        rows = [(getattr(self.state.joints, f), getattr(state.joints, f), f"joints.{f}") for f in JOINT_FIELDS]
        for name, own in self.state.imus.items():
            if name not in state.imus:
                raise ValueError(f"state: expected the IMUs {self.imu_names}, {name!r} is missing")
            rows += [(getattr(own, f), getattr(state.imus[name], f), f"imus.{name}.{f}") for f in IMU_FIELDS]
        values = [np.asarray(value, dtype=np.float64) for _, value, _ in rows]
        for (own, _, where), value in zip(rows, values, strict=True):
            if value.shape != own.shape:
                raise ValueError(f"state: {where}: expected shape {own.shape}, got {value.shape}")
        for (own, _, _), value in zip(rows, values, strict=True):
            own[:] = value
        self.commit_state(state.time)

    def publish_text(self) -> None:
        """Send the committed state to the controllers that are served as JSON."""
        self._notice_announcement()
        controllers = self._text_clients
        if not controllers:
            return
        data = self._text()
        for controller in controllers:
            self._send(controller, data)

    def greet(self) -> None:
        """Send the last state to the JSON controllers that have had none yet: they may be who a lockstep waits for."""
        for controller in self._text_clients:
            if not controller.states + controller.states_missed:
                self._send(controller, self._text())

    def _send(self, controller: Controller, data: bytes) -> None:
        outcome = self.endpoint.send(data, controller.address)
        if outcome == SENT:
            controller.states += 1
        elif outcome == GONE:
            self._drop(controller)
        else:
            controller.states_missed += 1
            if controller.states_missed == 1:
                text = "controller %s does not read its states as fast as they come: it misses some"
                self._note(logging.WARNING, "slow", text, controller)

    @property
    def wants_text(self) -> bool:
        """Whether a controller is served as JSON."""
        return bool(self._text_clients)

    @property
    def _text_clients(self) -> list[Controller]:
        return [controller for controller in self.clients if controller.transport == "json"]

    def _notice_announcement(self) -> None:
        """The controller that discovered last is served in shared memory once it announced its session there."""
        controller = self._last_discoverer
        if controller is not None and controller.transport != "shm" and self.port.announced():
            controller.transport = "shm"
            self._note(logging.INFO, "shm", "controller %s uses shared memory", controller)

    # ---- commands in

    def receive(self) -> bool:
        """Serve the socket and take the newest command; True when a new one came."""
        self._check_open()
        now = time.monotonic_ns()
        self.port.take(now, self.state.time)
        self.serve_socket(now, self.state.time)
        self.command.joint_command.stamp_rx_feedback = self.port.stamp
        return self.port.take_fresh()

    def serve_socket(self, now: int, sim_time: float) -> None:
        """Answer discoveries, and take the newest command among the datagrams that wait.

        Args:
            now: wall time [ns of the monotonic clock]. sim_time: simulation time [s].
        """
        newest: CommandLog | None = None  # of the controller whose command counts
        stamp = 0
        for _ in range(_MOST_DATAGRAMS):
            datagram = self.endpoint.receive()
            if datagram is None:
                break
            data, address = datagram
            answers = self._read_command(data)
            if answers == "discovery":
                self._on_discovery(address)
                continue
            if isinstance(answers, str):
                self._refuse(answers, address)
                continue
            self._command_numbers[:] = self._incoming
            if newest is not None:
                newest.dropped(1)
            newest = self._anonymous if address is None else self._controller(address).log
            stamp = answers
        if newest is not None:
            self.port.deliver(stamp, now)
            newest.arrival(now, sim_time, stamp)

    def _read_command(self, data: bytes | None) -> int | str:
        """The stamp of a sound command, its numbers in `_incoming`; "discovery", or what is wrong with a datagram."""
        if data is None:
            return "longer than a command can be"
        if self._protocol != "shm":
            stamp = read_command(data, self._incoming, len(self.joint_names))
            if stamp is not None:
                return stamp
        message = parse(data)
        if isinstance(message, str):
            return message
        if message["type"] == "discovery":
            return "discovery"
        if message["type"] != "control" or self._protocol == "shm":
            return "a type that is not served"
        rows = command_rows(message)
        if isinstance(rows, str):
            return rows
        numbers, stamp = rows
        wrong = read_numbers(numbers, self._incoming, len(self.joint_names))
        return f"a command whose {wrong}" if wrong else stamp

    def _on_discovery(self, address: str | bytes | None) -> None:
        if address is None:
            self._refuse("a discovery from a socket that is bound to no address", None)
            return
        self.discoveries += 1
        self.drop_dead()
        takes_over = self._last_discoverer is not None and self._last_discoverer.address != address
        controller = self._controller(address)
        controller.transport = "json"
        self._last_discoverer = controller
        self.port.discovered(controller.log)
        text = "controller %s connected" + (" and takes over" if takes_over else "")
        self._note(logging.INFO, "connected", text, controller)
        if self.endpoint.send(self._reply, controller.address) == GONE:
            self._drop(controller)

    def drop_dead(self) -> None:
        """Drop the controllers in shared memory that are gone: no state is sent to them, so nothing else would tell."""
        for controller in [c for c in self.clients if c.transport == "shm" and not is_live(c.address)]:
            self._drop(controller)

    def _drop(self, controller: Controller) -> None:
        self.clients.remove(controller)
        self._note(logging.INFO, "gone", "controller %s is gone", controller)

    def _controller(self, address: str | bytes) -> Controller:
        for controller in self.clients:
            if controller.address == address:
                return controller
        controller = Controller(address)
        self.clients.append(controller)
        return controller

    # ---- the rest

    def status(self) -> dict[str, Any]:
        """How the connections fare: JSON types only.

        `controllers` has one entry each, see `Controller.status`; `malformed` counts ignored datagrams by kind.
        """
        now = time.monotonic_ns()
        return {
            "socket": self.endpoint.path,
            "segment": None if self.segment is None else self.segment.name,
            "states": self.port.states,
            "discoveries": self.discoveries,
            "malformed": dict(self._malformed),
            "controllers": [controller.status(now) for controller in self.clients],
        }

    def _refuse(self, kind: str, address: str | bytes | None) -> None:
        self._malformed[kind] = self._malformed.get(kind, 0) + 1
        for controller in self.clients:
            if controller.address == address:
                controller.log.malformed()
        self._note.once(
            logging.WARNING, kind, "ignored a datagram: %s (such are counted from now on, not logged)", kind
        )

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the bridge is closed")

    def close(self) -> None:
        """Remove the socket and the shared memory. Idempotent; anything but `close` raises RuntimeError afterwards."""
        if self._closed:
            return
        self._closed = True
        self.port.detach()
        if self.segment is not None:
            self.segment.close()
        self.endpoint.close()

    def __enter__(self) -> "BridgeServer":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _names(argument: str, names: Sequence[str]) -> list[str]:
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"{argument}: expected names, got {name!r}")
        if names.count(name) > 1:
            raise ValueError(f"{argument}: {name!r} comes twice")
    return names
