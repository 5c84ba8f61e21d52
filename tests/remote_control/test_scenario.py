"""Scenarios: requests that the simulation carries out at their times."""

import math

import pytest

from xbot2_fast.remote_control import CommandError
from xbot2_fast.simulator_wrapper import SimulatorWrapper

SCENARIO = """
- {at: 0.02, command: push, body: base_link, linear: [0, 0, 1]}
- at: 0.01
  command: set_gravity
  gravity: [0, 0, -1.6]
- {at: 0.01, command: add_payload, body: left_foot, mass: 2, position: [0, 0, 0]}
- {at: 0.03, command: apply_wrench, body: base_link, force: [0, 0, 7], torque: [0, 0, 0], duration: 1}
- {at: 0.034, command: cancel_wrench, wrench: 2}
- {at: 0.04, command: restore}
"""


@pytest.fixture
def simulate(model, tmp_path):
    made = []

    def make(text):
        path = tmp_path / "scenario.yaml"
        path.write_text(text)
        made.append(
            SimulatorWrapper(model, viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "s"), scenario=path)
        )
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def test_each_request_acts_in_the_first_step_at_its_time(simulate):
    sim = simulate(SCENARIO)
    assert sim.remote_control is None
    seen = []
    for _ in range(25):
        sim.run()
        gravity, force = sim.model.opt.gravity[2], sim.data.xfrc_applied[1, 2]
        seen.append((gravity, force, float(sim.model.body("left_foot").mass[0])))
    mass = seen[0][2]
    assert [s[0] for s in seen] == [-9.81] * 5 + [-1.6] * 15 + [-9.81] * 5
    assert [s[1] for s in seen] == [0] * 10 + [500] + [0] * 4 + [7] * 2 + [0] * 8
    assert [s[2] for s in seen] == [mass] * 5 + [mass + 2] * 15 + [mass] * 5


def test_what_is_refused_at_its_time_is_logged_and_the_scenario_goes_on(model, data, control, tmp_path, caplog):
    from xbot2_fast.remote_control.scenario import Scenario

    wrench = control.handle({"command": "push", "body": "crate", "linear": [1, 0, 0]})["id"]
    path = tmp_path / "s.yaml"
    path.write_text(f"- {{at: 0.5, command: cancel_wrench, wrench: {wrench}}}\n- {{at: 0.6, command: restore}}")
    scenario = Scenario(path, control.table, lambda: data.time, 0.002)
    assert scenario.stage.when == pytest.approx(0.5)
    control.wrenches.clear()
    data.time = 0.5
    scenario.on_due()
    data.time = 0.7
    scenario.on_due()
    assert scenario.stage.when == math.inf
    assert isinstance(scenario.results[0][2], CommandError)
    assert scenario.results[1][2] == {"restored": True, "cleared_wrenches": 0}
    assert "cancel_wrench refused: wrench: no active wrench" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "scenario .*scenario.yaml: "),
        ("a: 1", "expected a list of requests, got dict"),
        ("", "expected a list of requests, got NoneType"),
        ("- 3", "entry 1: invalid_request: expected a mapping, got int"),
        ("- {command: restore}", "entry 1: invalid_parameter: at: expected a finite number >= 0, got null"),
        ("- {at: -1, command: restore}", "entry 1: invalid_parameter: at: "),
        ("- {at: .nan, command: restore}", "entry 1: invalid_parameter: at: "),
        ("- {at: 0, command: restore}\n- {at: 1, command: melt}", "entry 2: unknown_command"),
        ("- {at: 1, command: push, body: nobody, linear: [1, 0, 0]}", "entry 1: unknown_body"),
        ("- !!python/object/apply:os.system [true]", "scenario .*scenario.yaml: "),
    ],
)
def test_a_wrong_file_is_refused_before_the_simulation_starts(simulate, text, message):
    with pytest.raises(ValueError, match=message):
        simulate(text)


def test_a_missing_file_is_named(model, tmp_path):
    with pytest.raises(ValueError, match=r"scenario .*nothing.yaml: "):
        SimulatorWrapper(model, viewer=False, socket_path=str(tmp_path / "s"), scenario=tmp_path / "nothing.yaml")
