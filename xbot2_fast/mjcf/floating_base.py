"""Setting a robot down: the height of its base at which its lowest collision point is just above the ground."""

import mujoco
import numpy as np
from numpy.typing import NDArray

CLEARANCE = 1e-3  # [m]

_GEOM = mujoco.mjtGeom
_AWAY = 1e6  # [m] far enough aside for the rays to see the world without the robot


def height_above_ground(model: mujoco.MjModel, data: mujoco.MjData, root: int) -> float:
    """Distance [m] by which a floating robot has to go down so that it is CLEARANCE above the ground; may be negative.

    The ground below each collision point is the highest static geom there, z = 0 where there is none.

    Args:
        data: holds the configuration to judge; it is changed.
        root: id of the robot's root body, which has a free joint.
    Returns:
        0 when the robot has no collision geom.
    """
    mujoco.mj_kinematics(model, data)
    points = [
        _lowest_points(model, data, geom)
        for geom in range(model.ngeom)
        if model.body_rootid[model.geom_bodyid[geom]] == root
        and (model.geom_contype[geom] or model.geom_conaffinity[geom])
    ]
    if not points:
        return 0.0
    cloud = np.concatenate(points)
    return float(np.min(cloud[:, 2] - _ground_below(model, data, root, cloud))) - CLEARANCE


def _ground_below(model: mujoco.MjModel, data: mujoco.MjData, root: int, cloud: NDArray) -> NDArray:
    """Height of the static world below each point."""
    static = np.flatnonzero(
        (model.body_weldid[model.geom_bodyid] == 0) & ((model.geom_contype != 0) | (model.geom_conaffinity != 0))
    )
    ground = np.zeros(len(cloud))
    if not len(static):
        return ground
    address = model.jnt_qposadr[model.body_jntadr[root]]
    data.qpos[address] += _AWAY
    mujoco.mj_kinematics(model, data)
    top = float(np.max(data.geom_xpos[static, 2] + model.geom_rbound[static])) + 1e3
    hit = np.zeros(1, np.int32)
    down = np.array([0.0, 0.0, -1.0])
    for i, point in enumerate(cloud):
        start = np.array([point[0], point[1], top])
        distance = mujoco.mj_ray(model, data, start, down, None, 1, -1, hit)
        if distance >= 0 and model.body_weldid[model.geom_bodyid[hit[0]]] == 0:
            ground[i] = top - distance
    data.qpos[address] -= _AWAY
    return ground


def _lowest_points(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> NDArray:
    """World points of a geom among which its lowest one is, whatever flat ground it stands on; shape (n, 3)."""
    center, rotation = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
    size = model.geom_size[geom]
    down = -rotation[2]  # the world's down in the geom's frame
    match int(model.geom_type[geom]):
        case _GEOM.mjGEOM_MESH:
            local = _hull_vertices(model, int(model.geom_dataid[geom]))
        case _GEOM.mjGEOM_BOX:
            local = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * size
        case _GEOM.mjGEOM_SPHERE:
            local = down[None] * size[0]
        case _GEOM.mjGEOM_CAPSULE:
            local = down * size[0] + np.array([[0, 0, size[1]], [0, 0, -size[1]]])
        case _GEOM.mjGEOM_CYLINDER:
            across = np.array([down[0], down[1], 0.0])
            length = np.linalg.norm(across)
            rim = across / length * size[0] if length > 1e-9 else np.zeros(3)
            local = rim + np.array([[0, 0, size[1]], [0, 0, -size[1]]])
        case _GEOM.mjGEOM_ELLIPSOID:
            scaled = down * size
            local = (scaled * size / np.linalg.norm(scaled))[None]
        case _:
            local = np.zeros((1, 3))
    return center + local @ rotation.T


def _hull_vertices(model: mujoco.MjModel, mesh: int) -> NDArray:
    """Vertices of a mesh's convex hull, which is what collides; all vertices when it has none."""
    start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    vertices = model.mesh_vert[start : start + count].astype(np.float64)
    graph = model.mesh_graphadr[mesh]
    if graph < 0:
        return vertices
    hull = model.mesh_graph[graph]
    # mesh_graph: numvert, numface, vert_edgeadr[numvert], vert_globalid[numvert], ...
    return vertices[model.mesh_graph[graph + 2 + hull : graph + 2 + 2 * hull]]
