"""A grid of vertical rays cast at what lies under it, each with mj_ray's distance and geom.

The static geoms come from the plan-view index; what moves is posed privately and culled against the grid's rectangle
once a scan; the nearest hit wins, and of equal ones the lowest geom id, as in mj_ray.
"""
from libc.math cimport INFINITY, NAN, fabs, isfinite, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import copy

import numpy as np

from xbot2_fast._kernels cimport _mujoco
from xbot2_fast._kernels._chain cimport BodyChain, Pose, chain_frame, chain_link, chain_poses
from xbot2_fast._kernels._loop cimport ATTEND, DONE, Clock, Stage
from xbot2_fast._kernels._scan_hit cimport BOX, hit_field, hit_mesh, ray_asset_fn, ray_geom_fn
from xbot2_fast._kernels._scan_index cimport (
    FAR, GRIDDED_MESH, SDF, UPRIGHT_BOX, UPRIGHT_HFIELD, UPRIGHT_PLANE, Geoms, Grid,
    Record, ScanIndex, eliminated, set_record)

ctypedef double (*ray_fn)(const void* model, const void* data, const double* pnt, const double* vec,
                          const unsigned char* geomgroup, unsigned char flg_static, int bodyexclude, int* geomid,
                          double* normal) noexcept nogil
ctypedef void (*kinematics_fn)(const void* model, void* data) noexcept nogil

cdef ray_fn mj_ray = <ray_fn>_mujoco.symbol("mj_ray")
cdef ray_geom_fn ray_geom = <ray_geom_fn>_mujoco.symbol("mju_rayGeom")
cdef ray_asset_fn ray_mesh = <ray_asset_fn>_mujoco.symbol("mj_rayMesh")
cdef ray_asset_fn ray_hfield = <ray_asset_fn>_mujoco.symbol("mj_rayHfield")
cdef kinematics_fn kinematics = <kinematics_fn>_mujoco.symbol("mj_kinematics")

cdef double[3] DOWN = [0.0, 0.0, -1.0]
cdef double LEVEL = 1e-6   # a body's x axis with less than this in the plane has no heading

cdef enum:
    HFIELD_TYPE = 1
    MESH_TYPE = 7
    SDF_TYPE = 8


# ---- one ray

# Passed by value or kept in locals that no call sees, so that a whole ray stays in registers.
cdef struct Hit:
    double distance
    int geom

cdef struct Best:
    double distance
    int geom
    int seen              # a geom that was found not to be eliminated in this scan


cdef inline void _offer(const Geoms* g, Best* best, double distance, int geom) noexcept nogil:
    if distance >= 0 and (distance < best.distance or (distance == best.distance and (best.geom < 0
                                                                                      or geom < best.geom))):
        if geom == best.seen or not eliminated(g, geom):
            best.distance = distance
            best.geom = best.seen = geom


cdef double _mujoco_hit(const Plan* p, const Worker* w, int geom, int type, const double* origin) noexcept nogil:
    """One geom that is no SDF, by MuJoCo's own function, posed as in the private data."""
    if type == MESH_TYPE:
        return ray_mesh(p.model, w.data, geom, origin, DOWN, NULL)
    if type == HFIELD_TYPE:
        return ray_hfield(p.model, w.data, geom, origin, DOWN, NULL)
    return ray_geom(w.xpos + 3 * geom, w.xmat + 9 * geom, p.index.geoms.size + 3 * geom, origin, DOWN, type, NULL)


cdef Hit _sdfs(const Plan* p, const Worker* w, double x, double y, double z) noexcept nogil:
    """All SDFs at once, through mj_ray on the model that hides everything else."""
    cdef double[3] origin = [x, y, z]
    cdef int geom = -1
    cdef double distance = mj_ray(p.sdf_model, w.data, origin, DOWN, NULL, 1, -1, &geom, NULL)
    return Hit(distance if geom >= 0 else -1.0, geom)


