"""The live table, and names completed in the shell from the running server."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from xbot2_fast.remote_control import RemoteControlClient

MJCTL = [sys.executable, "-m", "xbot2_fast.mjctl"]


def test_watch_shows_status_and_joints_until_interrupted(running):
    simulator = running()
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*MJCTL, "--endpoint", simulator.endpoint, "watch", "--interval", "0.05", "--joints", ".*_knee"],
        stdout=child, stderr=child, env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "60"},
    )  # fmt: skip
    os.close(child)
    text, deadline = "", time.monotonic() + 30
    while time.monotonic() < deadline and text.count("left_knee") < 3:
        if select.select([parent], [], [], 0.2)[0]:
            text += os.read(parent, 1 << 16).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([parent], [], [], 0.2)[0]:
            try:
                os.read(parent, 1 << 16)
            except OSError:
                break
    os.close(parent)
    process.kill()  # nothing to a process that ended
    assert process.wait(timeout=20) == 130
    assert text.count("left_knee") >= 3
    assert "target_rtf" in text
    assert "left_ankle" not in text


def test_watch_without_a_server_ends_with_a_diagnostic():
    run = subprocess.run(
        [*MJCTL, "--endpoint", "tcp://127.0.0.1:1", "--timeout", "0.1", "watch"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "no server at" in run.stderr


def complete(line: str) -> list[str]:
    """What bash would offer behind this line, by argcomplete's protocol: candidates on descriptor 8."""
    read, write = os.pipe()
    environment = {
        **os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9", "_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_COMP_WORDBREAKS": " ",
    }  # fmt: skip
    command = [sys.executable, "-c", "import sys; from xbot2_fast.mjctl import main; sys.exit(main())"]
    process = subprocess.Popen(
        ["bash", "-c", 'exec 8>&$1; exec 9>/dev/null; shift; exec "$@"', "bash", str(write), *command],
        env=environment, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as candidates:
        offered = candidates.read()
    process.wait(timeout=30)
    return [word.strip() for word in offered.split("\n") if word.strip()]


def test_commands_are_completed():
    assert complete("mjctl tor") == ["torque-limits"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("torque-limits left_", {"left_knee", "left_ankle_pitch", "left_toe_slide"}),
        ("wrench base", {"base_link"}),
        ("fault --kind sensor --sensors imu", {"imu_gyro", "imu_acc"}),
        ("set-state --joints left_knee=0.1 left_", {"left_knee=", "left_ankle_pitch=", "left_toe_slide="}),
        ("set-state --velocities left_kn", {"left_knee="}),
    ],
)
def test_names_are_completed_from_the_running_server(running, words, offered):
    endpoint = running().endpoint
    assert set(complete(f"mjctl --endpoint {endpoint} {words}")) == offered


def test_ids_of_wrenches_are_completed(running):
    simulator = running()
    with RemoteControlClient(simulator.endpoint) as client:
        ids = {
            str(client.call("apply_wrench", body="base_link", force=[1, 0, 0], torque=[0, 0, 0], duration=1e3)["id"])
            for _ in range(2)
        }
    assert set(complete(f"mjctl --endpoint {simulator.endpoint} cancel-wrench --id ")) == ids


def test_files_are_offered_where_files_are_taken_and_nowhere_else(tmp_path, monkeypatch):
    (tmp_path / "push.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    assert complete("mjctl batch pu") == ["push.json"]
    assert complete("mjctl apply-wrenches pu") == ["push.json"]
    assert complete("mjctl advance --duration ") == []
    assert complete("mjctl set-gravity --gravity ") == []


def test_without_a_server_nothing_is_offered():
    assert [word for word in complete("mjctl --endpoint tcp://127.0.0.1:1 wrench ba") if not word.startswith("-")] == []
