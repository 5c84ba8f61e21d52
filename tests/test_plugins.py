"""Plugins: where their hooks are called, what an error does, and the external wrench plugin."""

import math

import mujoco
import numpy as np
import pytest

from tests.remote_control import robots
from xbot2_fast.plugins import (
    ExternalWrench,
    ExternalWrenchPlugin,
    PluginError,
    SimulationPlugin,
    load_plugin,
)
from xbot2_fast.simulator_wrapper import SimulatorWrapper


@pytest.fixture
def simulator(tmp_path):
    made = []

    def make(**arguments):
        made.append(
            SimulatorWrapper(
                robots.model(), viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "s"), **arguments
            )
        )
        return made[-1]

    yield make
    for sim in made:
        sim.close()


class Recorder(SimulationPlugin):
    def __init__(self, usable=True):
        self.calls = []
        self.usable = usable

    def init(self, node, model, data):
        assert node is None
        self.calls.append("init")
        return self.usable

    def pre_step(self, data):
        self.calls.append(("pre_step", data.time))

    def update_read(self, model, data):
        self.calls.append(("update_read", data.time))

    def update_write(self, model, data):
        self.calls.append(("update_write", data.time))

    def on_reset(self, data):
        self.calls.append("on_reset")

    def cleanup(self):
        self.calls.append("cleanup")


@pytest.mark.requirement("S1-005", "S1-006", "S1-009", "S1-010", "S1-050", "S1-051", "S1-053")
def test_hooks_are_called_in_the_order_of_a_step(simulator):
    plugin = Recorder()
    sim = simulator(plugins=[plugin], send_state_decimation=2)
    sim.run()
    sim.run()
    sim.close()
    dt = pytest.approx(0.002)
    assert plugin.calls == [
        "init", ("update_write", 0.0), ("pre_step", 0.0), ("update_write", dt), ("pre_step", dt),
        ("update_read", pytest.approx(0.004)), "cleanup",
    ]  # fmt: skip


@pytest.mark.requirement("S1-013")
def test_on_reset_follows_respawns_and_resets_of_the_viewer(simulator):
    plugin = Recorder()
    sim = simulator(plugins=[plugin])
    sim.run()
    assert "on_reset" not in plugin.calls
    sim.respawn()
    sim.run()
    assert plugin.calls.count("on_reset") == 1
    mujoco.mj_resetData(sim.model, sim.data)
    sim.run()
    assert plugin.calls.count("on_reset") == 2


@pytest.mark.requirement("S1-011", "S1-012", "S1-014")
def test_defaults_do_nothing_and_update_is_the_other_name_of_update_write(simulator):
    plain = SimulationPlugin()
    model = robots.model()
    data = mujoco.MjData(model)
    assert plain.init(None, model, data) is True
    for call in (plain.pre_step, plain.on_reset):
        assert call(data) is None
    for call in (plain.update_read, plain.update_write, plain.update):
        assert call(model, data) is None
    assert plain.cleanup() is None

    class Updating(SimulationPlugin):
        times = ()

        def update(self, model, data):
            self.times += (data.time,)

    updating = Updating()
    sim = simulator(plugins=[plain, updating])
    sim.run()
    assert updating.times == (0.0,)


def test_a_loop_with_plugins_that_override_nothing_has_no_stage_more(simulator):
    bare = simulator()
    bare.close()
    plain = simulator(plugins=[SimulationPlugin()])
    assert len(plain._pre_handlers) == len(bare._pre_handlers)
    assert len(plain._post_handlers) == len(bare._post_handlers)


@pytest.mark.requirement("S1-052")
@pytest.mark.parametrize("usable", [False, None])
def test_a_plugin_whose_init_does_not_return_true_is_left_out_and_logged(simulator, caplog, usable):
    plugin = Recorder(usable=usable)
    sim = simulator(plugins=[plugin])
    sim.run()
    sim.close()
    assert plugin.calls == ["init"]
    assert f"plugin tests.test_plugins:Recorder is left out: its init returned {usable}, not True" in caplog.text


@pytest.mark.parametrize("hook", ["pre_step", "update_read", "update_write", "on_reset"])
def test_an_exception_names_the_plugin_and_stops_the_simulation_cleanly(simulator, hook, tmp_path):
    def fail(self, *_):
        raise KeyError("lost")

    witness = Recorder()
    sim = simulator(plugins=[witness, type("Broken", (SimulationPlugin,), {hook: fail})()])

    def run_and_reset():
        for _ in range(2):
            sim.run()
            sim.respawn()

    message = rf"plugin tests.test_plugins:Broken: {hook} raised KeyError: 'lost'"
    with pytest.raises(PluginError, match=message) as error:
        run_and_reset()
    assert isinstance(error.value.__cause__, KeyError)
    assert not sim.running
    assert witness.calls[-1] == "cleanup"
    assert not (tmp_path / "s").exists()


