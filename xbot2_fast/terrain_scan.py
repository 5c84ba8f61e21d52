"""The terrain around a robot: a grid of vertical rays, as a controller or a policy observes it."""

import logging
import math
import numbers
import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from xbot2_fast._kernels._scan import Scan, ScanPlan, ScanWorker, cast, scan_rows
from xbot2_fast.overlays import add_height_spheres

logger = logging.getLogger(__name__)

_CHECK_RAYS = 256


@dataclass(frozen=True, slots=True, eq=False)
class TerrainScan:
    """What one scan saw. The arrays are its own; N is forward, M lateral (to the left).

    Attributes:
        time: simulation time of the observation [s].
        center: world position of the body [m], shape (3,).
        x, y: world coordinates of each ray [m], shape (N, M); also where it missed.
        ray_start_height: world z where the rays began [m].
        heights: world z of the first surface below [m], shape (N, M); NaN where there is none within reach.
        geom_ids: whose surface that is, shape (N, M), int32; -1 for misses.
        rotation: world from body, the full attitude, shape (3, 3).
    """

    time: float
    center: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    ray_start_height: float
    heights: NDArray[np.float64]
    geom_ids: NDArray[np.int32]
    rotation: NDArray[np.float64]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rays hit something, shape (N, M)."""
        return self.geom_ids >= 0

    def add_visuals(
        self, scene: mujoco.MjvScene, radius: float = 0.025, height_range: tuple[float, float] | None = None
    ) -> None:
        """Append a sphere at each hit to a viewer's scene, coloured from blue (lowest) over green to red (highest).

        Hold the viewer's lock; clear `scene.ngeom` before rebuilding your overlays, and sync the viewer afterwards.

        Args:
            scene: such as `viewer.user_scn`; spheres for which it has no room are left out.
            radius: of the spheres [m].
            height_range: heights shown blue and red [m], others clamped to them; default: of this scan.
        Raises:
            ValueError: see `xbot2_fast.overlays.add_height_spheres`.
        """
        add_height_spheres(scene, self.x, self.y, self.heights, radius, height_range)


class TerrainScanner:
    """Casts the grid of rays of one robot, each with the result of `mujoco.mj_ray` to the last bit.

    The cost does not grow with the terrain: an index over the plan view knows the geoms under each ray. Static geoms
    are indexed as they are placed now; call `rebuild()` after moving or resizing one. Colours, materials, groups,
    height-field data and everything that moves are read at each scan.

    Args:
        model: the simulator's own model. Make a new scanner after recompiling it.
        robot_body: name of the robot's root body, which carries the grid; no geom of it or its descendants is seen.
        shape: samples forward and lateral.
        spacing: between neighbouring samples, forward and lateral [m].
        z_offset: how far above the body's origin the rays begin [m]. Begin above the terrain of interest.
        max_distance: length of the rays [m]; math.inf has no end.
        excluded_geom_groups: list or tuple of the geom groups (0 to 5) that rays do not see.
        exclude: "groups" hides the excluded groups, and refuses a robot with a geom in another one;
            "subtree" hides the robot's geoms whatever their groups, and nothing else.
        method: "indexed", or "mj_ray" for one compiled `mj_ray` a ray.
    Raises:
        ValueError: a bad argument, an unknown body, or a robot geom in a group that rays see.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        robot_body: str,
        shape: Sequence[int] = (17, 11),
        spacing: Sequence[float] = (0.1, 0.1),
        z_offset: float = 2.0,
        max_distance: float = 5.0,
        excluded_geom_groups: list[int] | tuple[int, ...] = (0, 1),
        *,
        exclude: Literal["groups", "subtree"] = "groups",
        method: Literal["indexed", "mj_ray"] = "indexed",
    ):
        self.model = model
        self.robot_body = robot_body
        self.shape = _shape(shape)
        self.spacing = _spacing(spacing)
        self.z_offset = _number("z_offset", z_offset, "a finite number", math.isfinite)
        self.max_distance = _number("max_distance", max_distance, "a positive number", lambda v: v > 0)
        self.excluded_geom_groups = _groups(excluded_geom_groups)
        self.exclude = _choice("exclude", exclude, ("groups", "subtree"))
        self.method = _choice("method", method, ("indexed", "mj_ray"))
        self._body = _root_body(model, robot_body)
        subtree = _subtree_geoms(model, self._body)
        if exclude == "groups":
            self._check_robot_groups(subtree)
        self._masked = np.zeros(model.ngeom, np.uint8)
        self._groups = np.ones(6, np.uint8)
        if exclude == "subtree":
            self._masked[subtree] = 1
        else:
            self._groups[list(self.excluded_geom_groups)] = 0
        self._pool: ThreadPoolExecutor | None = None
        self._data: mujoco.MjData | None = None
        self._periodic: weakref.WeakSet[PeriodicScan] = weakref.WeakSet()
        self.rebuild()
        self._report_sdfs()
        self._report_blindness(subtree)

    def rebuild(self) -> None:
        """Index the static geoms anew, after one of them was moved or resized in the model.

        Between steps, on the simulation thread; a simulator that uses the scanner goes on with the new index.
        """
        self._private = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, self._private)
        self._build(closed_forms=True, through_mj_ray=self.method == "mj_ray")
        if self.method == "indexed":
            self._check_index()
        self._data = None
        for periodic in self._periodic:
            periodic.stage.rebind(self._workers[0])

    def _build(self, closed_forms: bool, through_mj_ray: bool) -> None:
        self._plan = ScanPlan(
            self.model, self._private, self._body, self.shape, self.spacing, self.z_offset, self.max_distance,
            self._masked, self._groups, self.exclude == "subtree", closed_forms, through_mj_ray,
        )  # fmt: skip
        self._workers = [ScanWorker(self._plan, self._private)]

    def _check_index(self) -> None:
        """Compare the index with mj_ray on a few hundred rays, should a release of MuJoCo ever compute otherwise."""
        if self._agrees_with_mj_ray():
            return
        self._build(closed_forms=False, through_mj_ray=False)
        consequence = "closed forms disagree with MuJoCo %s, its own functions are used"
        if not self._agrees_with_mj_ray():
            self._build(closed_forms=False, through_mj_ray=True)
            consequence = "the index disagrees with MuJoCo %s, every ray uses mj_ray"
        logger.warning("terrain scan: " + consequence, mujoco.__version__)

    def _agrees_with_mj_ray(self) -> bool:
        origins = _check_origins(self.model, self._private)
        answers = []
        for everywhere in (False, True):
            distances, ids = np.empty(len(origins)), np.empty(len(origins), np.int32)
            d = self._private
            cast(self._workers[0], d.qpos, d.mocap_pos, d.mocap_quat, origins, everywhere, distances, ids)
            answers.append((distances.view(np.int64), ids))
        return all(np.array_equal(a, b) for a, b in zip(*answers, strict=True))

    def _report_sdfs(self) -> None:
        sdfs = np.flatnonzero((self.model.geom_type == mujoco.mjtGeom.mjGEOM_SDF) & (self._masked == 0))
        if len(sdfs) and self.method == "indexed":
            logger.info("terrain scan: rays over the SDF geoms %s use mj_ray", _names(self.model, sdfs))

    def _report_blindness(self, subtree: NDArray[np.intp]) -> None:
        """Warn when rays can meet nothing, as over a floor that was left in group 0."""
        others = np.delete(np.arange(self.model.ngeom), subtree)
        if not self._groups[np.clip(self.model.geom_group[others], 0, 5)].any():
            why = (
                f"all others, {_names(self.model, others)}, are in the excluded groups {self.excluded_geom_groups}"
                if len(others)
                else "the model has no other"
            )
            logger.warning(
                "terrain scan: rays see no geom but the robot's: %s. Every height will be NaN; give terrain a group "
                'that rays see, change excluded_geom_groups, or use exclude="subtree"',
                why,
            )

    def _check_robot_groups(self, subtree: NDArray[np.intp]) -> None:
        group = np.clip(self.model.geom_group[subtree], 0, 5)
        seen = subtree[~np.isin(group, self.excluded_geom_groups)]
        if len(seen):
            raise ValueError(
                f"robot_body: expected all geoms of {self.robot_body!r} and its descendants in the excluded groups "
                f"{self.excluded_geom_groups}, but rays would see {_names(self.model, seen)}; give them an excluded "
                'group, change excluded_geom_groups, or use exclude="subtree"'
            )

    def scan(self, data: mujoco.MjData) -> TerrainScan:
        """Scan now, at the current `qpos` of `data`, which is only read.

        For the simulator's own model and data, on the simulation thread, between steps.

        Raises:
            ValueError: `data` belongs to another model.
            mujoco.FatalError: MuJoCo gave up.
        """
        if data is not self._data:
            self._bind(data)
        self._scan.scan()
        return self._result(data.time, self._pose, self._grid, self._ids)

    def _bind(self, data: mujoco.MjData) -> None:
        self._pose, self._grid, self._ids, self._scan = self._scan_of(data, 1)
        self._data = data

    def _scan_of(self, data: mujoco.MjData, every: int):
        if data.model._address != self.model._address:
            raise ValueError("data: expected an MjData of the scanner's model, got one of another model")
        pose, grid, ids = np.empty((4, 3)), np.empty((3, *self.shape)), np.empty(self.shape, np.int32)
        return pose, grid, ids, Scan(self._workers[0], data, pose, grid, ids, every)

    def _result(self, time: float, pose: NDArray, grid: NDArray, ids: NDArray) -> TerrainScan:
        x, y, heights = grid.copy()
        pose = pose.copy()
        center = pose[0]
        return TerrainScan(time, center, x, y, center.item(2) + self.z_offset, heights, ids.copy(), pose[1:])

    def periodic(self, data: mujoco.MjData, decimation: int) -> "PeriodicScan":
        """A stage for the step loop that scans `data` in every `decimation`-th step."""
        periodic = PeriodicScan(self, data, decimation)
        self._periodic.add(periodic)
        return periodic

    def scan_batch(
        self,
        model: mujoco.MjModel,
        qpos: NDArray[np.float64],
        out: NDArray[np.float64],
        geom_ids: NDArray[np.int32] | None = None,
        *,
        nthread: int | None = None,
    ) -> NDArray[np.float64]:
        """Scan many states of the model, such as many robots on one terrain, over one index and without the GIL.

        Mocap bodies are where the model puts them.

        Args:
            model: the scanner's own.
            qpos: one state a row, shape (nbatch, nq), C-contiguous.
            out: heights as in `TerrainScan.heights`, shape (nbatch, N, M), C-contiguous; written in place.
            geom_ids: like `TerrainScan.geom_ids`, shape (nbatch, N, M); written in place unless None.
            nthread: threads to use; default one a core.
        Returns:
            `out`.
        Raises:
            ValueError: another model, or an array of the wrong shape, type or order; nothing was written.
        """
        nthread = (os.cpu_count() or 1) if nthread is None else nthread
        if model._address != self.model._address:
            raise ValueError("model: expected the scanner's own model, got another one")
        if isinstance(nthread, bool) or not isinstance(nthread, int) or nthread < 1:
            raise ValueError(f"nthread: expected an integer >= 1, got {nthread!r}")
        if not isinstance(qpos, np.ndarray) or qpos.ndim != 2:
            raise _unexpected("qpos", qpos, np.float64, f"(nbatch, {self.model.nq})")
        _check_array("qpos", qpos, np.float64, (len(qpos), self.model.nq))
        _check_array("out", out, np.float64, (len(qpos), *self.shape), written=True)
        if geom_ids is not None:
            _check_array("geom_ids", geom_ids, np.int32, out.shape, written=True)
        if len(qpos):
            self._scan_rows(qpos, out, geom_ids, min(nthread, len(qpos)))
        return out

    def _scan_rows(self, qpos: NDArray, out: NDArray, geom_ids: NDArray | None, nthread: int) -> None:
        while len(self._workers) < nthread:
            data = mujoco.MjData(self.model)
            mujoco.mj_kinematics(self.model, data)
            self._workers.append(ScanWorker(self._plan, data))
        home = self._private
        self._plan.show_sdfs()
        bounds = np.linspace(0, len(qpos), nthread + 1).astype(int)
        jobs = [
            (worker, qpos, home.mocap_pos, home.mocap_quat, out, geom_ids, first, last)
            for worker, first, last in zip(self._workers, bounds[:-1], bounds[1:], strict=False)
        ]
        if nthread > 1:
            if self._pool is None or self._pool._max_workers < nthread - 1:
                self._pool = ThreadPoolExecutor(nthread - 1, thread_name_prefix="terrain_scan")
            others = [self._pool.submit(scan_rows, *job) for job in jobs[1:]]
            scan_rows(*jobs[0])
            for other in others:
                other.result()
        else:
            scan_rows(*jobs[0])