cdef double _hit(const Plan* p, const Worker* w, const Record* r, double x, double y, double z) noexcept nogil:
    cdef const double* pos = w.xpos + 3 * r.geom
    cdef const double* mat = w.xmat + 9 * r.geom
    cdef const double* size = p.index.geoms.size + 3 * r.geom
    cdef double[3] origin = [x, y, z]
    cdef double distance
    cdef bint boxed
    if r.kind == UPRIGHT_HFIELD:
        if hit_field(p.index.fields + r.slot, pos, mat, origin, &distance):
            return distance
    elif r.kind == GRIDDED_MESH:
        if hit_mesh(p.index.meshes + r.slot, pos, mat, size, origin, &distance, &boxed):
            return distance if boxed or ray_geom(pos, mat, size, origin, DOWN, BOX, NULL) >= 0 else -1
    return _mujoco_hit(p, w, r.geom, p.index.geoms.type[r.geom], origin)


cdef inline bint _try(const Plan* p, const Worker* w, const Record* r, double x, double y, double z,
                      Best* best) noexcept nogil:
    """False when this record and all lower ones lie below the best hit."""
    cdef double distance
    cdef int geom = r.geom
    cdef Hit hit
    if z - r.top > best.distance:
        return False
    if fabs(x - r.cx) > r.hx or fabs(y - r.cy) > r.hy:
        return True
    if r.kind == UPRIGHT_BOX and z - r.cz > 0:
        distance = -(r.hz - (z - r.cz))
        if not distance >= 0:
            distance = r.hz + (z - r.cz)
    elif r.kind == UPRIGHT_PLANE:
        distance = z - r.cz
    elif r.kind == SDF:
        hit = _sdfs(p, w, x, y, z)
        distance, geom = hit.distance, hit.geom
    else:
        distance = _hit(p, w, r, x, y, z)
    _offer(&p.index.geoms, best, distance, geom)
    return True


cdef inline void _cast(const Plan* p, const Worker* w, const Grid* g, double x, double y, double z,
                       Best* best) noexcept nogil:
    cdef double u = (x - g.x0) * g.inv, v = (y - g.y0) * g.inv
    cdef const Record* records = p.index.records
    cdef int k, c
    if u >= 0 and v >= 0 and u < g.nx and v < g.ny:
        c = <int>v * g.nx + <int>u
        for k in range(g.start[c], g.start[c + 1]):
            if not _try(p, w, records + g.entries[k], x, y, z, best):
                break
    records = w.records
    for k in range(w.nrecords):
        if not _try(p, w, records + k, x, y, z, best):
            break


cdef Hit _cast_everywhere(const Plan* p, const Worker* w, double x, double y, double z, double limit) noexcept nogil:
    """No index: mj_ray, or its loop over all geoms where some are masked."""
    cdef const Geoms* g = &p.index.geoms
    cdef double[3] origin = [x, y, z]
    cdef Best best = Best(limit, -1, -1)
    cdef Hit hit = Hit(0.0, -1)
    cdef int k
    if not p.subtree:
        hit.distance = mj_ray(p.model, w.data, origin, DOWN, g.groups, 1, -1, &hit.geom, NULL)
        return hit if hit.distance <= limit else Hit(limit, -1)
    for k in range(g.n):
        if g.type[k] != SDF_TYPE and not eliminated(g, k):
            _offer(g, &best, _mujoco_hit(p, w, k, g.type[k], origin), k)
    if p.sdf_model != NULL:
        hit = _sdfs(p, w, x, y, z)
        _offer(g, &best, hit.distance, hit.geom)
    return Hit(best.distance, best.geom)


# ---- what lies outside the grid

cdef struct Rectangle:
    double cx, cy, hx, hy


cdef inline bint _apart(const Rectangle* a, double cx, double cy, double hx, double hy) noexcept nogil:
    return fabs(cx - a.cx) > a.hx + hx or fabs(cy - a.cy) > a.hy + hy


cdef void _insert(Worker* w, const Record* r) noexcept nogil:
    """Keep the records sorted by top, highest first."""
    cdef int k = w.nrecords
    while k > 0 and w.records[k - 1].top < r.top:
        w.records[k] = w.records[k - 1]
        k -= 1
    w.records[k] = r[0]
    w.nrecords += 1


