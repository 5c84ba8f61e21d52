"""Delayed commands as the documents word it: a list of everything received, searched anew in each step."""


class CommandDelay:
    def __init__(self, timestep, capacity=1024):
        self.delay = 0.0
        self.tolerance = 0.25 * timestep
        self.capacity = capacity
        self.waiting = []  # (command, deadline), in the order received
        self.overflowed = self.superseded = 0

    def receive(self, command, time):
        if self.delay > 0:
            useful = [c for c in self.waiting if c[1] < time + self.delay]  # others could only act behind it
            self.superseded += len(self.waiting) - len(useful)
            self.waiting = useful[-(self.capacity - 1) :]
            self.overflowed += len(useful) - len(self.waiting)
        self.waiting.append((command, time + self.delay))
        return self.due(time)

    def due(self, time):
        due = [i for i, (_, deadline) in enumerate(self.waiting) if time >= deadline - self.tolerance]
        if not due:
            return None
        command = self.waiting[due[-1]][0]
        self.superseded += due[-1]
        del self.waiting[: due[-1] + 1]
        return command
