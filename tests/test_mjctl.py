"""`mjctl` as its users run it: a process of its own, its output and its exit code."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from xbot2_fast.remote_control.command_line import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
MODULE = [sys.executable, "-m", "xbot2_fast.mjctl"]
NOBODY = "ipc:///tmp/xbot2-fast-nobody-listens-here.ipc"


def run(*arguments: str, command: list[str] = MODULE, **options) -> subprocess.CompletedProcess:
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.requirement("S0-283")
def test_installation_registers_the_console_script():
    (script,) = entry_points(group="console_scripts", name="mjctl")
    assert script.value == "xbot2_fast.mjctl:main"
    installed = Path(sys.executable).parent / "mjctl"
    assert run("--help", command=[str(installed)]).stdout == run("--help").stdout


@pytest.mark.requirement("S0-284")
def test_help_lists_every_command():
    result = run("--help")
    assert result.returncode == 0
    for command in COMMANDS:
        assert f"    {command.name} " in result.stdout


@pytest.mark.requirement("S0-285", "S0-337", "S0-294")
def test_every_command_explains_itself_with_units_and_an_example(capsys):
    from xbot2_fast.mjctl import main

    assert run("wrench", "--help").stdout.startswith("usage: mjctl wrench")
    for command in COMMANDS:
        with pytest.raises(SystemExit, match=r"^0$"):
            main([command.name, "--help"])
        text = capsys.readouterr().out
        assert text.startswith(f"usage: mjctl {command.name}")
        assert f"example:\n  mjctl {command.name}" in text
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["friction", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "SLIDING is dimensionless, TORSIONAL and ROLLING are in metres" in text


def test_neither_mujoco_nor_numpy_is_imported():
    code = (
        "import sys; from xbot2_fast.mjctl import main\n"
        f"code = main(['--endpoint', {NOBODY!r}, '--timeout', '0.05', 'restore'])\n"
        "print(code, [name for name in ('mujoco', 'numpy', 'rclpy', 'rich') if name in sys.modules])"
    )
    assert run("-c", code, command=[sys.executable]).stdout == "1 []\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["friction", "foot", "--values", "1", "2"],
        ["friction", "foot", "--values", "1", "2", "much"],
        ["wrench", "base_link", "--force", "1", "0", "0", "--duration", "1"],
        ["wrench", "base_link", "--torque", "1", "0", "0", "--duration", "1"],
        ["body", "base_link"],
        ["contact", "base_link"],
        ["payload", "base_link", "--mass", "1"],
        ["restore", "everything"],
        ["apply-wrenches", "/no/such/file"],
        ["set-state", "--joints", "left_knee"],
    ],
)
@pytest.mark.requirement("S0-332", "S0-299", "S0-302", "S0-303", "S0-313")
def test_wrong_usage_exits_with_2_before_anything_is_sent(arguments):
    result = run("--endpoint", NOBODY, "--timeout", "0.05", *arguments)
    assert result.returncode == 2
    assert "usage: mjctl" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("seconds", ["0", "-1", "-1e-3", "nan", "inf", "-inf", "soon"])
@pytest.mark.requirement("S0-335", "S0-336", "S0-298")
def test_timeout_and_wrench_duration_are_finite_and_positive(seconds):
    wrench = ["wrench", "base_link", "--force", "0", "0", "1", "--torque", "0", "0", "0", "--duration"]
    assert run("--endpoint", NOBODY, "--timeout", seconds, "restore").returncode == 2
    assert run("--endpoint", NOBODY, "--timeout", "0.05", *wrench, seconds).returncode == 2


@pytest.mark.requirement("S0-324", "S0-330")
def test_missing_server_ends_with_a_diagnostic_after_the_timeout():
    result = run("--endpoint", NOBODY, "--timeout", "0.1", "restore")
    assert result.returncode == 1
    assert result.stdout == ""
    assert "no server at" in result.stderr
    assert "was not sent" in result.stderr


def test_endpoint_that_is_none_is_explained():
    result = run("--endpoint", "nonsense", "restore")
    assert result.returncode == 1
    assert "endpoint: expected an address such as tcp://127.0.0.1:5555, got 'nonsense'" in result.stderr


@pytest.mark.requirement("S0-425")
def test_old_example_script_is_mjctl():
    script = [sys.executable, str(ROOT / "examples" / "remote_control_client.py")]
    assert run("--help", command=script).stdout == run("--help").stdout
