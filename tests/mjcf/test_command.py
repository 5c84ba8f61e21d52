"""The command xbot2-mjcf."""

import json
import os
import subprocess
import sys

import mujoco
import pytest

from tests.mjcf.urdfs import CONFIG, ROBOT
from tests.tools import display, eventually, needs
from xbot2_fast.mjcf.command import main

SRDF = '<robot><group_state name="home"><joint name="fl_hip" value="0.3"/></group_state></robot>'


def run(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "xbot2_fast.mjcf.command", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_converts_and_prints_the_report(tmp_path):
    (tmp_path / "r.srdf").write_text(SRDF)
    done = run(ROBOT, "-x", CONFIG, "-o", tmp_path / "out", "--srdf", tmp_path / "r.srdf", "--pose", "home",
               "--report", tmp_path / "report.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "out" / "robot.xml")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["name"] == "robot"
    assert all(set(note) == {"link", "kind", "what"} for note in report["notes"])
    for note in report["notes"]:
        assert note["link"] in done.stdout
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "out" / "robot.xml")).nu == 2


def test_renders_a_picture(tmp_path):
    done = run(ROBOT, "-o", tmp_path / "out", "--picture", tmp_path / "robot.png")
    if done.returncode and "could not be rendered" in done.stderr and not os.environ.get("CI"):
        pytest.skip("no OpenGL here")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "robot.png").read_bytes().startswith(b"\x89PNG")


def test_views_the_model_in_a_window(tmp_path):
    """The viewer opens on the robot and the command ends well when its window is closed with its own key."""
    needs("Xvfb", "xdotool")
    with display() as name:
        environment = {**os.environ, "DISPLAY": name, "MUJOCO_GL": "glfw"}

        def xdotool(*words: str) -> str:
            return subprocess.run(["xdotool", *words], env=environment, capture_output=True, text=True).stdout.strip()

        command = [sys.executable, "-m", "xbot2_fast.mjcf.command", str(ROBOT), "-o", str(tmp_path / "out"), "--view"]
        viewer = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            shown = ("search", "--onlyvisible", "--name", "MuJoCo : robot")  # the title that follows the loaded model
            eventually(lambda: xdotool(*shown) or viewer.poll() is not None)
            assert viewer.poll() is None
            window = xdotool(*shown).split()[0]

            def closed() -> bool:
                xdotool("windowfocus", window)
                xdotool("key", "ctrl+q")
                return viewer.poll() is not None

            eventually(closed)
            assert viewer.returncode == 0
        finally:
            viewer.kill()
            viewer.wait()


def test_view_without_a_display_is_refused_before_anything_is_converted(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main([str(ROBOT), "-o", str(tmp_path / "out"), "--view"]) == 1
    assert "--view: there is no display (DISPLAY is not set)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.urdf"], 1, "cannot read nowhere.urdf: No such file or directory"),
        ([ROBOT, "--pose", "home"], 1, "no pose 'home'; known poses: none; merge an SRDF"),
        ([ROBOT, "--srdf-cmd", "echo broken >&2; exit 3"], 1, "exited with code 3:\nbroken"),
        ([ROBOT, "--kp", "stiff"], 2, "expected a number or JOINT=number, got 'stiff'"),
        ([ROBOT, "--package", "arm"], 2, "expected NAME=DIR, got 'arm'"),
        ([ROBOT, "--srdf", "a", "--srdf-cmd", "b"], 2, "not allowed with argument"),
        ([], 2, "the following arguments are required: urdf"),
    ],
)
def test_errors_are_one_message_without_a_traceback(tmp_path, capsys, arguments, code, message):
    try:
        found = main([*map(str, arguments), *(["-o", str(tmp_path / "out")] if arguments else [])])
    except SystemExit as exit_:
        found = exit_.code
    errors = capsys.readouterr().err
    assert found == code
    assert message in errors
    assert "Traceback" not in errors


def test_gains_by_joint(tmp_path):
    assert main([str(ROBOT), "-o", str(tmp_path / "out"), "--auto-actuators", "position", "--kp", "20",
                 "--kp", "fl_knee=7", "--kd", "1"]) == 0  # fmt: skip
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "out" / "robot.xml"))
    assert [model.actuator(name).gainprm[0] for name in ("fl_hip", "fl_knee")] == [20, 7]
