"""A controller: our stand-in for XBot2. Imports no simulator and no NumPy.

python -m xbot2_fast.bridge.client [--sine AMPLITUDE]
"""

import argparse
import contextlib
import math
import mmap
import os
import secrets
import select
import signal
import socket
import sys
import time
from array import array
from collections.abc import Iterable, Sequence

import orjson

from xbot2_fast._kernels._controller import ControllerPort
from xbot2_fast.bridge.layout import COMMAND_FIELDS, IMU_FIELDS, JOINT_FIELDS, PROTOCOL, Layout, state_words
from xbot2_fast.bridge.messages import DISCOVERY, ImuState, JointState, RobotState
from xbot2_fast.bridge.segment import FOLDER

DEFAULT_SOCKET = "/tmp/mj_simulator_server.sock"
RETRY = 0.666  # seconds between two discoveries, as the C++ controller
_SLEEP = 20e-6  # between two looks at the segment while a state is waited for [s]


class BridgeClient:
    """One controller of a bridge, over shared memory where the server offers it, or JSON.

    Args:
        socket_path: of the server.
        protocol: "auto" takes what the server offers; "shm" insists on shared memory; "json" does without.
        client_path: where to bind; default <socket_path>.client.<pid>.
        timeout: how long to look for the server, discovering again every 0.666 s [s].

    Attributes:
        joint_names, imu_names: of the server.
        transport: "shm" or "json".
        state: RobotState of the last successful `read`; its arrays are live views of the client's own memory.

    Raises:
        TimeoutError: no server answered. ValueError: its answer or its segment is not what the protocol says.
    """

    def __init__(
        self,
        socket_path: str = DEFAULT_SOCKET,
        *,
        protocol: str = "auto",
        client_path: str | None = None,
        timeout: float = 5.0,
    ):
        if protocol not in ("auto", "shm", "json"):
            raise ValueError(f"protocol: expected auto, shm or json, got {protocol!r}")
        self.socket_path = socket_path
        self._path = client_path or f"{socket_path}.client.{os.getpid()}"
        self._port: ControllerPort | None = None
        self._memory: mmap.mmap | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bound = False
        try:
            os.makedirs(os.path.dirname(os.path.abspath(self._path)), exist_ok=True)
            self._socket.bind(self._path)
            self._bound = True
            self.session = secrets.randbits(64) or 1
            reply = self._discover(timeout)
            self._make_arrays(reply)
            self.transport = self._choose(protocol, reply)
        except BaseException:
            self.close()
            raise

    # ---- connecting

    def _discover(self, timeout: float) -> dict:
        deadline = time.monotonic() + timeout
        while True:
            self._send_discovery()
            remaining = deadline - time.monotonic()
            until = time.monotonic() + min(RETRY, max(remaining, 0.0))
            while (wait := until - time.monotonic()) > 0:
                if not select.select([self._socket], [], [], wait)[0]:
                    break
                message = orjson.loads(self._socket.recv(1 << 20))
                if message.get("type") == "discovery":
                    return message
            if deadline - time.monotonic() <= 0:
                raise TimeoutError(f"no simulator answers at {self.socket_path}")

    def _send_discovery(self) -> None:
        try:
            self._socket.sendto(DISCOVERY, self.socket_path)
        except (ConnectionRefusedError, FileNotFoundError):
            time.sleep(0.02)  # not there yet

    def _make_arrays(self, reply: dict) -> None:
        self.joint_names: list[str] = reply["joint_names"]
        self.imu_names: list[str] = reply["imu_sensors"]
        n = len(self.joint_names)
        self._numbers = array("d", bytes(8 * state_words(n, len(self.imu_names))))
        self._command = array("d", bytes(8 * max(len(COMMAND_FIELDS) * n, 1)))
        view = memoryview(self._numbers)
        joints = JointState(*(view[1 + i * n : 1 + (i + 1) * n] for i in range(len(JOINT_FIELDS))))
        imus, at = {}, 1 + len(JOINT_FIELDS) * n
        for name in self.imu_names:
            parts = []
            for width in IMU_FIELDS.values():
                parts.append(view[at : at + width])
                at += width
            imus[name] = ImuState(*parts)
        self.state = RobotState(0.0, joints, imus)

    def _choose(self, protocol: str, reply: dict) -> str:
        offered = reply.get("protocol") == PROTOCOL
        if protocol == "json" or (protocol == "auto" and not offered):
            return "json"
        if not offered:
            raise ValueError(f"the server at {self.socket_path} offers no shared memory")
        layout = Layout(**reply["layout"])
        if layout != Layout.of(len(self.joint_names), len(self.imu_names)):
            raise ValueError(f"the server's layout is not that of {PROTOCOL}: {layout}")
        self._map(reply["shm_name"].lstrip("/"), layout, reply["server_session_id"])
        return "shm"

    def _map(self, name: str, layout: Layout, session: int) -> None:
        descriptor = os.open(os.path.join(FOLDER, name), os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size < layout.total_size:
                raise ValueError(f"the segment {name} is shorter than its layout says")
            self._memory = mmap.mmap(descriptor, layout.total_size)
        finally:
            os.close(descriptor)
        header = array("Q", self._memory[: layout.header_size])
        for word, expected in enumerate(layout.header(session)):
            if word in (0, 1, 2, 3, 4, 5, 8, 11, 12) and header[word] != expected:
                raise ValueError(f"the segment {name}: header word {word} is {header[word]}, expected {expected}")
        self._port = ControllerPort(
            memoryview(self._memory),
            layout.state_offset,
            len(self._numbers),
            layout.command_offset,
            1 + len(COMMAND_FIELDS) * len(self.joint_names),
        )
        self._port.announce(self.session)

    # ---- states and commands

    def read(self, timeout: float | None = 0.0) -> bool:
        """Bring `state` up to the newest one; True when there was a new one.

        Args:
            timeout: how long to wait for a new one [s]; None for ever.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        return self._read_shared(deadline) if self._port is not None else self._read_text(deadline)

    def _read_shared(self, deadline: float) -> bool:
        assert self._port is not None
        while not self._port.read(self._numbers):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_SLEEP)
        self.state.time = self._numbers[0]
        return True

    def _read_text(self, deadline: float) -> bool:
        newest = None
        while newest is None or select.select([self._socket], [], [], 0)[0]:
            wait = max(deadline - time.monotonic(), 0.0)
            if newest is None and not select.select([self._socket], [], [], None if wait == math.inf else wait)[0]:
                return False
            message = orjson.loads(self._socket.recv(1 << 20))
            newest = message if message.get("type") == "state" else newest
        self._fill(newest)
        return True

    def _fill(self, message: dict) -> None:
        self.state.time = self._numbers[0] = message["time"]
        for name in JOINT_FIELDS:
            getattr(self.state.joints, name)[:] = array("d", message["joints"][name])
        for name, imu in self.state.imus.items():
            for key in IMU_FIELDS:
                getattr(imu, key)[:] = array("d", message["imus"][name][key])

    @property
    def stamp(self) -> int:
        """Simulation time of the last state read [ns], as commands echo it."""
        return round(self.state.time * 1e9)

    def send(
        self,
        q: Sequence[float],
        dq: Sequence[float],
        tau: Sequence[float],
        k: Sequence[float],
        d: Sequence[float],
        stamp: int | None = None,
    ) -> None:
        """Send a command, one number per joint each.

        Args:
            stamp: simulation time of the state it answers [ns]; default: that of the last state read.
        Raises:
            ConnectionError: the server is gone (JSON only; over shared memory see `server_alive`).
            BlockingIOError: never; a full queue of the server is waited for.
        """
        stamp = self.stamp if stamp is None else stamp
        if self._port is None:
            self._send_text((q, dq, tau, k, d), stamp)
            return
        n = len(self.joint_names)
        for i, numbers in enumerate((q, dq, tau, k, d)):
            if len(numbers) != n:
                raise ValueError(f"{COMMAND_FIELDS[i]}: expected {n} numbers, got {len(numbers)}")
            self._command[i * n : (i + 1) * n] = array("d", numbers)
        self._port.publish(stamp, self._command, time.monotonic_ns())

    def _send_text(self, rows: Iterable[Sequence[float]], stamp: int) -> None:
        command: dict = {name: array("d", numbers).tolist() for name, numbers in zip(COMMAND_FIELDS, rows, strict=True)}
        command["stamp_rx_feedback"] = stamp
        data = orjson.dumps({"type": "control", "joint_command": command})
        try:
            self._socket.sendto(data, self.socket_path)
        except FileNotFoundError as error:
            raise ConnectionError(f"the simulator at {self.socket_path} is gone") from error

    def server_alive(self) -> bool:
        """Whether the server's socket still has somebody behind it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(self.socket_path)
            except OSError:
                return False
        return True

    def close(self) -> None:
        if self._port is not None:
            self._port.detach()
            self._port = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        self._socket.close()
        if self._bound:
            self._bound = False
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def __enter__(self) -> "BridgeClient":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


# ---- command line


class _Meter:
    """Counts states and commands, and times the way from a command to the next state, over one second."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.states = self.commands = 0
        self.trips: list[float] = []
        self._sent: float | None = None

    def state(self, now: float) -> None:
        self.states += 1
        if self._sent is not None:
            self.trips.append(now - self._sent)
            self._sent = None

    def command(self, now: float) -> None:
        self.commands += 1
        if self._sent is None:
            self._sent = now

    def line(self, now: float) -> str:
        wall = now - self.since
        trips = sorted(self.trips) or [math.nan]
        return (
            f"{self.states / wall:.0f} states/s, {self.commands / wall:.0f} commands/s, "
            f"command to next state {trips[len(trips) // 2] * 1e3:.3f} ms (worst {trips[-1] * 1e3:.3f} ms)"
        )


class Holder:
    """Commands that hold the pose of the first state, or swing around it.

    Args:
        kp, kd: gains; None takes those of the first state.
        amplitude, frequency: of a sine on all joints [rad or m, Hz of simulation time].
    """

    def __init__(self, state: RobotState, kp: float | None, kd: float | None, amplitude: float, frequency: float):
        joints = state.joints
        n = len(joints.q)
        self._start = state.time
        self._home = array("d", joints.q)
        self.k = array("d", joints.k if kp is None else [kp] * n)
        self.d = array("d", joints.d if kd is None else [kd] * n)
        self._zero = array("d", bytes(8 * n))
        self._amplitude, self._omega = amplitude, 2 * math.pi * frequency

    def command(self, time: float) -> tuple[array, array, array, array, array]:
        """q, dq, tau, k, d for a simulation time [s]."""
        if not self._amplitude:
            return self._home, self._zero, self._zero, self.k, self.d
        phase = self._omega * (time - self._start)
        offset, rate = self._amplitude * math.sin(phase), self._amplitude * self._omega * math.cos(phase)
        q = array("d", [home + offset for home in self._home])
        return q, array("d", [rate] * len(q)), self._zero, self.k, self.d


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xbot2_fast.bridge.client",
        description="Drive a simulated robot: hold the pose of the first state, or track a sine around it.",
    )
    parser.add_argument("--socket-path", default=DEFAULT_SOCKET, metavar="PATH", help="the simulator's (%(default)s)")
    parser.add_argument("--protocol", choices=("auto", "shm", "json"), default="auto")
    parser.add_argument(
        "--rate", type=float, default=1000.0, metavar="HZ", help="commands per second of wall time, 0: one per state"
    )
    parser.add_argument("--kp", type=float, metavar="GAIN", help="stiffness (default: as in the first state)")
    parser.add_argument("--kd", type=float, metavar="GAIN", help="damping (default: as in the first state)")
    parser.add_argument("--sine", type=float, default=0.0, metavar="AMPLITUDE", help="swing all joints [rad, m]")
    parser.add_argument("--frequency", type=float, default=0.5, metavar="HZ", help="of the sine (%(default)s)")
    parser.add_argument("--duration", type=float, default=math.inf, metavar="SECONDS", help="end after this wall time")
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS", help="how long to wait for states")
    return parser


def _drive(client: BridgeClient, arguments: argparse.Namespace) -> None:
    if not client.read(arguments.timeout):
        raise TimeoutError("the simulator sends no state")
    holder = Holder(client.state, arguments.kp, arguments.kd, arguments.sine, arguments.frequency)
    period = 1 / arguments.rate if arguments.rate > 0 else 0.0
    meter, start = _Meter(), time.monotonic()
    now = last_state = due = start
    while now - start < arguments.duration:
        if client.read(0.0 if period else min(arguments.timeout, 0.5)):
            last_state = time.monotonic()
            meter.state(last_state)
        elif now - last_state > arguments.timeout:
            raise TimeoutError(f"no state for {arguments.timeout:g} s")
        if period or last_state >= now:
            client.send(*holder.command(client.state.time))
            meter.command(time.monotonic())
        due = max(due + period, time.monotonic() - 0.1)
        time.sleep(max(due - time.monotonic(), 0.0))
        now = time.monotonic()
        if now - meter.since >= 1.0:
            print(meter.line(now), flush=True)
            meter = _Meter()


def main(argv: list[str] | None = None) -> int:
    """Run the controller; returns the exit code."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with BridgeClient(arguments.socket_path, protocol=arguments.protocol, timeout=arguments.timeout) as client:
            print(
                f"connected to {client.socket_path} over {client.transport}: {len(client.joint_names)} joints",
                flush=True,
            )
            _drive(client, arguments)
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError) as error:
        print(f"bridge client: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