def test_an_exception_in_init_cleans_up_those_before(simulator, tmp_path):
    def fail(self, *_):
        raise OSError("no device")

    witness = Recorder()
    with pytest.raises(PluginError, match="Broken: init raised OSError: no device"):
        simulator(plugins=[witness, type("Broken", (SimulationPlugin,), {"init": fail})()])
    assert witness.calls == ["init", "cleanup"]
    assert not (tmp_path / "s").exists()


@pytest.mark.requirement("S1-056")
def test_pre_step_may_change_the_live_data(simulator):
    class Lift(SimulationPlugin):
        def pre_step(self, data):
            data.xfrc_applied[1] = [0, 0, 1000, 0, 0, 0]

    sim = simulator(plugins=[Lift()])
    before = sim.data.qvel[2]
    for _ in range(10):
        sim.run()
    assert sim.data.qvel[2] > before
    assert "caution" in SimulationPlugin.pre_step.__doc__


class Demanding(SimulationPlugin):
    def __init__(self, gain):
        self.gain = gain


def test_plugins_are_loaded_by_name():
    assert isinstance(load_plugin("xbot2_fast.plugins:ExternalWrenchPlugin"), ExternalWrenchPlugin)
    for name, message in [
        ("nothing", "plugin: expected module:Class, got 'nothing'"),
        ("no.such.module:X", "cannot import no.such.module"),
        ("xbot2_fast.plugins:Nothing", "xbot2_fast.plugins has no Nothing"),
        ("tests.test_plugins:Demanding", r"tests.test_plugins:Demanding'.* raised TypeError: .*'gain'"),
        ("math:pi", "pi in math is no SimulationPlugin"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_plugin(name)


# ---- ExternalWrenchPlugin


@pytest.mark.requirement("S1-001", "S1-004", "S1-037", "S1-045")
def test_external_wrenches_act_in_the_step_after_pre_step_and_end(simulator):
    plugin = ExternalWrenchPlugin()
    assert isinstance(plugin, SimulationPlugin)
    sim = simulator(plugins=[plugin])
    sim.run()
    foot = sim.model.body("left_foot").id
    fresh = mujoco.MjData(sim.model)
    fresh.qpos[:] = sim.data.qpos
    mujoco.mj_forward(sim.model, fresh)
    rotation, force = fresh.xmat[foot].reshape(3, 3), np.array([1.0, 2.0, 3.0])
    (identifier,) = plugin.apply([ExternalWrench("left_foot", force, (0.1, 0, 0), (0.1, 0.0, 0.0))])
    sim.run()
    world = rotation @ force
    lever = fresh.xpos[foot] + rotation @ [0.1, 0, 0] - fresh.xipos[foot]
    expected = np.concatenate([world, rotation @ [0.1, 0, 0] + np.cross(lever, world)])
    np.testing.assert_allclose(sim.data.xfrc_applied[foot], expected, atol=1e-12)
    sim.run()
    assert not sim.data.xfrc_applied.any()
    assert identifier > 0


@pytest.mark.requirement("S1-007", "S1-048")
def test_cleanup_takes_schedule_and_forces_away(simulator):
    plugin = ExternalWrenchPlugin()
    sim = simulator(plugins=[plugin])
    plugin.apply([ExternalWrench("base_link", (1, 0, 0), duration=10.0)])
    sim.run()
    assert sim.data.xfrc_applied.any()
    assert plugin.cleanup() is None
    assert not sim.data.xfrc_applied.any()
    with pytest.raises(RuntimeError, match="not in use"):
        plugin.apply([ExternalWrench("base_link")])


def test_one_bad_wrench_rejects_all(simulator):
    plugin = ExternalWrenchPlugin()
    sim = simulator(plugins=[plugin])
    for bad, message in [
        (ExternalWrench("nobody"), "no body 'nobody'"),
        (ExternalWrench("base_link", (math.nan, 0, 0)), "force: expected three finite numbers"),
        (ExternalWrench("base_link", duration=0.1, ramp_down_duration=0.2), "ramp_down_duration"),
    ]:
        with pytest.raises(ValueError, match=message):
            plugin.apply([ExternalWrench("base_link", (1, 0, 0), duration=1.0), bad])
    sim.run()
    assert not sim.data.xfrc_applied.any()


def test_plugin_and_remote_control_add_up_on_one_body(simulator):
    plugin = ExternalWrenchPlugin()
    sim = simulator(plugins=[plugin], remote_control_endpoint="tcp://127.0.0.1:*")
    plugin.apply([ExternalWrench("base_link", (1, 0, 0), duration=1.0)])
    push = {"command": "apply_wrench", "body": "base_link", "force": [2, 0, 0], "torque": [0, 0, 0], "duration": 1.0}
    sim.remote_control.handle_request(push)
    for _ in range(5):
        sim.run()
        assert sim.data.xfrc_applied[1, 0] == pytest.approx(3.0, abs=0.01)
