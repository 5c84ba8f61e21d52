"""What became of a controller's commands: everything that ever came, searched anew for each question."""

import math

REMEMBERED = 4096


class CommandLog:
    def __init__(self):
        self.counters = dict.fromkeys(("commands", "dropped", "stale", "malformed", "refused", "torn"), 0)
        self.arrivals = []  # (wall time [ns], round trip [s] or NaN)

    def arrival(self, now, time, stamp):
        self.counters["commands"] += 1
        self.arrivals.append((now, time - stamp * 1e-9 if stamp else math.nan))

    def recent(self, since):
        """The remembered arrivals since a wall time, newest first."""
        found = []
        for now, trip in reversed(self.arrivals[-REMEMBERED:]):
            if now < since:
                break
            found.append((now, trip))
        return [now for now, _ in found], [trip for _, trip in found]
