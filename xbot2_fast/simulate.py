"""The simulator's command line: `python -m xbot2_fast.simulate`, also installed as `xbot2-sim`."""

import argparse
import ctypes
import logging
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from xbot2_fast.bridge.permissions import Access
    from xbot2_fast.mjcf import MjcfGenerator
    from xbot2_fast.simulator_wrapper import SimulatorWrapper
    from xbot2_fast.terrain_scan import TerrainScanner

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class UserError(Exception):
    """Something the user can put right; its text is all that they are shown."""


# ---- arguments


class _Source(argparse.Action):
    """Collects (kind, value) pairs of several options in one list, in the order of the command line."""

    def __call__(self, parser, namespace, values, option_string=None):
        sources = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*sources, (self.const, values)])


def _rtf(text: str) -> float:
    if text == "max":
        return math.inf
    try:
        return _positive(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected a finite positive number or 'max', got {text!r}") from None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    return _number(text, least=0, open_end=True)


def _finite(text: str) -> float:
    return _number(text, least=-sys.float_info.max)


def _not_negative(text: str) -> float:
    return _number(text, least=0)


def _number(text: str, least: float, open_end: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value < math.inf or (open_end and value == least):
        raise argparse.ArgumentTypeError(
            f"expected a finite number {'>' if open_end else '>='} {least:g}, got {text!r}"
        )
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text!r}")
    return int(text)


def _access(text: str) -> "Access":
    from xbot2_fast.bridge.permissions import Access

    try:
        return Access.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xbot2-sim",
        description="Simulate a robot in MuJoCo for an XBot2 controller. Without --urdf: a packaged demo quadruped.",
    )
    _add_model_options(parser.add_argument_group("model"))
    _add_run_options(parser.add_argument_group("run"))
    _add_bridge_options(parser.add_argument_group("controller"))
    _add_remote_options(parser.add_argument_group("remote control and plugins"))
    _add_scan_options(parser.add_argument_group("terrain scan"))
    parser.add_argument("--debug", action="store_true", help="log in detail, and show tracebacks")
    return parser


def _add_model_options(group) -> None:
    urdf = group.add_mutually_exclusive_group()
    urdf.add_argument("--urdf", type=Path, metavar="FILE", help="the robot")
    urdf.add_argument(
        "--urdf-cmd", metavar="COMMAND", help="shell command that prints the URDF, such as 'xacro robot.xacro'"
    )
    group.add_argument(
        "--xml",
        dest="sources",
        const="file",
        action=_Source,
        type=Path,
        metavar="FILE",
        help="MJCF to merge: a world, actuators, defaults, q_init; repeatable, in the order given",
    )
    group.add_argument(
        "--xml-cmd",
        dest="sources",
        const="command",
        action=_Source,
        metavar="COMMAND",
        help="shell command that prints MJCF to merge; repeatable",
    )
    srdf = group.add_mutually_exclusive_group()
    srdf.add_argument("--srdf", type=Path, metavar="FILE", help="link pairs that never collide, and named poses")
    srdf.add_argument("--srdf-cmd", metavar="COMMAND", help="shell command that prints the SRDF")
    group.add_argument("--pose", metavar="NAME", help="group state of the SRDF to start in")
    group.add_argument(
        "--missing-assets",
        choices=("error", "skip"),
        default="error",
        help="what to do about mesh files that do not exist (default: error)",
    )
    group.add_argument(
        "--lenient", action="store_true", help="warn of custom tags that match nothing instead of ending"
    )
    group.add_argument("--name", help="model name (default: robot)")
    group.add_argument(
        "--output-dir", type=Path, metavar="DIR", help="where the model is written (default: /tmp/<name>_mujoco)"
    )
    group.add_argument("--copy-assets", action="store_true", help="copy meshes and textures instead of linking them")
    group.add_argument(
        "--floating-base", action="store_true", help="free joint on the root, set down on the floor at q_init"
    )
    group.add_argument(
        "--auto-actuators",
        choices=("position", "intvelocity", "motor"),
        help="an actuator for every joint, named like it, with the joint's effort limit",
    )
    group.add_argument(
        "--kp", type=_not_negative, metavar="GAIN", help="stiffness of the auto actuators [Nm/rad or N/m]"
    )
    group.add_argument(
        "--kd", type=_not_negative, metavar="GAIN", help="damping of the auto actuators [Nm s/rad or N s/m]"
    )


