"""SimulatorWrapper: the parts of the simulator put together around mj_step."""

import logging
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco

from xbot2_fast import actuation
from xbot2_fast._kernels._loop import (
    DIVERGED,
    HELD,
    IN_POST_STEP,
    EveryInterval,
    EverySteps,
    Flag,
    ResetWatch,
    Stage,
    StepLoop,
)
from xbot2_fast._kernels._mujoco import take_warnings
from xbot2_fast.bridge import MjXbot2Bridge
from xbot2_fast.nan_guard import NanGuard
from xbot2_fast.pacing import Pacing, PacingReport, check_target_rtf
from xbot2_fast.plugins import PluginHost, SimulationPlugin
from xbot2_fast.remote_control.control import RemoteControl
from xbot2_fast.remote_control.simulator_commands import (
    register_actuator_delay,
    register_run_control,
    register_velocity_noise,
)
from xbot2_fast.run_control import DefaultKeys, Requests, RunControl
from xbot2_fast.spawning import Spawner, check_spawn_locations
from xbot2_fast.terrain_scan import TerrainScan, TerrainScanner
from xbot2_fast.viewer import Viewer, display_available, take_picture
from xbot2_fast.viewer_user import ViewerUser
from xbot2_fast.viewing.frames import Frame, MarkerSource

if TYPE_CHECKING:
    from xbot2_fast.remote_control.server import RemoteControlServer

logger = logging.getLogger(__name__)
mujoco_logger = logging.getLogger("xbot2_fast.mujoco")

_HUGE = 1e10  # MuJoCo's own bound, mjMAXVAL
_REST = 1 / 60  # s


class SimulationDiverged(RuntimeError):
    """A position or velocity stopped being finite, or went beyond 1e10.

    Attributes:
        time: simulation time of the step that did it [s].
        joint: name of the first joint concerned.
        path: the .npz file with the last states and commands (`NanGuard.write`); None if it could not be written.
    """

    def __init__(self, time: float, joint: str, value: float, path: str | None = None):
        super().__init__(
            f"the simulation diverged at {time:.6g} s: joint {joint!r} reached {value!r}; "
            "try a smaller timestep, the implicitfast integrator or lower gains"
            + (f"; the last states and commands are in {path}" if path else "")
        )
        self.time = time
        self.joint = joint
        self.path = path


