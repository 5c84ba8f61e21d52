"""Commands that other parts of the simulator carry out: delay, velocity noise, run control.

Their requests are read here; what they do is handed in as plain calls, so that no part knows the other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import mujoco

from xbot2_fast.remote_control.protocol import CommandError, as_number, as_vector
from xbot2_fast.remote_control.table import CommandTable, Request

Plan = dict[str, Any]


def register_actuator_delay(
    table: CommandTable, set_delay: Callable[[float], object], restore: Callable[[], object]
) -> None:
    """`set_actuator_delay`.

    Args:
        set_delay: takes the delay of commands to come [s of simulation time, >= 0].
        restore: puts back the delay of the start.
    """

    def carry_out(delay: float) -> Plan:
        set_delay(delay)
        return {"delay": delay}

    def check(request: Request) -> float:
        return as_number("delay", request.get("delay"), minimum=0)

    table.register("set_actuator_delay", check, carry_out)
    table.on_restore(lambda: _nothing(restore()))


def register_velocity_noise(
    table: CommandTable,
    model: mujoco.MjModel,
    set_noise: Callable[[Sequence[int], float], object],
    restore: Callable[[], object],
) -> None:
    """`set_velocity_noise`.

    Args:
        set_noise: takes joint ids (hinges and slides) and the standard deviation [rad/s or m/s, >= 0].
        restore: takes all noise away.
    """
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))

    def check(request: Request) -> tuple[list[int], float]:
        joints = table.names.joints(request)
        for joint in joints:
            if int(model.jnt_type[joint]) not in scalar:
                name = table.names.of("joints")[joint]
                raise CommandError("invalid_parameter", f"joints: expected hinges and slides, got {name!r}")
        return joints, as_number("stddev", request.get("stddev"), minimum=0)

    def carry_out(plan: tuple[list[int], float]) -> Plan:
        joints, stddev = plan
        set_noise(joints, stddev)
        names = table.names.of("joints")
        return {"joints": [names[joint] for joint in joints], "stddev": stddev}

    table.register("set_velocity_noise", check, carry_out)
    table.on_restore(lambda: _nothing(restore()))


class RunControl(Protocol):
    """What the run-control commands need of a simulator."""

    @property
    def paused(self) -> bool: ...

    def set_paused(self, paused: bool = True) -> None: ...

    def advance(self, duration_s: float = ...) -> None: ...

    def set_target_rtf(self, value: float) -> None: ...

    def respawn(self, position: Sequence[float] | None = None) -> bool: ...


def register_run_control(table: CommandTable, simulator: RunControl) -> None:
    """`pause`, `resume`, `advance`, `set_rtf` and `respawn`, which takes a position [m, world] or a spawn location."""

    def pause(paused: bool) -> Plan:
        simulator.set_paused(paused)
        return {"paused": paused}

    def advance(duration: float) -> Plan:
        simulator.advance(duration)
        return {"duration": duration, "paused": simulator.paused}

    def set_rtf(rtf: float) -> Plan:
        simulator.set_target_rtf(rtf)
        return {"rtf": rtf}

    def check_position(request: Request) -> list[float] | None:
        return as_vector("position", request["position"], 3) if request.get("position") is not None else None

    def carry_out_respawn(position: list[float] | None) -> Plan:
        return {"respawned": simulator.respawn(position), "position": position}

    table.register("pause", lambda request: True, pause)
    table.register("resume", lambda request: False, pause, while_paused=True)
    table.register("advance", _positive("duration"), advance, while_paused=True)
    table.register("set_rtf", _positive("rtf"), set_rtf, while_paused=True)
    table.register("respawn", check_position, carry_out_respawn)


def _positive(field: str) -> Callable[[Request], float]:
    return lambda request: as_number(field, request.get(field), above=0)


def _nothing(_: object) -> None:
    """Whatever a part's restore returns is no part of the reply."""
