"""`mjctl` against a running simulator in another process, with the seed's command lines verbatim."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
import zmq

MJCTL = [sys.executable, "-m", "xbot2_fast.mjctl"]


def mjctl(endpoint, line, *options):
    arguments = shlex.split(line.replace("\\\n", " "))
    assert arguments[0] == "mjctl"
    command = [*MJCTL, "--endpoint", endpoint, *options, *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def result_of(run):
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    reply = json.loads(run.stdout)
    assert reply["ok"] is True
    return reply["result"]


@pytest.mark.requirement(
    "S0-289", "S0-290", "S0-292", "S0-293", "S0-296", "S0-297", "S0-300", "S0-301", "S0-303", "S0-304", "S0-305",
    "S0-314", "S0-315", "S0-316", "S0-321", "S0-328", "S0-355", "S0-374", "S0-392", "S0-402",
)  # fmt: skip
@pytest.mark.parametrize(
    ("line", "check"),
    [
        (
            "mjctl friction '.*_foot' \\\n  --regex --values 0.05 0.0001 0.00001",
            lambda m, r: r["bodies"] == ["left_foot", "right_foot"] and m.geom("left_heel").friction[0] == 0.05,
        ),
        ("mjctl friction left_foot --values 1 0 0", lambda m, r: r["geoms"] == ["left_sole", "left_heel"]),
        ("mjctl contact left_foot --condim 4 --gap -1e-3", lambda m, r: m.geom("left_sole").gap == -1e-3),
        (
            "mjctl wrench base_link \\\n  --force 100 0 0 --torque 0 0 5 --duration 1.0 --frame body",
            lambda m, r: r["body"] == "base_link",
        ),
        ("mjctl body base_link --mass 25 --com 0.02 0 0.08", lambda m, r: m.body("base_link").mass == 25),
        ("mjctl body '.*_foot' --mass 2 --regex", lambda m, r: r["bodies"] == ["left_foot", "right_foot"]),
        (
            "mjctl payload base_link \\\n  --mass 5.0 --position 0.2 0.0 0.1",
            lambda m, r: r["payload"] == {"mass": 5.0, "position": [0.2, 0.0, 0.1]},
        ),
        ("mjctl torque-limits '.*_knee' \\\n  --limit 40", lambda m, r: r["joints"] == ["left_knee", "right_knee"]),
        ("mjctl torque-limits left_knee --limit 0 --exact", lambda m, r: r["limit"] == 0),
        ("mjctl actuator-delay --seconds 0.01", lambda m, r: r == {"delay": 0.01}),
        ("mjctl actuator-delay --seconds 0", lambda m, r: r == {"delay": 0}),
        (
            "mjctl set-state --joints left_knee=-0.4 neck=1,0,0,0 --velocities left_knee=0",
            lambda m, r: len(r["joints"]) == 2,
        ),
        ("mjctl get-state --joints left_knee --bodies base_link", lambda m, r: "base_link" in r["bodies"]),
        ("mjctl push base_link --linear 2 0 0", lambda m, r: r["body"] == "base_link"),
        ("mjctl set-gravity --gravity 0 0 -1.62", lambda m, r: m.opt.gravity[2] == -1.62),
        ("mjctl fault --kind lock --joints left_knee --duration 2", lambda m, r: r["joints"] == ["left_knee"]),
        ("mjctl fault --kind sensor --sensors imu_gyro --duration 2", lambda m, r: r["scale"] == 0),
        ("mjctl list --kind joints", lambda m, r: len(r["joints"]) == m.njnt),
        ("mjctl status", lambda m, r: r["paused"] is False),
        (
            """mjctl apply-wrenches '[{"body":"base_link","force":[50,0,0],"torque":[0,0,0],"duration":0.5}]'""",
            lambda m, r: len(r["wrenches"]) == 1,
        ),
        ("mjctl list-wrenches", lambda m, r: r == {"wrenches": []}),
        ("mjctl set-rtf --rtf 20", lambda m, r: r == {"rtf": 20}),
        ("""mjctl batch '[{"command":"restore"},{"command":"status"}]'""", lambda m, r: len(r["results"]) == 2),
        ("mjctl restore", lambda m, r: r["restored"] is True),
    ],
)
def test_command_lines_of_the_documentation(running, line, check):
    simulator = running()
    assert check(simulator.sim.model, result_of(mjctl(simulator.endpoint, line)))


@pytest.mark.requirement("S0-295", "S0-327", "S0-329")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("mjctl friction left_foot --values -1 0 0", "invalid_parameter"),
        ("mjctl friction nobody --values 1 0 0", "unknown_body"),
        ("mjctl friction '.*_foot' --values 1 0 0", "unknown_body"),
        ("mjctl body base_link --mass nan", "invalid_parameter"),
        ("mjctl body base_link --mass -inf", "invalid_parameter"),
        ("mjctl payload base_link --mass 0 --position 0 0 0", "invalid_parameter"),
        ("mjctl torque-limits '(' --limit 1", "invalid_regex"),
        ("mjctl torque-limits nothing --limit 1", "no_matches"),
        ("mjctl velocity-noise left_knee_ --stddev 1", None),
    ],
)
def test_refusals_are_json_on_stdout_and_exit_with_1(running, line, code):
    run = mjctl(running().endpoint, line)
    assert run.returncode == 1
    reply = json.loads(run.stdout)
    assert reply["ok"] is False
    assert code in (None, reply["error"]["code"])


@pytest.mark.requirement("S0-033", "S0-036", "S0-038", "S0-306", "S0-307")
def test_actuator_delay_by_mjctl_and_json_and_back_by_restore(running):
    simulator = running()
    start = simulator.sim.bridge.delay.delay
    delay = simulator.sim.bridge.delay
    assert result_of(mjctl(simulator.endpoint, "mjctl actuator-delay --seconds 0.01")) == {"delay": 0.01}
    assert delay.delay == 0.01
    assert simulator.client.call("set_actuator_delay", delay=0.02) == {"delay": 0.02}
    assert delay.delay == 0.02
    result_of(mjctl(simulator.endpoint, "mjctl restore"))
    assert delay.delay == start


@pytest.mark.requirement("S0-320")
def test_global_options_stand_before_the_command(running):
    endpoint = running().endpoint
    run = subprocess.run(
        [*MJCTL, *f"--endpoint {endpoint} --timeout 10 restore".split()], capture_output=True, text=True, check=False
    )
    assert result_of(run)["restored"] is True
    assert subprocess.run([*MJCTL, "restore", "--timeout", "1"], capture_output=True, check=False).returncode == 2


@pytest.mark.requirement("S0-322", "S0-323", "S0-325", "S0-326", "S0-330")
def test_a_stalled_simulation_ends_the_wait_and_the_request_still_takes_effect(running):
    simulator = running()
    simulator.client.call("pause")
    line = "mjctl push base_link --linear 0 0 1"
    start = time.monotonic()
    run = mjctl(simulator.endpoint, line, "--timeout", "0.5")
    assert run.returncode == 1
    assert run.stdout == ""
    assert "may have taken effect" in run.stderr
    assert "check the simulation before retrying" in run.stderr
    assert time.monotonic() - start >= 0.5
    before = simulator.sim.data.xfrc_applied.copy()
    simulator.client.call("advance", duration=0.002)
    time.sleep(0.3)
    assert simulator.sim.data.xfrc_applied[1, 2] == 500
    assert not before.any()


class Server:
    """A plain REP socket that answers what it is told."""

    def __init__(self):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.REP)
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"

    def close(self):
        self.socket.close(0)
        self.context.term()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.mark.requirement("S0-288", "S0-331")
@pytest.mark.parametrize(
    "reply", [b"", b"nonsense", b"[]", b"3", b'{"ok": true}', b'{"ok": false}', b"\xff", b'{"ok": 1}']
)
def test_one_request_is_sent_and_an_invalid_reply_exits_with_1(server, reply):
    process = subprocess.Popen(
        [*MJCTL, "--endpoint", server.endpoint, "restore"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert json.loads(server.socket.recv()) == {"command": "restore"}
    server.socket.send(reply)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert out == ""
    assert "invalid reply" in err
    assert server.socket.poll(100) == 0


@pytest.mark.requirement("S0-333")
def test_interruption_exits_with_130(server):
    process = subprocess.Popen(
        [*MJCTL, "--endpoint", server.endpoint, "restore"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    server.socket.recv()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted" in err


@pytest.mark.requirement("S0-287", "S0-291")
def test_the_console_script_and_the_module_do_the_same_without_ros(running):
    from pathlib import Path

    endpoint = running().endpoint
    script = [str(Path(sys.executable).parent / "mjctl"), "--endpoint", endpoint, "list", "--kind", "joints"]
    assert subprocess.run(script, capture_output=True, text=True, check=False).stdout == (
        mjctl(endpoint, "mjctl list --kind joints").stdout
    )
    code = (
        "import sys\nclass No:\n def find_spec(self, name, *_):\n"
        "  assert name.split('.')[0] not in ('rclpy', 'mujoco', 'numpy')\n"
        "sys.meta_path.insert(0, No())\nfrom xbot2_fast.mjctl import main\nsys.exit(main())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "--endpoint", endpoint, "status"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_reply_that_cannot_be_written_is_said_unless_its_reader_has_seen_enough(running):
    command = [*MJCTL, "--endpoint", running().endpoint, "list", "--kind", "geoms"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert run.stderr == "mjctl: the reply could not be written: [Errno 28] No space left on device\n"

    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (1, "")


def test_a_timeout_beyond_what_zeromq_knows_is_as_good_as_none(running):
    assert result_of(mjctl(running().endpoint, "mjctl status", "--timeout", "1e300"))["timestep"] == 0.002