def _add_run_options(group) -> None:
    group.add_argument("--headless", action="store_true", help="no window")
    group.add_argument(
        "--web", type=_port, nargs="?", const=0, metavar="PORT",
        help="show the simulation in a browser instead of a window, on this port of 127.0.0.1 (default: from 8080 on)",
    )  # fmt: skip
    group.add_argument(
        "--screenshot", type=Path, metavar="FILE",
        help="write a PNG picture of the end of the run; without --duration, of the start, and end",
    )  # fmt: skip
    group.add_argument(
        "--camera", metavar="NAME", help="camera of the model for --screenshot (default: the free camera)"
    )
    group.add_argument(
        "--viewer-fps", type=_positive, default=60.0, metavar="FPS", help="frames per second (default: 60)"
    )
    group.add_argument(
        "--target-rtf",
        type=_rtf,
        default=1.0,
        metavar="RTF",
        help="simulated seconds per second, or 'max' (default: 1)",
    )
    group.add_argument("--duration", type=_positive, metavar="SECONDS", help="end after this much simulation time")
    group.add_argument(
        "--sync-interval",
        type=_not_negative,
        default=0.0,
        metavar="SECONDS",
        help="least wall time between two waits for real time (default: 0, after each step)",
    )
    group.add_argument(
        "--spawn-file", type=Path, metavar="YAML", help="start and respawn the robot at a random location of this file"
    )
    group.add_argument(
        "--detect-spawn-locations",
        action="store_true",
        help="as --spawn-file with the spawn_locations.yaml beside the first --xml file that has one",
    )
    group.add_argument("--disable-ros", action="store_true", help="no ROS 2 publishers")


def _add_remote_options(group) -> None:
    group.add_argument(
        "--remote-control-endpoint",
        metavar="ENDPOINT",
        help="where mjctl finds us, such as tcp://127.0.0.1:5555 (default: nowhere)",
    )
    group.add_argument(
        "--remote-control-allow-remote",
        action="store_true",
        help="allow an endpoint that other machines can reach; there is no authentication",
    )
    group.add_argument("--scenario", type=Path, metavar="FILE", help="YAML list of requests, each with its time 'at'")
    group.add_argument(
        "--plugin",
        dest="plugins",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="user code inside the loop, a SimulationPlugin; repeatable",
    )


def _add_scan_options(group) -> None:
    group.add_argument(
        "--terrain-scan-body", metavar="BODY", help="root body of the robot: scan the terrain under it (default: off)"
    )
    group.add_argument(
        "--terrain-scan-shape",
        nargs=2,
        type=_count,
        default=(17, 11),
        metavar=("N", "M"),
        help="rays forward and lateral (default: 17 11)",
    )
    group.add_argument(
        "--terrain-scan-spacing",
        nargs=2,
        type=_positive,
        default=(0.1, 0.1),
        metavar=("FORWARD", "LATERAL"),
        help="metres between rays (default: 0.1 0.1)",
    )
    group.add_argument(
        "--terrain-scan-z-offset",
        type=_finite,
        default=2.0,
        metavar="METRES",
        help="how far above the body the rays begin (default: 2)",
    )
    group.add_argument(
        "--terrain-scan-max-distance", type=_positive, default=5.0, metavar="METRES", help="their length (default: 5)"
    )
    group.add_argument(
        "--terrain-scan-excluded-groups",
        nargs="*",
        type=int,
        choices=range(6),
        default=(0, 1),
        metavar="GROUP",
        help="geom groups that the rays do not see (default: 0 1)",
    )
    group.add_argument(
        "--terrain-scan-decimation", type=_count, default=100, metavar="K", help="scan every K-th step (default: 100)"
    )
    group.add_argument("--no-terrain-scan-visualization", action="store_true", help="no spheres in the viewer")


