"""What the bridge costs: a whole step against a bare mj_step, and its parts against the plain ways of doing them."""

import json
import math
import os
import socket
import subprocess
import sys
import threading

import mujoco
import numpy as np
import orjson
import pytest
from xbot2_fast._kernels._loop import StepLoop
from xbot2_fast._kernels._pacing import Pacer

from benchmarks.interleave import compare, first_held, report
from benchmarks.robots import humanoid_29, quadruped
from xbot2_fast.actuation import apply_q_init
from xbot2_fast.bridge import BridgeClient, MjXbot2Bridge
from xbot2_fast.bridge.layout import JOINT_FIELDS
from xbot2_fast.simulator_wrapper import SimulatorWrapper

JOINTS = 40


def chain(n):
    """n hinges in a row with position actuators on a floating base."""
    bodies = "".join(f'<body pos="0 0 .1"><joint name="joint_{i}"/><geom size=".02"/>' for i in range(n))
    actuators = "".join(f'<position name="joint_{i}" joint="joint_{i}" kp="50" kv="2"/>' for i in range(n))
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody><body><freejoint/><geom size=".1"/>{bodies}
        {"</body>" * n}</body></worldbody>
        <actuator>{actuators}</actuator></mujoco>"""
    )


# ---- a whole step


@pytest.fixture(params=["quadruped, 12 joints", "humanoid, 29 joints"])
def robot(request, tmp_path):
    if request.param.startswith("quadruped"):
        return quadruped(tmp_path / "model")
    return humanoid_29(), {}


@pytest.fixture
def make_sim(tmp_path, robot):
    made = []

    def make(**options):
        model, q_init = robot
        made.append(
            SimulatorWrapper(
                model, q_init, viewer=False, ros=False, target_rtf=math.inf, socket_path=str(tmp_path / "s"), **options
            )
        )
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def connect(sim, **options):
    found = []
    path = sim.bridge.server.endpoint.path
    thread = threading.Thread(target=lambda: found.append(BridgeClient(path, client_path=path + ".bench", **options)))
    thread.start()
    while thread.is_alive():
        sim.run()
        thread.join(0.0001)
    return found[0]


class Bare:
    """The same model and state under a bare mj_step."""

    def __init__(self, sim):
        self.model, self.data = sim.model, mujoco.MjData(sim.model)
        self.follow(sim)

    def follow(self, sim):
        mujoco.mj_copyData(self.data, sim.model, sim.data)

    def __call__(self):
        mujoco.mj_step(self.model, self.data)


def check_physics(sim, bare, between):
    """run() and mj_step go the same way, to the bit."""
    bare.follow(sim)
    for _ in range(100):
        between()
        sim.run()
        bare()
    np.testing.assert_array_equal(sim.data.qpos, bare.data.qpos)


def gate(benchmark, candidate, comparison, limit):
    report(benchmark, candidate, comparison)
    assert comparison.ratio <= limit, str(comparison)


def settle(sim):
    for _ in range(1000):
        sim.run()


def test_run_with_a_command_every_step_delay_and_noise(benchmark, make_sim):
    sim = make_sim(actuator_delay_s=0.02)
    sim.bridge.set_velocity_noise(sim.bridge.joint_names, 0.05)
    with connect(sim, protocol="shm") as client:
        assert client.read(1)
        joints = client.state.joints
        rows = [
            joints.qref.tolist(),
            [0.0] * len(joints.q),
            [0.0] * len(joints.q),
            joints.k.tolist(),
            joints.d.tolist(),
        ]
        settle(sim)
        send = lambda: client.send(*rows)  # noqa: E731
        for _ in range(50):
            send()
            sim.run()
        bare = Bare(sim)
        check_physics(sim, bare, send)
        before = sim.bridge.status()["controllers"][0]["commands"]
        comparison = compare(bare, sim.run, rounds=100, calls=50, between=send)
        assert sim.bridge.status()["controllers"][0]["commands"] - before == 111 * 50
        gate(benchmark, sim.run, comparison, 1.05 + 0.03)


# ---- parts


@pytest.fixture
def bridge(tmp_path):
    model = chain(JOINTS)
    data = mujoco.MjData(model)
    data.qpos[7:] = np.random.default_rng(0).normal(size=JOINTS)
    data.qvel[6:] = np.random.default_rng(1).normal(size=JOINTS)
    mujoco.mj_forward(model, data)
    with MjXbot2Bridge("bench", model, data, str(tmp_path / "s")) as bridge:
        bridge.model, bridge.data = model, data
        yield bridge


def gather_by_name(bridge, out):
    """What one writes first: each joint asked for by name, in each step."""
    model, data = bridge.model, bridge.data
    for i, name in enumerate(bridge.joint_names):
        joint, actuator = data.joint(name), model.actuator(name)
        out["q"][i] = joint.qpos[0]
        out["dq"][i] = joint.qvel[0]
        out["tau"][i] = data.qfrc_actuator[joint.id + 5]
        out["k"][i] = actuator.gainprm[0]
        out["d"][i] = -actuator.biasprm[2]
        out["qref"][i] = data.ctrl[actuator.id]
        out["vref"][i], out["tauref"][i] = 0.0, 0.0
    return out


def fancy_gather(bridge):
    model, data = bridge.model, bridge.data
    qpos, dofs, acts = np.arange(7, 7 + JOINTS), np.arange(6, 6 + JOINTS), np.arange(JOINTS)
    out = {name: np.zeros(JOINTS) for name in JOINT_FIELDS}
    references = np.zeros((2, JOINTS))

    def gather():
        out["q"][:] = data.qpos[qpos]
        out["dq"][:] = data.qvel[dofs]
        out["tau"][:] = data.qfrc_actuator[dofs]
        out["k"][:] = model.actuator_gainprm[acts, 0]
        out["d"][:] = -model.actuator_biasprm[acts, 2]
        out["qref"][:] = data.ctrl[acts]
        out["vref"][:] = references[0, acts]
        out["tauref"][:] = references[1, acts]
        return out

    return gather


def assert_same_state(bridge, expected):
    bridge.send_stage.now(0.5)
    for name in ("q", "dq", "tau", "k", "d", "qref"):
        np.testing.assert_array_equal(getattr(bridge.server.state.joints, name), expected[name])


@pytest.mark.parametrize(("how", "speedup"), [("by name", 300), ("NumPy fancy indexing", 30)])
def test_gather_and_commit(benchmark, bridge, how, speedup):
    fancy = fancy_gather(bridge)
    rows = {name: [0.0] * JOINTS for name in JOINT_FIELDS}
    baseline = fancy if "fancy" in how else lambda: gather_by_name(bridge, rows)
    assert_same_state(bridge, baseline())
    now = bridge.send_stage.now
    fast = lambda: [now(0.5) for _ in range(200)]  # noqa: E731
    slow_calls = 1 if how == "by name" else 20
    slow = lambda: [baseline() for _ in range(slow_calls)]  # noqa: E731
    comparison = compare(slow, fast, rounds=60)
    ratio = comparison.speedup * 200 / slow_calls
    benchmark.extra_info["speedup"] = ratio
    report(benchmark, lambda: now(0.5), comparison)
    print(f"gather and commit against {how}: {ratio:.0f}x, {comparison.candidate / 200 * 1e9:.0f} ns")
    assert ratio >= speedup / 2


@pytest.mark.parametrize(("changed", "speedup"), [(True, 15), (False, 35)])
def test_state_text(benchmark, bridge, changed, speedup):
    server = bridge.server
    bridge.send_stage.now(0.5)
    numbers = server._numbers
    rng = np.random.default_rng(3)
    numbers[1:] = rng.normal(size=len(numbers) - 1)
    joints = server.state.joints

    def plain():
        message = {"time": float(numbers[0]), "joints": {name: getattr(joints, name).tolist() for name in JOINT_FIELDS}}
        message["imus"] = {
            name: {key: getattr(imu, key).tolist() for key in ("quat_w", "lin_acc_b", "ang_vel_b")}
            for name, imu in server.state.imus.items()
        }
        message["type"] = "state"
        return json.dumps(message, separators=(",", ":"))

    assert orjson.loads(server._text()) == json.loads(plain())

    def fast():
        if changed:
            numbers[1 + 3 * JOINTS] += 1.0
        return server._text()

    comparison = compare(plain, fast, rounds=60, calls=10)
    benchmark.extra_info["speedup"] = comparison.speedup
    report(benchmark, fast, comparison)
    assert comparison.speedup >= speedup / 2, str(comparison)


def test_json_cycle(benchmark, bridge, tmp_path):
    """Gather, text, datagram out, datagram in, command into arrays: ours against json and named handles."""
    n = JOINTS
    rows = {name: [0.0] * n for name in JOINT_FIELDS}
    rng = np.random.default_rng(0)
    command = {name: rng.normal(size=n).tolist() for name in ("q", "dq", "tau", "k", "d")}
    text = orjson.dumps({"type": "control", "joint_command": command})
    arrays = {name: np.zeros(n) for name in command}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.bind(str(tmp_path / "p"))
        path = bridge.server.endpoint.path
        bridge.receive()
        peer.sendto(text, path)
        bridge.receive()
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        own.bind(str(tmp_path / "old"))

        def plain():
            out = gather_by_name(bridge, rows)
            own.sendto(
                json.dumps({"time": bridge.data.time, "joints": out, "imus": {}, "type": "state"}).encode(),
                str(tmp_path / "p"),
            )
            peer.recv(1 << 16)
            peer.sendto(text, str(tmp_path / "old"))
            message = json.loads(own.recv(1 << 16))
            for name, array in arrays.items():
                array[:] = message["joint_command"][name]

        def fast():
            bridge.send_state()
            peer.recv(1 << 16)
            peer.sendto(text, path)
            bridge.receive()

        plain()
        fast()
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, getattr(bridge.server.command.joint_command, name))
        comparison = compare(plain, fast, rounds=100, calls=5)
        benchmark.extra_info["speedup"] = comparison.speedup
        report(benchmark, fast, comparison)
        own.close()
    os.unlink(tmp_path / "old")
    assert comparison.speedup >= 11 / 2, str(comparison)


DISCOVERIES = """
import json, os, random, socket, sys, time
path, own = sys.argv[1], sys.argv[1] + ".bench"
times = []
for _ in range(200):
    time.sleep(random.uniform(0.005, 0.025))  # the one before is noticed to be gone, the socket is quiet again
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(own)
        s.settimeout(30)
        start = time.perf_counter()
        s.sendto(b'{"type":"discovery"}', path)
        assert json.loads(s.recv(1 << 16))["type"] == "discovery"
        times.append(time.perf_counter() - start)
    os.unlink(own)
