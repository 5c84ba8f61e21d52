"""A connected controller and how its commands fare."""

import math
from typing import Any

from xbot2_fast._kernels._command_log import CommandLog

_SECOND = 1_000_000_000  # ns


class Controller:
    """A controller that discovered us or sent us a command.

    Attributes:
        address: where it receives.
        transport: "json", or "shm" once it announced itself in the segment.
        states, states_missed: datagrams sent to it, and not sent because its queue was full.
        log: what became of its commands.
    """

    def __init__(self, address: str | bytes):
        self.address = address
        self.transport = "json"
        self.states = 0
        self.states_missed = 0
        self.log = CommandLog()

    def __str__(self) -> str:
        if isinstance(self.address, bytes):  # an abstract address
            return "@" + self.address[1:].decode(errors="replace")
        return self.address

    def status(self, now: int) -> dict[str, Any]:
        """Numbers of this controller at a wall time [ns].

        commands, dropped, stale, malformed, refused, torn: counts since it connected (torn: reads begun anew);
        commands_per_s: of the last second; round_trip: min, median, p99, max of the last second [s of simulation time]
        from `stamp_rx_feedback`, None where no command carried one.
        """
        at, trips = self.log.recent(now - _SECOND)
        known = sorted(trip for trip in trips if not math.isnan(trip))
        span = 1.0
        if at and self.log.counters["commands"] > len(at) and now - at[-1] < 0.9 * _SECOND:
            span = max((now - at[-1]) / _SECOND, 1e-9)  # more came than the log remembers
        return {
            "address": str(self),
            "transport": self.transport,
            "states": self.states,
            "states_missed": self.states_missed,
            **self.log.counters,
            "commands_per_s": len(at) / span,
            "round_trip": _spread(known) if known else None,
        }


def _spread(ordered: list[float]) -> dict[str, float]:
    def at(share: float) -> float:
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    return {"min": ordered[0], "median": at(0.5), "p99": at(0.99), "max": ordered[-1]}
