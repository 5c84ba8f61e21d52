"""The commands of `mjctl`: their arguments, and the JSON request that each makes of them.

Only the form is checked here; names and values are the server's business, which knows the model. A wrench's duration is
the exception that the command line promises to check itself.
"""

import argparse
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Request = dict[str, Any]


class Argument(NamedTuple):
    flags: tuple[str, ...]
    options: dict[str, Any]
    completes: str | None = None  # what the shell offers: a kind of the server's `list`, or one of `completion`'s own


class Command(NamedTuple):
    name: str
    summary: str
    details: str  # units and behaviour
    example: str
    arguments: tuple[Argument, ...]
    request: Callable[[argparse.Namespace], Request]


def number(text: str) -> int | float:
    """An integer where the text is one, so that integers stay integers in JSON."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def positive_seconds(text: str) -> float:
    """Finite and positive seconds; argparse turns the error into exit code 2."""
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected finite and positive seconds, got {text}")
    return value


def json_list(text: str) -> list[Any]:
    """A JSON list: the text itself, or the content of a file, or of standard input for '-'."""
    if not text.lstrip().startswith("["):
        try:
            text = Path("/dev/stdin" if text == "-" else text).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise argparse.ArgumentTypeError(f"expected a JSON list or a file with one: {error}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected a JSON list: {error}") from None
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError(f"expected a JSON list, got {type(value).__name__}")
    return value


def named_value(text: str) -> tuple[str, Any]:
    """NAME=VALUE, or NAME=V,V,... for a joint with several coordinates."""
    name, equals, value = text.rpartition("=")
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if not (equals and name and numbers):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE or NAME=VALUE,VALUE,..., got {text!r}")
    return name, numbers[0] if len(numbers) == 1 else numbers


def _argument(*flags: str, completes: str | None = None, **options: Any) -> Argument:
    return Argument(flags, options, completes)


def _vector(flag: str, text: str, metavar: tuple[str, ...] = ("X", "Y", "Z"), required: bool = True) -> Argument:
    return _argument(flag, nargs=len(metavar), metavar=metavar, type=number, required=required, help=text)


def _values_of_joints(flag: str, metavar: str, text: str) -> Argument:
    return _argument(flag, metavar=metavar, nargs="+", type=named_value, help=text, completes="joints=")


def _number(flag: str, metavar: str, text: str, required: bool = True, completes: str | None = None) -> Argument:
    return _argument(flag, metavar=metavar, type=number, required=required, help=text, completes=completes)


def _json_list(name: str) -> Argument:
    return _argument(name, metavar=name.upper(), type=json_list, help="JSON list, file, or -", completes="files")


_BODY = _argument("body", metavar="BODY", help="body name, or a pattern with --regex", completes="bodies")
_BODIES = _argument(
    "bodies", metavar="BODY", nargs="+", help="body names, or patterns with --regex", completes="bodies"
)
_JOINTS = _argument(
    "joints",
    metavar="JOINT",
    nargs="+",
    help="patterns matched against the entire joint name, or names with --exact",
    completes="joints",
)
_REGEX = _argument(
    "--regex",
    action="store_true",
    help="read the selectors as Python regular expressions matched against the entire name; quote them: '.*_foot'",
)
_EXACT = _argument("--exact", action="store_true", help="read the selectors as literal names")
_FRAME = _argument(
    "--frame",
    choices=("world", "body"),
    help="axes of the vectors; body axes turn with the body, and are looked at anew in every step (default: world)",
)


def _given(args: argparse.Namespace, *names: str) -> Request:
    """The options that were given, under their own names."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _body_selector(args: argparse.Namespace) -> Request:
    return {"body": args.body, **({"regex": True} if args.regex else {})}


def _bodies_selector(args: argparse.Namespace) -> Request:
    return {"bodies": args.bodies, **({"regex": True} if args.regex else {})}


def _joints_selector(args: argparse.Namespace) -> Request:
    return {"joints": args.joints, **({"regex": False} if args.exact else {})}


