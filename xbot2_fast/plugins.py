"""User code inside the loop: the base class of plugins, those that come with the package, and who calls them."""

import importlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import mujoco

from xbot2_fast.wrenches import Vector, Wrench, WrenchEngine, shared_engine

logger = logging.getLogger(__name__)


class SimulationPlugin:
    """Code that the simulator calls at defined points of its loop, always on the simulation thread.

    Override what you need: each hook does nothing by default, and a hook that is not overridden costs nothing. An
    exception names the plugin and stops the simulation.
    """

    def init(self, node: Any, model: mujoco.MjModel, data: mujoco.MjData) -> bool:
        """Called once, when the plugin is loaded.

        Args:
            node: ROS 2 node of the plugin's own, None without ROS.
            model, data: the live model and data.
        Returns:
            Whether the plugin can be used; with False it is left out.
        """
        return True

    def pre_step(self, data: mujoco.MjData) -> None:
        """Called immediately before every step. Use with caution: `data` is live and may be changed as needed."""

    def update_read(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Called before the state goes out to the controller, as often as it does."""

    def update_write(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Called in every step, after the controller's command was taken and before the step acts on it."""
        self.update(model, data)

    def update(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """The same hook as `update_write`, under its other name."""

    def on_reset(self, data: mujoco.MjData) -> None:
        """Called after a reset of the world: by a respawn, a service or the viewer."""

    def cleanup(self) -> None:
        """Called once, when the simulator closes."""


class PluginError(RuntimeError):
    """A plugin raised an exception; the simulation is stopped. The exception itself is the cause."""


class PluginHost:
    """Loads plugins and calls their hooks; each list of hooks holds only the plugins that override the hook.

    Args:
        node: passed to `init`.
    Raises:
        PluginError: an `init` raised; the plugins loaded before were cleaned up.
    """

    def __init__(self, plugins: Iterable[SimulationPlugin], node: Any, model: mujoco.MjModel, data: mujoco.MjData):
        self._model = model
        self._data = data
        self.plugins: list[SimulationPlugin] = []
        """Those whose `init` returned True."""
        try:
            for plugin in plugins:
                usable = self._call(plugin, "init", node, model, data)
                if usable:
                    self.plugins.append(plugin)
                else:
                    logger.warning("plugin %s is left out: its init returned %r, not True", name_of(plugin), usable)
        except PluginError:
            self.cleanup()
            raise

    def wants(self, *hooks: str) -> bool:
        """Whether any plugin overrides any of these hooks."""
        return any(_overrides(plugin, hook) for plugin in self.plugins for hook in hooks)

    def update_write(self) -> None:
        for plugin in self.plugins:
            if _overrides(plugin, "update_write") or _overrides(plugin, "update"):
                self._call(plugin, "update_write", self._model, self._data)

    def pre_step(self) -> None:
        for plugin in self.plugins:
            if _overrides(plugin, "pre_step"):
                self._call(plugin, "pre_step", self._data)

    def update_read(self) -> None:
        for plugin in self.plugins:
            if _overrides(plugin, "update_read"):
                self._call(plugin, "update_read", self._model, self._data)

    def on_reset(self) -> None:
        for plugin in self.plugins:
            self._call(plugin, "on_reset", self._data)

    def cleanup(self) -> None:
        """Clean up all plugins, the last one first, each whatever the others do. Idempotent."""
        while self.plugins:
            plugin = self.plugins.pop()
            try:
                plugin.cleanup()
            except Exception:
                logger.exception("plugin %s: cleanup failed", name_of(plugin))

    @staticmethod
    def _call(plugin: SimulationPlugin, hook: str, *args: Any) -> Any:
        try:
            return getattr(plugin, hook)(*args)
        except Exception as error:
            raise PluginError(f"plugin {name_of(plugin)}: {hook} raised {type(error).__name__}: {error}") from error


def name_of(plugin: SimulationPlugin) -> str:
    """Module and class of a plugin."""
    return f"{type(plugin).__module__}:{type(plugin).__qualname__}"


def _overrides(plugin: SimulationPlugin, hook: str) -> bool:
    return getattr(type(plugin), hook) is not getattr(SimulationPlugin, hook)


def load_plugin(name: str) -> SimulationPlugin:
    """An instance of the class that "module:Class" names.

    Raises:
        ValueError: no such module or class, or it is no SimulationPlugin; the message says which.
    """
    module_name, separator, class_name = name.partition(":")
    if not (separator and module_name and class_name):
        raise ValueError(f"plugin: expected module:Class, got {name!r}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"plugin {name!r}: cannot import {module_name}: {error}") from error
    plugin_class = getattr(module, class_name, None)
    if plugin_class is None:
        raise ValueError(f"plugin {name!r}: {module_name} has no {class_name}")
    if not (isinstance(plugin_class, type) and issubclass(plugin_class, SimulationPlugin)):
        raise ValueError(f"plugin {name!r}: {class_name} in {module_name} is no SimulationPlugin")
    try:
        return plugin_class()
    except Exception as error:
        raise ValueError(f"plugin {name!r}: {class_name}() raised {type(error).__name__}: {error}") from error


class ExternalWrenchPlugin(SimulationPlugin):
    """Applies one or more external wrenches to named bodies for configurable durations.

    It works on the simulation's one wrench engine, so its wrenches add to those of the remote control. Force and torque
    are in the body's frame at a point of the body, and reach `data.xfrc_applied` as
    F_world = R F_body and tau = R tau_body + (p_world - xipos) x F_world.
    """

    def __init__(self) -> None:
        self._engine: WrenchEngine | None = None
        self._bodies: dict[str, int] = {}
        self._ids: list[int] = []

    def init(self, node: Any, model: mujoco.MjModel, data: mujoco.MjData) -> bool:
        """Bind to the simulation.

        Args:
            node: ROS 2 node, or None; not used by this class itself.
            model, data: the live model and data.
        Returns:
            True.
        """
        self._engine = shared_engine(model, data)
        names = (mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, body) for body in range(model.nbody))
        self._bodies = {name: body for body, name in enumerate(names) if name}
        return True

    def apply(self, wrenches: Sequence["ExternalWrench"]) -> list[int]:
        """Apply wrenches, all from the next step on or none; returns an id for each.

        Raises:
            ValueError: an unknown body or a bad value in any of them; none is applied.
            RuntimeError: before `init` or after `cleanup`.
        """
        engine = self._bound()
        checked = [wrench.resolved(self._bodies) for wrench in wrenches]
        ids = engine.add_each(checked)
        active = {wrench.id for wrench in engine.active()}
        self._ids = [identifier for identifier in self._ids if identifier in active] + ids
        return ids

    def pre_step(self, data: mujoco.MjData) -> None:
        """Write the wrenches of the coming step into `data.xfrc_applied`, after taking back those of the last step."""
        self._bound().apply()

    def cleanup(self) -> None:
        """Cancel this plugin's wrenches and take their forces back."""
        if self._engine is None:
            return
        for identifier in self._ids:
            self._engine.cancel(identifier)
        self._engine.apply()
        self._engine = None
        self._ids = []

    def _bound(self) -> WrenchEngine:
        if self._engine is None:
            raise RuntimeError("ExternalWrenchPlugin: not in use: before init, or after cleanup")
        return self._engine


class ExternalWrench:
    """One external wrench of a request.

    Args:
        body: name of the MuJoCo body.
        force, torque: [N] and [Nm], in the body's frame.
        application_point: where the force acts, in the body's frame from its origin [m]; zero is the origin itself.
        duration: simulation time [s]; 0 is exactly one step.
        ramp_down_duration: linear ramp-down at the end of the duration [s]; 0 is none.
    """

    def __init__(
        self,
        body: str,
        force: Sequence[float] = (0.0, 0.0, 0.0),
        torque: Sequence[float] = (0.0, 0.0, 0.0),
        application_point: Sequence[float] = (0.0, 0.0, 0.0),
        duration: float = 0.0,
        ramp_down_duration: float = 0.0,
    ):
        self.body = body
        self.force = _triple("force", force)
        self.torque = _triple("torque", torque)
        self.application_point = _triple("application_point", application_point)
        self.duration = duration
        self.ramp_down_duration = ramp_down_duration

    def resolved(self, bodies: dict[str, int]) -> Wrench:
        """The wrench for the engine.

        Raises:
            ValueError: an unknown body, or a bad value.
        """
        if self.body not in bodies:
            raise ValueError(f"body: the model has no body {self.body!r}")
        return Wrench(
            bodies[self.body],
            self.force,
            self.torque,
            self.duration,
            "body",
            self.application_point,
            ramp_down_duration=self.ramp_down_duration,
        )


def _triple(name: str, value: Sequence[float]) -> Vector:
    if len(value) != 3:
        raise ValueError(f"{name}: expected three numbers, got {len(value)}")
    return float(value[0]), float(value[1]), float(value[2])