cdef void _add_mover(const Plan* p, Worker* w, const Mover* mover, const Rectangle* area, double z) noexcept nogil:
    """Pose the visible geoms of a body whose own pose is known, and keep those under the grid."""
    cdef const Geoms* g = &p.index.geoms
    cdef Record r
    cdef int k, i
    cdef double* pos
    cdef double* mat
    cdef const double* size
    for k in range(mover.first, mover.first + mover.count):
        i = p.mover_geoms[k]
        if eliminated(g, i):
            continue
        pos, mat = w.xpos + 3 * i, w.xmat + 9 * i
        chain_frame(p.moving, w.moving, mover.slot, g.pos + 3 * i, g.quat + 4 * i, g.sameframe[i], pos, mat)
        size = p.hfield_size + 4 * g.dataid[i] if g.type[i] == HFIELD_TYPE else g.size + 3 * i
        set_record(&r, i, g.type[i], size, pos, mat, FAR + fabs(pos[2] - z))
        if not _apart(area, r.cx, r.cy, r.hx, r.hy):
            _insert(w, &r)


cdef inline bint _visible(const Plan* p, const Mover* mover) noexcept nogil:
    cdef int k
    for k in range(mover.first, mover.first + mover.count):
        if not eliminated(&p.index.geoms, p.mover_geoms[k]):
            return True
    return False


cdef inline int _cull(const Plan* p, const double* qpos, const Rectangle* area, int* near) noexcept nogil:
    """Which free bodies reach the area, into `near`; how many. Without a branch a body: none can be guessed wrong."""
    cdef const double* at
    cdef double radius, cx = area.cx, cy = area.cy, hx = area.hx, hy = area.hy
    cdef int k, n = 0
    for k in range(p.nfree):
        at = qpos + p.free[k].qadr
        radius = p.free[k].radius
        near[n] = k
        n += (not fabs(at[0] - cx) > hx + radius) & (not fabs(at[1] - cy) > hy + radius)
    return n


cdef void _add_free(const Plan* p, Worker* w, const double* qpos, const Rectangle* area, double z) noexcept nogil:
    """Free bodies: their position stands in qpos, so most need no pose."""
    cdef const Mover* mover
    cdef int k
    for k in range(_cull(p, qpos, area, w.near)):
        mover = p.movers + w.near[k]
        if _visible(p, mover):
            chain_link(p.moving, mover.slot, qpos, NULL, NULL, w.moving)
            _add_mover(p, w, mover, area, z)


cdef void _add_linked(const Plan* p, Worker* w, const double* qpos, const double* mocap_pos, const double* mocap_quat,
                      const Rectangle* area, double z) noexcept nogil:
    """Jointed and mocap bodies: posed all together, once one of them can be seen."""
    cdef const Mover* mover
    cdef const double* at
    cdef bint posed = False
    cdef int k
    for k in range(p.nfree, p.nmovers):
        mover = p.movers + k
        if not _visible(p, mover):
            continue
        if not posed:
            chain_poses(p.moving, qpos, mocap_pos, mocap_quat, w.moving)
            posed = True
        at = w.moving[mover.slot].pos
        if not _apart(area, at[0], at[1], mover.radius, mover.radius):
            _add_mover(p, w, mover, area, z)


cdef void _collect(const Plan* p, Worker* w, const double* qpos, const double* mocap_pos, const double* mocap_quat,
                   const Rectangle* area, double z) noexcept nogil:
    """The records that the grid does not hold and the rays might meet."""
    cdef const Record* r
    cdef int k
    w.nrecords = 0
    for k in range(p.index.nalways):
        r = p.index.records + p.index.always[k]
        if not _apart(area, r.cx, r.cy, r.hx, r.hy) and not eliminated(&p.index.geoms, r.geom):
            _insert(w, r)
    _add_free(p, w, qpos, area, z)
    _add_linked(p, w, qpos, mocap_pos, mocap_quat, area, z)


# ---- one scan

cdef inline bint _beyond(const Plan* p, double z) noexcept nogil:
    """Whether rays from this height are too far from the terrain, or from no height at all, for the index."""
    return not fabs(z - p.index.middle) <= FAR


cdef void _heading(const double* mat, double* fx, double* fy) noexcept nogil:
    """Direction of the body's x axis in the plan view; world x where it is vertical."""
    cdef double norm = sqrt(mat[0] * mat[0] + mat[3] * mat[3])
    fx[0], fy[0] = 1.0, 0.0
    if norm > LEVEL:
        fx[0], fy[0] = mat[0] / norm, mat[3] / norm


