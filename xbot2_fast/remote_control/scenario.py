"""A scenario: requests that the simulator carries out by itself, each at its simulation time."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from xbot2_fast._kernels._timers import AtTime
from xbot2_fast.remote_control.protocol import CommandError, as_number
from xbot2_fast.remote_control.table import CommandTable

logger = logging.getLogger(__name__)


class Scenario:
    """Requests with the field `at` [s of simulation time], carried out before the first step at or after it.

    A request that is refused when its time has come is logged, and the scenario goes on.

    Args:
        path: a YAML (or JSON) file with a list of request objects.
        table: the commands.
        time: reads the simulation time [s].
        timestep: of the simulation [s].
    Attributes:
        stage: asks for `on_due` when a request is due.
        results: (at, request, result or CommandError) of what was carried out.
    Raises:
        ValueError: the file cannot be read, or an entry is wrong; the message names file and entry.
    """

    def __init__(self, path: str | Path, table: CommandTable, time: Callable[[], float], timestep: float):
        self._table = table
        self._time = time
        self._slack = 1e-6 * timestep
        entries = [self._entry(path, i, entry) for i, entry in enumerate(_read(path))]
        self._entries = sorted(entries, key=lambda entry: entry[0])  # stable: entries of one time keep their order
        self._next = 0
        self.stage = AtTime()
        self.results: list[tuple[float, dict[str, Any], dict[str, Any] | CommandError]] = []
        self._schedule()

    def _entry(self, path: str | Path, index: int, entry: Any) -> tuple[float, dict[str, Any]]:
        try:
            if not isinstance(entry, dict):
                raise CommandError("invalid_request", f"expected a mapping, got {type(entry).__name__}")
            at = as_number("at", entry.get("at"), minimum=0)
            request = {name: value for name, value in entry.items() if name != "at"}
            self._table.read(request)
        except CommandError as error:
            raise ValueError(f"scenario {path}, entry {index + 1}: {error.code}: {error.message}") from None
        return at, request

    def _schedule(self) -> None:
        over = self._next >= len(self._entries)
        self.stage.when = math.inf if over else self._entries[self._next][0] - self._slack

    def on_due(self) -> None:
        """Carry out what is due."""
        while self._next < len(self._entries) and self._time() >= self._entries[self._next][0] - self._slack:
            at, request = self._entries[self._next]
            self._next += 1
            try:
                self.results.append((at, request, self._table.handle(request)))
                logger.info("scenario at %g s: %s", at, request.get("command"))
            except CommandError as error:
                self.results.append((at, request, error))
                logger.warning("scenario at %g s: %s refused: %s", at, request.get("command"), error.message)
        self._schedule()


def _read(path: str | Path) -> list[Any]:
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"scenario {path}: {error}") from None
    if not isinstance(content, list):
        raise ValueError(f"scenario {path}: expected a list of requests, got {type(content).__name__}")
    return content
