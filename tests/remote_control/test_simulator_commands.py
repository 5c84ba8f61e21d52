"""The commands that other parts carry out, over a running simulator; and what the documentation promises."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xbot2_fast.bridge import BridgeClient
from xbot2_fast.remote_control import CommandError, RemoteControlClient

ROOT = Path(__file__).resolve().parents[2]
MJCTL = [sys.executable, "-m", "xbot2_fast.mjctl", "--endpoint"]


def mjctl(endpoint, *arguments):
    run = subprocess.run([*MJCTL, endpoint, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return run.returncode, json.loads(run.stdout)


@pytest.mark.requirement("S0-308", "S0-312", "S0-403", "S0-404", "S0-419")
def test_velocity_noise_selects_by_pattern_or_exactly_and_ends_with_restore(running):
    simulator = running()
    stddev = lambda: dict(simulator.sim.bridge.noise.stddev)  # noqa: E731
    code, reply = mjctl(simulator.endpoint, "velocity-noise", ".*_knee", "--stddev", "0.05")
    assert (code, reply["result"]) == (0, {"joints": ["left_knee", "right_knee"], "stddev": 0.05})
    assert stddev() == {"left_knee": 0.05, "right_knee": 0.05}
    code, reply = mjctl(
        simulator.endpoint, "velocity-noise", "left_ankle_pitch", "left_knee", "--exact", "--stddev", "0.1"
    )
    assert reply["result"]["joints"] == ["left_ankle_pitch", "left_knee"]
    assert stddev() == {"left_knee": 0.1, "right_knee": 0.05, "left_ankle_pitch": 0.1}
    code, reply = mjctl(simulator.endpoint, "velocity-noise", ".*_knee", "--exact", "--stddev", "0.1")
    assert (code, reply["error"]["code"]) == (1, "unknown_joint")
    for bad in (-1, None, True):
        with pytest.raises(CommandError, match="stddev: expected a finite number >= 0"):
            simulator.client.call("set_velocity_noise", joints=["left_knee"], stddev=bad)
    with pytest.raises(CommandError, match="expected hinges and slides, got 'root'"):
        simulator.client.call("set_velocity_noise", joints=["root"], stddev=1)
    simulator.client.call("restore")
    assert stddev() == {}


@pytest.mark.requirement("S0-036", "S0-037")
def test_restore_puts_the_delay_back_and_drops_no_waiting_command(running):
    simulator = running(actuator_delay_s=0.02, target_rtf=1.0)
    delay = simulator.sim.bridge.delay
    simulator.client.call("set_actuator_delay", delay=1000)
    with BridgeClient(simulator.sim.bridge.server.endpoint.path, timeout=20) as controller:
        assert controller.read(20)
        zeros = [0.0] * len(controller.joint_names)
        controller.send(zeros, zeros, zeros, zeros, zeros)
        deadline = time.monotonic() + 20
        while not delay.waiting and time.monotonic() < deadline:
            time.sleep(0.01)
        assert delay.waiting == 1
        simulator.client.call("restore")
        assert delay.delay == 0.02
        time.sleep(0.2)
        assert delay.waiting == 1  # its deadline is still 1000 s away


@pytest.mark.requirement("S0-339")
def test_the_command_line_opens_the_endpoint_at_its_address(tmp_path):
    endpoint = f"ipc://{tmp_path}/rc"
    process = subprocess.Popen(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", "--disable-ros",
         "--socket-path", str(tmp_path / "s"),
         "--output-dir", str(tmp_path / "model"), "--remote-control-endpoint", endpoint],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with RemoteControlClient(endpoint, timeout=60) as client:
            assert client.call("status")["timestep"] > 0
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143


@pytest.mark.requirement("S0-317", "S0-326", "S0-341")
def test_the_documentation_warns_and_quotes():
    text = " ".join((ROOT / "docs" / "remote_control.md").read_text().split())
    assert "mjctl friction '.*_foot' --regex" in text
    assert "only on a trusted network" in text
    assert "no authentication and no encryption" in text
    assert "may have taken effect, or may still.** Check the simulation before retrying" in text
