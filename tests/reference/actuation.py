"""The control laws joint by joint, with names instead of addresses."""

import mujoco
import numpy as np

from xbot2_fast import actuation


def apply(model, data, joints, command):
    """Put q dq tau k d (one row each) into effect."""
    for i, joint in enumerate(joints):
        q, dq, tau, k, d = command[:, i]
        name = actuation.joint_actuator(model, joint)
        law = actuation.law(model, name) if name >= 0 else ""
        if law in ("position", "intvelocity"):
            g = model.actuator_gear[name, 0]
            data.ctrl[name] = g * (q if law == "position" else dq)
            model.actuator_gainprm[name, 0] = k / (g * g)
            model.actuator_biasprm[name, :3] = (d * dq + tau) / g, -(k / (g * g)), -d / (g * g)
        elif law == "motor":
            torque = k * (q - data.qpos[model.jnt_qposadr[joint]]) + d * (dq - data.qvel[model.jnt_dofadr[joint]]) + tau
            data.ctrl[name] = torque / (model.actuator_gear[name, 0] * model.actuator_gainprm[name, 0])


def random_model(rng, n=12):
    """A tree of hinges and slides with every kind of actuator, several gears, and joints without one."""
    bodies, actuators = "", ""
    for i in range(n):
        kind = rng.choice(["hinge", "slide"])
        bodies += f'<body pos="0 0 .1"><joint name="j{i}" type="{kind}" axis="0 1 1"/><geom size=".05"/>'
        gear = rng.choice([1, -1, 2.5, 0.3, 100])
        law = rng.choice(["position", "motor", 'intvelocity actrange="-9 9"', ""])
        if law:
            actuators += f'<{law} name="j{i}" joint="j{i}" gear="{gear}"/>'
    order = rng.permutation(actuators.count("<"))
    parts = [part + "/>" for part in actuators.split("/>") if part]
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody><body><freejoint/><geom size=".2"/>{bodies}{"</body>" * n}</body></worldbody>
        <actuator>{"".join(parts[i] for i in order)}</actuator></mujoco>"""
    )


def random_state(rng, data):
    data.qpos[:], data.qvel[:] = rng.normal(size=data.qpos.size), rng.normal(size=data.qvel.size)
    data.ctrl[:], data.act[:] = rng.normal(size=data.ctrl.size), rng.normal(size=data.act.size)
    return np.abs(rng.normal(size=(5, data.qvel.size - 6))) * 10