cdef void _refresh_private(const Plan* p, Worker* w, const double* qpos, const double* mocap_pos,
                           const double* mocap_quat) noexcept nogil:
    memcpy(w.qpos, qpos, p.nq * sizeof(double))
    if p.nmocap:
        memcpy(w.mocap_pos, mocap_pos, 3 * p.nmocap * sizeof(double))
        memcpy(w.mocap_quat, mocap_quat, 4 * p.nmocap * sizeof(double))
    kinematics(p.model, w.data)


cdef void scan_state(const Plan* p, Worker* w, const double* qpos, const double* mocap_pos, const double* mocap_quat,
                     const Out* out) noexcept nogil:
    cdef const Pattern* g = &p.pattern
    cdef const Pose* body = w.base + p.base_slot
    cdef Rectangle area
    cdef double fx, fy, a, b, z
    cdef bint everywhere
    chain_poses(p.base, qpos, mocap_pos, mocap_quat, w.base)
    _heading(body.mat, &fx, &fy)
    z = body.pos[2] + g.z_offset
    a, b = 0.5 * (g.n - 1) * g.dx, 0.5 * (g.m - 1) * g.dy
    area = Rectangle(body.pos[0], body.pos[1], fabs(fx) * a + fabs(fy) * b, fabs(fy) * a + fabs(fx) * b)
    area.hx += 1e-9 * (1.0 + area.hx + fabs(area.cx))
    area.hy += 1e-9 * (1.0 + area.hy + fabs(area.cy))
    everywhere = p.through_mj_ray or _beyond(p, z) or not (isfinite(area.cx) and isfinite(area.cy))
    if everywhere:
        _refresh_private(p, w, qpos, mocap_pos, mocap_quat)
    else:
        _collect(p, w, qpos, mocap_pos, mocap_quat, &area, z)
    if out.pose != NULL:
        memcpy(out.pose, body.pos, 3 * sizeof(double))
        memcpy(out.pose + 3, body.mat, 9 * sizeof(double))
    _rays(p, w, body.pos, fx, fy, z, everywhere, out)


cdef void _rays(const Plan* p, const Worker* w, const double* center, double fx, double fy, double z, bint everywhere,
                const Out* out) noexcept nogil:
    """Forward axis (fx, fy), lateral axis (-fy, fx): to the left."""
    cdef const Pattern* g = &p.pattern
    cdef Grid grid = p.index.grid
    cdef double cx = center[0], cy = center[1], limit = g.max_distance, ahead, aside, ax, ay, x, y
    cdef Best best = Best(limit, -1, -1)
    cdef Hit hit
    cdef int i, j, k = 0
    for j in range(g.m):
        aside = (j - 0.5 * (g.m - 1)) * g.dy
        w.across[2 * j], w.across[2 * j + 1] = aside * fy, aside * fx
    for i in range(g.n):
        ahead = (i - 0.5 * (g.n - 1)) * g.dx
        ax, ay = ahead * fx, ahead * fy
        for j in range(g.m):
            x = cx + (ax - w.across[2 * j])
            y = cy + (ay + w.across[2 * j + 1])
            best.distance, best.geom = limit, -1
            if everywhere:
                hit = _cast_everywhere(p, w, x, y, z, limit)
                best.distance, best.geom = hit.distance, hit.geom
            else:
                _cast(p, w, &grid, x, y, z, &best)
            if out.x != NULL:
                out.x[k], out.y[k] = x, y
            if out.ids != NULL:
                out.ids[k] = best.geom
            out.heights[k] = z - best.distance if best.geom >= 0 else NAN
            k += 1


# ---- objects

cdef double* _doubles(array):
    return <double*><size_t>array.ctypes.data


def _without_all_but_sdfs(model, sdfs):
    """A copy of the model in which rays see SDFs only; show_sdfs says which of them."""
    other = copy.copy(model)
    other.geom_matid[:] = -1
    other.geom_rgba[:, 3] = 0.0
    return other


