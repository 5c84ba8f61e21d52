"""Joints and the actuators that drive them: who drives whom, by which law, and the initial configuration."""

import logging
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from xbot2_fast._kernels._actuation import Actuation

logger = logging.getLogger(__name__)

_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
_TRANSMISSIONS = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
_FIXED_GAIN = int(mujoco.mjtGain.mjGAIN_FIXED)
_NO_BIAS, _AFFINE_BIAS = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)
_INTEGRATOR = int(mujoco.mjtDyn.mjDYN_INTEGRATOR)
_PLAIN_DYNAMICS = tuple(
    int(d) for d in (mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
)
_LAWS = {"": 0, "position": 1, "intvelocity": 2, "motor": 3}  # as in _kernels/_actuation.pxd


def scalar_joints(model: mujoco.MjModel) -> list[int]:
    """Ids of the hinge and slide joints in the model's order: the joints that XBot2 sees."""
    return [j for j in range(model.njnt) if int(model.jnt_type[j]) in (_HINGE, _SLIDE)]


def joint_actuator(model: mujoco.MjModel, joint: int) -> int:
    """Id of the actuator that drives a joint, -1 for none.

    The one of the joint's name if its transmission is that joint, else the only one whose transmission is that joint.
    """
    drives = [
        a
        for a in range(model.nu)
        if int(model.actuator_trntype[a]) in _TRANSMISSIONS and model.actuator_trnid[a, 0] == joint
    ]
    name = model.joint(joint).name
    for a in drives:
        if name and model.actuator(a).name == name:
            return a
    return drives[0] if len(drives) == 1 else -1


def law(model: mujoco.MjModel, actuator: int) -> str:
    """Control law by which commands drive an actuator, "" where none fits (muscles, user-defined gains, no gear).

    "intvelocity": its activation integrates ctrl; "motor": its force follows ctrl alone; "position": it is a spring
    and damper, or a velocity servo.
    """
    dynamics, bias = int(model.actuator_dyntype[actuator]), int(model.actuator_biastype[actuator])
    gear = float(model.actuator_gear[actuator, 0])
    if int(model.actuator_gaintype[actuator]) != _FIXED_GAIN or gear == 0 or model.actuator_ctrlnum[actuator] != 1:
        return ""
    if dynamics == _INTEGRATOR:
        return "intvelocity" if bias == _AFFINE_BIAS else ""
    if dynamics not in _PLAIN_DYNAMICS:
        return ""
    if bias == _NO_BIAS:
        return "motor" if model.actuator_gainprm[actuator, 0] != 0 else ""
    return "position" if bias == _AFFINE_BIAS else ""


def control_address(model: mujoco.MjModel, actuator: int) -> int:
    """Where data.ctrl holds the control of an actuator."""
    return int(model.actuator_ctrladr[actuator])


def activation_address(model: mujoco.MjModel, actuator: int) -> int:
    """Where data.act holds the integral of an "intvelocity" actuator."""
    return int(model.actuator_actadr[actuator])


def bind(model: mujoco.MjModel, data: mujoco.MjData, joints: Sequence[int]) -> Actuation:
    """The compiled actuation of these joints (ids of hinges and slides), bound to the model and the data.

    Joints that no command can drive are named in one warning; their commands are ignored.

    Raises:
        ValueError: a velocity joint whose integral is not limited.
    """
    rows, undriven = [], []
    for joint in joints:
        actuator = joint_actuator(model, joint)
        kind = law(model, actuator) if actuator >= 0 else ""
        if kind == "intvelocity":
            _check_limited(model, joint, actuator)
        if not kind:
            undriven.append(model.joint(joint).name)
        rows.append(
            (
                _LAWS[kind],
                int(model.jnt_qposadr[joint]),
                int(model.jnt_dofadr[joint]),
                actuator if kind else 0,
                control_address(model, actuator) if kind else 0,
                activation_address(model, actuator) if kind == "intvelocity" else 0,
            )
        )
    if undriven:
        logger.warning("no actuator drives these joints, commands for them are ignored: %s", ", ".join(undriven))
    table = np.array(rows, dtype=np.int32).reshape(len(rows), 6)
    columns = [np.ascontiguousarray(table[:, i]) for i in range(6)]
    return Actuation(model, data, *columns, np.zeros(5 * len(rows)), np.zeros(5 * len(rows)))


def _check_limited(model: mujoco.MjModel, joint: int, actuator: int) -> None:
    if not model.actuator_actlimited[actuator]:
        raise ValueError(
            f"velocity joint {model.joint(joint).name!r}: its integral has no limits; give the joint a range and the "
            'intvelocity actuator inheritrange="1", or an actrange'
        )


def initialise_integrators(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Let the integral of every velocity joint start from the joint's present position."""
    for joint in scalar_joints(model):
        actuator = joint_actuator(model, joint)
        if actuator >= 0 and law(model, actuator) == "intvelocity":
            position = data.qpos[model.jnt_qposadr[joint]]
            data.act[activation_address(model, actuator)] = model.actuator_gear[actuator, 0] * position


def apply_q_init(model: mujoco.MjModel, data: mujoco.MjData, q_init: Mapping[str, float]) -> None:
    """Put joints at their initial positions and make their actuators hold them.

    The integral of every velocity joint, named or not, starts from its joint's position.

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
        match law(model, actuator):
            case "position":
                data.ctrl[control_address(model, actuator)] = model.actuator_gear[actuator, 0] * value
            case "intvelocity":
                data.ctrl[control_address(model, actuator)] = 0.0
    initialise_integrators(model, data)
