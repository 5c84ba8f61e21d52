"""Pause, advance, speed and respawn: the state machine by itself, and in a simulator."""

import json
import logging
import math
import select
import socket
import threading
import time
from collections import deque

import mujoco
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from xbot2_fast._kernels._loop import EverySteps

from xbot2_fast import SimulatorWrapper
from xbot2_fast.remote_control import RemoteControlClient
from xbot2_fast.run_control import DefaultKeys, RunControl, whole_steps

TIMESTEP = 0.002
MODEL = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="base" pos="0 0 1"><freejoint/><geom size=".1" mass="1"/>
      <body><joint name="j" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02"/></body></body>
  </worldbody>
  <actuator><position name="j" joint="j" kp="50" kv="2"/></actuator>
</mujoco>
"""


class RunControlMachine(RuleBasedStateMachine):
    """Against a model that keeps what is to be done as a plain list of step counts."""

    def __init__(self):
        super().__init__()
        self.control = RunControl()
        self.paused = self.ended = False
        self.queue: deque[int] = deque()
        self.respawn = None

    @rule()
    def pause(self):
        self.control.pause()
        if not self.paused:
            self.respawn = None
        self.paused = True

    @rule()
    def resume(self):
        self.control.resume()
        self.paused = False
        self.queue.clear()

    @rule(steps=st.integers(1, 4))
    def advance(self, steps):
        self.control.advance(steps * TIMESTEP)
        if self.paused:
            self.queue.append(steps)

    @rule(request=st.integers(1, 3))
    def request_respawn(self, request):
        accepted = self.control.request_respawn(request)
        assert accepted == (not self.paused and not self.ended)
        if accepted:
            self.respawn = request

    @rule()
    def step(self):
        expected = not self.ended and (not self.paused or bool(self.queue))
        took = self.control.free.raised or self.control.next_step(TIMESTEP)
        assert took == expected
        if took and self.paused:
            self.queue[0] -= 1
            if not self.queue[0]:
                self.queue.popleft()
        if took:
            assert self.control.take_respawn() == self.respawn
            self.respawn = None

    @precondition(lambda self: self.queue)
    @rule()
    def step_until_held(self):
        steps = 0
        while not self.ended and self.control.next_step(TIMESTEP):
            steps += 1
        if not self.ended:
            assert steps == sum(self.queue)
            self.queue.clear()

    @rule()
    @precondition(lambda self: len(self.queue) == 3)  # seldom: the end ends all else
    def end(self):
        self.control.end()
        self.ended = True
        self.respawn = None

    @invariant()
    def reports_what_was_asked(self):
        assert self.control.paused == self.paused
        assert self.control.running != self.ended
        assert self.control.advancing == bool(self.queue)
        assert not (self.control.free.raised and (self.paused or self.ended))


RunControlMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestRunControl = pytest.mark.requirement("S0-048", "S0-064", "S0-065", "S0-066", "S0-067", "S0-068", "S0-075")(
    RunControlMachine.TestCase
)


@pytest.mark.requirement("S0-049")
@pytest.mark.parametrize(
    ("duration", "timestep", "steps"),
    [(0.1, 0.001, 100), (0.1, 0.003, 34), (1e-9, 0.01, 1), (0.1 * 3, 0.1, 3), (0.01666, 0.002, 9), (1 / 60, 0.002, 9)],
)
def test_an_advance_is_whole_steps(duration, timestep, steps):
    assert whole_steps(duration, timestep) == steps
    assert -1e-9 * timestep <= steps * timestep - duration < timestep


# ---- in a simulator


@pytest.fixture
def make_sim(tmp_path):
    made = []

    def make(**arguments) -> SimulatorWrapper:
        arguments = {"viewer": False, "target_rtf": math.inf, "socket_path": str(tmp_path / "sim.sock"), **arguments}
        made.append(SimulatorWrapper(mujoco.MjModel.from_xml_string(MODEL), **arguments))
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def steps_until_held(sim) -> int:
    steps = 0
    while sim.run():
        steps += 1
    return steps


@pytest.mark.requirement("S0-071", "S0-072", "S0-076")
def test_a_pause_holds_at_once_and_ends_at_a_resume(make_sim):
    sim = make_sim()
    assert sim.run()
    sim.set_paused()
    assert sim.paused
    assert [sim.run() for _ in range(3)] == [False] * 3
    assert sim.data.time == pytest.approx(TIMESTEP)
    sim.set_paused(False)
    assert not sim.paused
    assert sim.run()
    assert sim.data.time == pytest.approx(2 * TIMESTEP)


@pytest.mark.requirement("S0-070")
def test_paused_cannot_be_assigned(make_sim):
    with pytest.raises(AttributeError):
        make_sim().paused = True


@pytest.mark.requirement("S0-073", "S0-048", "S0-076")
def test_advances_queue_up_and_each_is_taken_in_full(make_sim):
    sim = make_sim()
    sim.set_paused()
    sim.advance()
    assert steps_until_held(sim) == 50
    sim.advance(0.003)
    sim.advance(duration_s=0.0041)
    assert steps_until_held(sim) == 2 + 3
    assert sim.paused


@pytest.mark.requirement("S0-074")
@pytest.mark.parametrize("bad", [0, -0.1, math.nan, math.inf, "soon", None, True, 10**400])
def test_an_advance_must_be_finite_and_positive(make_sim, bad):
    sim = make_sim()
    sim.set_paused()
    with pytest.raises(ValueError, match="duration_s: expected a finite positive number of seconds, got"):
        sim.advance(bad)
    assert not sim.run()


@pytest.mark.requirement("S0-075")
def test_an_advance_while_running_is_ignored(make_sim):
    sim = make_sim()
    sim.advance(1.0)
    sim.run()
    sim.set_paused()
    assert steps_until_held(sim) == 0


@pytest.mark.requirement("S0-067", "S0-068")
def test_a_resume_discards_what_is_left_of_advances(make_sim):
    sim = make_sim()
    sim.set_paused()
    sim.advance(0.1)
    sim.advance(0.1)
    assert sim.run()
    sim.set_paused(False)
    sim.set_paused()
    assert steps_until_held(sim) == 0


@pytest.mark.requirement("S0-041", "S0-042", "S0-043", "S0-044", "S0-045", "S0-062")
def test_an_advance_runs_every_stage_of_a_step_and_a_pause_none(make_sim):
    """Bridge, requests, clock and scans are stages; one of each place of the order stands for them here."""
    sim, ran = make_sim(), []
    sim._before(EverySteps(1), lambda: ran.append("before"))
    sim._after(EverySteps(1), lambda: ran.append("after"))
    sim.set_paused()
    for _ in range(3):
        sim.run()
    assert ran == []
    sim.advance(2 * TIMESTEP)
    steps_until_held(sim)
    assert ran == ["before", "after"] * 2


@pytest.mark.requirement("S0-042", "S0-062")
def test_commands_are_taken_and_states_sent_in_an_advance_only(make_sim, tmp_path):
    sim = make_sim(bridge_protocol="json")
    sim.run()
    sim.set_paused()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as controller:
        controller.bind(str(tmp_path / "controller.sock"))
        controller.settimeout(10)
        controller.connect(str(tmp_path / "sim.sock"))
        joint = {"q": [0.3], "dq": [0.0], "tau": [0.0], "k": [50.0], "d": [2.0]}
        controller.send(b'{"type":"discovery"}')
        while not select.select([controller], [], [], 0)[0]:
            assert not sim.run()
        assert json.loads(controller.recv(1 << 16))["type"] == "discovery"  # the one thing that a pause answers
        controller.send(json.dumps({"type": "control", "joint_command": joint}).encode())
        for _ in range(3):
            assert not sim.run()
        assert not select.select([controller], [], [], 0)[0]
        assert sim.data.ctrl[0] == 0
        sim.advance(2 * TIMESTEP)
        assert steps_until_held(sim) == 2
        states = [json.loads(controller.recv(1 << 16)) for _ in range(2)]
        assert [state["time"] for state in states] == pytest.approx([2 * TIMESTEP, 3 * TIMESTEP])
        assert sim.data.ctrl[0] == 0.3


@pytest.mark.requirement("S0-043", "S0-062")
def test_a_request_waits_for_an_advance_unless_it_needs_no_step(make_sim):
    sim, answers = make_sim(remote_control_endpoint="tcp://127.0.0.1:*"), []
    sim.run()
    sim.set_paused()

    def ask():
        with RemoteControlClient(sim.remote_control.endpoint) as client:
            answers.append(client.call("status")["paused"])
            answers.append(client.call("add_payload", body="base", mass=1.0, position=[0, 0, 0]))

    thread = threading.Thread(target=ask)
    thread.start()
    while not answers:
        assert not sim.run()
    for _ in range(20):
        assert not sim.run()
    assert answers == [True]
    sim.advance(TIMESTEP)
    while len(answers) < 2:
        sim.run()
    thread.join()
    assert sim._loop.steps == 2


@pytest.mark.requirement("S0-047")
def test_an_advance_goes_on_with_the_decimations(make_sim):
    sim, at = make_sim(), []
    sim._after(EverySteps(5), lambda: at.append(round(sim.data.time / TIMESTEP)))
    for _ in range(7):
        sim.run()
    sim.set_paused()
    for _ in range(3):
        sim.advance(2 * TIMESTEP)
        steps_until_held(sim)
    sim.set_paused(False)
    for _ in range(8):
        sim.run()
    assert at == [5, 10, 15, 20]


@pytest.mark.requirement("S0-046", "S0-059")
def test_an_advance_is_paced_at_the_target_set_while_paused(make_sim):
    sim = make_sim(target_rtf=100.0)
    sim.run()
    sim.set_paused()
    sim.set_target_rtf(0.5)
    sim.run()
    sim.advance(0.1)
    start = time.monotonic()
    assert steps_until_held(sim) == 50
    assert time.monotonic() - start >= 0.199


@pytest.mark.requirement("S0-058", "S0-059")
def test_a_target_set_while_paused_counts_after_the_resume(make_sim):
    sim = make_sim(target_rtf=100.0)
    sim.set_paused()
    sim.set_target_rtf(0.5)
    sim.run()
    sim.set_paused(False)
    start = time.monotonic()
    for _ in range(25):
        sim.run()
    assert time.monotonic() - start >= 0.099
    assert sim.target_rtf == 0.5


@pytest.mark.requirement("S0-069")
def test_a_pause_is_neither_caught_up_nor_counted(make_sim):
    sim = make_sim(target_rtf=1.0)
    for _ in range(5):
        sim.run()
    sim.set_paused()
    resume = threading.Timer(1.0, sim.set_paused, [False])
    resume.start()
    start = time.monotonic()  # before the schedule begins anew: a late first step would shorten the others
    while not sim.run():
        start = time.monotonic()
    for _ in range(49):
        sim.run()
    assert time.monotonic() - start >= 0.099
    assert sim._pacing.lost == 0.0
    assert sim._pacing.take_report(sim.data.time).rtf > 0.2  # 0.1 s behind the resume; below 0.1 with the pause in it


@pytest.mark.requirement("S0-083", "S0-082")
def test_a_step_in_progress_is_finished(make_sim):
    sim = make_sim()
    sim._before(EverySteps(1), sim.set_paused)
    assert sim.run()
    assert sim.data.time == pytest.approx(TIMESTEP)
    assert not sim.run()
    assert sim.data.time == pytest.approx(TIMESTEP)


@pytest.mark.requirement("S0-082")
def test_a_change_of_speed_is_carried_out_by_the_simulation_thread(make_sim):
    sim = make_sim(target_rtf=7.0)
    thread = threading.Thread(target=sim.set_target_rtf, args=[8.0])
    thread.start()
    thread.join()
    assert sim.target_rtf == 8.0  # so that two quick presses of + count twice
    assert sim._pacing.target_rtf == 7.0
    sim.run()
    assert sim._pacing.target_rtf == 8.0


@pytest.mark.requirement("S0-060", "S0-081")
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "1x"])
def test_set_target_rtf_takes_finite_positive_values(make_sim, bad):
    sim = make_sim(target_rtf=1.0)
    with pytest.raises(ValueError, match="target_rtf: expected a finite positive number, got"):
        sim.set_target_rtf(bad)
    assert sim.target_rtf == 1.0


def test_pausing_from_another_thread_wakes_no_step_and_resuming_goes_on(make_sim):
    sim = make_sim(target_rtf=1.0)
    done = threading.Event()

    def other():
        for _ in range(20):
            sim.set_paused()
            sim.advance(TIMESTEP)
            sim.set_paused(False)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    while not done.is_set():
        sim.run()
    thread.join()
    assert sim.run()


def test_a_pause_wakes_for_requests_and_uses_little_of_a_core(make_sim):
    sim, served = make_sim(), []
    sim.set_paused()
    sim.run()
    sim._requests.file(lambda: served.append(True))
    sim.run()
    assert served == [True]
    before, start = time.thread_time(), time.monotonic()
    while time.monotonic() - start < 0.5:
        assert not sim.run()
    assert time.thread_time() - before < 0.02 * 0.5


def test_run_is_over_after_close_also_when_paused(make_sim):
    sim = make_sim()
    sim.set_paused()
    sim.advance(1.0)
    sim.close()
    assert not sim.run()
    assert not sim.running
    sim.set_paused(False)
    assert not sim.run()


# ---- respawn


@pytest.mark.requirement("S0-063", "S0-064", "S0-065", "S0-066")
def test_respawn_counts_only_while_running(make_sim):
    sim = make_sim()
    for _ in range(100):
        sim.run()
    fallen = sim.data.qpos[2]
    assert sim.respawn()
    sim.set_paused()  # discards it
    assert not sim.respawn()
    sim.advance(TIMESTEP)
    sim.run()
    assert not sim.respawn()
    sim.set_paused(False)
    sim.run()
    assert sim.data.qpos[2] < fallen
    before = sim.data.time
    assert sim.respawn()
    sim.run()
    assert sim.data.qpos[2] > 0.99
    assert sim.data.time == pytest.approx(before + TIMESTEP)


# ---- keys


@pytest.mark.requirement("S0-039", "S0-040", "S0-048")
def test_space_pauses_and_right_advances_a_sixtieth_of_a_second(make_sim):
    sim = make_sim()
    keys = DefaultKeys(sim)
    keys(ord(" "))
    assert sim.paused
    keys(262)
    keys(262)
    assert steps_until_held(sim) == 2 * 9
    keys(ord(" "))
    assert not sim.paused


@pytest.mark.requirement("S0-050", "S0-051", "S0-052", "S0-053", "S0-054", "S0-055", "S0-056", "S0-058")
@pytest.mark.parametrize("paused", [False, True])
def test_plus_and_minus_change_the_speed_by_a_tenth_and_say_so(make_sim, caplog, paused):
    sim = make_sim(target_rtf=1.0)
    sim.set_paused(paused)
    keys = DefaultKeys(sim)
    with caplog.at_level(logging.INFO, "xbot2_fast.rtf"):
        for key in (ord("+"), ord("="), 334):
            keys(key)
        assert sim.target_rtf == 1.3
        for key in (ord("-"), 333) * 8:
            keys(key)
    assert sim.target_rtf == 0.1
    assert [record.getMessage() for record in caplog.records][:4] == [
        "target RTF: 1.1", "target RTF: 1.2", "target RTF: 1.3", "target RTF: 1.2",
    ]  # fmt: skip
    assert len(caplog.records) == 19
    sim.run()
    assert sim._pacing.target_rtf == 0.1


def test_without_a_limit_the_speed_keys_say_that_they_do_nothing(make_sim, caplog):
    sim = make_sim(target_rtf=math.inf)
    with caplog.at_level(logging.INFO, "xbot2_fast.rtf"):
        DefaultKeys(sim)(ord("+"))
    assert sim.target_rtf == math.inf
    assert "max" in caplog.text


@pytest.mark.requirement("S0-063")
@pytest.mark.parametrize("key", ["r", "R"])
def test_r_respawns(make_sim, key):
    sim = make_sim()
    for _ in range(100):
        sim.run()
    DefaultKeys(sim)(ord(key))
    sim.run()
    assert sim.data.qpos[2] > 0.99


@pytest.mark.requirement("S0-079", "S0-080", "S0-081")
def test_the_callback_of_the_manual_works_as_written(make_sim):
    sim = make_sim(target_rtf=1.0)

    def on_key(key):
        if key == ord(" "):
            sim.set_paused(not sim.paused)
        elif key == 262:  # GLFW_KEY_RIGHT
            sim.advance(duration_s=0.01666)
        elif key in (ord("+"), ord("="), 334):
            sim.set_target_rtf(round(sim.target_rtf + 0.1, 10))
        elif key in (ord("-"), 333):
            sim.set_target_rtf(max(0.1, round(sim.target_rtf - 0.1, 10)))

    on_key(ord(" "))
    on_key(262)
    assert steps_until_held(sim) == 9
    on_key(334)
    assert sim.target_rtf == 1.1
    for _ in range(20):
        on_key(333)
    assert sim.target_rtf == 0.1
    on_key(ord(" "))
    assert sim.run()