def _at_least_one(args: argparse.Namespace, *names: str) -> Request:
    given = _given(args, *names)
    if not given:
        raise argparse.ArgumentTypeError("expected at least one of " + ", ".join(f"--{name}" for name in names))
    return given


def _friction(args: argparse.Namespace) -> Request:
    return {"command": "set_contact_parameters", **_bodies_selector(args), "parameters": {"friction": args.values}}


def _contact(args: argparse.Namespace) -> Request:
    parameters = _at_least_one(args, "friction", "solref", "solimp", "margin", "gap", "condim", "priority")
    return {"command": "set_contact_parameters", **_bodies_selector(args), "parameters": parameters}


def _body(args: argparse.Namespace) -> Request:
    properties = _at_least_one(args, "mass", "com")
    return {"command": "set_body_properties", **_bodies_selector(args), "properties": properties}


_CONTACT = (
    Command(
        "friction",
        "set the friction of bodies",
        "Sets the friction of the geoms attached directly to the bodies, not of those of descendant bodies. SLIDING is "
        "dimensionless, TORSIONAL and ROLLING are in metres; none may be negative.",
        "mjctl friction left_foot right_foot --values 0.8 0.005 0.001",
        (
            _BODIES,
            _vector(
                "--values", "sliding [-], torsional [m] and rolling [m] friction", ("SLIDING", "TORSIONAL", "ROLLING")
            ),
            _REGEX,
        ),
        _friction,
    ),
    Command(
        "contact",
        "set any contact properties of bodies",
        "Sets contact properties of the geoms attached directly to the bodies; at least one. Each means what the geom "
        "attribute of the same name means to MuJoCo.",
        "mjctl contact '.*_foot' --regex --solref 0.004 1.2 --condim 3",
        (
            _BODIES,
            _vector(
                "--friction",
                "sliding [-], torsional [m], rolling [m]; not negative",
                ("SLIDING", "TORSIONAL", "ROLLING"),
                required=False,
            ),
            _vector(
                "--solref",
                "time constant [s] and damping ratio [-], or -stiffness and -damping",
                ("TIMECONST", "DAMPRATIO"),
                required=False,
            ),
            _vector(
                "--solimp",
                "impedance: dmin [-], dmax [-], width [m], midpoint [-], power [-]",
                ("DMIN", "DMAX", "WIDTH", "MIDPOINT", "POWER"),
                required=False,
            ),
            _number("--margin", "M", "distance at which contacts are detected [m], not negative", required=False),
            _number("--gap", "M", "distance within the margin that makes no force [m]", required=False),
            _number("--condim", "N", "dimension of the contact: 1, 3, 4 or 6", required=False),
            _number("--priority", "N", "whose parameters win, a non-negative integer", required=False),
            _REGEX,
        ),
        _contact,
    ),
)

_FORCE = _vector("--force", "force [N]")
_TORQUE = _vector("--torque", "torque [Nm]")

