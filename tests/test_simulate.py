"""The command line: what it runs, prints and refuses, and what it leaves behind. Real processes throughout."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xbot2_fast.simulate import main

pytestmark = pytest.mark.core

RTF_LINE = re.compile(r"RTF: \d+\.\d{3} \(Sync error: \d+\.\d{3} ms, Correction: \d+\.\d{3} ms\)")


@pytest.fixture
def paths(tmp_path):
    return ["--output-dir", str(tmp_path / "model"), "--socket-path", str(tmp_path / "sim.sock")]


_started: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def no_process_is_left():
    """Ends what a failed test left running."""
    yield
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def start(*arguments: str, **options) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    _started.append(process)
    return process


def run(*arguments: str) -> subprocess.CompletedProcess:
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def wait_for(path: Path, process: subprocess.Popen) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_without_arguments_but_headless_the_demo_robot_runs_and_prints_its_rtf(paths, tmp_path):
    process = start(*paths)
    wait_for(tmp_path / "sim.sock", process)
    lines = [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert all(RTF_LINE.fullmatch(line.strip()) for line in lines), lines
    assert process.returncode == 130, err
    assert not (tmp_path / "sim.sock").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_signals_end_it_cleanly(paths, tmp_path, number, code, pause):
    """At the moment when the socket appears, while the rest is being made, and while it runs."""
    process = start(*paths)
    while not (tmp_path / "sim.sock").exists():
        assert process.poll() is None
    time.sleep(pause)
    if pause:
        assert [name for name in os.listdir("/dev/shm") if f"-{process.pid}-" in name]
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert not (tmp_path / "sim.sock").exists()
    assert not [name for name in os.listdir("/dev/shm") if f"-{process.pid}-" in name]


def test_duration_is_simulation_time_in_whole_steps(paths):
    done = run(*paths, "--duration", "0.25", "--target-rtf", "max")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Traceback") == 0


def test_the_lines_that_scripts_look_for_are_on_stderr(paths, tmp_path):
    text = run(*paths, "--duration", "0.01", "--target-rtf", "max").stderr
    assert f"[MjcfGenerator] writing final mjcf to {tmp_path / 'model' / 'demo.xml'}" in text
    assert f"[BridgeServer] Initialized on socket {tmp_path / 'sim.sock'} using shm" in text
    assert "[BridgeServer] Joint names: ['fl_hip_roll', " in text
    assert "[BridgeServer] IMU names: ['imu']" in text


def test_the_progress_bar_is_for_terminals_only(paths):
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", *paths, "--duration", "0.5"],
        stdout=subprocess.PIPE, stderr=child,
    )  # fmt: skip
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:  # the terminal's other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    process.communicate(timeout=30)
    assert b"/ 0.5 s" in seen
    assert "/ 0.5 s" not in run(*paths, "--duration", "0.5").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--target-rtf", "0"],
        ["--target-rtf", "-1"],
        ["--target-rtf", "nan"],
        ["--send-state-decimation", "0"],
        ["--duration", "0"],
        ["--viewer-fps", "-5"],
        ["--sync-interval", "-1"],
        ["--bridge-protocol", "tcp"],
        ["--urdf", "a.urdf", "--urdf-cmd", "cat a.urdf"],
        ["--no-such-flag"],
    ],
)
def test_bad_usage_exits_2_and_says_why(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "error:" in capsys.readouterr().err


def failing(paths, *arguments: str) -> str:
    done = run(*paths, *arguments)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_missing_urdf_is_named(paths):
    assert "/no/such.urdf" in failing(paths, "--urdf", "/no/such.urdf")


def test_a_malformed_urdf_is_named_with_its_line(paths, tmp_path):
    broken = tmp_path / "broken.urdf"
    broken.write_text("<robot name='r'>\n  <link name='a'>\n</robot>\n")
    text = failing(paths, "--urdf", str(broken))
    assert "broken.urdf" in text
    assert "3" in text


def test_a_malformed_xml_is_named_with_its_line(paths, tmp_path):
    broken = tmp_path / "world.xml"
    broken.write_text("<mujoco>\n  <worldbody>\n</mujoco>\n")
    text = failing(paths, "--xml", str(broken))
    assert "world.xml" in text
    assert "3" in text


def test_a_command_that_fails_is_shown_with_its_code_and_its_stderr(paths):
    text = failing(paths, "--urdf-cmd", "echo 'no such macro' >&2; exit 3")
    assert "exit 3" in text
    assert "code 3" in text
    assert "no such macro" in text


def test_an_unknown_package_is_named_with_the_places_searched(paths, tmp_path):
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(
        "<robot name='r'><link name='a'><visual><geometry><mesh filename='package://nowhere_pkg/a.stl'/></geometry>"
        "</visual></link></robot>"
    )
    text = failing(paths, "--urdf", str(urdf))
    assert "nowhere_pkg" in text
    assert "ROS_PACKAGE_PATH" in text


def test_a_mesh_that_does_not_exist_is_named_with_its_link(paths, tmp_path):
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(
        "<robot name='r'><link name='forearm'><visual><geometry><mesh filename='/no/such/mesh.stl'/></geometry>"
        "</visual></link></robot>"
    )
    text = failing(paths, "--urdf", str(urdf))
    assert "forearm" in text
    assert "/no/such/mesh.stl" in text


def test_the_socket_of_a_live_simulator_is_not_stolen(paths, tmp_path):
    process = start(*paths)
    try:
        wait_for(tmp_path / "sim.sock", process)
        text = failing(["--output-dir", str(tmp_path / "other"), "--socket-path", str(tmp_path / "sim.sock")])
        assert "--socket-path" in text
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_the_directory_of_the_socket_is_made(tmp_path):
    path = tmp_path / "a" / "b" / "sim.sock"
    process = start("--output-dir", str(tmp_path / "model"), "--socket-path", str(path))
    try:
        wait_for(path, process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_fragments_keep_the_order_of_the_command_line(paths, tmp_path):
    first = tmp_path / "first.xml"
    first.write_text("<mujoco><option timestep='0.004'/></mujoco>")
    last = "echo \"<mujoco><option timestep='0.0005'/></mujoco>\""
    for arguments, timestep in [
        (["--xml", str(first), "--xml-cmd", last], "0.0005"),
        (["--xml-cmd", last, "--xml", str(first)], "0.004"),
    ]:
        done = run(*paths, "--duration", "0.01", "--target-rtf", "max", *arguments)
        assert done.returncode == 0, done.stderr
        written = (tmp_path / "model" / "demo.xml").read_text()
        assert f'timestep="{timestep}"' in written


def test_without_a_display_it_says_so_once_and_runs_headless(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-m", "xbot2_fast.simulate", "--duration", "0.1", "--output-dir", str(tmp_path / "model"),
         "--socket-path", str(tmp_path / "sim.sock"), "--disable-ros"],
        capture_output=True, text=True, env=environment, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no display") == 1


def test_debug_shows_the_traceback(paths):
    done = run(*paths, "--debug", "--urdf", "/no/such.urdf")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def readme_command(name: str) -> str:
    readme = Path(__file__).resolve().parents[1].joinpath("README.md").read_text()
    return re.search(rf"<!-- command: {name} -->\n```sh\n(.*?)```", readme, re.DOTALL)[1].strip()


def test_the_readme_command_of_the_real_robot_runs(paths, tmp_path):
    if not Path("examples/floor.xml").exists():
        pytest.skip("tests run outside the source tree")
    line = readme_command("robot") + f" --duration 0.2 --target-rtf max {' '.join(paths)}"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "centauro.xml").exists()
