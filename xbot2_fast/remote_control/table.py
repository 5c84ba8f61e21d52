"""The table of commands: name -> (validate, apply). Each part of the simulator registers its own."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mujoco

from xbot2_fast.remote_control.names import Names
from xbot2_fast.remote_control.protocol import CommandError, as_list, refuse

MAX_BATCH = 64  # requests: they are all carried out before the loop goes on

Request = Mapping[str, Any]
Validate = Callable[[Request], Any]
Ready = Callable[[list[Any]], None]
Apply = Callable[[Any], dict[str, Any]]


class Command(NamedTuple):
    validate: Validate
    ready: Ready | None
    apply: Apply
    while_paused: bool


class Reading(NamedTuple):
    """A request that is right in itself: what to do, and with what."""

    command: Command
    plan: Any


class CommandTable:
    """The commands that a simulation understands. All calls on the simulation thread.

    Attributes:
        names: the model's names, for the selectors in requests.
    """

    def __init__(self, model: mujoco.MjModel):
        self.names = Names(model)
        self._commands: dict[str, Command] = {}
        self._restore_hooks: list[Callable[[], Mapping[str, Any] | None]] = []
        self.register("restore", lambda request: None, self._restore)
        self.register("batch", self._check_batch, _apply_batch, ready=lambda batches: _be_ready(*batches))

    def register(
        self, name: str, validate: Validate, apply: Apply, *, ready: Ready | None = None, while_paused: bool = False
    ) -> None:
        """Add a command.

        Args:
            name: what requests call it.
            validate: reads the request and returns its plan, what `apply` needs. Changes nothing; raises CommandError
                for what is wrong with the request whatever the simulation does.
            apply: carries a plan out and returns the result, a JSON object. It refuses nothing: the requests of a batch
                are all checked before the first is carried out.
            ready: raises CommandError for what the simulation, as it is, cannot do. It gets a list of plans: those of
                the commands of one batch that are registered with this same `ready`, else the one.
            while_paused: answered while the simulation is paused; all others wait for the next step.
        Raises:
            ValueError: the name is taken.
        """
        if name in self._commands:
            raise ValueError(f"name: the command {name!r} is registered already")
        self._commands[name] = Command(validate, ready, apply, while_paused)

    def on_restore(self, hook: Callable[[], Mapping[str, Any] | None]) -> None:
        """Have `restore` call this too: it puts back to the start what a part's commands changed.

        What the hook returns is added to the result of `restore`.
        """
        self._restore_hooks.append(hook)

    def prepare(self, request: Request) -> Callable[[], dict[str, Any]]:
        """Check a request; the returned call carries it out.

        Raises:
            CommandError: the request was refused; nothing was changed.
        """
        reading = self.read(request)
        _be_ready([reading])
        return lambda: reading.command.apply(reading.plan)

    def read(self, request: Request) -> Reading:
        """Check a request as far as that can be done before its time has come.

        Raises:
            CommandError: the request would be refused at any time.
        """
        command = self._command(request)
        return Reading(command, command.validate(request))

    def handle(self, request: Request) -> dict[str, Any]:
        """Check a request, carry it out and return its result.

        Raises:
            CommandError: the request was refused; nothing was changed.
        """
        return self.prepare(request)()

    def answers_while_paused(self, request: Request) -> bool:
        """Whether a request need not wait for the next step: also one that no step could make better."""
        name = request.get("command")
        command = self._commands.get(name) if isinstance(name, str) else None
        return command is None or command.while_paused

    def close(self) -> None:
        """End the process that matches patterns."""
        self.names.matcher.close()

    def _command(self, request: Request) -> Command:
        name = request.get("command")
        if not isinstance(name, str) or name not in self._commands:
            got = repr(name[:40]) if isinstance(name, str) else "none" if name is None else type(name).__name__
            known = ", ".join(sorted(self._commands))
            raise CommandError("unknown_command", f"command: expected one of {known}, got {got}")
        return self._commands[name]

    # ---- restore and batch

    def _restore(self, _: None) -> dict[str, Any]:
        result: dict[str, Any] = {"restored": True}
        for hook in self._restore_hooks:
            result.update(hook() or {})
        return result

    def _check_batch(self, request: Request) -> list[Reading]:
        requests = as_list("requests", request.get("requests"))
        if len(requests) > MAX_BATCH:
            raise CommandError("invalid_parameter", f"requests: expected at most {MAX_BATCH}, got {len(requests)}")
        readings = []
        for i, inner in enumerate(requests):
            if not isinstance(inner, dict):
                raise refuse(f"requests[{i}]", "an object", inner)
            if inner.get("command") == "batch":
                raise CommandError("invalid_parameter", f"requests[{i}]: expected no batch within a batch")
            try:
                readings.append(self.read(inner))
            except CommandError as error:
                raise CommandError(error.code, f"requests[{i}]: {error.message}") from None
        return readings


def _apply_batch(readings: list[Reading]) -> dict[str, Any]:
    return {"results": [reading.command.apply(reading.plan) for reading in readings]}


def _be_ready(readings: list[Reading]) -> None:
    """Raise what any of the commands has against being carried out now, all of them together."""
    plans: dict[Ready, list[Any]] = {}
    for command, plan in readings:
        if command.ready is not None:
            plans.setdefault(command.ready, []).append(plan)
    for ready, of_one in plans.items():
        ready(of_one)