_WRENCHES = (
    Command(
        "wrench",
        "push a body with a force and a torque for some time",
        "Applies a force [N] and a torque [Nm] at the body's centre of mass for a positive duration [s of simulation "
        "time]. Both vectors are required; use zeros where none is wanted. Overlapping wrenches add up.",
        "mjctl wrench base_link --force 100 0 0 --torque 0 0 5 --duration 0.25",
        (
            _BODY,
            _FORCE,
            _TORQUE,
            _argument(
                "--duration",
                metavar="SECONDS",
                type=positive_seconds,
                required=True,
                help="simulation time [s], positive",
            ),
            _FRAME,
            _REGEX,
        ),
        lambda args: {
            "command": "apply_wrench",
            **_body_selector(args),
            "force": args.force,
            "torque": args.torque,
            "duration": args.duration,
            **_given(args, "frame"),
        },
    ),
    Command(
        "apply-wrenches",
        "apply several wrenches at once, all or none",
        "WRENCHES is a JSON list (or a file with one, or - for standard input) of objects with body, force [N], torque "
        "[Nm], duration [s of simulation time, 0 = one step], and optionally frame (world or body), point [m, in the "
        "body's frame, from its origin; absent: centre of mass], ramp_up_duration and ramp_down_duration [s].",
        """mjctl apply-wrenches '[{"body":"base_link","force":[50,0,0],"torque":[0,0,0],"duration":0.5}]'""",
        (_json_list("wrenches"),),
        lambda args: {"command": "apply_wrenches", "wrenches": args.wrenches},
    ),
    Command(
        "list-wrenches",
        "list the active wrenches",
        "Prints every wrench that is still active: id, body, force [N], torque [Nm], frame, expires_at [s].",
        "mjctl list-wrenches",
        (),
        lambda args: {"command": "list_wrenches"},
    ),
    Command(
        "cancel-wrench",
        "end a wrench before its time",
        "Ends the wrench with this id, as apply_wrench and list-wrenches print it (no unit).",
        "mjctl cancel-wrench --id 3",
        (_number("--id", "ID", "id of the wrench", completes="wrenches"),),
        lambda args: {"command": "cancel_wrench", "wrench": args.id},
    ),
    Command(
        "push",
        "give bodies a sudden push",
        "Gives each body an impulse at its centre of mass within one step: LINEAR [N s] and ANGULAR [N m s]. "
        "At least one of them.",
        "mjctl push base_link --linear 20 0 0",
        (
            _BODIES,
            _vector("--linear", "impulse [N s]", required=False),
            _vector("--angular", "angular impulse [N m s]", required=False),
            _FRAME,
            _REGEX,
        ),
        lambda args: {
            "command": "push",
            **_bodies_selector(args),
            **_at_least_one(args, "linear", "angular"),
            **_given(args, "frame"),
        },
    ),
)

_BODIES_COMMANDS = (
    Command(
        "body",
        "set mass and centre of mass of bodies",
        "Sets the total mass [kg], positive, and/or the centre of mass [m, in the body's local frame]; at least one. "
        "The rotational inertia stays as it is.",
        "mjctl body base_link --mass 25 --com 0.02 0 0.08",
        (
            _BODIES,
            _number("--mass", "KG", "total mass [kg], positive", required=False),
            _vector("--com", "centre of mass [m, local frame]", required=False),
            _REGEX,
        ),
        _body,
    ),
    Command(
        "payload",
        "attach a point mass to a body",
        "Attaches a point mass [kg], positive, at a position [m, in the body's local frame]. It replaces the body's "
        "earlier payload and starts from the properties at the start of the simulator.",
        "mjctl payload base_link --mass 5.0 --position 0.2 0.0 0.1",
        (
            _BODY,
            _number("--mass", "KG", "mass [kg], positive"),
            _vector("--position", "position [m, local frame]"),
            _REGEX,
        ),
        lambda args: {"command": "add_payload", **_body_selector(args), "mass": args.mass, "position": args.position},
    ),
)

