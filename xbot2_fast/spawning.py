"""Where robots start: files of spawn locations, and putting a robot down at one without touching the terrain."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

SPAWN_FILE = "spawn_locations.yaml"
# Least distance [m] between the robot's lowest collision point and the terrain below it.
CLEARANCE = 0.01
# Rays under the robot along x and along y; what lies between two of them is found by MuJoCo's collision detection.
_RAYS = 15
_FREE = int(mujoco.mjtJoint.mjJNT_FREE)

Array = NDArray[np.float64]


def load_spawn_locations(path: str | Path) -> Array:
    """Read spawn locations (n, 3) [m] from YAML: `{spawn_locations: [[x, y, z], ...]}` or the bare list.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not YAML, or not a list of at least one location; names the file.
    """
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {error}") from error
    if isinstance(content, dict):
        content = content.get("spawn_locations")
    return check_spawn_locations(content, str(path))


def check_spawn_locations(locations: Any, name: str = "spawn_locations") -> Array:
    """Spawn locations as an array (n, 3). Raises ValueError that starts with `name`."""
    try:
        array = np.array(locations, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1:] != (3,) or not len(array) or not np.isfinite(array).all():
        shown = repr(locations)
        shown = shown if len(shown) < 100 else shown[:97] + "..."
        raise ValueError(f"{name}: expected a list of locations [x, y, z] of finite numbers, got {shown}")
    return array


def detect_spawn_file(xml_paths: Iterable[str | Path]) -> Path | None:
    """The `spawn_locations.yaml` beside the first of these files that has one; None when none has."""
    for path in xml_paths:
        found = Path(path).parent / SPAWN_FILE
        if found.is_file():
            return found
    return None


class Spawner:
    """Puts the robot, which hangs on the model's first free joint, down at spawn locations.

    Args:
        locations: (n, 3) world positions of the free joint [m].
        seed: of the choice between them; None for another one each time.

    Attributes:
        locations: (n, 3).
        current: (3,), the location chosen last; at first a random one.
    Raises:
        ValueError: no locations, or a model without free joint.
    """

    def __init__(self, model: mujoco.MjModel, locations: ArrayLike, seed: int | None = None) -> None:
        self.locations = check_spawn_locations(locations)
        free = [j for j in range(model.njnt) if int(model.jnt_type[j]) == _FREE]
        if not free:
            raise ValueError("spawn_locations: the model has no free joint that could be put at one")
        self._model = model
        self._scratch = mujoco.MjData(model)
        self._address = int(model.jnt_qposadr[free[0]])
        root = model.body_rootid[model.jnt_bodyid[free[0]]]
        self._of_robot = model.body_rootid[model.geom_bodyid] == root
        collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        self._geoms = [int(g) for g in np.flatnonzero(self._of_robot & collides)]
        self._random = np.random.default_rng(seed)
        self.choose()

    def choose(self, position: ArrayLike | None = None) -> None:
        """Make a world position (3,) [m] the current location, or a random location. Raises ValueError."""
        if position is None:
            self.current: Array = self.locations[self._random.integers(len(self.locations))].copy()
        else:
            self.current = check_spawn_locations([position], "position")[0]

    def place(self, data: mujoco.MjData) -> None:
        """Put the robot at the current location, upright, as high above it as it takes to be clear of the terrain.

        Writes the seven numbers of the free joint in `data.qpos` and nothing else.
        """
        pose = data.qpos[self._address : self._address + 7]
        self._scratch.qpos[:], self._scratch.mocap_pos[:] = data.qpos, data.mocap_pos
        self._scratch.mocap_quat[:] = data.mocap_quat
        height = self._clear_height(self.current)
        pose[:3], pose[3:] = self.current, (1.0, 0.0, 0.0, 0.0)
        pose[2] = height

    def _clear_height(self, location: Array) -> float:
        """Height of the free joint above a location where no collision geom of the robot touches anything else."""
        self._pose(location)
        if not self._geoms:
            return float(location[2])
        low, high = self._bounds()
        ground = self._highest_below(low, high)
        height = float(location[2]) + max(0.0, ground + CLEARANCE - low[2])
        for _ in range(100):
            self._pose(np.append(location[:2], height))
            depth = self._deepest_contact()
            if depth <= 0:
                break
            height += depth + 1e-3
        return height

    def _pose(self, position: Array) -> None:
        pose = self._scratch.qpos[self._address : self._address + 7]
        pose[:3], pose[3:] = position, (1.0, 0.0, 0.0, 0.0)
        mujoco.mj_kinematics(self._model, self._scratch)

    def _bounds(self) -> tuple[Array, Array]:
        """Smallest upright box around the robot's collision geoms: its two extreme corners."""
        boxes = [geom_bounds(self._model, self._scratch, geom) for geom in self._geoms]
        return np.min([box[0] for box in boxes], axis=0), np.max([box[1] for box in boxes], axis=0)

    def _highest_below(self, low: Array, high: Array) -> float:
        """Highest surface below the top of the robot and under its shadow; minus infinity when there is none."""
        self._pose(np.array([low[0], low[1], high[2] + 1e4]))  # the robot itself is out of the way
        down, ground, start = np.array([0.0, 0.0, -1.0]), -np.inf, float(high[2])
        for x in np.linspace(low[0], high[0], _RAYS):
            for y in np.linspace(low[1], high[1], _RAYS):
                point = np.array([x, y, start])
                distance = mujoco.mj_ray(self._model, self._scratch, point, down, None, 1, -1, None)
                if distance >= 0:
                    ground = max(ground, start - distance)
        return ground

    def _deepest_contact(self) -> float:
        """How deep the robot is in anything else; at most 0 when it is clear."""
        mujoco.mj_collision(self._model, self._scratch)
        deepest = 0.0
        for contact in self._scratch.contact:
            first, second = (self._of_robot[geom] if geom >= 0 else False for geom in contact.geom)
            if first != second:
                deepest = max(deepest, -float(contact.dist))
        return deepest


def geom_bounds(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> tuple[Any, Any]:
    """Extreme corners (3,) of the smallest upright box around a geom, from the poses in `data`.

    Exact for spheres, capsules, ellipsoids, cylinders, boxes and meshes; for others the box of their own bounding box.
    """
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    centre, turn = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
    match kind:
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            reach = np.full(3, size[0])
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            reach = size[0] + size[1] * np.abs(turn[:, 2])
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            reach = np.sqrt((turn**2) @ size**2)
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            reach = size[0] * np.sqrt(np.maximum(0.0, 1 - turn[:, 2] ** 2)) + size[1] * np.abs(turn[:, 2])
        case mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            start = model.mesh_vertadr[mesh]
            vertices = model.mesh_vert[start : start + model.mesh_vertnum[mesh]] @ turn.T + centre
            return vertices.min(0), vertices.max(0)
        case _:
            centre = centre + turn @ model.geom_aabb[geom, :3]
            reach = np.abs(turn) @ model.geom_aabb[geom, 3:]
    return centre - reach, centre + reach
