"""Delayed commands as the documents word it: a list of everything received, searched anew in each step."""


class CommandDelay:
    def __init__(self, timestep, capacity=1024):
        self.delay = 0.0
        self.tolerance = 0.25 * timestep
        self.capacity = capacity
        self.waiting = []  # (command, deadline), in the order received

    def receive(self, command, time):
        if self.delay > 0:
            useless = [c for c in self.waiting if c[1] >= time + self.delay]  # could only act behind this newer one
            self.waiting = [c for c in self.waiting if c not in useless][-(self.capacity - 1) :]
        self.waiting.append((command, time + self.delay))
        return self.due(time)

    def due(self, time):
        due = [i for i, (_, deadline) in enumerate(self.waiting) if time >= deadline - self.tolerance]
        if not due:
            return None
        command = self.waiting[due[-1]][0]
        del self.waiting[: due[-1] + 1]
        return command