_JOINTS_COMMANDS = (
    Command(
        "torque-limits",
        "limit what actuators do at joints",
        "Sets a symmetric limit, not negative, on the net actuator torque [Nm] of hinges or force [N] of slides. Zero "
        "disables the output. Selectors are patterns for the entire joint name.",
        "mjctl torque-limits '.*_knee' --limit 40",
        (_JOINTS, _number("--limit", "VALUE", "limit [Nm for hinges, N for slides], not negative"), _EXACT),
        lambda args: {"command": "set_joint_torque_limits", **_joints_selector(args), "limit": args.limit},
    ),
    Command(
        "actuator-delay",
        "delay XBot2's commands",
        "Delays XBot2's commands by this much simulation time [s], not negative; zero disables the delay. Commands "
        "that wait already keep their deadlines.",
        "mjctl actuator-delay --seconds 0.01",
        (_number("--seconds", "SEC", "delay [s of simulation time], not negative"),),
        lambda args: {"command": "set_actuator_delay", "delay": args.seconds},
    ),
    Command(
        "velocity-noise",
        "add noise to the joint velocities sent to XBot2",
        "Adds independent zero-mean Gaussian noise with this standard deviation [rad/s for hinges, m/s for slides] to "
        "each velocity sample; zero disables it. Selectors are patterns for the entire joint name.",
        "mjctl velocity-noise '.*_knee' --stddev 0.05",
        (_JOINTS, _number("--stddev", "VALUE", "standard deviation [rad/s or m/s], not negative"), _EXACT),
        lambda args: {"command": "set_velocity_noise", **_joints_selector(args), "stddev": args.stddev},
    ),
    Command(
        "fault",
        "break joints or sensors for some time",
        "lock holds joints where they are; weak multiplies their torque limits by SCALE [-]; drop loses the "
        "commands for their actuators; sensor multiplies readings by SCALE [-, default 0]. Lasts DURATION [s of "
        "simulation time].",
        "mjctl fault --kind lock --joints left_knee --duration 2",
        (
            _argument("--kind", required=True, choices=("lock", "weak", "sensor", "drop"), help="what breaks"),
            _argument(
                "--joints",
                metavar="JOINT",
                nargs="+",
                completes="joints",
                help="patterns for entire joint names (lock, weak, drop)",
            ),
            _argument(
                "--sensors",
                metavar="SENSOR",
                nargs="+",
                completes="sensors",
                help="patterns for entire sensor names (sensor)",
            ),
            _number("--scale", "S", "factor [-], from 0 to 1 for weak", required=False),
            _number("--duration", "SECONDS", "simulation time [s], positive"),
            _EXACT,
        ),
        lambda args: {
            "command": "fault",
            **_given(args, "kind", "joints", "sensors", "scale", "duration"),
            **({"regex": False} if args.exact else {}),
        },
    ),
)

_STATE = (
    Command(
        "status",
        "show what the simulator is doing",
        "Prints simulation time [s], real-time factor [-], whether it is paused, and what is active.",
        "mjctl status",
        (),
        lambda args: {"command": "status"},
    ),
    Command(
        "list",
        "list the names of the model",
        "Prints the names of one kind, with the units of their values.",
        "mjctl list --kind joints",
        (
            _argument(
                "--kind",
                required=True,
                choices=("bodies", "joints", "geoms", "actuators", "sensors"),
                help="what to list",
            ),
        ),
        lambda args: {"command": "list", "kind": args.kind},
    ),
    Command(
        "get-state",
        "read positions and velocities",
        "Prints time [s], joint positions and velocities [rad, rad/s or m, m/s] and body poses and velocities [m, "
        "quaternion w x y z, m/s, rad/s, world axes]. Without selectors: all joints.",
        "mjctl get-state --joints '.*_knee' --bodies base_link",
        (
            _argument(
                "--joints", metavar="JOINT", nargs="+", completes="joints", help="patterns, or names with --exact"
            ),
            _argument(
                "--bodies", metavar="BODY", nargs="+", completes="bodies", help="names, or patterns with --regex"
            ),
            _REGEX,
            _EXACT,
        ),
        lambda args: {
            "command": "get_state",
            **_given(args, "joints", "bodies"),
            **({"regex": args.regex} if args.regex or args.exact else {}),
        },
    ),
    Command(
        "set-state",
        "put joints elsewhere",
        "Sets joint positions [rad or m] and velocities [rad/s or m/s] at once. Ball joints take four numbers, free "
        "joints seven (position, quaternion w x y z); their velocities three and six.",
        "mjctl set-state --joints left_knee=-0.4 right_knee=-0.4 --velocities left_knee=0",
        (
            _values_of_joints("--joints", "NAME=Q", "positions [rad or m]"),
            _values_of_joints("--velocities", "NAME=V", "velocities [rad/s or m/s]"),
        ),
        lambda args: {
            "command": "set_state",
            **{name: dict(pairs) for name, pairs in _at_least_one(args, "joints", "velocities").items()},
        },
    ),
)

