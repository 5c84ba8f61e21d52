"""The wrench engine, slow and obvious: poses by mj_kinematics on data of its own, sums in the order of the kernel."""

import math

import mujoco
import numpy as np


def factor(wrench, start, time, timestep):
    """Where the ramps are in the middle of the step that begins at `time`."""
    t = time - start + timestep / 2
    left = wrench.duration - t
    if wrench.ramp_up_duration > 0 and t < wrench.ramp_up_duration:
        return t / wrench.ramp_up_duration
    if wrench.ramp_down_duration > 0 and left < wrench.ramp_down_duration:
        return left / wrench.ramp_down_duration if left > 0 else 0.0
    return 1.0


def steps(duration, timestep):
    return max(1, math.ceil(duration / timestep - 1e-9))


def rotate(m, v):
    return np.array([m[3 * i] * v[0] + m[3 * i + 1] * v[1] + m[3 * i + 2] * v[2] for i in range(3)])


def cross(a, b):
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


class ReferenceEngine:
    def __init__(self, model, data):
        self.model, self.data = model, data
        self.active = []  # (wrench, start, first time without it)
        self.base = {}  # body -> what others left
        self.written = {}  # body -> what we wrote
        self.scratch = mujoco.MjData(model)

    def add(self, wrench):
        dt = self.model.opt.timestep
        start = self.data.time
        self.active.append((wrench, start, start + (steps(wrench.duration, dt) - 0.5) * dt))
        self.base.setdefault(wrench.body, None)

    def world_wrench(self, wrench, start):
        body, scratch = wrench.body, self.scratch
        force, torque = np.array(wrench.force, float), np.array(wrench.torque, float)
        if wrench.frame == "body":
            force, torque = rotate(scratch.xmat[body], force), rotate(scratch.xmat[body], torque)
        if wrench.point is not None:
            lever = rotate(scratch.xmat[body], wrench.point) + scratch.xpos[body] - scratch.xipos[body]
            torque = torque + cross(lever, force)
        f = factor(wrench, start, self.data.time, self.model.opt.timestep)
        return np.concatenate([f * force, f * torque])

    def apply(self):
        self.scratch.qpos[:] = self.data.qpos
        mujoco.mj_kinematics(self.model, self.scratch)
        self.active = [entry for entry in self.active if self.data.time < entry[2]]
        for body in list(self.base):
            slot = self.data.xfrc_applied[body]
            if body not in self.written or slot.tobytes() != self.written[body].tobytes():
                self.base[body] = slot.copy()
            mine = [entry for entry in self.active if entry[0].body == body]
            if not mine:
                slot[:] = self.base.pop(body)
                self.written.pop(body, None)
                continue
            ours = np.zeros(6)
            for wrench, start, _ in mine:
                ours += self.world_wrench(wrench, start)
            self.written[body] = self.base[body] + ours
            slot[:] = self.written[body]