cdef class ScanPlan:
    """What a scan needs of a model: index, chains of bodies, pattern.

    `data` is a private mjData after mj_kinematics; masked (ngeom, uint8) and groups (6, uint8, 1 = seen) say whom rays
    see. `body` carries the grid.
    """

    def __cinit__(self, model, data, int body, shape, spacing, double z_offset, double max_distance, masked, groups,
                  bint subtree, bint closed_forms=True, bint through_mj_ray=False):
        cdef Plan* p = &self.plan
        self.keep = (model, data, masked)
        self.index = ScanIndex(model, data, masked, groups, closed_forms)
        self.base = BodyChain(model, data, [body])
        p.pattern = Pattern(shape[0], shape[1], spacing[0], spacing[1], z_offset, max_distance)
        p.index = &self.index.index
        p.base = &self.base.chain
        p.base_slot = self.base.slot(body)
        p.model = <void*><size_t>model._address
        p.hfield_size = _doubles(model.hfield_size)
        p.nq, p.nmocap = model.nq, model.nmocap
        p.subtree, p.through_mj_ray = subtree, through_mj_ray
        self._add_movers(model, data)
        self.sdfs = [int(g) for g in np.flatnonzero(model.geom_type == SDF_TYPE)]
        if self.sdfs:
            self.sdf_model = _without_all_but_sdfs(model, self.sdfs)
            p.sdf_model = <void*><size_t>self.sdf_model._address

    def __dealloc__(self):
        free(self.plan.movers)
        free(self.plan.free)
        free(self.plan.mover_geoms)

    def _add_movers(self, model, data):
        """All bodies that are not fixed to the world and have geoms that are not masked."""
        cdef Plan* p = &self.plan
        cdef int k = 0
        movers = _movers(model, self.keep[2])
        self.moving = BodyChain(model, data, [mover[0] for mover in movers])
        p.moving = &self.moving.chain
        p.movers = <Mover*>malloc(max(len(movers), 1) * sizeof(Mover))
        p.free = <Free*>malloc(max(len(movers), 1) * sizeof(Free))
        p.mover_geoms = <int*>malloc(max(model.ngeom, 1) * sizeof(int))
        if p.movers == NULL or p.mover_geoms == NULL or p.free == NULL:
            raise MemoryError(f"{len(movers)} moving bodies")
        for body, geoms, address, radius in movers:
            p.movers[p.nmovers] = Mover(self.moving.slot(body), k, len(geoms), radius)
            if address >= 0:
                p.free[p.nfree] = Free(address, radius * 1.000001)
                p.nfree += 1
            p.nmovers += 1
            for g in geoms:
                p.mover_geoms[k] = g
                k += 1

    cpdef show_sdfs(self):
        """Show the SDFs that rays see now in the model that hides everything else; before each scan."""
        cdef Geoms* g = &self.index.index.geoms
        for geom in self.sdfs:
            self.sdf_model.geom_rgba[geom, 3] = 0.0 if eliminated(g, geom) else 1.0

    @property
    def order(self):
        """Bodies of the moving chain."""
        return self.moving.order


def _movers(model, masked):
    """(body, its geoms, free address, radius) of the bodies that are not fixed to the world; free ones first."""
    by_body = {}
    for g in np.flatnonzero((model.body_weldid[model.geom_bodyid] != 0) & (masked == 0)).tolist():
        by_body.setdefault(int(model.geom_bodyid[g]), []).append(g)
    movers = [(body, geoms, _free_address(model, body), max(_reach(model, g) for g in geoms))
              for body, geoms in by_body.items()]
    return sorted(movers, key=lambda mover: mover[2] < 0)


def _free_address(model, body):
    """Where in qpos the position of a free body begins; -1 for other bodies."""
    joint = model.body_jntadr[body]
    if model.body_jntnum[body] == 1 and model.jnt_type[joint] == 0:
        return int(model.jnt_qposadr[joint])
    return -1


def _reach(model, geom):
    """How far from its body's origin a geom, or what MuJoCo computes of it from FAR away, can be; SDFs: inf.

    (One mj_ray casts at all SDFs, so all that can be seen must be posed.)
    """
    rbound = float(model.geom_rbound[geom])
    if rbound <= 0 or model.geom_type[geom] in (HFIELD_TYPE, SDF_TYPE):
        return np.inf
    size = model.geom_size[geom]
    least = float(size[size > 0].min()) if (size > 0).any() else 1.0
    grow = np.sqrt(1.0 + 3e-14 * (2.0 * FAR / least) ** 2)
    return float(np.linalg.norm(model.geom_pos[geom])) * (1 + 1e-9) + rbound * grow * (1 + 1e-6) + 1e-6