class PeriodicScan:
    """A scanner as a stage of the step loop: scans behind every n-th step, without Python.

    Attributes:
        stage, on_attention: for the step loop.
    """

    def __init__(self, scanner: TerrainScanner, data: mujoco.MjData, decimation: int):
        self._scanner = scanner
        self._pose, self._grid, self._ids, self.stage = scanner._scan_of(data, decimation)
        self.on_attention = self.stage.again
        self._latest: TerrainScan | None = None
        self._latest_count = 0

    @property
    def count(self) -> int:
        """Scans made so far."""
        return self.stage.count

    @property
    def latest(self) -> TerrainScan | None:
        """The last scan; None before the first. The same object until the next scan."""
        count = self.stage.count
        if count != self._latest_count:
            self._latest = self._scanner._result(self.stage.time, self._pose, self._grid, self._ids)
            self._latest_count = count
        return self._latest

    def draw(self, scene: mujoco.MjvScene) -> None:
        """Append the markers of the latest scan, if there is one."""
        if self.latest is not None:
            self.latest.add_visuals(scene)


# ---- arguments


def _number(name: str, value: float, expected: str, accepts: Callable[[float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not accepts(float(value)):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return float(value)


def _pair(name: str, value: Sequence, expected: str) -> tuple:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray) or len(value) != 2:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return tuple(value)


def _shape(value: Sequence[int]) -> tuple[int, int]:
    expected = "two integers >= 1, forward and lateral"
    pair = _pair("shape", value, expected)
    if any(isinstance(v, bool) or not isinstance(v, numbers.Integral) or v < 1 for v in pair):
        raise ValueError(f"shape: expected {expected}, got {value!r}")
    return int(pair[0]), int(pair[1])


def _spacing(value: Sequence[float]) -> tuple[float, float]:
    expected = "two finite positive numbers, forward and lateral"
    forward, lateral = _pair("spacing", value, expected)
    return (
        _number("spacing", forward, expected, lambda v: 0 < v < math.inf),
        _number("spacing", lateral, expected, lambda v: 0 < v < math.inf),
    )


def _groups(value: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    expected = "a list or tuple of geom groups from 0 to 5"
    if not isinstance(value, list | tuple):
        raise ValueError(f"excluded_geom_groups: expected {expected}, got {value!r}")
    for v in value:
        if isinstance(v, bool) or not isinstance(v, numbers.Integral) or not 0 <= v <= 5:
            raise ValueError(f"excluded_geom_groups: expected {expected}, got {v!r} in {value!r}")
    return tuple(int(v) for v in value)


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def _root_body(model: mujoco.MjModel, name: str) -> int:
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) if isinstance(name, str) else -1
    if body < 0:
        raise ValueError(f"robot_body: expected the name of a body of the model, got {name!r}")
    if body == 0:
        raise ValueError("robot_body: expected the robot's root body, got 'world', which all terrain belongs to")
    return body


def _subtree_geoms(model: mujoco.MjModel, root: int) -> NDArray[np.intp]:
    inside = np.zeros(model.nbody, bool)
    inside[root] = True
    for body in range(root + 1, model.nbody):
        inside[body] = inside[model.body_parentid[body]]
    return np.flatnonzero(inside[model.geom_bodyid])


def _names(model: mujoco.MjModel, geoms: Sequence[int] | NDArray[np.intp], most: int = 5) -> str:
    names = [f"{model.geom(int(g)).name or f'geom {g}'} (group {model.geom_group[g]})" for g in geoms[:most]]
    return ", ".join(names) + (f" and {len(geoms) - most} more" if len(geoms) > most else "")


def _unexpected(name: str, array: object, dtype: type, shape: object) -> ValueError:
    got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    return ValueError(f"{name}: expected a {np.dtype(dtype).name} array of shape {shape}, got {got}")


def _check_array(name: str, array: NDArray, dtype: type, shape: tuple[int, ...], written: bool = False) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        raise _unexpected(name, array, dtype, shape)
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: expected a C-contiguous array, got strides {array.strides}; copy it first")
    if written and not array.flags.writeable:
        raise ValueError(f"{name}: expected an array to write to, got a read-only one")


def _check_origins(model: mujoco.MjModel, data: mujoco.MjData) -> NDArray[np.float64]:
    """Ray origins over and in geoms taken at random, the same for the same model."""
    rng = np.random.default_rng(0)
    if model.ngeom == 0:
        return rng.normal(size=(1, 3))
    geoms = rng.integers(0, model.ngeom, _CHECK_RAYS)
    reach = np.maximum(model.geom_rbound[geoms], 0.1)[:, None]
    origins = data.geom_xpos[geoms] + rng.uniform(-0.7, 0.7, (_CHECK_RAYS, 3)) * reach
    origins[::2, 2] = data.geom_xpos[:, 2].max() + 2.0
    return origins
