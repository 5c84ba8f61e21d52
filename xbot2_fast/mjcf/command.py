"""The command `xbot2-mjcf`: convert a URDF without simulating it."""

import argparse
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

from xbot2_fast.mjcf.actuators import LAWS, Gain
from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.generator import ALL_REPAIRS, MjcfGenerator
from xbot2_fast.mjcf.picture import render
from xbot2_fast.mjcf.report import Report


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xbot2-mjcf", description="Convert a URDF into a MuJoCo model and say what was done to it."
    )
    parser.add_argument("urdf", type=Path, help="the robot")
    parser.add_argument("-x", "--xml", type=Path, action="append", default=[], metavar="FILE", help="MJCF to merge")
    parser.add_argument("-o", "--output-dir", type=Path, metavar="DIR", help="default: /tmp/<name>_mujoco")
    parser.add_argument("--name", help="name of the model and its files (default: the URDF file's)")
    parser.add_argument("--package", action="append", default=[], type=_package, metavar="NAME=DIR", help="where it is")
    parser.add_argument("--copy-assets", action="store_true", help="copy meshes, so that the folder can be moved")
    add_conversion_options(parser)
    parser.add_argument("--floating-base", action="store_true", help="free joint on the root, set down at q_init")
    parser.add_argument("--auto-actuators", choices=LAWS, help="an actuator for every joint that has none")
    parser.add_argument(
        "--kp", type=_gain, action="append", metavar="[JOINT=]GAIN", help="stiffness, also by joint regex"
    )
    parser.add_argument("--kd", type=_gain, action="append", metavar="[JOINT=]GAIN", help="damping, likewise")
    parser.add_argument("--no-repair", action="append", default=[], choices=ALL_REPAIRS, help="refuse instead of mend")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the conversion report as JSON")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="render the model")
    parser.add_argument("--view", action="store_true", help="open the model in MuJoCo's viewer")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def add_conversion_options(parser: Any) -> None:
    """Options that the simulator has too: missing files, strictness, SRDF and pose."""
    parser.add_argument("--missing-assets", choices=("error", "skip"), default="error", help="what to do about them")
    parser.add_argument("--lenient", action="store_true", help="skip custom tags and q_init joints that match nothing")
    srdf = parser.add_mutually_exclusive_group()
    srdf.add_argument("--srdf", type=Path, metavar="FILE", help="excludes contacts, and names poses")
    srdf.add_argument("--srdf-cmd", metavar="COMMAND", help="shell command that prints the SRDF")
    parser.add_argument("--pose", metavar="NAME", help="start in this pose of the SRDF")


def _package(text: str) -> tuple[str, Path]:
    name, separator, folder = text.partition("=")
    if not name or not separator or not folder:
        raise argparse.ArgumentTypeError(f"expected NAME=DIR, got {text!r}")
    return name, Path(folder)


def _gain(text: str) -> tuple[str, float]:
    pattern, _, number = text.rpartition("=")
    try:
        return pattern or ".*", float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or JOINT=number, got {text!r}") from None


def _gains(pairs: list[tuple[str, float]] | None) -> dict[str, float] | None:
    """Later options win, special ones go before '.*'."""
    if pairs is None:
        return None
    given = dict(pairs)
    general = {key: given.pop(key) for key in [".*"] if key in given}
    return {**given, **general}


def convert(arguments: argparse.Namespace) -> MjcfGenerator:
    """Convert as the command line says; the final MJCF is written."""
    gains: dict[str, Gain] = {}
    for key in ("kp", "kd"):
        if (gain := _gains(getattr(arguments, key))) is not None:
            gains[key] = gain
    try:
        urdf = arguments.urdf.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {arguments.urdf}: {error.strerror}") from None
    generator = MjcfGenerator(
        arguments.name or arguments.urdf.stem,
        urdf,
        arguments.output_dir,
        arguments.copy_assets,
        urdf_path=arguments.urdf,
        packages=dict(arguments.package),
        missing_assets=arguments.missing_assets,
        floating_base=arguments.floating_base,
        auto_actuators=arguments.auto_actuators,
        lenient=arguments.lenient,
        repairs=[name for name in ALL_REPAIRS if name not in arguments.no_repair],
        **gains,
    )
    for fragment in arguments.xml:
        generator.merge_xml(fragment)
    if arguments.srdf is not None:
        generator.merge_srdf(arguments.srdf)
    elif arguments.srdf_cmd is not None:
        generator.merge_srdf(_output_of(arguments.srdf_cmd))
    if arguments.pose is not None:
        generator.use_pose(arguments.pose)
    return generator


def _output_of(command: str) -> str:
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, errors="replace")
    if run.returncode:
        raise ModelError(f"command {command!r} exited with code {run.returncode}:\n{run.stderr.strip()}")
    return run.stdout


def print_report(report: Report) -> None:
    """The report as a table on standard output, one row a note."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{report.name}: {len(report.notes)} notes", title_justify="left")
    for column in ("link", "kind", "what was done"):
        table.add_column(column, overflow="fold")
    for note in sorted(report.notes):
        table.add_row(note.link or "(robot)", note.kind, note.what)
    # A pipe gets whole lines: a table squeezed into 80 columns is of no use to grep.
    Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.view:
        from xbot2_fast.viewer import display_available

        if not display_available():
            raise ModelError("--view: there is no display (DISPLAY is not set); --picture FILE.png needs none")
    generator = convert(arguments)
    model, data = generator.create_mj_model_data()
    print_report(generator.report)
    print(generator.output_dir / f"{generator.name}.xml")
    if arguments.report is not None:
        arguments.report.write_text(generator.report.to_json(), encoding="utf-8")
    if arguments.picture is not None:
        render(generator.output_dir / f"{generator.name}.xml", data.qpos, arguments.picture.absolute())
    if arguments.view:
        import mujoco.viewer

        mujoco.viewer.launch(model, data)


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns 0, 1 for an error, 2 (by argparse) for bad usage."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        _run(arguments)
    except Exception as error:
        if arguments.debug:
            raise
        print(f"xbot2-mjcf: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
