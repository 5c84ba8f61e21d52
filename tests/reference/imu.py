"""IMU states from a forward pass of MuJoCo's own kinematics on a copy of the data, body by body, joint by joint."""

import copy
import math

import mujoco

FREE, BALL, SLIDE, HINGE = range(4)


def multiply(a, b):
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]


def add_rotated(total, quat, v):
    """total + v turned by the quaternion (w x y z)."""
    w, x, y, z = quat
    tx, ty, tz = 2 * (y * v[2] - z * v[1]), 2 * (z * v[0] - x * v[2]), 2 * (x * v[1] - y * v[0])
    return [
        total[0] + (v[0] + w * tx + y * tz - z * ty),
        total[1] + (v[1] + w * ty + z * tx - x * tz),
        total[2] + (v[2] + w * tz + x * ty - y * tx),
    ]


def inverse_turn(model, data, joint):
    """Quaternion that undoes a joint's rotation; None where it has none."""
    adr, kind = model.jnt_qposadr[joint], model.jnt_type[joint]
    if kind == HINGE:
        half = -0.5 * (float(data.qpos[adr]) - float(model.qpos0[adr]))
        return [math.cos(half), *(float(a) * math.sin(half) for a in model.jnt_axis[joint])]
    if kind == BALL:
        w, x, y, z = map(float, data.qpos[adr : adr + 4])
        norm = math.sqrt(w * w + x * x + y * y + z * z)
        return None if norm < 1e-15 else [w / norm, -x / norm, -y / norm, -z / norm]
    return None


def add_joint_rates(model, data, body, quat, omega):
    """Angular velocity (world axes) that the joints of a body add, the last first: the frame behind each is known."""
    first = model.body_jntadr[body]
    for joint in reversed(range(first, first + model.body_jntnum[body])):
        v = [float(x) for x in data.qvel[model.jnt_dofadr[joint] :][:6]]
        if model.jnt_type[joint] == HINGE:
            omega = add_rotated(omega, quat, [float(a) * v[0] for a in model.jnt_axis[joint]])
        elif model.jnt_type[joint] == BALL:
            omega = add_rotated(omega, quat, v[:3])
        elif model.jnt_type[joint] == FREE:
            omega = add_rotated(omega, quat, v[3:])
        back = inverse_turn(model, data, joint)
        quat = multiply(quat, back) if back else quat
    return omega


def gather(model, data, site, accelerometer):
    """quat_w (x y z w), lin_acc_b, ang_vel_b of one site; `accelerometer` is its address in sensordata."""
    fresh = copy.copy(data)
    mujoco.mj_kinematics(model, fresh)
    body = model.site_bodyid[site]
    quat = multiply([float(x) for x in fresh.xquat[body]], [float(x) for x in model.site_quat[site]])
    omega = [0.0, 0.0, 0.0]
    while body:
        omega = add_joint_rates(model, data, body, [float(x) for x in fresh.xquat[body]], omega)
        body = model.body_parentid[body]
    w, x, y, z = quat
    acceleration = [float(a) for a in data.sensordata[accelerometer : accelerometer + 3]]
    return [x, y, z, w, *acceleration, *add_rotated([0.0, 0.0, 0.0], [w, -x, -y, -z], omega)]
