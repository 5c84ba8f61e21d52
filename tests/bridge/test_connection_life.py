"""Controllers that fall silent, come back, restart or are waited for; whole simulators as processes."""

import logging
import os
import signal
import subprocess
import sys
import time

import mujoco
import numpy as np
import pytest
from xbot2_fast._kernels._loop import StepLoop

from xbot2_fast.bridge import BridgeClient, MjXbot2Bridge
from xbot2_fast.bridge.mujoco_bridge import LockstepTimeout

SLIDERS = """
<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
  <body><joint name="a" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
  <body pos="0 1 0"><joint name="b" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
</worldbody><actuator><position name="a" joint="a" kp="10" kv="1"/><motor name="b" joint="b"/></actuator></mujoco>
"""


class Loop:
    """A bridge inside a compiled step loop, as the simulator has it."""

    def __init__(self, model, data, bridge):
        self.bridge = bridge
        self.loop = StepLoop(model, data)
        self.handlers = [bridge.on_receive, bridge.on_apply]
        self.loop.before(bridge.receive_stage, 0)
        self.loop.before(bridge.apply_stage, 1)
        self.loop.after(bridge.send_stage, 0)

    def step(self):
        while asked := self.loop.pre_step():
            self.handlers[asked - 1]()
        self.loop.step()
        while self.loop.post_step():
            self.bridge.on_send()


def looped(sim):
    return Loop(sim.model, sim.data, sim.bridge)


def send(client, q=0.0, dq=0.0, tau=0.0, k=0.0, d=0.0):
    n = len(client.joint_names)
    client.send([q] * n, [dq] * n, [tau] * n, [k] * n, [d] * n)


