"""Commands in any order, with steps between: what is refused changes nothing, and restore brings back the start."""

import math

import mujoco
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.remote_control import robots
from xbot2_fast.remote_control import CommandError
from xbot2_fast.simulator_wrapper import SimulatorWrapper

# Enough that can be refused, and not so much that most is.
BODIES = ["base_link", "left_thigh", "left_foot", "right_foot", "ball_link", "left_toe", "right_toe"] * 4
BODIES += ["crate", "world", "nobody"]
JOINTS = ["left_knee", "right_knee", "left_ankle_pitch", "right_ankle_pitch", "left_toe_slide"] * 4
JOINTS += ["right_toe_slide", "neck", "no_joint"]
STATE = mujoco.mjtState.mjSTATE_INTEGRATION


def between(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_subnormal=False)


def vectors(limit: float) -> st.SearchStrategy[list[float]]:
    return st.lists(between(-limit, limit), min_size=3, max_size=3)


def command(name: str, optional: dict | None = None, **fields: st.SearchStrategy) -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries({"command": st.just(name), **fields}, optional=optional or {})


some_bodies = st.lists(st.sampled_from(BODIES), min_size=1, max_size=3)
some_joints = st.lists(st.sampled_from(JOINTS), min_size=1, max_size=2)
durations = st.sampled_from([0.001, 0.004, 0.0041, 0.1, 1e6, 0])
frames = st.sampled_from(["world", "body"])
wrench = {"force": vectors(30), "torque": vectors(3), "duration": durations, "frame": frames}

COMMANDS = st.one_of(
    command(
        "set_contact_parameters",
        bodies=some_bodies,
        parameters=st.fixed_dictionaries(
            {},
            optional={
                "friction": st.lists(between(0, 1), min_size=3, max_size=3),
                "margin": between(0, 0.02),
                "gap": between(0, 0.01),
                "condim": st.sampled_from([1, 2, 3, 4, 6]),
                "priority": st.integers(-2, 2),
            },
        ),
    ),
    command(
        "set_body_properties",
        bodies=some_bodies,
        properties=st.fixed_dictionaries({}, optional={"mass": st.just(0) | between(0.1, 20), "com": vectors(0.1)}),
    ),
    command("add_payload", body=st.sampled_from(BODIES), mass=between(0, 10), position=vectors(0.3)),
    command("set_joint_torque_limits", joints=some_joints, limit=between(0, 80)),
    command("set_actuator_delay", delay=between(0, 0.02)),
    command("set_velocity_noise", joints=some_joints, stddev=between(0, 0.1)),
    command("set_gravity", gravity=vectors(10)),
    command("apply_wrench", body=st.sampled_from(BODIES), **wrench),
    command(
        "apply_wrenches",
        wrenches=st.lists(
            st.fixed_dictionaries(
                {"body": st.sampled_from(BODIES), **wrench},
                optional={"point": vectors(0.2), "ramp_up_duration": durations, "ramp_down_duration": durations},
            ),
            min_size=1,
            max_size=3,
        ),
    ),
    command("cancel_wrench", wrench=st.integers(0, 20)),
    command("push", bodies=some_bodies, linear=vectors(1), angular=vectors(0.1), frame=frames),
    command("fault", kind=st.sampled_from(["lock", "drop"]), joints=some_joints, duration=durations),
    command("fault", kind=st.just("weak"), scale=between(0, 1), joints=some_joints, duration=durations),
    command("fault", kind=st.just("sensor"), sensors=st.just(["imu_gyro", "imu_acc"]), duration=durations),
    command("set_state", joints=st.dictionaries(st.sampled_from(JOINTS), between(-0.05, 0.05), max_size=2)),
    command("respawn", {"position": vectors(1)}),
    command("restore"),
)
REQUESTS = COMMANDS | command("batch", requests=st.lists(COMMANDS, min_size=1, max_size=4))
SEQUENCES = st.lists(st.tuples(REQUESTS, st.integers(0, 8)), min_size=10, max_size=30)


def everything(sim: SimulatorWrapper) -> bytes:
    """Model, state and what remote control writes besides, to the bit."""
    state = np.zeros(mujoco.mj_stateSize(sim.model, STATE))
    mujoco.mj_getState(sim.model, sim.data, state, STATE)
    parts = [state, sim.data.sensordata, sim.data.qfrc_applied, sim.data.xpos]
    return robots.bytes_of(sim.model) + b"".join(part.tobytes() for part in parts)


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    with SimulatorWrapper(
        robots.model(), viewer=False, target_rtf=math.inf, socket_path=str(folder / "sim.sock"),
        remote_control_endpoint=f"ipc://{folder}/remote",
    ) as sim:  # fmt: skip
        yield sim


def carry_out(sim: SimulatorWrapper, sequence: list[tuple[dict, int]]) -> None:
    handle, start = sim.remote_control.handle_request, robots.bytes_of(sim.model)
    for request, steps in sequence:
        before = everything(sim)
        try:
            handle(request)
        except CommandError:
            assert everything(sim) == before, request
        for _ in range(steps):
            sim.run()
    handle({"command": "restore"})
    assert robots.bytes_of(sim.model) == start
    assert not sim.data.xfrc_applied.any()
    status = handle({"command": "status"})
    assert (status["wrenches"], status["payloads"], status["faults"]) == (0, {}, [])
    handle({"command": "respawn"})
    sim.run()


@given(sequence=SEQUENCES)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_sequence_of_commands(sim, sequence):
    carry_out(sim, sequence)


@pytest.mark.fuzz
@given(sequence=SEQUENCES)
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_sequences_of_commands(sim, sequence):
    carry_out(sim, sequence)
