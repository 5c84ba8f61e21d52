"""Joints and the actuators that drive them: who drives whom, by which law, and the initial configuration."""

import logging
from collections.abc import Mapping

import mujoco

logger = logging.getLogger(__name__)

_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
_JOINT = int(mujoco.mjtTrn.mjTRN_JOINT)
_NO_BIAS = int(mujoco.mjtBias.mjBIAS_NONE)
_INTEGRATOR = int(mujoco.mjtDyn.mjDYN_INTEGRATOR)


def scalar_joints(model: mujoco.MjModel) -> list[int]:
    """Ids of the hinge and slide joints in the model's order: the joints that XBot2 sees."""
    return [j for j in range(model.njnt) if int(model.jnt_type[j]) in (_HINGE, _SLIDE)]


def joint_actuator(model: mujoco.MjModel, joint: int) -> int:
    """Id of the actuator that drives a joint, -1 for none.

    The one of the joint's name if its transmission is that joint, else the only one whose transmission is that joint.
    """
    drives = [a for a in range(model.nu) if model.actuator_trntype[a] == _JOINT and model.actuator_trnid[a, 0] == joint]
    name = model.joint(joint).name
    for a in drives:
        if name and model.actuator(a).name == name:
            return a
    return drives[0] if len(drives) == 1 else -1


def law(model: mujoco.MjModel, actuator: int) -> str:
    """Control law of an actuator: "intvelocity" (its activation integrates ctrl), "motor" (no bias) or "position"."""
    if int(model.actuator_dyntype[actuator]) == _INTEGRATOR:
        return "intvelocity"
    return "motor" if int(model.actuator_biastype[actuator]) == _NO_BIAS else "position"


def apply_q_init(model: mujoco.MjModel, data: mujoco.MjData, q_init: Mapping[str, float]) -> None:
    """Put joints at their initial positions and make their actuators hold them.

    Args:
        q_init: joint name -> position [rad or m]; hinge and slide joints only.
    Raises:
        ValueError: an unknown joint, or one that is neither hinge nor slide; nothing was changed.
    """
    joints = {}
    for name, value in q_init.items():
        joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
        if joint < 0:
            raise ValueError(f"q_init: the model has no joint {name!r}")
        if int(model.jnt_type[joint]) not in (_HINGE, _SLIDE):
            raise ValueError(f"q_init: joint {name!r} is neither hinge nor slide, so it has no single position")
        joints[joint] = float(value)
    for joint, value in joints.items():
        data.qpos[model.jnt_qposadr[joint]] = value
        actuator = joint_actuator(model, joint)
        if actuator < 0:
            continue
        gear = model.actuator_gear[actuator, 0]
        match law(model, actuator):
            case "position":
                data.ctrl[actuator] = gear * value
            case "intvelocity":
                data.act[model.actuator_actadr[actuator]] = gear * value
                data.ctrl[actuator] = 0.0
