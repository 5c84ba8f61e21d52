"""The table of commands: name -> (validate, apply). Each part of the simulator registers its own."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mujoco

from xbot2_fast.remote_control.names import Names
from xbot2_fast.remote_control.protocol import CommandError, as_list, refuse

Request = Mapping[str, Any]
Validate = Callable[[Request], Any]
Apply = Callable[[Any], dict[str, Any]]


class Command(NamedTuple):
    validate: Validate
    apply: Apply
    while_paused: bool


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
        self.register("batch", self._check_batch, _apply_batch)

    def register(self, name: str, validate: Validate, apply: Apply, *, while_paused: bool = False) -> None:
        """Add a command.

        Args:
            name: what requests call it.
            validate: reads the request and returns what `apply` needs. Changes nothing; raises CommandError.
            apply: carries it out and returns the result, a JSON object. Everything that can be refused is refused by
                `validate`: the requests of a batch are all checked before the first is carried out.
            while_paused: answered while the simulation is paused; all others wait for the next step.
        Raises:
            ValueError: the name is taken.
        """
        if name in self._commands:
            raise ValueError(f"name: the command {name!r} is registered already")
        self._commands[name] = Command(validate, apply, while_paused)

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
        command = self._command(request)
        plan = command.validate(request)
        return lambda: command.apply(plan)

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

    def _check_batch(self, request: Request) -> list[Callable[[], dict[str, Any]]]:
        prepared = []
        for i, inner in enumerate(as_list("requests", request.get("requests"))):
            if not isinstance(inner, dict):
                raise refuse(f"requests[{i}]", "an object", inner)
            if inner.get("command") == "batch":
                raise CommandError("invalid_parameter", f"requests[{i}]: expected no batch within a batch")
            try:
                prepared.append(self.prepare(inner))
            except CommandError as error:
                raise CommandError(error.code, f"requests[{i}]: {error.message}") from None
        return prepared


def _apply_batch(prepared: list[Callable[[], dict[str, Any]]]) -> dict[str, Any]:
    return {"results": [carry_out() for carry_out in prepared]}