def _add_bridge_options(group) -> None:
    group.add_argument(
        "--socket-path", metavar="PATH", help="where the controller finds us (default: /tmp/mj_simulator_server.sock)"
    )
    group.add_argument(
        "--bridge-protocol",
        choices=("auto", "shm", "json"),
        default="auto",
        help="how controllers may be served (default: auto, as each one asks)",
    )
    group.add_argument(
        "--send-state-decimation",
        type=_count,
        default=1,
        metavar="N",
        help="publish the state in every N-th step (default: 1)",
    )
    group.add_argument(
        "--bridge-mode", type=_access, metavar="MODE", help="who may connect: 0666, or a group (default: the same user)"
    )
    group.add_argument(
        "--actuator-delay",
        type=_not_negative,
        default=0.0,
        metavar="SECONDS",
        help="simulation time that commands wait before they act (default: 0)",
    )
    group.add_argument("--seed", type=int, help="of the velocity noise (default: a new one each time)")
    group.add_argument(
        "--command-freshness",
        type=_positive,
        default=0.1,
        metavar="SECONDS",
        help="age up to which a command in shared memory counts (default: 0.1)",
    )
    group.add_argument(
        "--on-controller-loss",
        choices=("keep", "hold", "damp"),
        default="keep",
        help="when the controller falls silent: keep its last command (default), hold the position, or only damp",
    )
    group.add_argument(
        "--controller-timeout",
        type=_positive,
        default=0.5,
        metavar="SECONDS",
        help="silence that counts as loss, in wall time (default: 0.5)",
    )
    group.add_argument("--lockstep", action="store_true", help="wait for a command behind each state")
    group.add_argument(
        "--lockstep-timeout",
        type=_positive,
        default=5.0,
        metavar="SECONDS",
        help="end when a lockstep wait takes longer, in wall time (default: 5)",
    )


# ---- model


def _output_of(command: str) -> str:
    """Standard output of a shell command that the user gave."""
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, errors="replace")
    if run.returncode:
        raise UserError(f"command {command!r} exited with code {run.returncode}:\n{run.stderr.strip()}")
    return run.stdout


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{option}: cannot read {path}: {error.strerror}") from None


def build_generator(arguments: argparse.Namespace) -> "MjcfGenerator":
    """The generator of the model that the command line asks for, with all fragments merged."""
    from xbot2_fast.mjcf import MjcfGenerator

    urdf, urdf_path, fragments = _robot(arguments)
    gains = {key: value for key in ("kp", "kd") if (value := getattr(arguments, key)) is not None}
    generator = MjcfGenerator(
        arguments.name or ("demo" if urdf_path and not arguments.urdf else "robot"),
        urdf,
        output_dir=arguments.output_dir,
        copy_assets=arguments.copy_assets,
        urdf_path=urdf_path,
        missing_assets=arguments.missing_assets,
        lenient=arguments.lenient,
        floating_base=arguments.floating_base,
        auto_actuators=arguments.auto_actuators,
        **gains,
    )
    for fragment in fragments:
        generator.merge_xml(fragment)
    _merge_srdf(generator, arguments)
    return generator


def _merge_srdf(generator: "MjcfGenerator", arguments: argparse.Namespace) -> None:
    if arguments.srdf is not None:
        generator.merge_srdf(_read(arguments.srdf, "--srdf"), arguments.pose)
    elif arguments.srdf_cmd is not None:
        generator.merge_srdf(_output_of(arguments.srdf_cmd), arguments.pose)
    elif arguments.pose is not None:
        raise UserError("--pose: poses come from an SRDF: give --srdf or --srdf-cmd as well")


