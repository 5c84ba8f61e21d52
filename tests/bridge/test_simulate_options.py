"""The bridge's options, from the command line and from the wrapper."""

import json
import signal
import subprocess
import sys
import time

import mujoco
import pytest

from tests.bridge.test_connection_life import SLIDERS
from xbot2_fast.bridge import BridgeClient
from xbot2_fast.bridge.permissions import Access
from xbot2_fast.simulate import build_parser
from xbot2_fast.simulator_wrapper import SimulatorWrapper


@pytest.fixture
def make_wrapper(tmp_path):
    made = []

    def make(**options):
        model = mujoco.MjModel.from_xml_string(SLIDERS)
        options = {
            "viewer": False,
            "ros": False,
            "target_rtf": float("inf"),
            "socket_path": str(tmp_path / "s"),
        } | options
        made.append(SimulatorWrapper(model, **options))
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def connect(sim):
    """A client of a wrapper that runs in this process."""
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(BridgeClient(sim.bridge.server.endpoint.path)))
    thread.start()
    while thread.is_alive():
        sim.run()
        thread.join(0.0001)
    return found[0]


def test_defaults():
    arguments = build_parser().parse_args([])
    assert (arguments.actuator_delay, arguments.command_freshness, arguments.controller_timeout) == (0.0, 0.1, 0.5)
    assert (arguments.on_controller_loss, arguments.lockstep, arguments.lockstep_timeout) == ("keep", False, 5.0)
    assert (arguments.bridge_mode, arguments.seed) == (None, None)
    assert build_parser().parse_args(["--bridge-mode", "0666"]).bridge_mode == Access(0o666)


@pytest.mark.parametrize(
    "arguments", [["--actuator-delay", "-1"], ["--bridge-mode", "0777"], ["--controller-timeout", "0"]]
)
def test_bad_values_exit_with_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(arguments)
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.requirement("S0-025", "S0-026")
def test_delay_of_the_wrapper(make_wrapper, tmp_path):
    assert make_wrapper(socket_path=str(tmp_path / "other")).bridge.delay.delay == 0
    sim = make_wrapper(actuator_delay_s=0.02)
    with connect(sim) as client:
        client.send([1] * 2, [0] * 2, [0] * 2, [20] * 2, [0] * 2)
        steps = 0
        while sim.model.actuator("a").gainprm[0] == 10:
            sim.run()
            steps += 1
        assert steps == 21  # the step that received it, and 20 more


@pytest.mark.requirement("S0-031")
def test_a_pause_stops_the_delay(make_wrapper):
    sim = make_wrapper(actuator_delay_s=0.02)
    with connect(sim) as client:
        client.send([1] * 2, [0] * 2, [0] * 2, [20] * 2, [0] * 2)
        for _ in range(11):
            sim.run()
        sim.set_paused()
        for _ in range(5):
            assert not sim.run()
        assert sim.bridge.delay.waiting == 1
        sim.set_paused(False)
        for _ in range(10):
            assert sim.model.actuator("a").gainprm[0] == 10
            sim.run()
        assert sim.model.actuator("a").gainprm[0] == 20


@pytest.mark.requirement("S0-018")
def test_a_reset_starts_the_integral_of_velocity_joints_anew(tmp_path):
    xml = SLIDERS.replace(
        '<motor name="b" joint="b"/>', '<intvelocity name="b" joint="b" kp="9" kv="3" actrange="-5 5"/>'
    )
    model = mujoco.MjModel.from_xml_string(xml)
    with SimulatorWrapper(model, {"b": 0.25}, viewer=False, ros=False, socket_path=str(tmp_path / "s")) as sim:
        sim.run()
        assert sim.data.act[0] == pytest.approx(0.25)
        sim.data.ctrl[1] = 2.0
        for _ in range(20):
            sim.run()
        mujoco.mj_resetData(model, sim.data)
        sim.run()
        assert sim.data.act[0] == pytest.approx(0.25)


def _simulate(tmp_path, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", "--disable-ros",
         "--output-dir", str(tmp_path / "model"), "--socket-path", str(tmp_path / "s"), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.requirement("S0-024")
def test_delay_of_the_command_line(tmp_path):
    process = _simulate(tmp_path, "--actuator-delay", "0.02", "--bridge-mode", "0660")
    try:
        with BridgeClient(str(tmp_path / "s"), protocol="json", timeout=60) as client:
            assert (tmp_path / "s").stat().st_mode & 0o777 == 0o660
            assert client.read(30)
            n = len(client.joint_names)
            client.send([1] * n, [0] * n, [0] * n, [77] * n, [1] * n)
            sent, acted = client.state.time, None
            while acted is None:
                assert client.read(10)
                if client.state.joints.k[0] == 77:
                    acted = client.state.time
            assert acted - sent >= 0.02
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 143, err
    assert not (tmp_path / "s").exists()


def test_lockstep_without_a_controller_ends_with_exit_1_and_says_why(tmp_path):
    process = _simulate(tmp_path, "--lockstep", "--lockstep-timeout", "0.2")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "lockstep: no command answered" in err
    assert "Traceback" not in err


def test_a_signal_ends_a_lockstep_wait(tmp_path):
    process = _simulate(tmp_path, "--lockstep", "--lockstep-timeout", "60")
    with BridgeClient(str(tmp_path / "s"), timeout=60):
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        process.communicate(timeout=30)
    assert process.returncode == 143
    assert time.monotonic() - started < 20
    assert not (tmp_path / "s").exists()


@pytest.mark.requirement("S0-309", "S0-311")
def test_noise_as_a_remote_command_and_in_the_status(make_wrapper):
    sim = make_wrapper(remote_control_endpoint="tcp://127.0.0.1:*")
    result = sim.remote_control.handle_request({"command": "set_velocity_noise", "joints": ["a"], "stddev": 0.5})
    assert result == {"joints": ["a"], "stddev": 0.5}
    sim.run()
    assert sim.bridge.server.state.joints.dq[0] != sim.data.qvel[0]
    status = sim._status()
    json.dumps(status)
    assert status["bridge"]["velocity_noise"] == {"a": 0.5}
    sim.remote_control.handle_request({"command": "restore"})
    sim.run()
    assert sim.bridge.server.state.joints.dq[0] == sim.data.qvel[0]
