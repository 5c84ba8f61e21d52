"""A whole step against a bare mj_step: nobody connected, a command every step over shared memory, and over JSON.

Both sides step the same model from the same state with the same controls, so the physics costs the same, and the answer
is checked to the last bit: a simulation that went another way has no speed to report.
"""

import gc
import math
import threading
from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from benchmarks.interleave import compare, report
from benchmarks.robots import humanoid_29, quadruped
from xbot2_fast import SimulatorWrapper
from xbot2_fast.bridge.client import BridgeClient

ALONE = 1.03  # ratio to a bare mj_step
SHARED_MEMORY = 1.05
JSON_29 = 2.5
MARGIN = 0.03
STEPS = 200  # between two looks at the clock where nothing happens in between


@pytest.fixture(params=["quadruped_12", "humanoid_29"])
def robot(request, tmp_path):
    """Model and initial configuration."""
    return quadruped(tmp_path / "model") if request.param == "quadruped_12" else (humanoid_29(), {})


class Pair:
    """The simulator, and a bare mjData that starts where the simulator is after its first second."""

    def __init__(self, model, q_init, path, protocol="auto"):
        self.model = model
        self.sim = SimulatorWrapper(
            model, q_init=q_init, viewer=False, target_rtf=math.inf, socket_path=str(path), bridge_protocol=protocol
        )
        self.bare = mujoco.MjData(model)
        self.path = str(path)

    def settle(self) -> None:
        for _ in range(1000):
            self.sim.run()
        mujoco.mj_copyData(self.bare, self.model, self.sim.data)

    def connect(self, **options) -> BridgeClient:
        """A client of this simulator, which runs meanwhile."""
        clients: list[BridgeClient] = []
        thread = threading.Thread(target=lambda: clients.append(BridgeClient(self.path, **options)))
        thread.start()
        while thread.is_alive():
            self.sim.run()
        thread.join()
        return clients[0]

    def check(self) -> None:
        assert self.bare.time == pytest.approx(self.sim.data.time)
        assert np.array_equal(self.bare.qpos, self.sim.data.qpos), "not the same simulation: no speed is reported"


@pytest.fixture
def pair(robot, tmp_path):
    gc.disable()
    pairs = Pair(*robot, tmp_path / "sim.sock")
    yield pairs
    pairs.sim.close()
    gc.enable()


def _bare_steps(pair: Pair, steps: int) -> Callable[[], None]:
    model, data, mj_step = pair.model, pair.bare, mujoco.mj_step

    def call():
        for _ in range(steps):
            mj_step(model, data)

    return call


def _runs(pair: Pair, steps: int) -> Callable[[], None]:
    run = pair.sim.run

    def call():
        for _ in range(steps):
            run()

    return call


def test_nobody_connected(benchmark, pair):
    pair.settle()
    ours = _runs(pair, STEPS)
    comparison = compare(_bare_steps(pair, STEPS), ours, rounds=200)
    pair.check()
    report(benchmark, ours, comparison)
    assert comparison.ratio <= ALONE + MARGIN


def _command_every_step(pair: Pair, client: BridgeClient):
    """Ratio of a step with a fresh command to a bare step; commands are written between the timed calls."""
    assert client.read(timeout=0.0)
    n = len(client.joint_names)
    state = client.state.joints
    home = np.array(state.q)
    k, d = np.array(state.k), np.array(state.d)
    zero = np.zeros(n)
    client.send(home, zero, zero, k, d)
    pair.settle()

    def send():
        client.read(timeout=0.0)  # a controller that does not read would be spared the cost of states
        client.send(home, zero, zero, k, d)

    comparison = compare(_bare_steps(pair, 1), _runs(pair, 1), rounds=6000, between=send)
    pair.check()
    assert client.read(timeout=0.0)
    assert np.allclose(client.state.joints.qref, home), "the commands did not arrive: no speed is reported"
    return comparison


def test_shared_memory_command_every_step(benchmark, pair):
    with pair.connect() as client:
        assert client.transport == "shm"
        comparison = _command_every_step(pair, client)
        report(benchmark, _runs(pair, STEPS), comparison)
    assert comparison.ratio <= SHARED_MEMORY + MARGIN


def test_json_command_every_step_29_joints(benchmark, tmp_path):
    pair = Pair(humanoid_29(), {}, tmp_path / "sim.sock", "json")
    try:
        with pair.connect(protocol="json") as client:
            for _ in range(5):
                pair.sim.run()
            comparison = _command_every_step(pair, client)
            report(benchmark, _runs(pair, STEPS), comparison)
    finally:
        pair.sim.close()
    assert comparison.ratio <= 2 * JSON_29