def _robot(arguments: argparse.Namespace) -> tuple[str | bytes, Path | None, list[str | Path]]:
    """URDF text, the file it came from if any, and the MJCF fragments to merge in order."""
    fragments = [value if kind == "file" else _output_of(value) for kind, value in arguments.sources or []]
    if arguments.urdf is not None:
        return _read(arguments.urdf, "--urdf"), arguments.urdf, fragments
    if arguments.urdf_cmd is not None:
        return _output_of(arguments.urdf_cmd), None, fragments
    from xbot2_fast.robots import demo

    urdf_path, own_fragments = demo()
    return urdf_path.read_bytes(), urdf_path, [*own_fragments, *fragments]


# ---- run


class _Stop:
    """What ended the run from outside: a signal's number, or None.

    Before `armed` a signal ends whatever is going on; afterwards it is only noted, and the loop ends behind its step.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.armed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if not self.armed:
            raise SystemExit(128 + number)


def _quick_timers() -> None:
    """Let threads of Python give way after 0.1 ms, and let sleeps end on time (the default slack is 50 us)."""
    sys.setswitchinterval(1e-4)
    pr_set_timerslack = 29
    ctypes.CDLL(None).prctl(pr_set_timerslack, 1, 0, 0, 0)


class _ProgressBar:
    """A bar on stderr. One short write per frame: rich takes milliseconds, which would make steps late."""

    WIDTH = 40

    def __init__(self, duration: float) -> None:
        self.duration = duration

    def draw(self, time: float) -> None:
        share = min(time / self.duration, 1.0)
        full = round(share * self.WIDTH)
        bar = "#" * full + "-" * (self.WIDTH - full)
        sys.stderr.write(f"\r[{bar}] {time:.1f} / {self.duration:g} s\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _loop(sim: "SimulatorWrapper", stop: _Stop, duration: float | None) -> None:
    bar = _ProgressBar(duration) if duration is not None and sys.stderr.isatty() else None
    if bar is not None:
        sim.every(0.1, lambda: bar.draw(sim.data.time))
    # Whole steps: half a step less than the end, so that rounding in the sum of timesteps adds no step.
    end = math.inf if duration is None else duration - 0.5 * sim.model.opt.timestep
    data = sim.data
    while stop.signal is None and data.time < end and sim.running:
        sim.run()
    if bar is not None:
        bar.clear()


def _spawn_locations(arguments: argparse.Namespace) -> "NDArray[np.float64] | None":
    """Where the robot may start, from --spawn-file or else the file beside the first --xml that has one."""
    from xbot2_fast.spawning import detect_spawn_file, load_spawn_locations

    path = arguments.spawn_file
    if path is None and arguments.detect_spawn_locations:
        path = detect_spawn_file([value for kind, value in arguments.sources or [] if kind == "file"])
        logger.info("spawn locations: %s", path or "none beside the --xml files")
    try:
        return None if path is None else load_spawn_locations(path)
    except (OSError, ValueError) as error:
        raise UserError(f"spawn locations: {error}") from None


def _bridge_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "mode": arguments.bridge_mode,
        "seed": arguments.seed,
        "command_freshness": arguments.command_freshness,
        "on_controller_loss": arguments.on_controller_loss,
        "controller_timeout": arguments.controller_timeout,
        "lockstep": arguments.lockstep,
        "lockstep_timeout": arguments.lockstep_timeout,
    }


def _terrain_scanner(arguments: argparse.Namespace, model: "mujoco.MjModel") -> "TerrainScanner | None":
    if arguments.terrain_scan_body is None:
        return None
    from xbot2_fast.terrain_scan import TerrainScanner

    try:
        return TerrainScanner(
            model,
            arguments.terrain_scan_body,
            shape=arguments.terrain_scan_shape,
            spacing=arguments.terrain_scan_spacing,
            z_offset=arguments.terrain_scan_z_offset,
            max_distance=arguments.terrain_scan_max_distance,
            excluded_geom_groups=tuple(arguments.terrain_scan_excluded_groups),
        )
    except ValueError as error:
        raise UserError(f"--terrain-scan-body: {error}") from None


def _import_mujoco_without_gl() -> None:
    """MuJoCo without the 0.3 s of looking for a window library: windows and pictures have processes of their own."""
    if "MUJOCO_GL" in os.environ:
        return
    os.environ["MUJOCO_GL"] = "disable"
    try:
        import mujoco  # noqa: F401
    finally:
        del os.environ["MUJOCO_GL"]


def _run(arguments: argparse.Namespace, stop: _Stop) -> int:
    if not arguments.plugins:  # a plugin may draw
        _import_mujoco_without_gl()
    from xbot2_fast.plugins import load_plugin
    from xbot2_fast.simulator_wrapper import SimulatorWrapper
    from xbot2_fast.viewer import check_camera, check_picture_file

    if arguments.screenshot is not None:
        check_picture_file(arguments.screenshot)
    plugins = [load_plugin(name) for name in arguments.plugins]
    spawn_locations = _spawn_locations(arguments)
    generator = build_generator(arguments)
    model, _ = generator.create_mj_model_data()
    duration = arguments.duration
    if arguments.screenshot is not None:
        check_camera(model, arguments.camera)
        duration = duration or model.opt.timestep
    _quick_timers()
    stop.armed = True  # an exception amid the making of socket and shared memory would leave them behind
    with SimulatorWrapper(
        model,
        q_init=generator.q_init,
        spawn_locations=spawn_locations,
        viewer=not arguments.headless,
        web_port=arguments.web,
        viewer_fps=arguments.viewer_fps,
        ros=not arguments.disable_ros,
        send_state_decimation=arguments.send_state_decimation,
        sync_interval=arguments.sync_interval,
        target_rtf=arguments.target_rtf,
        socket_path=arguments.socket_path,
        bridge_protocol=arguments.bridge_protocol,
        actuator_delay_s=arguments.actuator_delay,
        bridge_options=_bridge_options(arguments),
        remote_control_endpoint=arguments.remote_control_endpoint,
        remote_control_allow_remote=arguments.remote_control_allow_remote,
        scenario=arguments.scenario,
        plugins=plugins,
        terrain_scanner=_terrain_scanner(arguments, model),
        terrain_scan_decimation=arguments.terrain_scan_decimation,
        terrain_scan_visualization=not arguments.no_terrain_scan_visualization,
    ) as sim:
        if stop.signal is None:
            stop.armed = not arguments.lockstep  # a lockstep wait holds the loop: a signal ends it at once
        _loop(sim, stop, duration)
        if arguments.screenshot is not None:
            sim.save_picture(arguments.screenshot, arguments.camera)
    return 0 if stop.signal is None else 128 + stop.signal


def _configure_logging(debug: bool) -> None:
    """RTF lines to stdout, all else to stderr."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if debug else logging.INFO, format="%(levelname)s %(name)s: %(message)s"
    )
    rtf = logging.getLogger("xbot2_fast.rtf")
    stdout = logging.StreamHandler(sys.stdout)
    stdout.setFormatter(logging.Formatter("%(message)s"))
    rtf.addHandler(stdout)
    rtf.propagate = False


def main(argv: list[str] | None = None) -> int:
    """Run the simulator; returns the exit code: 0, 1 for an error, 2 for bad usage, 128 + n for signal n."""
    arguments = build_parser().parse_args(argv)
    _configure_logging(arguments.debug)
    stop = _Stop()
    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        return _run(arguments, stop)
    except SystemExit:
        raise
    except BrokenPipeError:  # the reader of our stdout is gone: not ours to report
        sys.stdout = None
        return 1
    except Exception as error:
        if arguments.debug:
            raise
        print(f"xbot2-sim: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
