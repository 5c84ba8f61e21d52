"""What the bridge does in a step with the command it has, from plain parts: delay, loss of the controller, laws."""

from tests.reference import actuation
from tests.reference.command_delay import CommandDelay


class Apply:
    """One step at a time.

    Args:
        policy: keep, hold or damp. timeout: silence that counts as loss [ns].
    """

    def __init__(self, model, data, joints, policy, timeout):
        self.model, self.data, self.joints = model, data, joints
        self.policy, self.timeout = policy, timeout
        self.delay = CommandDelay(model.opt.timestep)
        self.applied = None
        self.lost, self.losses = False, 0
        self.silence = None  # ns, None before the first command
        self.seen_at = None  # wall time of the step before, None: do not count up to this one

    def restart_silence(self):
        self.seen_at = None
        if self.silence is not None:
            self.silence = 0

    def step(self, command, time, now):
        """`command` (q dq tau k d, one row each) came, or None; whether the controller was lost or is back."""
        was_lost = self.lost
        if command is not None:
            self.silence, self.lost = 0, False
        elif self.silence is not None and self.seen_at is not None:
            self.silence += now - self.seen_at
        self.seen_at = now
        if self.silence is not None and self.silence >= self.timeout and not self.lost:
            self._lose()
        due = self.delay.due(time) if command is None else self.delay.receive(command, time)
        if due is not None:
            self.applied = due
            actuation.apply(self.model, self.data, self.joints, due)
        self._motors()
        return self.lost != was_lost

    def _lose(self):
        self.lost = True
        self.losses += 1
        if self.policy != "keep" and self.applied is not None:
            self.delay.superseded += len(self.delay.waiting)
            self.delay.waiting.clear()
            hold = self.policy == "hold"
            self.applied = actuation.let_go(self.model, self.data, self.joints, self.applied, hold)
            actuation.apply(self.model, self.data, self.joints, self.applied)

    def _motors(self):
        if self.applied is not None:
            actuation.apply_motors(self.model, self.data, self.joints, self.applied)