def wait(sim, seconds):
    """Step for this wall time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sim.step()
        time.sleep(0.001)


# ---- loss


def test_keep_leaves_the_last_command(make_sim, transport, caplog):
    sim = make_sim(SLIDERS, controller_timeout=0.05)
    caplog.set_level(logging.INFO)
    with sim.connect(protocol=transport) as client:
        send(client, q=1, k=20, d=2, tau=3)
        wait(sim, 0.2)
        joints = sim.bridge.server.state.joints
        np.testing.assert_array_equal([joints.qref, joints.k, joints.tauref], [[1, 1], [20, 20], [3, 3]])
        assert sim.bridge.status()["controller_lost"]
        assert sim.bridge.status()["losses"] == 1
        assert len([r for r in caplog.records if "fell silent" in r.getMessage()]) == 1
        send(client, q=2, k=20)
        wait(sim, 0.02)
        assert not sim.bridge.status()["controller_lost"]
        assert joints.qref[0] == 2
        assert len([r for r in caplog.records if "is back" in r.getMessage()]) == 1


@pytest.mark.parametrize("policy", ["hold", "damp"])
def test_hold_and_damp(make_sim, transport, policy):
    sim = make_sim(SLIDERS, controller_timeout=0.05, on_controller_loss=policy)
    with sim.connect(protocol=transport) as client:
        send(client, q=1, dq=0.5, tau=3, k=20, d=2)
        joints = sim.bridge.server.state.joints
        end = time.monotonic() + 20
        while not sim.bridge.status()["controller_lost"] and time.monotonic() < end:
            before = sim.data.qpos.copy()
            sim.step()
            time.sleep(0.001)
        np.testing.assert_array_equal(joints.qref, before)
        np.testing.assert_array_equal([joints.vref, joints.tauref], 0)
        np.testing.assert_array_equal(joints.k, 20 if policy == "hold" else 0)
        np.testing.assert_array_equal(joints.d, 2)


def test_silence_counts_only_after_a_first_command_and_not_while_paused(make_sim):
    sim = make_sim(SLIDERS, controller_timeout=0.1)
    with sim.connect(protocol="shm") as client:
        wait(sim, 0.25)
        assert sim.bridge.status()["losses"] == 0
        send(client)
        sim.step()
        for _ in range(20):
            time.sleep(0.01)
            sim.bridge.on_pause()
        sim.step()
        assert sim.bridge.status()["losses"] == 0
        wait(sim, 0.2)
        assert sim.bridge.status()["losses"] == 1


def test_loss_drops_commands_that_wait_for_their_delay(make_sim):
    sim = make_sim(SLIDERS, controller_timeout=0.03, on_controller_loss="hold", actuator_delay_s=0.5)
    with sim.connect(protocol="shm") as client:
        sim.bridge.set_delay(0.0)
        send(client, q=1, k=5)
        sim.step()
        sim.bridge.set_delay(0.5)
        send(client, q=2, k=5)
        wait(sim, 0.1)
        assert sim.bridge.status()["waiting"] == 0
        sim.step(600)
        assert sim.bridge.server.state.joints.qref[0] != 2


def test_discovery_is_answered_while_paused(make_sim):
    sim = make_sim(SLIDERS)
    sim.step()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from xbot2_fast.bridge import BridgeClient as C; C(sys.argv[1]).close()",
            sim.path,
        ]
    )
    while process.poll() is None:
        sim.bridge.on_pause()
        time.sleep(0.001)
    assert process.returncode == 0


# ---- delay through the bridge


@pytest.mark.requirement("S0-022", "S0-027", "S0-028", "S0-023")
def test_a_delayed_command_takes_effect_as_one_and_until_then_the_models_gains_stay(make_sim, transport):
    sim = make_sim(SLIDERS, actuator_delay_s=0.02)
    with sim.connect(protocol=transport) as client:
        sim.data.ctrl[0] = 0.5
        send(client, q=1, dq=2, tau=3, k=20, d=4)
        joints = sim.bridge.server.state.joints
        for _ in range(20):
            sim.step()
            assert (joints.qref[0], joints.vref[0], joints.tauref[0], joints.k[0], joints.d[0]) == (0.5, 0, 0, 10, 1)
        sim.step()
        assert (joints.qref[0], joints.vref[0], joints.tauref[0], joints.k[0], joints.d[0]) == (1, 2, 3, 20, 4)
        assert joints.qref[1] == 1


def test_a_reset_keeps_waiting_commands(make_sim):
    sim = make_sim(SLIDERS, actuator_delay_s=0.02)
    with sim.connect(protocol="shm") as client:
        sim.step(5)
        send(client, q=1, k=20)
        sim.step(5)
        now = sim.data.time
        mujoco.mj_resetData(sim.model, sim.data)
        sim.data.time = now
        sim.step(15)
        assert sim.bridge.server.state.joints.k[0] == 10
        sim.step()
        assert sim.bridge.server.state.joints.k[0] == 20


# ---- restart, takeover


def test_a_restarted_controller_takes_over(make_sim, transport):
    sim = make_sim(SLIDERS)
    first = sim.connect(protocol=transport)
    send(first, q=1)
    sim.step()
    first._socket.close()  # killed: it leaves its socket file, and its words in the segment
    with sim.connect(protocol=transport) as second:
        send(second, q=2)
        sim.step()
        assert sim.bridge.server.state.joints.qref[0] == 2
        assert second.read(1)
        if transport == "shm":
            send(first, q=3)
            first._bound = False
            send(second, q=4)
            sim.step()
            assert sim.bridge.server.state.joints.qref[0] == 4
    os.unlink(first._path)
    first._bound = False
    first.close()


# ---- lockstep


def test_lockstep_steps_once_per_answer(make_sim, transport):
    sim = make_sim(SLIDERS, lockstep=True, lockstep_timeout=20)
    with sim.connect(protocol=transport) as probe:
        names = probe.joint_names
    loop = looped(sim)
    loop.step()  # nothing was published before
    code = f"""
import sys, time
from xbot2_fast.bridge import BridgeClient
with BridgeClient(sys.argv[1], protocol={transport!r}) as client:
    for i in range(40):
        assert client.read(20)
        time.sleep(0.002 * (i % 3))
        t = client.state.time
        client.send(*[[t] * {len(names)}] * 5)