class SimulatorWrapper:
    """A MuJoCo simulation that an XBot2 controller drives, paced against real time.

    Call `run()` in a loop while `running`; use it as a context manager, or call `close()` at the end. Whichever thread
    calls `run()` is the simulation thread: only it may touch `model` and `data`.

    Args:
        model: compiled model. Its autoreset is switched off: a simulation that diverges stops instead of starting over.
        q_init: joint name -> initial position [rad or m], applied before the first step and after every reset.
        ignore_joints: names of joints that the controller is not told of.
        viewer: open MuJoCo's viewer; without a display one line says so and the simulation runs headless.
        viewer_fps: frames per second of wall time.
        viewer_key_callback: called with a GLFW key code (letters and signs: their ord()), on a thread of the viewer's,
            instead of `run_control.DefaultKeys`.
        ros, ros_node_name, ros_robot_description_topic, urdf_str, srdf_str, terrain_scan_topic: accepted, so that
            scripts run unchanged; this version publishes nothing to ROS 2, and says so once with ros=True.
        send_state_decimation: publish the state in every n-th step.
        sync_interval: least wall time from one pacing wait to the next [s], by which the simulation may run ahead of
            the schedule; 0 waits behind each step.
        target_rtf: simulated seconds per wall second; math.inf runs as fast as the machine can.
        socket_path: where the controller finds us; default /tmp/mj_simulator_server.sock.
        spawn_locations: (n, 3) world positions of the first free joint [m]: the robot starts and respawns upright at a
            random one, clear of the terrain.
        remote_control_endpoint: where `mjctl` finds us, such as tcp://127.0.0.1:5555; None: nowhere.
        remote_control_allow_remote: allow an endpoint that other machines can reach.
        terrain_scanner: scans the terrain under the robot, made for this model.
        terrain_scan_decimation: scan in every n-th step, the n-th first.
        terrain_scan_visualization: show the latest scan in the viewer.
        scenario: YAML file of requests with times, carried out by the simulation itself.
        plugins: user code inside the loop, SimulationPlugin objects; called in this order.
        bridge_protocol: "auto", "shm" or "json".
        web_port: serve the browser viewer on this port of 127.0.0.1 instead of opening a window; 0: the first free one
            from 8080 on.
        actuator_delay_s: how long commands wait before they act [s of simulation time].
        bridge_options: more keyword arguments of `MjXbot2Bridge` (seed, on_controller_loss, lockstep, mode, ...).

    Attributes:
        model, data: the model given and the mjData made from it; both live.
        q_init: the initial configuration, a dict.
        bridge: the XBot2 side.
        remote_control: the server, None without an endpoint.

    Raises:
        ValueError: a bad argument, before anything is opened.
        OSError: the socket belongs to a live simulator, or cannot be made.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        q_init: Mapping[str, float] | None = None,
        ignore_joints: Collection[str] | None = None,
        viewer: bool = True,
        viewer_fps: float = 60,
        viewer_key_callback: Callable[[int], None] | None = None,
        ros: bool = True,
        ros_node_name: str | None = None,
        ros_robot_description_topic: str | None = None,
        urdf_str: str | None = None,
        srdf_str: str | None = None,
        send_state_decimation: int = 1,
        sync_interval: float = 0.0,
        target_rtf: float = 1.0,
        socket_path: str | None = None,
        remote_control_endpoint: str | None = None,
        spawn_locations: Any = None,
        terrain_scanner: TerrainScanner | None = None,
        terrain_scan_decimation: int = 100,
        terrain_scan_visualization: bool = True,
        terrain_scan_topic: str = "/heightscan",
        *,
        actuator_delay_s: float = 0.0,
        bridge_protocol: str = "auto",
        plugins: Collection[SimulationPlugin] = (),
        remote_control_allow_remote: bool = False,
        scenario: str | Path | None = None,
        web_port: int | None = None,
        bridge_options: Mapping[str, Any] | None = None,
    ):
        _check_count("send_state_decimation", send_state_decimation)
        _check_count("terrain_scan_decimation", terrain_scan_decimation)
        if isinstance(viewer_fps, bool) or not 0 < viewer_fps < math.inf:
            raise ValueError(f"viewer_fps: expected a positive number, got {viewer_fps!r}")
        self._pacing = Pacing(target_rtf, sync_interval)
        if ros:
            logger.info("ROS 2: this version publishes nothing")
        self.model = model
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self.data = mujoco.MjData(model)
        self.q_init = dict(q_init or {})
        actuation.apply_q_init(model, mujoco.MjData(model), self.q_init)  # refuses a bad one before anything is opened
        self._spawner = None if spawn_locations is None else Spawner(model, spawn_locations)
        self.spawn_locations = None if self._spawner is None else self._spawner.locations

        self._control = RunControl()
        self._target_rtf = self._pacing.target_rtf
        self._rested = False
        self._closed = False
        self._last_report: PacingReport | None = None
        self._pre_handlers: list[Callable[[], object]] = []
        self._post_handlers: list[Callable[[], object]] = []
        self._paused_handlers: list[Callable[[], object]] = []  # called at each rest of a pause
        self._loop = StepLoop(model, self.data, self._control.free, self._attend)
        if self._keeps_the_step():
            self.run = self._loop.run  # type: ignore[method-assign]  # the same, in one compiled call
        self._nan_guard = NanGuard(model, self.data)
        self._requests = Requests()
        self._markers: list[MarkerSource] = []  # payloads, forces, scan
        self.viewer: Viewer | None = None
        self.remote_control: RemoteControlServer | None = None
        self._commands: RemoteControl | None = None
        self._plugins: PluginHost | None = None
        self._send_state_decimation = send_state_decimation
        self._scans = None if terrain_scanner is None else terrain_scanner.periodic(self.data, terrain_scan_decimation)
        self._show_scans = terrain_scan_visualization
        self.bridge = MjXbot2Bridge(
            "mj_simulator",
            model,
            self.data,
            socket_path,
            protocol=bridge_protocol,
            send_state_decimation=send_state_decimation,
            ignore_joints=ignore_joints or (),
            actuator_delay_s=actuator_delay_s,
            **(bridge_options or {}),
        )
        try:
            if remote_control_endpoint is not None or scenario is not None or web_port is not None:
                self._commands = self._make_commands()
            if remote_control_endpoint is not None:
                from xbot2_fast.remote_control import server  # ZeroMQ, for those who ask for it

                self.remote_control = server.RemoteControlServer(
                    model,
                    self.data,
                    remote_control_endpoint,
                    control=self._commands,
                    allow_remote=remote_control_allow_remote,
                )
            self._plugins = PluginHost(plugins, None, model, self.data)
            self._assemble(scenario)
            if viewer or web_port is not None:
                self._open_viewer(viewer_fps, viewer_key_callback, web_port)
        except BaseException:
            self.close()
            raise

    def _make_commands(self) -> RemoteControl:
        """The commands of the remote control, those of the simulator and its parts included."""
        commands = RemoteControl(self.model, self.data)
        register_actuator_delay(commands.table, self.bridge.delay.set_delay, self.bridge.delay.restore)
        register_velocity_noise(commands.table, self.model, self._set_velocity_noise, self.bridge.noise.clear)
        register_run_control(commands.table, self)
        commands.state.add_status(self._status)
        self._markers.append(commands.update_visuals)
        return commands

    def _set_velocity_noise(self, joints: Sequence[int], stddev: float) -> None:
        names = [self.model.joint(j).name for j in joints]
        self.bridge.set_velocity_noise([n for n in names if n in self.bridge.joint_names], stddev)  # no other is sent

    def _status(self) -> dict[str, Any]:
        report, target = self._last_report, self._target_rtf
        return {
            "steps": self._loop.steps,
            "paused": self.paused,
            "target_rtf": None if math.isinf(target) else target,
            "rtf": report.rtf if report else None,
            "bridge": self.bridge.status(),
        }

    def _assemble(self, scenario: str | Path | None) -> None:
        """Put the stages in the order of a step (docs/architecture.md)."""
        self._loop.before(self._nan_guard.stage, 0)  # stays last: it sees what mj_step gets
        self._before(self._requests.stage, self._requests.serve)
        self._add_requests(scenario)
        self._before(self._control.respawn_stage, self._on_respawn)
        self._before(ResetWatch(), self._on_reset)
        self._before(self.bridge.receive_stage, self.bridge.on_receive)
        self._before(self.bridge.apply_stage, self.bridge.on_apply)
        self._paused_handlers.append(self.bridge.on_pause)
        self._add_disturbances()
        self._loop.after(self._pacing.stage, 0)  # stays last: what comes before it is done by the next step's time
        self._post_handlers.append(self._on_pacing)
        self._pacing.stage.watch(self._requests.fileno())
        self._pacing.stage.watch(self.bridge.server.endpoint.fileno(), resting=False)
        self._add_observers()
        self._after(self.bridge.send_stage, self.bridge.on_send)
        if self._scans is not None:
            self._after(self._scans.stage, self._scans.on_attention)
            if self._show_scans:
                self._markers.append(self._scans.draw)

    def _add_requests(self, scenario: str | Path | None) -> None:
        if self.remote_control is not None:
            self._before(self.remote_control.stage, self.remote_control.process_requests)
            self._pacing.stage.watch(self.remote_control.fileno())
            self._paused_handlers.append(self.remote_control.serve_while_paused)
        if scenario is not None:
            from xbot2_fast.remote_control.scenario import Scenario  # YAML, for those who ask for it

            assert self._commands is not None
            timeline = Scenario(scenario, self._commands.table, lambda: self.data.time, self.model.opt.timestep)
            self._before(timeline.stage, timeline.on_due)

    def _add_disturbances(self) -> None:
        """What comes between the controller's command and mj_step."""
        assert self._plugins is not None
        if self._plugins.wants("update_write", "update"):
            self._before(_always(), self._plugins.update_write)
        if self._commands is not None:
            self._before(self._commands.wrenches.stage, lambda: None)
            self._before(self._commands.faults.before, self._commands.faults.on_before)
        if self._plugins.wants("pre_step"):
            self._before(_always(), self._plugins.pre_step)

    def _add_observers(self) -> None:
        """What comes between mj_step and the state that goes out."""
        assert self._plugins is not None
        if self._commands is not None:
            self._after(self._commands.faults.after, self._commands.faults.on_after)
        if self._plugins.wants("update_read"):
            self._after(EverySteps(self._send_state_decimation), self._plugins.update_read)

    def _before(self, stage: Stage, handler: Callable[[], object]) -> None:
        self._loop.before(stage, len(self._pre_handlers))
        self._pre_handlers.append(handler)

    def _after(self, stage: Stage, handler: Callable[[], object]) -> None:
        index = len(self._post_handlers) - 1
        self._loop.after(stage, index)
        self._post_handlers.insert(index, handler)

    def every(self, seconds: float, call: Callable[[], object]) -> None:
        """Have the simulation thread make this call once per interval of wall time [s], behind a step.

        Keep it under 0.2 ms: the next step waits for it.
        """
        if isinstance(seconds, bool) or not 0 < seconds < math.inf:
            raise ValueError(f"seconds: expected a positive number, got {seconds!r}")
        self._after(EveryInterval(seconds), call)

    # ---- the step

    def run(self) -> bool:
        """One step: `pre_step`, `step`, `post_step`. True when it stepped, False after the end and while paused.

        Paused, it waits at most 1/60 s, serves what is served then, and returns. KeyboardInterrupt closes the simulator
        and ends it. Any other exception closes it too, and is raised.
        """
        return self._attend(HELD)

    def _keeps_the_step(self) -> bool:
        """Whether no subclass changed a part of the step."""
        parts = ("run", "pre_step", "step", "post_step")
        return all(getattr(type(self), part) is getattr(SimulatorWrapper, part) for part in parts)

    def _attend(self, why: int, exception: BaseException | None = None) -> bool:
        """What the compiled step needs Python for, and the rest of the step; see `StepLoop`."""
        try:
            if why == HELD and not self._control.free.raised and not self._take_step():
                return False
            if exception is not None:
                raise exception
            if why == DIVERGED:
                raise self._divergence()
            if why != IN_POST_STEP:
                self.pre_step()
                self.step()
            self.post_step()
        except KeyboardInterrupt:
            self.close()
        except BaseException:
            self.close()
            raise
        return True

    def _take_step(self) -> bool:
        """Not running freely: whether to step all the same (resumed, or advancing); if not, rest a frame."""
        if self._control.next_step(self.model.opt.timestep):
            if self._rested:
                self._rested = False
                self._pacing.restart(self.data.time)
                self._pacing.take_report(self.data.time)
            return True
        if self._control.running:
            self._rest()
        return False

    def _rest(self) -> None:
        """Paused: wait for a request, at most 1/60 s; serve what is served in a pause, and show the present state."""
        self._rested = True
        if self._pacing.stage.rest(_REST):
            self._requests.serve_while_paused()
        for handler in self._paused_handlers:
            handler()

    def pre_step(self) -> None:
        """Everything that may change the state before the physics: requests, resets, commands."""
        while asked := self._loop.pre_step():
            self._pre_handlers[asked - 1]()

    def step(self) -> None:
        """One mj_step.

        Raises:
            SimulationDiverged: a position or velocity is not finite, or beyond 1e10.
            mujoco.FatalError: MuJoCo gave up.
        """
        if not self._loop.step():
            raise self._divergence()

    def post_step(self) -> None:
        """Everything that looks at the state behind the physics, and the wait for the next step's time."""
        while asked := self._loop.post_step():
            self._post_handlers[asked - 1]()

    def _divergence(self) -> SimulationDiverged:
        model, data = self.model, self.data
        for joint in range(model.njnt):
            last = joint + 1 == model.njnt
            q = slice(model.jnt_qposadr[joint], None if last else model.jnt_qposadr[joint + 1])
            v = slice(model.jnt_dofadr[joint], None if last else model.jnt_dofadr[joint + 1])
            for value in (*data.qpos[q], *data.qvel[v]):
                if not abs(value) < _HUGE:
                    name = model.joint(joint).name or f"joint {joint}"
                    return SimulationDiverged(data.time, name, float(value), self._write_history(name))
        raise AssertionError("the loop saw a value that is not there")

    def _write_history(self, joint: str) -> str | None:
        try:
            return self._nan_guard.write(joint)
        except OSError as error:
            logger.error("the last states and commands could not be written: %s", error)
            return None

    # ---- handlers

    def _on_reset(self) -> None:
        """The initial configuration, at the time reached: before the first step and when the time was put back."""
        if self._loop.steps:
            self.data.time = self._loop.last_time
            self._loop.refresh_time()
        actuation.apply_q_init(self.model, self.data, self.q_init)
        if self._spawner is not None:
            self._spawner.place(self.data)
        if self._loop.steps and self._plugins is not None:
            self._plugins.on_reset()

    def _on_respawn(self) -> None:
        request = self._control.take_respawn()
        mujoco.mj_resetData(self.model, self.data)  # _on_reset does the rest
        if self._spawner is not None:
            self._spawner.choose(request if isinstance(request, tuple) else None)
        elif isinstance(request, tuple):
            self._place(request)
        self._loop.refresh_time()
        self._pacing.restart(self._loop.last_time)

    def _place(self, position: tuple[float, ...]) -> None:
        """Put the first free joint of the model there; a model without one stays."""
        free = int(mujoco.mjtJoint.mjJNT_FREE)
        for joint in range(self.model.njnt):
            if int(self.model.jnt_type[joint]) == free:
                first = self.model.jnt_qposadr[joint]
                self.data.qpos[first : first + 3] = position
                return

    def _on_pacing(self) -> None:
        """A request arrived while waiting, or a report is due."""
        wait = self._pacing.stage
        if wait.readable(self._requests.fileno()):
            self._requests.serve()
        if wait.readable(self.bridge.server.endpoint.fileno()):
            self.bridge.on_wait()
        if self.remote_control is not None and wait.readable(self.remote_control.fileno()):
            self.remote_control.serve_while_waiting(wait.waits_until)
        if self._pacing.report_due():
            self._last_report = self._pacing.take_report(self.data.time)
            self._on_report(self._last_report)

    def _on_report(self, report: PacingReport) -> None:
        logging.getLogger("xbot2_fast.rtf").info("%s", report)
        if report.lost:
            logger.warning("%.3f s of wall time lost: the machine does not hold the target RTF", report.lost)
        _log_mujoco_warnings()

    # ---- viewer

    def _open_viewer(self, fps: float, key_callback: Callable[[int], None] | None, web_port: int | None) -> None:
        if web_port is None and not display_available():
            logger.warning("no display: running headless")
            return
        self._bridged_dofs = [int(self.model.joint(name).dofadr[0]) for name in self.bridge.joint_names]
        user = ViewerUser(self.data, self._control, self._requests, key_callback or DefaultKeys(self), self._commands)
        self.viewer = Viewer(
            "native" if web_port is None else "web",
            self.model,
            self.data,
            markers=self._markers,
            fill=self._fill_frame,
            options=None if web_port is None else {"port": web_port},
            user=user,
        )
        self._after(EveryInterval(1 / fps), self._on_frame)
        self._paused_handlers.append(self._on_frame)

    def _fill_frame(self, frame: Frame) -> None:
        joints = self.bridge.server.state.joints
        frame.references[:, self._bridged_dofs] = joints.vref, joints.tauref

    def _on_frame(self) -> None:
        assert self.viewer is not None
        report, rtf = self._last_report, self._target_rtf
        self.viewer.sync(
            paused=self._control.paused,
            target_rtf=None if math.isinf(rtf) else rtf,
            rtf=report.rtf if report else None,
        )

    # ---- state of the run

    @property
    def terrain_scan(self) -> TerrainScan | None:
        """The latest terrain scan; None before the first, and without a scanner."""
        return None if self._scans is None else self._scans.latest

    @property
    def running(self) -> bool:
        """Whether `run()` still steps: until `close()`, an error, Ctrl-C or the viewer's window was closed."""
        return self._control.running

    @property
    def paused(self) -> bool:
        """Whether the simulation is held, also during an advance; `set_paused` changes it."""
        return self._control.paused

    def set_paused(self, paused: bool = True) -> None:
        """Pause or resume, from any thread. A step in progress is finished first.

        Pausing discards a pending respawn. Resuming discards active and queued advances, and starts pacing anew.
        """
        if paused:
            self._control.pause()
        else:
            self._control.resume()
        self._requests.wake()

    def advance(self, duration_s: float = 0.1) -> None:
        """While paused: step on for this simulation time [s], in whole steps, behind the advances already queued.

        From any thread; ignored while the simulation runs.

        Raises:
            ValueError: not a finite positive number.
        """
        self._control.advance(duration_s)
        self._requests.wake()

    @property
    def target_rtf(self) -> float:
        """Simulated seconds per wall second that the loop aims at, the newest value that was set."""
        return self._target_rtf

    @property
    def pacing_report(self) -> PacingReport | None:
        """The last full second against the wall clock; None in the first."""
        return self._last_report

    def respawn(self, position: Sequence[float] | None = None) -> bool:
        """Ask for a respawn before the next step, from any thread. False, and nothing happens, while paused.

        Args:
            position: where to put the first free joint [m, world]; None: a random one of `spawn_locations`, or where
                the model has it.
        """
        where = True if position is None else tuple(check_spawn_locations([position], "position")[0].tolist())
        return self._control.request_respawn(where)

    def set_target_rtf(self, value: float) -> None:
        """Change the target, from any thread; it counts from the wait in progress on, and no error adds up.

        Raises:
            ValueError: not a finite positive number.
        """
        self._target_rtf = rtf = check_target_rtf(value)
        self._requests.file(lambda: setattr(self._pacing, "target_rtf", rtf))

    def save_picture(self, file: str | Path, camera: str | None = None, width: int = 1280, height: int = 720) -> None:
        """Write a PNG picture of the present state, markers included; see `viewer.take_picture`. Takes seconds."""
        take_picture(file, self.model, self.data, markers=self._markers, camera=camera, width=width, height=height)

    def close(self) -> None:
        """End the simulation: the viewer's window, the socket and the shared memory are gone afterwards. Idempotent."""
        self._control.end()
        if self._closed:
            return
        self._closed = True
        self._loop.rewind()
        if self.viewer is not None:
            self.viewer.close()
        if self._plugins is not None:
            self._plugins.cleanup()
        if self.remote_control is not None:
            self._pacing.stage.unwatch(self.remote_control.fileno())
            self.remote_control.close()
        if self._commands is not None:
            self._commands.close()
        self._pacing.stage.unwatch(self.bridge.server.endpoint.fileno())
        self.bridge.close()
        self._pacing.stage.unwatch(self._requests.fileno())
        self._requests.close()
        _log_mujoco_warnings()

    def __enter__(self) -> "SimulatorWrapper":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _always() -> Flag:
    stage = Flag()
    stage.raise_()
    return stage


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected an integer >= 1, got {value!r}")


def _log_mujoco_warnings() -> None:
    """Log what MuJoCo warned of since the last call, once a kind: the same text but for its numbers is one kind."""
    kinds: dict[str, list[str]] = {}
    for text in take_warnings():
        kinds.setdefault(re.sub(r"[-+\d.e]+", "#", text), []).append(text)
    for texts in kinds.values():
        mujoco_logger.warning("%s%s", texts[0], f" ({len(texts)} times)" if len(texts) > 1 else "")