cdef class ScanWorker:
    """A thread's own part: a private mjData of the plan's model, after mj_kinematics, and scratch."""

    def __cinit__(self, ScanPlan plan not None, data):
        cdef Worker* w = &self.worker
        cdef Py_ssize_t n = plan.plan.index.nalways + plan.plan.index.geoms.n
        self.plan = plan
        base, moving = np.array(plan.base.poses), np.array(plan.moving.poses)
        records = np.empty((n + 1) * sizeof(Record), np.uint8)
        near, across = np.empty(plan.plan.nfree + 1, np.intc), np.empty(2 * plan.plan.pattern.m)
        self.keep = (data, base, moving, records, near, across)
        w.data = <void*><size_t>data._address
        w.xpos, w.xmat = _doubles(data.geom_xpos), _doubles(data.geom_xmat)
        w.qpos, w.mocap_pos, w.mocap_quat = _doubles(data.qpos), _doubles(data.mocap_pos), _doubles(data.mocap_quat)
        w.base, w.moving = <Pose*>_doubles(base), <Pose*>_doubles(moving)
        w.records = <Record*>_doubles(records)
        w.near, w.across = <int*>_doubles(near), _doubles(across)


cdef struct Job:
    const Plan* plan
    Worker* worker
    const double* qpos
    const double* mocap_pos
    const double* mocap_quat
    Out out


cdef void _scan_body(void* job) noexcept nogil:
    cdef Job* j = <Job*>job
    scan_state(j.plan, j.worker, j.qpos, j.mocap_pos, j.mocap_quat, &j.out)


cdef struct Periodic:
    Job job
    long long every, counter, count
    double time
    int has_sdfs


cdef int _scan_stage(void* context, Clock* clock) noexcept nogil:
    cdef Periodic* s = <Periodic*>context
    s.counter += 1
    if s.counter < s.every:
        return DONE
    s.counter = 0
    s.time = clock.time
    if s.has_sdfs or _mujoco.guarded(_scan_body, &s.job):
        return ATTEND
    s.count += 1
    return DONE


cdef class Scan(Stage):
    """Scans a data into bound arrays: `pose` (4, 3: position, matrix), `grid` (3, n, m: x, y, height), `ids` (n, m).

    `scan()` casts now. As a stage it casts in every `every`-th step, and asks for `again` as its handler when that
    needs Python. `count` scans were made in steps, the last at simulation time `time`.
    """
    cdef Periodic s
    cdef ScanWorker worker
    cdef tuple keep

    def __cinit__(self, ScanWorker worker not None, data, double[:, ::1] pose, double[:, :, ::1] grid,
                  int[:, ::1] ids, long long every=1):
        cdef Job* j = &self.s.job
        self.run = _scan_stage
        self.context = &self.s
        self.keep = (data, pose, grid, ids)
        self.s.every = every
        self.rebind(worker)
        j.qpos, j.mocap_pos, j.mocap_quat = _doubles(data.qpos), _doubles(data.mocap_pos), _doubles(data.mocap_quat)
        j.out = Out(&pose[0, 0], &grid[0, 0, 0], &grid[1, 0, 0], &grid[2, 0, 0], &ids[0, 0])

    cpdef rebind(self, ScanWorker worker):
        """Scan by another plan of the same model and pattern, such as after its static geoms were moved."""
        self.worker = worker
        self.s.has_sdfs = worker.plan.plan.sdf_model != NULL
        self.s.job.plan, self.s.job.worker = &worker.plan.plan, &worker.worker

    def scan(self):
        if self.s.has_sdfs:
            self.worker.plan.show_sdfs()
        if _mujoco.guarded(_scan_body, &self.s.job):   # a few microseconds: giving the GIL up would cost more
            _mujoco.raise_error()

    def again(self):
        """Make the scan that the stage could not: SDFs take Python; an error of MuJoCo's is raised here."""
        self.scan()
        self.s.count += 1

    @property
    def count(self):
        return self.s.count

    @property
    def time(self):
        return self.s.time