"""
    process = subprocess.Popen([sys.executable, "-c", code, sim.path])
    joints = sim.bridge.server.state.joints
    for _ in range(39):
        answered = sim.bridge.server.port.stamp
        before = sim.data.time
        loop.step()
        assert sim.data.time == pytest.approx(before + 0.001)
        assert joints.vref[0] == joints.tauref[0] == before  # the command computed from the state before
        assert sim.bridge.server.port.stamp > answered
    assert process.wait(20) == 0


def test_lockstep_gives_up_after_its_timeout_and_says_why(make_sim):
    sim = make_sim(SLIDERS, lockstep=True, lockstep_timeout=0.1)
    loop = looped(sim)
    loop.step()
    time_before = sim.data.time
    with pytest.raises(
        LockstepTimeout, match="no command answered the state of 0.001 s within 0.1 s.*--lockstep-timeout"
    ):
        loop.step()
    assert sim.data.time == time_before


def test_a_command_for_an_older_state_is_no_answer(make_sim):
    sim = make_sim(SLIDERS, lockstep=True, lockstep_timeout=0.1)
    loop = looped(sim)
    with sim.connect(protocol="shm") as client:
        loop.step()
        client.send([0] * 2, [0] * 2, [0] * 2, [0] * 2, [0] * 2, stamp=1_000_000)
        loop.step()
        client.send([0] * 2, [0] * 2, [0] * 2, [0] * 2, [0] * 2, stamp=1_000_000)
        with pytest.raises(LockstepTimeout):
            loop.step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_controller_loss": "panic"}, "on_controller_loss: expected keep, hold or damp, got 'panic'"),
        ({"controller_timeout": 0}, "controller_timeout: expected a positive number of seconds, got 0"),
        ({"lockstep_timeout": float("nan")}, "lockstep_timeout: expected a positive number of seconds, got nan"),
        ({"ignore_joints": ["x"]}, "ignore_joints: the model has no hinge or slide joint 'x'"),
        ({"actuator_delay_s": -1}, "actuator delay: expected"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(tmp_path, options, message):
    model = mujoco.MjModel.from_xml_string(SLIDERS)
    with pytest.raises(ValueError, match=message):
        MjXbot2Bridge("t", model, mujoco.MjData(model), str(tmp_path / "s"), **options)
    assert not (tmp_path / "s").exists()


def test_ignored_joints_are_not_told_of(make_sim):
    sim = make_sim(SLIDERS, ignore_joints=["a"])
    assert sim.bridge.joint_names == ["b"]


# ---- in the loop


def test_over_shared_memory_no_handler_runs_and_nothing_is_allocated(make_sim):
    import tracemalloc

    sim = make_sim(SLIDERS, actuator_delay_s=0.003, seed=0)
    sim.bridge.set_velocity_noise(["a"], 0.1)
    with sim.connect(protocol="shm") as client:
        loop = looped(sim)
        rows = [[0.0] * 2] * 5
        for _ in range(20):
            client.send(*rows)
            loop.step()
        called = []
        loop.handlers[:] = [lambda: called.append("receive") or sim.bridge.on_receive(), lambda: called.append("apply")]
        pre, step, post = loop.loop.pre_step, loop.loop.step, loop.loop.post_step
        tracemalloc.start()
        try:
            for _ in range(100):
                pre(), step(), post()
            before = tracemalloc.take_snapshot()
            for _ in range(2000):
                assert not pre()
                step()
                assert not post()
            after = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
        ours = tracemalloc.Filter(False, tracemalloc.__file__)
        grown = sum(s.size_diff for s in after.filter_traces([ours]).compare_to(before.filter_traces([ours]), "lineno"))
        assert grown < 2000  # bytes, in 2,000 steps: what the test itself holds
        assert called == []


@pytest.mark.parametrize("decimation", [1, 3])
def test_states_are_decimated_the_nth_step_first(make_sim, decimation):
    sim = make_sim(SLIDERS, send_state_decimation=decimation)
    loop = looped(sim)
    published = []
    for _ in range(9):
        loop.step()
        published.append(sim.bridge.server.port.states)
    assert published == [i // decimation for i in range(1, 10)]


def test_close_inside_a_loop_is_safe_and_final(make_sim):
    sim = make_sim(SLIDERS)
    loop = looped(sim)
    loop.step()
    sim.bridge.close()
    loop.step()
    for call in (sim.bridge.receive, sim.bridge.send_state):
        with pytest.raises(RuntimeError, match="closed"):
            call()


# ---- whole processes

SIMULATOR = """
import sys, time, signal, mujoco
from xbot2_fast.bridge import MjXbot2Bridge
model = mujoco.MjModel.from_xml_string(sys.stdin.readline())
data = mujoco.MjData(model)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with MjXbot2Bridge("proc", model, data, sys.argv[1], protocol="auto") as bridge:
    print(bridge.server.segment.path, flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        bridge.receive()
        mujoco.mj_step(model, data)
        bridge.send_state()
        if len(sys.argv) > 2 and data.time > 0.05:
            raise ValueError("user code")
        time.sleep(0.0005)
"""


def start_simulator(path, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", SIMULATOR, str(path), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write(SLIDERS.replace("\n", " ") + "\n")
    process.stdin.flush()
    return process, process.stdout.readline().strip()


def end(process):
    process.wait(20)
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


@pytest.mark.requirement("S0-005", "S0-006")
def test_two_processes_talk(tmp_path, transport):
    process, segment = start_simulator(tmp_path / "s")
    try:
        with BridgeClient(str(tmp_path / "s"), protocol=transport, timeout=20) as client:
            assert client.joint_names == ["a", "b"]
            deadline = time.monotonic() + 20
            while client.state.joints.q[0] < 0.9 and time.monotonic() < deadline:
                assert client.read(5)
                send(client, q=1, k=100, d=20)
            assert client.state.joints.q[0] > 0.9
            assert client.state.joints.k[1] == 100
    finally:
        process.kill()
        end(process)
        os.unlink(segment)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, "exception"])
def test_however_it_ends_nothing_is_left(tmp_path, how):
    process, segment = start_simulator(tmp_path / "s", *(["raise"] if how == "exception" else []))
    assert os.path.exists(segment)
    if how != "exception":
        process.send_signal(how)
    end(process)
    assert process.returncode != 0
    assert not os.path.exists(segment)
    assert not (tmp_path / "s").exists()
    assert list(tmp_path.iterdir()) == []


def test_client_command_drives_and_reports(tmp_path, transport):
    process, segment = start_simulator(tmp_path / "s")
    try:
        client = subprocess.run(
            [sys.executable, "-m", "xbot2_fast.bridge.client", "--socket-path", str(tmp_path / "s"),
             "--protocol", transport, "--rate", "200", "--duration", "1.3", "--sine", "0.1", "--kp", "50", "--kd", "5"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    finally:
        process.terminate()
        end(process)
    lines = client.stdout.splitlines()
    assert lines[0].endswith(f"over {transport}: 2 joints")
    assert "states/s" in lines[1]
    assert "commands/s" in lines[1]
    assert list(tmp_path.iterdir()) == []


def test_client_command_without_a_simulator_says_so(tmp_path):
    client = subprocess.run(
        [sys.executable, "-m", "xbot2_fast.bridge.client", "--socket-path", str(tmp_path / "s"), "--timeout", "0.1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert client.returncode == 1
    assert "no simulator answers" in client.stderr


def test_the_controller_imports_no_simulator():
    code = "import sys, xbot2_fast.bridge.client; print(sorted({'mujoco', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_old_import_path():
    from xbot2_fast.mj_xbot2_bridge import MjXbot2Bridge as old

    assert old is MjXbot2Bridge
