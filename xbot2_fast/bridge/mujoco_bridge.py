"""MjXbot2Bridge: a MuJoCo model and its data, connected to XBot2."""

import logging
import time
from collections.abc import Collection

import mujoco
import numpy as np

from xbot2_fast import actuation
from xbot2_fast._kernels._bridge import ApplyStage, ReceiveStage, SendStage
from xbot2_fast._kernels._chain import BodyChain
from xbot2_fast._kernels._imu import Imus
from xbot2_fast.bridge.permissions import Access
from xbot2_fast.bridge.server import BridgeServer
from xbot2_fast.command_delay import CommandDelay

logger = logging.getLogger(__name__)

_GYRO, _ACCELEROMETER = int(mujoco.mjtSensor.mjSENS_GYRO), int(mujoco.mjtSensor.mjSENS_ACCELEROMETER)


class MjXbot2Bridge:
    """Publishes the state of a simulation to XBot2 controllers and puts their commands into effect.

    Alone: call `receive()` before each mj_step and `send_state()` behind it. In a `StepLoop`: add `receive_stage` with
    `on_receive` and `apply_stage` with `on_apply` before mj_step, `send_stage` with `on_send` behind it; over shared
    memory they do all their work without Python.

    The state is q and dq of the step just taken; tau, the joint's actuator torque in that step; the gains in force; the
    references last applied; and of each IMU the orientation and angular velocity of the same instant as q and dq, and
    the acceleration of the step just taken. Until the first command the model's own controls and gains stay in effect.

    Args:
        name: see `BridgeServer`.
        model, data: kept; read and written only inside `receive`, `send_state` and the stages.
        socket_path: where controllers find us; default /tmp/<name>_server.sock.
        protocol: "auto", "shm" or "json", see `BridgeServer`.
        send_state_decimation: `send_stage` publishes every n-th step.
        ignore_joints: names of joints that controllers are not told of.
        actuator_delay_s: delay of commands [s of simulation time], see `CommandDelay`.
        command_freshness: age up to which a command in shared memory counts [s].
        mode: who may connect, see `BridgeServer`.

    Attributes:
        joint_names: the named hinge and slide joints in the model's order, without the ignored ones.
        imu_names: the sites with both a gyro and an accelerometer, in the order of their first sensor.
        server: the BridgeServer. delay: the CommandDelay.

    Raises:
        ValueError: a bad argument, or a velocity joint without a range. OSError: see `BridgeServer`.
    """

    def __init__(
        self,
        name: str,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        socket_path: str | None = None,
        *,
        protocol: str = "auto",
        send_state_decimation: int = 1,
        ignore_joints: Collection[str] = (),
        actuator_delay_s: float = 0.0,
        command_freshness: float = 0.1,
        mode: str | int | Access | None = None,
    ):
        joints = bridged_joints(model, ignore_joints)
        imus = find_imus(model)
        self.joint_names = [model.joint(j).name for j in joints]
        self.imu_names = list(imus)
        self._data = data
        self._actuation = actuation.bind(model, data, joints)
        self._imus = _bind_imus(model, data, imus)
        self.delay = CommandDelay(5 * len(joints), model.opt.timestep, actuator_delay_s)
        self.server = BridgeServer(
            name, socket_path, self.joint_names, self.imu_names, protocol, command_freshness, mode=mode
        )
        port = self.server.port
        self.receive_stage = ReceiveStage(port, self.server.endpoint.fileno())
        self.apply_stage = ApplyStage(port, self._actuation, self.delay.ring)
        self.send_stage = SendStage(port, self._actuation, self._imus, send_state_decimation)
        actuation.initialise_integrators(model, data)

    # ---- handlers of the stages

    def on_receive(self) -> None:
        """Datagrams wait on the socket."""
        self.server.serve_socket(time.monotonic_ns())
        self._follow_clients()

    def on_apply(self) -> None:
        """Nothing asks for it yet."""

    def on_send(self) -> None:
        """A state was committed, and controllers want it as JSON."""
        if self.send_stage.finite:
            self.server.publish_text()
        self._follow_clients()

    def _follow_clients(self) -> None:
        self.receive_stage.eager = self.send_stage.attend = self.server.wants_text

    # ---- without a step loop

    def receive(self) -> None:
        """Take the newest command and put what is due at the data's time into effect. Before mj_step."""
        self.server._check_open()
        now = time.monotonic_ns()
        self.server.port.take(now)
        self.on_receive()
        self.apply_stage.now(self._data.time)

    def send_state(self) -> None:
        """Publish the state of the data, stamped with its time. Behind mj_step."""
        self.server._check_open()
        self.send_stage.now(self._data.time)
        self.on_send()

    def close(self) -> None:
        """Remove the socket and the shared memory; the stages do nothing from now on. Idempotent."""
        self.receive_stage.close()
        self.send_stage.close()
        self.server.close()

    def __enter__(self) -> "MjXbot2Bridge":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def bridged_joints(model: mujoco.MjModel, ignore: Collection[str] = ()) -> list[int]:
    """Ids of the joints that controllers see: hinges and slides with a name, but the ignored ones.

    Raises:
        ValueError: an ignored name is no such joint of the model.
    """
    names = {j: model.joint(j).name for j in actuation.scalar_joints(model)}
    for name in ignore:
        if name not in names.values():
            raise ValueError(f"ignore_joints: the model has no hinge or slide joint {name!r}")
    unnamed = sum(not name for name in names.values())
    if unnamed:
        logger.warning("%d joints have no name: controllers do not see them", unnamed)
    return [j for j, name in names.items() if name and name not in ignore]


def find_imus(model: mujoco.MjModel) -> dict[str, tuple[int, int]]:
    """IMU name -> (site id, address of its accelerometer in sensordata)."""
    accelerometers: dict[int, int] = {}
    gyros: set[int] = set()
    order: list[int] = []
    for sensor in range(model.nsensor):
        kind, site = int(model.sensor_type[sensor]), int(model.sensor_objid[sensor])
        if kind not in (_GYRO, _ACCELEROMETER):
            continue
        if site not in order:
            order.append(site)
        if kind == _ACCELEROMETER:
            accelerometers[site] = int(model.sensor_adr[sensor])  # a later one replaces an earlier one
        else:
            gyros.add(site)
    return {model.site(s).name: (s, accelerometers[s]) for s in order if s in gyros and s in accelerometers}


def _bind_imus(model: mujoco.MjModel, data: mujoco.MjData, imus: dict[str, tuple[int, int]]) -> Imus:
    sites = np.array([site for site, _ in imus.values()], dtype=np.int32)
    bodies = [int(model.site_bodyid[site]) for site in sites]
    chain = BodyChain(model, data, bodies)
    accelerometers = np.array([address for _, address in imus.values()], dtype=np.int32)
    return Imus(model, data, sites, accelerometers, np.array([chain.slot(b) for b in bodies], dtype=np.int32), chain)
