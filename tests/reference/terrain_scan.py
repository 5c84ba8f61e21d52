"""The terrain scan, slow and obvious: one mujoco.mj_ray a grid point."""

import mujoco
import numpy as np

DOWN = np.array([0.0, 0.0, -1.0])


def cast(model, data, origins, groups):
    """Distance and geom of each origin (k, 3) by mj_ray; `data` had mj_kinematics; -1 and -1 for misses."""
    geom = np.zeros(1, np.int32)
    distances, ids = np.empty(len(origins)), np.empty(len(origins), np.int32)
    for k, origin in enumerate(origins):
        distances[k] = mujoco.mj_ray(model, data, origin, DOWN, groups, 1, -1, geom)
        ids[k] = geom[0]
    return distances, ids


def grid(position, rotation, shape, spacing):
    """World x, y of each ray, by the words of the documentation."""
    heading = np.array([rotation[0, 0], rotation[1, 0]])
    norm = np.sqrt(heading[0] * heading[0] + heading[1] * heading[1])
    fx, fy = heading / norm if norm > 1e-6 else (1.0, 0.0)
    x, y = np.empty(shape), np.empty(shape)
    for i in range(shape[0]):
        for j in range(shape[1]):
            ahead = (i - 0.5 * (shape[0] - 1)) * spacing[0]
            aside = (j - 0.5 * (shape[1] - 1)) * spacing[1]
            x[i, j] = position[0] + (ahead * fx - aside * fy)
            y[i, j] = position[1] + (ahead * fy + aside * fx)
    return x, y


def scan(model, state, body, shape, spacing, z_offset, max_distance, excluded):
    """(x, y, heights, ids) of a scan of the state's qpos and mocap poses."""
    data = mujoco.MjData(model)
    data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = state.qpos, state.mocap_pos, state.mocap_quat
    mujoco.mj_kinematics(model, data)
    groups = np.array([0 if g in excluded else 1 for g in range(6)], np.uint8)
    x, y = grid(data.body(body).xpos, data.body(body).xmat.reshape(3, 3), shape, spacing)
    z = data.body(body).xpos[2] + z_offset
    origins = np.stack([x, y, np.full(shape, z)], -1).reshape(-1, 3)
    distances, ids = cast(model, data, origins, groups)
    hit = (distances >= 0) & (distances <= max_distance)
    heights = np.where(hit, z - distances, np.nan).reshape(shape)
    return x, y, heights, np.where(hit, ids, -1).reshape(shape)
