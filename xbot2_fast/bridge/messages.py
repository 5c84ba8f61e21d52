"""What passes between a server and its controllers, as objects and as JSON text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from xbot2_fast.bridge.layout import COMMAND_FIELDS, IMU_FIELDS, JOINT_FIELDS

Numbers = Sequence[float] | Any  # a list, or an array

DISCOVERY = b'{"type":"discovery"}'


@dataclass
class JointState:
    """One number per joint, in discovery order.

    q, dq: position [rad or m] and velocity; tau: torque of the actuators [Nm or N]; k, d: gains in force;
    qref, vref, tauref: references last applied.
    """

    q: Numbers = ()
    dq: Numbers = ()
    tau: Numbers = ()
    k: Numbers = ()
    d: Numbers = ()
    qref: Numbers = ()
    vref: Numbers = ()
    tauref: Numbers = ()


@dataclass
class ImuState:
    """quat_w: world from IMU, x y z w; lin_acc_b [m/s2], gravity felt, and ang_vel_b [rad/s], in the IMU's frame."""

    quat_w: Numbers = (0.0, 0.0, 0.0, 1.0)
    lin_acc_b: Numbers = (0.0, 0.0, 0.0)
    ang_vel_b: Numbers = (0.0, 0.0, 0.0)


@dataclass
class RobotState:
    """A state at a simulation time [s]."""

    time: float = 0.0
    joints: JointState = field(default_factory=JointState)
    imus: Mapping[str, ImuState] = field(default_factory=dict)


@dataclass
class JointCommand:
    """stamp_rx_feedback: simulation time of the state it answers [ns], 0 unknown; then one number per joint."""

    stamp_rx_feedback: int = 0
    q: Numbers = ()
    dq: Numbers = ()
    tau: Numbers = ()
    k: Numbers = ()
    d: Numbers = ()


@dataclass
class RobotCommand:
    joint_command: JointCommand = field(default_factory=JointCommand)


class StateText:
    """Encodes states as JSON. Gains and references are encoded anew only when they changed.

    Args:
        state: the server's array of state numbers, read at each call.
    """

    def __init__(self, state, njoints: int, imu_names: Sequence[str]):
        n = njoints
        rows = {name: state[1 + i * n : 1 + (i + 1) * n] for i, name in enumerate(JOINT_FIELDS)}
        self._state = state
        self._slow_rows = {name: rows[name] for name in JOINT_FIELDS[3:]}  # k d qref vref tauref
        self._slow = state[1 + 3 * n : 1 + 8 * n]
        self._slow_bytes: bytes | None = None
        self._joints: dict[str, Any] = dict(rows)
        imus: dict[str, Any] = {}
        self._message = {"time": 0.0, "joints": self._joints, "imus": imus, "type": "state"}
        for i, name in enumerate(imu_names):
            at = 1 + 8 * n + 10 * i
            imu = {}
            for key, width in IMU_FIELDS.items():
                imu[key] = state[at : at + width]
                at += width
            imus[name] = imu

    def __call__(self) -> bytes:
        slow = self._slow.tobytes()
        if slow != self._slow_bytes:
            self._slow_bytes = slow
            for name, row in self._slow_rows.items():
                self._joints[name] = orjson.Fragment(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY))
        self._message["time"] = self._state.item(0)
        return orjson.dumps(self._message, option=orjson.OPT_SERIALIZE_NUMPY)


def parse(data: bytes) -> dict | str:
    """A datagram's JSON object with its `type`, or what is wrong with it."""
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError:
        return "not JSON"
    if not isinstance(message, dict):
        return "not an object"
    if not isinstance(message.get("type"), str):
        return "no type"
    return message


def command_rows(message: dict) -> tuple[list, int] | str:
    """The lists of a control message, in order, and its stamp_rx_feedback; or what is wrong with it."""
    command = message.get("joint_command")
    if not isinstance(command, dict):
        return "no joint_command"
    stamp = command.get("stamp_rx_feedback", 0)
    if isinstance(stamp, float) and stamp.is_integer():
        stamp = int(stamp)
    if not isinstance(stamp, int) or isinstance(stamp, bool) or not 0 <= stamp < 1 << 64:
        return "stamp_rx_feedback is no count of nanoseconds"
    return [command.get(name) for name in COMMAND_FIELDS], stamp
