"""The control laws joint by joint, with names instead of addresses."""

import mujoco
import numpy as np

from xbot2_fast import actuation


def apply(model, data, joints, command):
    """Put q dq tau k d (one row each) into effect."""
    _apply(model, data, joints, command, ("position", "intvelocity", "motor"))


def apply_motors(model, data, joints, command):
    """What a command does anew in each step: the torques of the motors, from the present state."""
    _apply(model, data, joints, command, ("motor",))


def _apply(model, data, joints, command, laws):
    for i, joint in enumerate(joints):
        q, dq, tau, k, d = command[:, i]
        name = actuation.joint_actuator(model, joint)
        law = actuation.law(model, name) if name >= 0 else ""
        if law not in laws:
            continue
        if law in ("position", "intvelocity"):
            g = model.actuator_gear[name, 0]
            data.ctrl[name] = g * (q if law == "position" else dq)
            model.actuator_gainprm[name, 0] = k / (g * g)
            model.actuator_biasprm[name, :3] = (d * dq + tau) / g, -(k / (g * g)), -d / (g * g)
        elif law == "motor":
            torque = k * (q - data.qpos[model.jnt_qposadr[joint]]) + d * (dq - data.qvel[model.jnt_dofadr[joint]]) + tau
            data.ctrl[name] = torque / (model.actuator_gear[name, 0] * model.actuator_gainprm[name, 0])


def let_go(model, data, joints, applied, hold):
    """What `apply` gets when the controller is gone: the present position, or nothing but the damping."""
    zero = np.zeros(len(joints))
    q = np.array([data.qpos[model.jnt_qposadr[joint]] for joint in joints])
    return np.array([q, zero, zero, applied[3] if hold else zero, applied[4]])


def gather(model, data, joints, applied, commanded):
    """q dq tau k d qref vref tauref, one row each; `applied` is the last command, or zeros."""
    return np.array([_joint_state(model, data, j, applied[:, i], commanded) for i, j in enumerate(joints)]).T


def _joint_state(model, data, joint, applied, commanded):
    q, dof = data.qpos[model.jnt_qposadr[joint]], model.jnt_dofadr[joint]
    seen = [q, data.qvel[dof], data.qfrc_actuator[dof]]
    name = actuation.joint_actuator(model, joint)
    law = actuation.law(model, name) if name >= 0 else ""
    if not law:
        return [*seen, 0.0, 0.0, q, 0.0, 0.0]
    g, gain = model.actuator_gear[name, 0], model.actuator_gainprm[name, 0]
    k, d = gain * (g * g), -model.actuator_biasprm[name, 2] * (g * g)
    if law == "position":
        return [*seen, k, d, data.ctrl[name] / g, applied[1], applied[2]]
    if law == "intvelocity":
        vref = applied[1] if commanded else data.ctrl[name] / g
        return [*seen, k, d, data.act[model.actuator_actadr[name]] / g, vref, applied[2]]
    if commanded:
        return [*seen, applied[3], applied[4], applied[0], applied[1], applied[2]]
    return [*seen, 0.0, 0.0, q, 0.0, g * gain * data.ctrl[name]]


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
