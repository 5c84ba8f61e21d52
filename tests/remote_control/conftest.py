"""Simulations under remote control."""

import math
import threading

import mujoco
import pytest

from tests.remote_control import robots
from xbot2_fast.remote_control import RemoteControl, RemoteControlClient
from xbot2_fast.simulator_wrapper import SimulatorWrapper


@pytest.fixture
def model():
    return robots.model()


@pytest.fixture
def data(model):
    return mujoco.MjData(model)


@pytest.fixture
def control(model, data):
    """The commands without a socket."""
    control = RemoteControl(model, data)
    yield control
    control.close()


class Running:
    """A simulator that runs in a thread of its own, and a client of its remote control."""

    def __init__(self, model, socket_path, **arguments):
        arguments = {"target_rtf": math.inf, "remote_control_endpoint": "tcp://127.0.0.1:*", **arguments}
        self.sim = SimulatorWrapper(model, viewer=False, socket_path=str(socket_path), **arguments)
        self.endpoint = self.sim.remote_control.endpoint
        self.client = RemoteControlClient(self.endpoint, timeout=20)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while self.sim.running and not self._end.is_set():
            self.sim.run()

    def stop(self):
        self._end.set()
        self.sim.set_target_rtf(1e6)  # it may be waiting for a step that a test made slow
        self._thread.join()
        self.client.close()
        self.sim.close()


@pytest.fixture
def running(model, tmp_path):
    """Makes running simulators; they are stopped at the end."""
    made = []

    def make(**arguments) -> Running:
        made.append(Running(arguments.pop("model", model), tmp_path / "sim.sock", **arguments))
        return made[-1]

    yield make
    for simulator in made:
        simulator.stop()
