"""Noise on the velocities that controllers are told, and on nothing else."""

import math

import mujoco
import numpy as np
import pytest

from tests.reference import velocity_noise as reference
from xbot2_fast.bridge.velocity_noise import VelocityNoise


def samples(noise, count, n):
    out = np.zeros((count, n))
    for row in out:
        noise.kernel.add(row)
    return out


def test_equals_the_reference_bit_for_bit():
    noise = VelocityNoise(["a", "b", "c"], seed=5)
    noise.set(["a"], 1.0)
    noise.set(["c"], 0.5)
    generator = reference.Generator(np.random.SeedSequence(5).generate_state(4, np.uint64))
    expected = np.zeros((20_000, 3))
    for row in expected:
        row[0] = 1.0 * generator.normal()
        row[2] = 0.5 * generator.normal()
    got = samples(noise, 20_000, 3)
    np.testing.assert_array_equal(got.view(np.int64), expected.view(np.int64))
    assert np.abs(got[:, 0]).max() > reference.TAIL  # the tail was reached too


@pytest.mark.requirement("S0-309", "S0-310")
def test_statistics_are_those_of_independent_normal_samples():
    noise = VelocityNoise(["hinge", "slide"], seed=1)
    noise.set(["hinge"], 0.05)
    noise.set(["slide"], 2.0)
    count = 400_000
    got = samples(noise, count, 2) / [0.05, 2.0]
    assert np.abs(got.mean(0)).max() < 5 / math.sqrt(count)
    assert np.abs(got.var(0) - 1).max() < 5 * math.sqrt(2 / count)
    assert np.abs((got**4).mean(0) - 3).max() < 5 * math.sqrt(96 / count)
    assert abs((got[:, 0] * got[:, 1]).mean()) < 5 / math.sqrt(count)
    assert np.abs((got[1:] * got[:-1]).mean(0)).max() < 5 / math.sqrt(count)
    levels = np.linspace(-4, 4, 33)
    expected = np.array([0.5 * math.erfc(-level / math.sqrt(2)) for level in levels])
    for column in got.T:
        share = np.searchsorted(np.sort(column), levels) / count
        assert np.abs(share - expected).max() < 2.5 / math.sqrt(count)  # Kolmogorov-Smirnov, p < 1e-5


def test_equal_seeds_give_equal_noise_and_others_do_not():
    def draw(seed):
        noise = VelocityNoise(["a"], seed)
        noise.set(["a"], 1)
        return samples(noise, 10, 1)

    np.testing.assert_array_equal(draw(3), draw(3))
    assert not (draw(3) == draw(4)).any()
    assert not (draw(None) == draw(None)).any()


@pytest.mark.requirement("S0-309", "S0-405", "S0-406")
def test_only_the_velocity_that_is_sent_is_noisy(make_sim, transport):
    noisy, plain = make_sim(seed=1), make_sim()
    noisy.bridge.set_velocity_noise(["shoulder", "wrist"], 0.3)
    with noisy.connect(protocol=transport) as a, plain.connect(protocol=transport) as b:
        for _ in range(50):
            noisy.step()
            plain.step()
            assert a.read(5)
            assert b.read(5)
            for field in ("q", "tau", "k", "d", "qref", "vref", "tauref"):
                np.testing.assert_array_equal(getattr(a.state.joints, field), getattr(b.state.joints, field))
            difference = np.array(a.state.joints.dq) - b.state.joints.dq
            assert (difference[[0, 2]] != 0).all()
            assert (difference[[1, 3]] == 0).all()
            a.send(*[[0.1] * 4] * 3, [50] * 4, [5] * 4)
            b.send(*[[0.1] * 4] * 3, [50] * 4, [5] * 4)
    for field in ("qpos", "qvel", "ctrl", "qfrc_actuator"):
        np.testing.assert_array_equal(getattr(noisy.data, field), getattr(plain.data, field))


@pytest.mark.requirement("S0-311")
def test_zero_ends_the_noise_of_the_joints_named(make_sim):
    sim = make_sim(seed=1)
    sim.bridge.set_velocity_noise(["shoulder", "wrist"], 0.3)
    sim.bridge.set_velocity_noise(["wrist"], 0)
    assert sim.bridge.noise.stddev == {"shoulder": 0.3}
    sim.step()
    dq = sim.bridge.server.state.joints.dq
    assert dq[0] != sim.data.qvel[6]
    np.testing.assert_array_equal(dq[1:], sim.data.qvel[7:])
    sim.bridge.restore()
    assert sim.bridge.noise.stddev == {}
    mujoco.mj_step(sim.model, sim.data)
    sim.bridge.send_state()
    np.testing.assert_array_equal(dq, sim.data.qvel[6:])


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "1", True])
def test_bad_values_are_refused_whole(bad):
    noise = VelocityNoise(["a", "b"])
    noise.set(["a"], 1)
    with pytest.raises(ValueError, match="stddev: expected a finite number >= 0"):
        noise.set(["a", "b"], bad)
    with pytest.raises(ValueError, match=r"joint_names: the bridge has no joints \['c'\]"):
        noise.set(["b", "c"], 2)
    assert noise.stddev == {"a": 1.0}


@pytest.mark.parametrize("bad", [-1, 1.5, "x", True])
def test_a_bad_seed_is_refused(bad):
    with pytest.raises(ValueError, match="seed: expected an integer >= 0 or None"):
        VelocityNoise(["a"], bad)