_RUN = (
    Command(
        "pause",
        "stop the simulation's time",
        "Pauses after the step that is being taken (takes no units).",
        "mjctl pause",
        (),
        lambda args: {"command": "pause"},
    ),
    Command(
        "resume",
        "let the simulation's time run on",
        "Resumes and drops pending advances (takes no units).",
        "mjctl resume",
        (),
        lambda args: {"command": "resume"},
    ),
    Command(
        "advance",
        "run for some time while paused",
        "While paused, runs this much simulation time [s], positive, rounded up to full steps.",
        "mjctl advance --duration 0.1",
        (_number("--duration", "SECONDS", "simulation time [s], positive"),),
        lambda args: {"command": "advance", "duration": args.duration},
    ),
    Command(
        "set-rtf",
        "set the target real-time factor",
        "Sets how many seconds of simulation pass in a second of wall time [-], positive.",
        "mjctl set-rtf --rtf 0.5",
        (_number("--rtf", "FACTOR", "real-time factor [-], positive"),),
        lambda args: {"command": "set_rtf", "rtf": args.rtf},
    ),
    Command(
        "respawn",
        "put the robot back to a spawn point",
        "Puts the robot to POSITION [m, world frame], or to one of the spawn locations, in its initial posture.",
        "mjctl respawn --position 1 0 0.6",
        (_vector("--position", "where to put the free joint [m, world frame]", required=False),),
        lambda args: {"command": "respawn", **_given(args, "position")},
    ),
    Command(
        "set-gravity",
        "set the gravity vector",
        "Sets gravity [m/s^2, world frame].",
        "mjctl set-gravity --gravity 0 0 -1.62",
        (_vector("--gravity", "acceleration [m/s^2]"),),
        lambda args: {"command": "set_gravity", "gravity": args.gravity},
    ),
    Command(
        "restore",
        "undo all that the remote control changed",
        "Restores contact, body and joint properties [SI units], gravity and actuator delay of the start, removes "
        "payloads, faults and velocity noise, cancels wrenches and clears all applied forces. State is not reset.",
        "mjctl restore",
        (),
        lambda args: {"command": "restore"},
    ),
    Command(
        "batch",
        "send several requests at once, all or none",
        "REQUESTS is a JSON list (or a file with one, or - for standard input) of requests as in the JSON protocol, "
        "in SI units. All are checked before the first is carried out.",
        """mjctl batch '[{"command":"restore"},{"command":"set_gravity","gravity":[0,0,-1.62]}]'""",
        (_json_list("requests"),),
        lambda args: {"command": "batch", "requests": args.requests},
    ),
)

_WATCH = Command(
    "watch",
    "show status and joints, live",
    "Shows a table of the status and of joint positions [rad or m], velocities [rad/s or m/s] and efforts [Nm or N], "
    "anew once per INTERVAL [s of wall time], until interrupted.",
    "mjctl watch --joints '.*_knee' --interval 0.1",
    (
        _argument(
            "--interval", metavar="SECONDS", type=positive_seconds, default=0.2, help="wall time [s] (default: 0.2)"
        ),
        _argument("--joints", metavar="JOINT", nargs="+", completes="joints", help="patterns for entire joint names"),
    ),
    lambda args: {"command": "status"},
)

COMMANDS = (*_CONTACT, *_WRENCHES, *_BODIES_COMMANDS, *_JOINTS_COMMANDS, *_STATE, *_RUN, _WATCH)

_NEGATIVE_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|-(inf|infinity|nan)", re.IGNORECASE)


def keep_negative_numbers(argv: list[str]) -> list[str]:
    """The arguments with a blank before negative numbers, which argparse would else take for options (-1e-3, -inf)."""
    return [f" {text}" if _NEGATIVE_NUMBER.fullmatch(text) else text for text in argv]
