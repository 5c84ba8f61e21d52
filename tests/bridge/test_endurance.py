"""Hostile input and long runs."""

import gc
import json
import logging
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time

import mujoco
import numpy as np
import pytest

from tests.bridge.conftest import ROBOT, Peer, control
from tests.bridge.test_connection_life import Loop
from tests.bridge.test_server import MALFORMED

FUZZ = [pytest.param(2_000, id="short"), pytest.param(100_000, id="long", marks=pytest.mark.fuzz)]


def _mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        match rng.randrange(4):
            case 0 if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
            case 1:
                data.insert(rng.randrange(len(data) + 1), rng.randrange(256))
            case 2 if data:
                del data[rng.randrange(len(data)) :]
            case _:
                at = rng.randrange(len(data) + 1)
                data[at:at] = data[: rng.randrange(20)]
    return bytes(data)


def _sound(data, n):
    """Whether a datagram is a command that may count, by the plainest reading of the wire format."""
    try:
        command = json.loads(data.decode(), parse_constant=lambda _: 1 / 0)["joint_command"]
        return all(len(command[key]) == n for key in ("q", "dq", "tau", "k", "d"))
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, RecursionError):
        return False


@pytest.mark.parametrize("count", FUZZ)
def test_random_and_mutated_datagrams_change_nothing(make_sim, tmp_path, caplog, count):
    sim = make_sim(ROBOT)
    loop = Loop(sim.model, sim.data, sim.bridge)
    rng = random.Random(1)
    seeds = [json.dumps(control(4)).encode(), b'{"type":"discovery"}', *MALFORMED.values()]
    gains, controls = sim.model.actuator_gainprm.copy(), sim.data.ctrl.copy()
    started = time.monotonic()
    with Peer(tmp_path / "p") as peer:
        for i in range(count):
            data = rng.randbytes(rng.randrange(200)) if i % 2 else _mutate(rng, rng.choice(seeds))
            if _sound(data, 4):
                continue
            peer.send(sim.bridge.server, data)
            sim.bridge.receive_stage.eager = True  # looked at in each step, not every 8 ms
            loop.step()
            if i % 50 == 0:
                peer.socket.setblocking(False)
                try:
                    while True:
                        peer.socket.recv(1 << 20)
                except BlockingIOError:
                    peer.socket.settimeout(5)
    assert sim.bridge.server.port.states >= count * 0.9
    np.testing.assert_array_equal(sim.model.actuator_gainprm, gains)
    np.testing.assert_array_equal(sim.data.ctrl, controls)
    seconds = time.monotonic() - started + 1
    kinds = [record.msg.split("(and")[0] + str(record.args) for record in caplog.records]
    assert max((kinds.count(kind) for kind in set(kinds)), default=0) <= seconds + 1
    assert len(set(kinds)) < 30


@pytest.mark.parametrize("count", FUZZ)
def test_random_bytes_in_the_segment_change_nothing(make_sim, count):
    sim = make_sim(ROBOT)
    loop = Loop(sim.model, sim.data, sim.bridge)
    rng = random.Random(2)
    gains, controls = sim.model.actuator_gainprm.copy(), sim.data.ctrl.copy()
    with sim.connect(protocol="shm") as client:
        memory = sim.bridge.server.segment.memory
        for i in range(count):
            at = rng.randrange(len(memory))
            noise = rng.randbytes(rng.randrange(1, 65))[: len(memory) - at]
            memory[at : at + len(noise)] = noise
            if i % 7 == 0:  # a sequence that asks to be looked at, under a session that is not ours
                struct.pack_into("<Q", memory, 56, rng.randrange(1 << 20) * 2)
                struct.pack_into("<Q", memory, 8 * 8, rng.randrange(1 << 64))
            loop.step()
        np.testing.assert_array_equal(sim.model.actuator_gainprm, gains)
        np.testing.assert_array_equal(sim.data.ctrl, controls)
        assert sim.bridge.server.port.states == count
    with sim.connect(protocol="shm", client_path=sim.path + ".again") as client:  # discovery heals the header
        client.send(*[[0.1] * 4] * 3, [30] * 4, [3] * 4)
        loop.step()
        assert client.read(1)
        assert client.state.joints.k[2] == 30


CONTROLLER = """
import sys, time
from xbot2_fast.bridge import BridgeClient
with BridgeClient(sys.argv[1], protocol=sys.argv[2], timeout=60) as client:
    print("on", flush=True)
    while True:
        if client.read(10):
            n = len(client.joint_names)
            client.send(*[[0.0] * n] * 3, [30.0] * n, [3.0] * n)
"""


def _resources():
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    segments = sum(
        name.startswith("xbot2-pybridge-test-") and f"-{os.getpid()}-" in name for name in os.listdir("/dev/shm")
    )
    return descriptors, segments


def _soak(sim, folder, seconds, lives):
    """Step for this simulation time, while controllers are killed and restarted."""
    loop = Loop(sim.model, sim.data, sim.bridge)
    controllers = 0
    next_change, process = 0.0, None
    while sim.data.time < seconds:
        if sim.data.time >= next_change:
            if process is not None:
                process.send_signal(random.choice([signal.SIGKILL, signal.SIGTERM]))
                process.wait()
                process.stdout.close()
            process = subprocess.Popen(
                [sys.executable, "-c", CONTROLLER, sim.path, random.choice(["shm", "json"])], stdout=subprocess.PIPE
            )
            os.set_blocking(process.stdout.fileno(), False)
            while not process.stdout.read():
                assert process.poll() is None, "the controller died by itself"
                sim.bridge.on_pause()
                time.sleep(0.001)
            controllers += 1
            next_change += seconds / lives
        loop.step()
    process.kill()
    process.wait()
    process.stdout.close()
    return controllers


@pytest.mark.parametrize(
    ("seconds", "lives"),
    [pytest.param(6.0, 4, id="short"), pytest.param(600.0, 150, id="long", marks=pytest.mark.soak)],
)
def test_controllers_come_and_go_without_a_trace(make_sim, tmp_path, seconds, lives):
    logging.getLogger("xbot2_fast").setLevel(logging.ERROR)
    sim = make_sim(ROBOT.replace('<freejoint name="root"/>', ""))
    random.seed(0)
    try:
        _soak(sim, tmp_path, seconds / 10, 2)
        before, memory = _resources(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mujoco.mj_resetData(sim.model, sim.data)
        assert _soak(sim, tmp_path, seconds, lives) >= lives
    finally:
        logging.getLogger("xbot2_fast").setLevel(logging.NOTSET)
    sim.step()
    assert _resources() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8_000  # kB
    assert len(sim.bridge.server.clients) <= 2
    assert np.isfinite(sim.data.qpos).all()