def scan_rows(ScanWorker worker not None, const double[:, ::1] qpos, const double[:, ::1] mocap_pos,
              const double[:, ::1] mocap_quat, double[:, :, ::1] heights, ids, Py_ssize_t first, Py_ssize_t last):
    """Scan the states qpos[first:last] into heights (and ids, unless None) without the GIL."""
    cdef Rows rows
    cdef int[:, :, ::1] geoms
    cdef int failed
    rows.job.plan, rows.job.worker = &worker.plan.plan, &worker.worker
    rows.job.mocap_pos = &mocap_pos[0, 0] if mocap_pos.shape[0] else NULL
    rows.job.mocap_quat = &mocap_quat[0, 0] if mocap_quat.shape[0] else NULL
    rows.qpos, rows.nq = &qpos[0, 0], qpos.shape[1]
    rows.heights, rows.size = &heights[0, 0, 0], heights.shape[1] * heights.shape[2]
    rows.ids = NULL
    if ids is not None:
        geoms = ids
        rows.ids = &geoms[0, 0, 0]
    rows.first, rows.last = first, last
    with nogil:
        failed = _mujoco.guarded(_rows_body, &rows)
    if failed:
        _mujoco.raise_error()


cdef struct Rows:
    Job job
    const double* qpos
    double* heights
    int* ids
    Py_ssize_t nq, size, first, last


cdef void _rows_body(void* context) noexcept nogil:
    cdef Rows* r = <Rows*>context
    cdef Py_ssize_t k
    for k in range(r.first, r.last):
        r.job.qpos = r.qpos + k * r.nq
        r.job.out.pose, r.job.out.x, r.job.out.y = NULL, NULL, NULL
        r.job.out.heights = r.heights + k * r.size
        r.job.out.ids = r.ids + k * r.size if r.ids != NULL else NULL
        _scan_body(&r.job)


def cast(ScanWorker worker not None, const double[::1] qpos, const double[:, ::1] mocap_pos,
         const double[:, ::1] mocap_quat, const double[:, ::1] origins, bint everywhere, double[::1] distances,
         int[::1] ids):
    """Single rays from any origins (k, 3) through the index, or through mj_ray: distance -1 and id -1 for none."""
    cdef Singles s
    cdef int failed
    if worker.plan.sdfs:
        worker.plan.show_sdfs()
    s.job.plan, s.job.worker = &worker.plan.plan, &worker.worker
    s.job.qpos = &qpos[0] if qpos.shape[0] else NULL
    s.job.mocap_pos = &mocap_pos[0, 0] if mocap_pos.shape[0] else NULL
    s.job.mocap_quat = &mocap_quat[0, 0] if mocap_quat.shape[0] else NULL
    s.origins, s.n, s.everywhere = &origins[0, 0], origins.shape[0], everywhere
    s.distances, s.ids = &distances[0], &ids[0]
    with nogil:
        failed = _mujoco.guarded(_singles_body, &s)
    if failed:
        _mujoco.raise_error()


cdef struct Singles:
    Job job
    const double* origins
    Py_ssize_t n
    int everywhere
    double* distances
    int* ids


cdef void _singles_body(void* context) noexcept nogil:
    cdef Singles* s = <Singles*>context
    cdef Job* j = &s.job
    cdef Rectangle area
    cdef double x, y, z
    cdef Hit hit
    cdef Py_ssize_t k
    if s.everywhere:
        _refresh_private(j.plan, j.worker, j.qpos, j.mocap_pos, j.mocap_quat)
    for k in range(s.n):
        x, y, z = s.origins[3 * k], s.origins[3 * k + 1], s.origins[3 * k + 2]
        if s.everywhere:
            hit = _cast_everywhere(j.plan, j.worker, x, y, z, INFINITY)
        elif _beyond(j.plan, z):
            _refresh_private(j.plan, j.worker, j.qpos, j.mocap_pos, j.mocap_quat)
            hit = _cast_everywhere(j.plan, j.worker, x, y, z, INFINITY)
        else:
            area = Rectangle(x, y, 0.0, 0.0)
            _collect(j.plan, j.worker, j.qpos, j.mocap_pos, j.mocap_quat, &area, z)
            hit = _single(j.plan, j.worker, x, y, z)
        s.distances[k] = hit.distance if hit.geom >= 0 else -1.0
        s.ids[k] = hit.geom


cdef Hit _single(const Plan* p, const Worker* w, double x, double y, double z) noexcept nogil:
    cdef Best best = Best(INFINITY, -1, -1)
    _cast(p, w, &p.index.grid, x, y, z, &best)
    return Hit(best.distance, best.geom)