print(json.dumps(times))
"""


@pytest.mark.parametrize("target_rtf", [1.0, math.inf])
def test_a_discovery_is_answered_while_the_simulation_runs(benchmark, tmp_path, target_rtf):
    """A process that discovers 200 times, each time while nobody is connected: it meets the schedule."""
    path = str(tmp_path / "s")
    with SimulatorWrapper(chain(12), viewer=False, ros=False, target_rtf=target_rtf, socket_path=path) as sim:
        sim.run()

        def measure():
            process = subprocess.Popen([sys.executable, "-c", DISCOVERIES, path], stdout=subprocess.PIPE, text=True)
            while process.poll() is None:
                for _ in range(50):
                    sim.run()
            times = sorted(json.loads(process.communicate()[0]))
            return times[len(times) // 2], times[-3], times[-1]

        def holds(measured):
            return measured[1] <= 2 * 0.010  # of 200, the two slowest may be the machine's

        measured = first_held(measure, holds)
        median, p99, worst = measured
        benchmark.extra_info.update(median_ms=median * 1e3, p99_ms=p99 * 1e3, worst_ms=worst * 1e3)
        benchmark.pedantic(sim.run, rounds=5)
    print(f"discovery at rtf {target_rtf}: median {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f}, worst {worst * 1e3:.2f}")
    assert holds(measured)


def test_idle_socket(benchmark, bridge, tmp_path):
    """What the idle socket costs a step: < 0.1 us.

    A loop that waits for real time watches the socket in that wait: one descriptor more in the call. A loop that does
    not wait looks once in 8 ms; spread over the steps of a quadruped, the fastest of our robots, in that time.
    """
    loop = StepLoop(bridge.model, bridge.data)
    loop.before(bridge.receive_stage, 0)
    pre_step, stage, endpoint = loop.pre_step, bridge.receive_stage, bridge.server.endpoint
    pre_step()

    def looking(eager):
        stage.eager = eager
        for _ in range(100):
            assert not pre_step()

    looks = compare(lambda: looking(False), lambda: looking(True), rounds=60)
    look = (looks.candidate - looks.baseline) / 100
    model, q_init = quadruped(tmp_path / "model")
    data = mujoco.MjData(model)
    apply_q_init(model, data, q_init)
    bare = compare(lambda: None, lambda: mujoco.mj_step(model, data), rounds=300).candidate
    waits = [Pacer(1.0), Pacer(1.0)]
    watched = os.eventfd(0)
    waits[0].watch(watched)
    waits[1].watch(watched)
    waits[1].watch(endpoint.fileno())
    wait = compare(lambda: waits[0].rest(0.0), lambda: waits[1].rest(0.0), rounds=60, calls=500)
    os.close(watched)
    waiting, unpaced = wait.candidate - wait.baseline, look * bare / 8e-3
    benchmark.extra_info.update(look_us=look * 1e6, unpaced_us=unpaced * 1e6, waiting_us=waiting * 1e6)
    report(benchmark, lambda: looking(True), looks)
    print(f"idle socket: {unpaced * 1e9:.0f} ns a step without waits (a look: {look * 1e6:.2f} us), "
          f"{waiting * 1e9:.0f} ns within a wait")  # fmt: skip
    assert unpaced <= 0.2e-6
    assert waiting <= 0.2e-6
