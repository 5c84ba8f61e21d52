"""MjXbot2Bridge: a MuJoCo model and its data, connected to XBot2."""

import logging
import time
from collections.abc import Collection
from typing import Any

import mujoco
import numpy as np

from xbot2_fast import actuation
from xbot2_fast._kernels._bridge import ApplyStage, ReceiveStage, SendStage
from xbot2_fast._kernels._chain import BodyChain
from xbot2_fast._kernels._imu import Imus
from xbot2_fast.bridge.permissions import Access
from xbot2_fast.bridge.server import BridgeServer
from xbot2_fast.bridge.velocity_noise import VelocityNoise
from xbot2_fast.command_delay import CommandDelay

logger = logging.getLogger(__name__)

_GYRO, _ACCELEROMETER = int(mujoco.mjtSensor.mjSENS_GYRO), int(mujoco.mjtSensor.mjSENS_ACCELEROMETER)


LOSS_POLICIES = ("keep", "hold", "damp")  # numbered as in _kernels/_bridge.pyx
_LOSS_TEXTS = {
    "keep": "its last command stays",
    "hold": "its joints are held where they are",
    "damp": "its joints are only damped",
}


class LockstepTimeout(RuntimeError):
    """No command answered the last state in time; the simulation stands at that state."""


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
        seed: of the velocity noise's generator.
        command_freshness: age up to which a command in shared memory counts [s].
        on_controller_loss: what happens when a controller that sent commands falls silent. "keep": its last command
            stays; "hold": the present position becomes the reference, dq and tau go to 0, gains stay; "damp": k, dq and
            tau go to 0, d stays. Commands that wait for their delay are dropped with hold and damp.
        controller_timeout: silence that counts as loss [s of wall time between steps].
        lockstep: hold each step until the last state was answered by a command, for runs that do not depend on timing.
        lockstep_timeout: how long one answer may take [s of wall time].
        mode: who may connect, see `BridgeServer`.

    Attributes:
        joint_names: the named hinge and slide joints in the model's order, without the ignored ones.
        imu_names: the sites with both a gyro and an accelerometer, in the order of their first sensor.
        server: the BridgeServer. delay: the CommandDelay. noise: the VelocityNoise.

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
        seed: int | None = None,
        command_freshness: float = 0.1,
        on_controller_loss: str = "keep",
        controller_timeout: float = 0.5,
        lockstep: bool = False,
        lockstep_timeout: float = 5.0,
        mode: str | int | Access | None = None,
    ):
        if on_controller_loss not in LOSS_POLICIES:
            raise ValueError(f"on_controller_loss: expected keep, hold or damp, got {on_controller_loss!r}")
        _check_positive("controller_timeout", controller_timeout)
        _check_positive("lockstep_timeout", lockstep_timeout)
        joints = bridged_joints(model, ignore_joints)
        imus = find_imus(model)
        self.joint_names = [model.joint(j).name for j in joints]
        self.imu_names = list(imus)
        self._data = data
        self._actuation = actuation.bind(model, data, joints)
        self._imus = _bind_imus(model, data, imus)
        self.delay = CommandDelay(5 * len(joints), model.opt.timestep, actuator_delay_s)
        self.noise = VelocityNoise(self.joint_names, seed)
        self._loss_policy = on_controller_loss
        self._lockstep_timeout = lockstep_timeout
        self.server = BridgeServer(
            name, socket_path, self.joint_names, self.imu_names, protocol, command_freshness, mode=mode
        )
        port = self.server.port
        self.receive_stage = ReceiveStage(port, self.server.endpoint.fileno())
        policy = LOSS_POLICIES.index(on_controller_loss)
        self.apply_stage = ApplyStage(port, self._actuation, self.delay.ring, policy, controller_timeout)
        self.send_stage = SendStage(port, self._actuation, self._imus, self.noise.kernel, send_state_decimation)
        self._lockstep = lockstep
        if lockstep:
            self.receive_stage.lockstep(lockstep_timeout)
        actuation.initialise_integrators(model, data)

    # ---- handlers of the stages

    def on_receive(self) -> None:
        """Datagrams wait on the socket, or a lockstep wait lets Python look.

        Raises:
            LockstepTimeout: the last state was not answered in time.
        """
        self.on_wait()
        if self._lockstep and self.server.port.states:
            self.server.greet()
        if self.receive_stage.timed_out:
            raise LockstepTimeout(
                f"lockstep: no command answered the state of {self._data.time:.6g} s within "
                f"{self._lockstep_timeout:g} s; start a controller sooner, or give it more time with --lockstep-timeout"
            )

    def on_wait(self) -> None:
        """A datagram may have come while the loop waits for the next step's time."""
        self.server.serve_socket(time.monotonic_ns(), self._data.time)
        self._follow_clients()

    def on_apply(self) -> None:
        """A controller fell silent, or is back."""
        if self.apply_stage.lost:
            logger.warning("the controller fell silent: %s", _LOSS_TEXTS[self._loss_policy])
            self.server.drop_dead()
        else:
            logger.info("the controller is back")

    def on_pause(self) -> None:
        """The simulation is paused: answer discoveries all the same, and count no silence of the controller."""
        self.on_receive()
        self.apply_stage.restart_silence()

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
        self.server.port.take(now, self._data.time)
        self.on_receive()
        if self.apply_stage.now(self._data.time, now):
            self.on_apply()

    def send_state(self) -> None:
        """Publish the state of the data, stamped with its time. Behind mj_step."""
        self.server._check_open()
        self._follow_clients()
        self.send_stage.now(self._data.time)
        self.on_send()

    def status(self) -> dict[str, Any]:
        """How the connection fares: JSON types only; see `BridgeServer.status`.

        controller_lost: it is silent now; losses: how often; delay [s], and of its commands `waiting` and
        `overflowed`; velocity_noise: joint name -> standard deviation.
        """
        return {
            **self.server.status(),
            "controller_lost": self.apply_stage.lost,
            "losses": self.apply_stage.losses,
            "delay": self.delay.delay,
            "waiting": self.delay.waiting,
            "overflowed": self.delay.overflowed,
            "velocity_noise": self.noise.stddev,
        }

    # ---- changed at run time, on the simulation thread

    def set_velocity_noise(self, joint_names: Collection[str], stddev: float) -> None:
        """See `VelocityNoise.set`."""
        self.noise.set(list(joint_names), stddev)

    def set_delay(self, seconds: float) -> None:
        """See `CommandDelay.set_delay`."""
        self.delay.set_delay(seconds)

    def restore(self) -> None:
        """Back to the delay of the start, without velocity noise; waiting commands keep their deadlines."""
        self.delay.restore()
        self.noise.clear()

    def close(self) -> None:
        """Remove the socket and the shared memory; the stages do nothing from now on. Idempotent."""
        self.receive_stage.close()
        self.send_stage.close()
        self.server.close()

    def __enter__(self) -> "MjXbot2Bridge":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _check_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ValueError(f"{name}: expected a positive number of seconds, got {value!r}")


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
