"""The bridge's stages: when the socket is looked at, and what a step does with its command, against the plain parts."""

import copy
import math
import time

import mujoco
import numpy as np
import pytest
from xbot2_fast._kernels._bridge import ApplyStage, ReceiveStage, SendStage
from xbot2_fast._kernels._chain import BodyChain
from xbot2_fast._kernels._imu import Imus
from xbot2_fast._kernels._loop import StepLoop
from xbot2_fast._kernels._port import Port

from tests.reference import actuation as reference
from tests.reference import velocity_noise
from tests.reference.bridge_stages import Apply
from xbot2_fast import actuation
from xbot2_fast.bridge.layout import state_words
from xbot2_fast.bridge.mujoco_bridge import LOSS_POLICIES
from xbot2_fast.bridge.velocity_noise import VelocityNoise
from xbot2_fast.command_delay import CommandDelay

TIMEOUT = 0.05  # s
POLL = 0.008  # s of wall time between two looks at a quiet socket


class Bound:
    """Port and actuation of a random model without any socket."""

    def __init__(self, rng):
        self.model = reference.random_model(rng)
        self.data = mujoco.MjData(self.model)
        reference.random_state(rng, self.data)
        self.joints = actuation.scalar_joints(self.model)
        self.n = len(self.joints)
        self.numbers, self.command = np.zeros(state_words(self.n, 0)), np.zeros(5 * self.n)
        self.port = Port(self.numbers, self.command, np.zeros(5 * self.n), self.n, 0.1)
        self.drives = actuation.bind(self.model, self.data, self.joints)


@pytest.mark.parametrize("policy", LOSS_POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_apply_equals_the_reference_bit_for_bit(policy, seed):
    rng = np.random.default_rng(seed)
    bound = Bound(rng)
    twin, other = copy.copy(bound.model), copy.copy(bound.data)
    delay = CommandDelay(5 * bound.n, bound.model.opt.timestep)
    stage = ApplyStage(bound.port, bound.drives, delay.ring, LOSS_POLICIES.index(policy), TIMEOUT)
    plain = Apply(twin, other, bound.joints, policy, int(TIMEOUT * 1e9))
    now, sim_time, quiet = 10**9, 0.0, 0
    for _ in range(400):
        now += int(rng.integers(0, 10**7))
        sim_time += bound.model.opt.timestep
        command = None
        quiet = max(quiet - 1, 0)
        if not quiet and rng.random() < 0.05:
            quiet = 20  # steps without a command: a loss
        if not quiet and rng.random() < 0.7:
            command = reference.random_state(rng, bound.data)
            bound.command[:] = command.ravel()
            bound.port.deliver(0, now)
        else:
            reference.random_state(rng, bound.data)
        if rng.random() < 0.05:
            delay.set_delay(rng.choice([0.0, 0.002, 0.02, 0.04]))
            plain.delay.delay = delay.delay
        if rng.random() < 0.02:
            stage.restart_silence()
            plain.restart_silence()
        for name in ("qpos", "qvel", "ctrl", "act"):
            getattr(other, name)[:] = getattr(bound.data, name)
        assert stage.now(sim_time, now) == plain.step(command, sim_time, now)
        assert (stage.lost, stage.losses) == (plain.lost, plain.losses)
        assert delay.waiting == len(plain.delay.waiting)
        assert delay.ring.superseded == plain.delay.superseded
        assert not bound.port.fresh
        for got, expected in (
            (bound.data.ctrl, other.ctrl),
            (bound.model.actuator_gainprm, twin.actuator_gainprm),
            (bound.model.actuator_biasprm, twin.actuator_biasprm),
        ):
            np.testing.assert_array_equal(got.view(np.int64), expected.view(np.int64))
    assert plain.losses > 2


@pytest.mark.parametrize("every", [1, 3])
def test_send_publishes_what_the_parts_give_in_every_nth_step(every):
    rng = np.random.default_rng(every)
    bound = Bound(rng)
    noise = VelocityNoise([f"j{i}" for i in range(bound.n)], seed=1)
    noise.set([f"j{i}" for i in range(0, bound.n, 2)], 0.1)
    generator = velocity_noise.Generator(np.random.SeedSequence(1).generate_state(4, np.uint64))
    none = np.zeros(0, dtype=np.int32)
    imus = Imus(bound.model, bound.data, none, none, none, BodyChain(bound.model, bound.data, []))
    stage = SendStage(bound.port, bound.drives, imus, noise.kernel, every)
    loop = StepLoop(bound.model, bound.data)
    loop.after(stage, 0)
    expected, published = np.zeros_like(bound.numbers), 0
    for step in range(1, 31):
        bound.model.actuator_gainprm[:, 0] = rng.uniform(1, 2, bound.model.nu)
        loop.step()
        assert not loop.post_step()
        if step % every == 0:
            published += 1
            state = reference.gather(bound.model, bound.data, bound.joints, np.zeros((5, bound.n)), False)
            for j in range(0, bound.n, 2):
                state[1, j] += 0.1 * generator.normal()
            expected = np.concatenate([[bound.data.time], state.ravel()])
        np.testing.assert_array_equal(bound.numbers.view(np.int64), expected.view(np.int64))
        assert bound.port.states == published
    stage.attend = True
    bound.model.actuator_gainprm[:, 0] = math.nan
    stage.now(1.0)
    assert not stage.finite
    bound.model.actuator_gainprm[:, 0] = 1.0
    stage.now(1.0)
    assert stage.finite
    stage.close()
    for _ in range(every):
        assert not loop.post_step()
    assert bound.port.states == published + 2


@pytest.fixture
def looking(tmp_path):
    """A loop with nothing but a receive stage on a socket, the stage, and a way to send to it."""
    import socket

    bound = Bound(np.random.default_rng(0))
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer,
    ):
        ours.bind(str(tmp_path / "s"))
        loop = StepLoop(bound.model, bound.data)
        stage = ReceiveStage(bound.port, ours.fileno())
        loop.before(stage, 0)
        yield loop, stage, lambda data: peer.sendto(data, str(tmp_path / "s")), ours


def test_the_socket_is_looked_at_on_a_schedule_of_wall_time(looking):
    loop, stage, send, _ = looking
    assert loop.pre_step() == 0  # the first look
    send(b"x")
    assert [loop.pre_step() for _ in range(1000)] == [0] * 1000  # the clock stands still between steps
    time.sleep(POLL + 0.002)
    loop.post_step()  # reads the clock
    assert loop.pre_step() == 1
    assert loop.pre_step() == 0


def test_an_eager_stage_looks_in_each_step_and_leaves_the_datagram_there(looking):
    loop, stage, send, ours = looking
    stage.eager = True
    assert loop.pre_step() == 0
    send(b"")  # an empty datagram waits too
    assert loop.pre_step() == 1
    loop.pre_step()
    assert ours.recv(10) == b""
    assert loop.pre_step() == 0
    send(b"x")
    stage.close()
    assert loop.pre_step() == 0
