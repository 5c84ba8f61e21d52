"""Where in the plan view the static geoms are, so that a vertical ray visits only those under it.

The rectangles hold for what MuJoCo *computes*, not only for the exact shapes: they are padded by the rounding error of
its ray functions for rays that start within FAR of the middle height.
"""
from libc.math cimport INFINITY, ceil, fabs, fmax, fmin, sqrt
from libc.stdlib cimport calloc, free, malloc

import numpy as np

cdef enum:  # mjtGeom
    PLANE_ = 0
    HFIELD_ = 1
    SPHERE_ = 2
    CAPSULE_ = 3
    ELLIPSOID_ = 4
    CYLINDER_ = 5
    BOX_ = 6
    MESH_ = 7
    SDF_ = 8

cdef enum:
    CELLS_PER_GEOM = 8          # 4 and 16 were slower over random places
    MAX_CELLS = 1 << 22
    ENTRIES_PER_GEOM = 64       # bounds the memory; geoms that cover more cells go to the always-list
    ENTRIES_PER_TRIANGLE = 64   # likewise; meshes with more stay with mj_rayMesh
    MAX_TRIANGLES = 1 << 21     # of all gridded meshes together, about 150 bytes each

cdef enum Binning:
    BINNED = 0
    NO_MEMORY = 1
    TOO_MANY_ENTRIES = 2

cdef double FAR = 1e3
cdef double PAD = 1e-9          # of a geom's size and place: rounding in MuJoCo's ray functions
cdef double QUADRIC = 3e-14     # relative error of b*b - a*c, per squared distance over size
cdef double FLOAT_ROUNDING = 1.2e-7   # of a vertex, twice over


# ---- bounds

cdef inline double _row(const double* mat, int i, double a, double b, double c) noexcept nogil:
    return fabs(mat[3 * i]) * a + fabs(mat[3 * i + 1]) * b + fabs(mat[3 * i + 2]) * c


cdef void _plane(const double* size, const double* mat, Bounds* b) noexcept nogil:
    """A rectangle; a size that is not positive is unbounded along that axis, and then so is what it spans."""
    cdef int i
    for i in range(3):
        b.h[i] = 0.0
        if mat[3 * i] != 0.0:
            b.h[i] += INFINITY if size[0] <= 0 else fabs(mat[3 * i]) * size[0]
        if mat[3 * i + 1] != 0.0:
            b.h[i] += INFINITY if size[1] <= 0 else fabs(mat[3 * i + 1]) * size[1]


cdef void _round(int type, const double* size, const double* mat, double far, Bounds* b) noexcept nogil:
    """Spheres, capsules, ellipsoids, cylinders, with the error of the discriminant far away."""
    cdef double least = size[0], grow
    cdef int i
    for i in range(3):
        if type == SPHERE_:
            b.h[i] = size[0]
        elif type == CAPSULE_:
            b.h[i] = size[0] + fabs(mat[3 * i + 2]) * size[1]
        elif type == CYLINDER_:
            b.h[i] = (fabs(mat[3 * i + 2]) * size[1]
                      + size[0] * sqrt(mat[3 * i] * mat[3 * i] + mat[3 * i + 1] * mat[3 * i + 1]))
        else:
            b.h[i] = sqrt((mat[3 * i] * size[0]) ** 2 + (mat[3 * i + 1] * size[1]) ** 2
                          + (mat[3 * i + 2] * size[2]) ** 2)
    if type == ELLIPSOID_:
        least = fmin(fmin(size[0], size[1]), size[2])
    far /= least
    grow = sqrt(1.0 + QUADRIC * far * far)
    for i in range(3):
        b.h[i] *= grow


cdef void _hfield(const double* size, const double* mat, Bounds* b) noexcept nogil:
    """The base box [-size3, 0] and the top box [0, size2] together."""
    cdef int i
    cdef double middle = 0.5 * (size[2] - size[3])
    for i in range(3):
        b.c[i] += mat[3 * i + 2] * middle
        b.h[i] = _row(mat, i, size[0], size[1], 0.5 * (size[2] + size[3]))


cdef Bounds bounds(int type, const double* size, const double* pos, const double* mat, double far) noexcept nogil:
    """Box in world axes for rays from no farther than `far`; `size` is geom_size, of height fields hfield_size."""
    cdef Bounds b
    cdef int i
    cdef double extent = 0.0
    for i in range(3):
        b.c[i] = pos[i]
    if type == PLANE_:
        _plane(size, mat, &b)
    elif type == HFIELD_:
        _hfield(size, mat, &b)
    elif SPHERE_ <= type <= CYLINDER_:
        _round(type, size, mat, far, &b)
    else:
        for i in range(3):
            b.h[i] = _row(mat, i, size[0], size[1], size[2])
    for i in range(3):
        if b.h[i] < INFINITY:
            extent += b.h[i]
    b.pad = PAD * (1.0 + fabs(b.c[0]) + fabs(b.c[1]) + fabs(b.c[2]) + extent) + 1e-14 * far
    return b


cdef bint _identity(const double* mat) noexcept nogil:
    cdef int i
    for i in range(9):
        if mat[i] != (1.0 if i % 4 == 0 else 0.0):
            return False
    return True


cdef void set_record(Record* r, int geom, int type, const double* size, const double* pos,
                     const double* mat, double far) noexcept nogil:
    """The record of a geom, its closed form chosen where one is certain to be exact."""
    cdef Bounds b = bounds(type, size, pos, mat, far)
    cdef bint upright = _identity(mat)
    r.geom = geom
    r.slot = -1
    r.cx, r.cy, r.cz = b.c[0], b.c[1], b.c[2]
    r.hx, r.hy, r.hz = b.h[0] + b.pad, b.h[1] + b.pad, b.h[2]
    r.top = b.c[2] + b.h[2] + b.pad
    if type == BOX_ and upright and size[2] * size[2] > 1e-13 * far * far:
        r.kind = UPRIGHT_BOX
        r.hx, r.hy, r.hz = size[0], size[1], size[2]
    elif type == PLANE_ and upright:
        r.kind = UPRIGHT_PLANE
        r.hx = size[0] if size[0] > 0 else INFINITY
        r.hy = size[1] if size[1] > 0 else INFINITY
    elif type == HFIELD_:
        r.kind = HFIELD
        r.top = INFINITY        # data outside [0, 1] stands out of its box
    elif type == MESH_:
        r.kind = MESH
    elif type == SDF_:
        r.kind = SDF
        r.top = INFINITY
    else:
        r.kind = PRIMITIVE


# ---- the grid

cdef struct Span:
    int i0, i1, j0, j1


cdef Span _span(const Grid* g, double cx, double cy, double hx, double hy) noexcept nogil:
    cdef double px = PAD * (1.0 + fabs(cx) + hx), py = PAD * (1.0 + fabs(cy) + hy)
    return Span(cell(cx - hx - px, g.x0, g.inv, g.nx), cell(cx + hx + px, g.x0, g.inv, g.nx),
                cell(cy - hy - py, g.y0, g.inv, g.ny), cell(cy + hy + py, g.y0, g.inv, g.ny))


cdef void _shape(double x0, double x1, double y0, double y1, Py_ssize_t cells, int* nx, int* ny,
                 double* inv) noexcept nogil:
    """Square cells, about as many as asked for, over the rectangle."""
    cdef double w = x1 - x0, d = y1 - y0, side
    side = fmax(sqrt(w * d / cells), fmax(w, d) / cells)
    side = fmax(side, 1e-12 * (1.0 + fabs(x0) + fabs(y0) + fabs(x1) + fabs(y1)))
    inv[0] = 1.0 / side
    nx[0] = <int>fmax(1.0, ceil(w / side))
    ny[0] = <int>fmax(1.0, ceil(d / side))


cdef bint _inside(const Grid* g, const Record* r) noexcept nogil:
    return (r.cx - r.hx >= g.x0 and r.cy - r.hy >= g.y0
            and r.cx + r.hx <= g.x0 + g.nx / g.inv and r.cy + r.hy <= g.y0 + g.ny / g.inv)


cdef Py_ssize_t _covered(const Grid* g, const Record* r) noexcept nogil:
    cdef Span s = _span(g, r.cx, r.cy, r.hx, r.hy)
    return (<Py_ssize_t>(s.i1 - s.i0 + 1)) * (s.j1 - s.j0 + 1)


cdef Py_ssize_t _limit(const Index* ix) noexcept nogil:
    """How many cells a geom may cover, so that the entries stay within the bound."""
    cdef Py_ssize_t most = MAX_CELLS, total, covered, bound = 65536 + <Py_ssize_t>ENTRIES_PER_GEOM * ix.nrecords
    cdef int k
    while True:
        total = 0
        for k in range(ix.nrecords):
            if _inside(&ix.grid, ix.records + k):
                covered = _covered(&ix.grid, ix.records + k)
                if covered <= most:
                    total += covered
        if total <= bound:
            return most
        most //= 2


cdef void _count(Index* ix, Py_ssize_t most, unsigned char* binned) noexcept nogil:
    """Entries of each cell c into start[c + 2]; who does not fit goes to the always-list."""
    cdef Grid* g = &ix.grid
    cdef int k, i, j
    cdef Span s
    for k in range(ix.nrecords):
        binned[k] = _inside(g, ix.records + k) and _covered(g, ix.records + k) <= most
        if not binned[k]:
            ix.always[ix.nalways] = k
            ix.nalways += 1
            continue
        s = _span(g, ix.records[k].cx, ix.records[k].cy, ix.records[k].hx, ix.records[k].hy)
        for j in range(s.j0, s.j1 + 1):
            for i in range(s.i0, s.i1 + 1):
                g.start[j * g.nx + i + 2] += 1


cdef void _fill(Index* ix, const unsigned char* binned) noexcept nogil:
    """The cells' lists, sorted like the records. While cell c is filled start[c + 1] is where its next entry goes."""
    cdef Grid* g = &ix.grid
    cdef int k, i, j, c
    cdef Span s
    for c in range(g.nx * g.ny):
        g.start[c + 2] += g.start[c + 1]
    for k in range(ix.nrecords):
        if binned[k]:
            s = _span(g, ix.records[k].cx, ix.records[k].cy, ix.records[k].hx, ix.records[k].hy)
            for j in range(s.j0, s.j1 + 1):
                for i in range(s.i0, s.i1 + 1):
                    c = j * g.nx + i
                    g.entries[g.start[c + 1]] = k
                    g.start[c + 1] += 1


# ---- triangles and height fields

cdef void projection(const double* lvec, double* b0, double* b1) noexcept nogil:
    """Basis of the plane across the ray, by the operations of MuJoCo's ray_triangle callers."""
    cdef double scale
    cdef int i
    for i in range(3):
        b0[i] = 1.0
    if fabs(lvec[0]) >= fabs(lvec[1]) and fabs(lvec[0]) >= fabs(lvec[2]):
        b0[0] = 0.0
    elif fabs(lvec[1]) >= fabs(lvec[2]):
        b0[1] = 0.0
    else:
        b0[2] = 0.0
    scale = (-(lvec[0] * b0[0] + lvec[1] * b0[1] + lvec[2] * b0[2])
             / (lvec[0] * lvec[0] + lvec[1] * lvec[1] + lvec[2] * lvec[2]))
    for i in range(3):
        b1[i] = b0[i] + lvec[i] * scale
    _normalize(b1)
    b0[0] = b1[1] * lvec[2] - b1[2] * lvec[1]
    b0[1] = b1[2] * lvec[0] - b1[0] * lvec[2]
    b0[2] = b1[0] * lvec[1] - b1[1] * lvec[0]
    _normalize(b0)


cdef void _normalize(double* v) noexcept nogil:
    cdef double norm = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), inv = 1.0 / norm
    v[0] *= inv
    v[1] *= inv
    v[2] *= inv


cdef void _down(const double* mat, double* lvec) noexcept nogil:
    """(0, 0, -1) in a geom's frame, summed as mju_mulMatTVec3 sums."""
    cdef int i
    for i in range(3):
        lvec[i] = mat[i] * 0.0 + mat[3 + i] * 0.0 + mat[6 + i] * -1.0


cdef bint _set_field(Field* f, const float* data, int nrow, int ncol, const double* size, const double* pos,
                     const double* mat, double far) noexcept nogil:
    """False when the field is tilted, so that the ray crosses several cells."""
    cdef double lvec[3]
    _down(mat, lvec)
    if lvec[0] != 0 or lvec[1] != 0 or mat[2] != 0 or mat[5] != 0:
        return False
    f.data = data
    f.nrow, f.ncol = nrow, ncol
    f.sx, f.sy, f.sz, f.base = size[0], size[1], size[2], size[3]
    f.dx = (2.0 * size[0]) / (ncol - 1)
    f.dy = (2.0 * size[1]) / (nrow - 1)
    f.per_dx, f.per_dy = 1.0 / f.dx, 1.0 / f.dy
    f.lz = lvec[2]
    f.rim = 1e-9 * (1.0 + fabs(pos[0]) + fabs(pos[1]) + size[0] + size[1] + size[2]) + 1e-12 * far
    projection(lvec, f.b0, f.b1)
    f.thick = fmin(0.5 * size[2], 0.5 * size[3]) ** 2 > 1e-13 * far * far
    return True


cdef struct Box:
    double x0, x1, y0, y1


cdef Box _triangle_box(const Mesh* m, int t, const double* pos, const double* mat, double scale) noexcept nogil:
    """Plan rectangle of a triangle, padded; a sliver's by its whole size, since its projection is ill-conditioned."""
    cdef Box b = Box(INFINITY, -INFINITY, INFINITY, -INFINITY)
    cdef double px[3]
    cdef double py[3]
    cdef double grow, area, edge
    cdef const float* v
    cdef int k
    for k in range(3):
        v = m.vert + 3 * m.face[3 * t + k]
        px[k] = mat[0] * v[0] + mat[1] * v[1] + mat[2] * v[2] + pos[0]
        py[k] = mat[3] * v[0] + mat[4] * v[1] + mat[5] * v[2] + pos[1]
        b.x0, b.x1 = fmin(b.x0, px[k]), fmax(b.x1, px[k])
        b.y0, b.y1 = fmin(b.y0, py[k]), fmax(b.y1, py[k])
    edge = fmax(b.x1 - b.x0, b.y1 - b.y0)
    area = fabs((px[0] - px[2]) * (py[1] - py[2]) - (px[1] - px[2]) * (py[0] - py[2]))
    grow = PAD * scale + (0.0 if area > 1e-6 * edge * edge else 2.0 * edge)
    return Box(b.x0 - grow, b.x1 + grow, b.y0 - grow, b.y1 + grow)


cdef void _set_triangle(Mesh* m, int k, const double* pos, const double* mat) noexcept nogil:
    cdef Triangle* t = m.plan + k
    cdef const float* v
    cdef double p[9]      # in the mesh's frame
    cdef double x[3]      # in the plan view
    cdef double y[3]
    cdef double area, span, low, high
    cdef int i
    for i in range(3):
        v = m.vert + 3 * m.face[3 * k + i]
        p[3 * i], p[3 * i + 1], p[3 * i + 2] = v[0], v[1], v[2]
        x[i] = mat[0] * v[0] + mat[1] * v[1] + mat[2] * v[2] + pos[0]
        y[i] = mat[3] * v[0] + mat[4] * v[1] + mat[5] * v[2] + pos[1]
    for i in range(3):
        t.v2[i] = p[6 + i]
    t.n[0] = (p[1] - p[7]) * (p[5] - p[8]) - (p[2] - p[8]) * (p[4] - p[7])
    t.n[1] = (p[2] - p[8]) * (p[3] - p[6]) - (p[0] - p[6]) * (p[5] - p[8])
    t.n[2] = (p[0] - p[6]) * (p[4] - p[7]) - (p[1] - p[7]) * (p[3] - p[6])
    t.denominator = m.lvec[0] * t.n[0] + m.lvec[1] * t.n[1] + m.lvec[2] * t.n[2]
    t.x2, t.y2 = x[2], y[2]
    area = (x[0] - x[2]) * (y[1] - y[2]) - (x[1] - x[2]) * (y[0] - y[2])
    span = fmax(fmax(fabs(x[0] - x[2]), fabs(x[1] - x[2])), fmax(fmax(fabs(y[0] - y[2]), fabs(y[1] - y[2])),
                                                                 fmax(fabs(x[0] - x[1]), fabs(y[0] - y[1]))))
    if not fabs(area) > 1e-6 * m.scale * span:      # its altitude is near rounding: leave it to ray_triangle
        t.a0 = t.b0 = t.a1 = t.b1 = 0.0
        t.fair = 0
        return
    t.a0, t.b0 = (y[1] - y[2]) / area, (x[2] - x[1]) / area
    t.a1, t.b1 = (y[2] - y[0]) / area, (x[0] - x[2]) / area
    t.fair = fabs(t.denominator) > 1e-14
    for i in range(3):
        low, high = fmin(p[i], fmin(p[3 + i], p[6 + i])), fmax(p[i], fmax(p[3 + i], p[6 + i]))
        if not 1e-4 * (high - low) - m.rounding > m.tolerance * fmax(fabs(m.lvec[i]), 1e-3 if m.lvec[i] != 0 else 1.0):
            t.fair = 0


cdef void _mesh_cells(const Mesh* m, const Box* b, Span* s) noexcept nogil:
    s.i0, s.i1 = cell(b.x0, m.x0, m.inv, m.nx), cell(b.x1, m.x0, m.inv, m.nx)
    s.j0, s.j1 = cell(b.y0, m.y0, m.inv, m.ny), cell(b.y1, m.y0, m.inv, m.ny)


cdef Binning _count_triangles(Mesh* m, Box* boxes, const double* pos, const double* mat) noexcept nogil:
    """Rectangle of each triangle, and the entries of each cell c into start[c + 2]."""
    cdef Py_ssize_t total = 0, bound = 65536 + <Py_ssize_t>ENTRIES_PER_TRIANGLE * m.nface
    cdef int t, i, j
    cdef Span s
    for t in range(m.nface):
        _set_triangle(m, t, pos, mat)
        boxes[t] = _triangle_box(m, t, pos, mat, m.scale)
        _mesh_cells(m, boxes + t, &s)
        total += (<Py_ssize_t>(s.i1 - s.i0 + 1)) * (s.j1 - s.j0 + 1)
        if total > bound:
            return TOO_MANY_ENTRIES
        for j in range(s.j0, s.j1 + 1):
            for i in range(s.i0, s.i1 + 1):
                m.start[j * m.nx + i + 2] += 1
    return BINNED


cdef Binning _fill_triangles(Mesh* m, const Box* boxes) noexcept nogil:
    cdef int cells = m.nx * m.ny, t, i, j, c
    cdef Span s
    for c in range(cells):
        m.start[c + 2] += m.start[c + 1]
    m.triangles = <int*>malloc((m.start[cells + 1] + 1) * sizeof(int))
    if m.triangles == NULL:
        return NO_MEMORY
    for t in range(m.nface):
        _mesh_cells(m, boxes + t, &s)
        for j in range(s.j0, s.j1 + 1):
            for i in range(s.i0, s.i1 + 1):
                c = j * m.nx + i + 1
                m.triangles[m.start[c]] = t
                m.start[c] += 1
    return BINNED


cdef void _free_mesh(Mesh* m) noexcept nogil:
    free(m.start)
    free(m.triangles)
    free(m.plan)
    m.start, m.triangles, m.plan = NULL, NULL, NULL


cdef Binning _bin_triangles(Mesh* m, const double* pos, const double* mat) noexcept nogil:
    """Triangles of each cell; nothing is kept unless BINNED."""
    cdef Box* boxes = <Box*>malloc(m.nface * sizeof(Box))
    cdef Binning done = NO_MEMORY
    m.start = <int*>calloc(<Py_ssize_t>m.nx * m.ny + 2, sizeof(int))
    m.plan = <Triangle*>calloc(m.nface, sizeof(Triangle))
    m.triangles = NULL
    if boxes != NULL and m.start != NULL and m.plan != NULL:
        done = _count_triangles(m, boxes, pos, mat)
        if done == BINNED:
            done = _fill_triangles(m, boxes)
    free(boxes)
    if done != BINNED:
        _free_mesh(m)
    return done


# ---- the object

cdef const double* _doubles(array):
    return <const double*><size_t>array.ctypes.data


cdef const float* _floats(array):
    return <const float*><size_t>array.ctypes.data


cdef const int* _ints(array):
    return <const int*><size_t>array.ctypes.data


cdef class ScanIndex:
    """Index of the static geoms of `model`, placed as in `data` (which had mj_kinematics).

    `masked` (ngeom) and `groups` (6) say whom rays ignore; both are read at each ray, as are colours, materials, groups
    and height-field data of the model. With `closed_forms` False only MuJoCo's own ray functions are used. Meshes are
    gridded while they have `max_triangles` together.
    """

    def __cinit__(self, model, data, masked, groups, bint closed_forms=True, Py_ssize_t max_triangles=MAX_TRIANGLES):
        self.keep = (model, data, masked)
        self.free_triangles = max_triangles
        self._bind(model, data, masked, groups)
        static = np.flatnonzero(model.body_weldid[model.geom_bodyid] == 0).astype(np.int32)
        self.build_records(static, closed_forms)
        x0, x1, y0, y1 = self._domain()
        self.build_grid(x0, x1, y0, y1)

    def __dealloc__(self):
        cdef Index* ix = &self.index
        cdef int k
        for k in range(ix.nmeshes):
            _free_mesh(ix.meshes + k)
        free(ix.meshes)
        free(ix.fields)
        free(ix.records)
        free(ix.always)
        free(ix.grid.start)
        free(ix.grid.entries)

    def _bind(self, model, data, masked, groups):
        cdef Geoms* g = &self.index.geoms
        g.n = model.ngeom
        g.type, g.bodyid, g.group = _ints(model.geom_type), _ints(model.geom_bodyid), _ints(model.geom_group)
        g.matid, g.dataid = _ints(model.geom_matid), _ints(model.geom_dataid)
        g.rgba, g.mat_rgba = _floats(model.geom_rgba), _floats(model.mat_rgba)
        g.size, g.pos, g.quat = _doubles(model.geom_size), _doubles(model.geom_pos), _doubles(model.geom_quat)
        g.sameframe = <const unsigned char*><size_t>model.geom_sameframe.ctypes.data
        g.xpos, g.xmat = _doubles(data.geom_xpos), _doubles(data.geom_xmat)
        g.masked = <const unsigned char*><size_t>masked.ctypes.data
        for k in range(6):
            g.groups[k] = groups[k]

    cdef void build_records(self, const int[::1] geoms, bint closed_forms):
        cdef Index* ix = &self.index
        cdef Geoms* g = &ix.geoms
        cdef Record* unsorted
        cdef Py_ssize_t k, n = geoms.shape[0]
        model = self.keep[0]
        cdef const double* hsize = _doubles(model.hfield_size)
        cdef const double* size
        cdef int i
        records = np.empty(max(n, 1) * sizeof(Record), np.uint8)
        unsorted = <Record*><size_t>records.ctypes.data
        ix.middle = float(np.median(self.keep[1].geom_xpos[geoms, 2])) if n else 0.0
        for k in range(n):
            i = geoms[k]
            size = hsize + 4 * g.dataid[i] if g.type[i] == HFIELD_ else g.size + 3 * i
            set_record(unsorted + k, i, g.type[i], size, g.xpos + 3 * i, g.xmat + 9 * i, self._far(i))
            if not closed_forms and unsorted[k].kind <= UPRIGHT_PLANE:
                unsorted[k].kind = PRIMITIVE
        tops = np.ndarray(n, np.float64, records, 0, (sizeof(Record),))
        cdef const long long[::1] order = np.argsort(-tops, kind="stable").astype(np.int64)
        ix.records = <Record*>malloc(max(n, 1) * sizeof(Record))
        ix.nrecords = n
        for k in range(n):
            ix.records[k] = unsorted[order[k]]
        if closed_forms:
            self._build_fields()
            self._build_meshes()

    cdef double _far(self, int geom) noexcept nogil:
        """How far from a static geom rays may start that start within FAR of the middle height."""
        return FAR + fabs(self.index.geoms.xpos[3 * geom + 2] - self.index.middle)

    def _build_fields(self):
        cdef Index* ix = &self.index
        cdef Record* r
        cdef int k, h
        model = self.keep[0]
        ix.fields = <Field*>calloc(max(ix.nrecords, 1), sizeof(Field)) if model.nhfield else NULL
        for k in range(ix.nrecords):
            r = ix.records + k
            if r.kind != HFIELD or ix.nfields == 32767:
                continue
            h = ix.geoms.dataid[r.geom]
            if _set_field(ix.fields + ix.nfields, _floats(model.hfield_data) + <int>model.hfield_adr[h],
                          model.hfield_nrow[h], model.hfield_ncol[h], _doubles(model.hfield_size) + 4 * h,
                          ix.geoms.xpos + 3 * r.geom, ix.geoms.xmat + 9 * r.geom, self._far(r.geom)):
                r.kind, r.slot = UPRIGHT_HFIELD, ix.nfields
                ix.nfields += 1

    def _build_meshes(self):
        cdef Index* ix = &self.index
        cdef int k
        model = self.keep[0]
        ix.meshes = <Mesh*>calloc(max(ix.nrecords, 1), sizeof(Mesh)) if model.nmesh else NULL
        for k in range(ix.nrecords):
            if ix.records[k].kind == MESH and ix.nmeshes < 32767:
                self._build_mesh(ix.records + k)

    cdef int _build_mesh(self, Record* r) except -1:
        cdef Index* ix = &self.index
        cdef Mesh* m = ix.meshes + ix.nmeshes
        cdef const double* pos = ix.geoms.xpos + 3 * r.geom
        cdef const double* mat = ix.geoms.xmat + 9 * r.geom
        cdef int id = ix.geoms.dataid[r.geom], first, k
        cdef Binning done
        model = self.keep[0]
        m.nface = model.mesh_facenum[id]
        if m.nface > self.free_triangles:
            return 0
        first = <int>model.mesh_vertadr[id]
        m.vert = _floats(model.mesh_vert) + 3 * first
        m.face = _ints(model.mesh_face) + 3 * <int>model.mesh_faceadr[id]
        m.scale = 1.0 + fabs(pos[0]) + fabs(pos[1]) + fabs(pos[2]) + r.hx + r.hy + r.hz
        m.scale += 1e-5 * self._far(r.geom)
        m.x0, m.y0 = r.cx - r.hx, r.cy - r.hy
        _shape(m.x0, r.cx + r.hx, m.y0, r.cy + r.hy, min(2 * m.nface + 16, MAX_CELLS), &m.nx, &m.ny, &m.inv)
        _down(mat, m.lvec)
        projection(m.lvec, m.b0, m.b1)
        for k in range(3):
            m.per_lvec[k] = 1.0 / m.lvec[k] if m.lvec[k] != 0 else INFINITY
        m.tolerance = 1e-12 * (m.scale + self._far(r.geom))
        m.rounding = FLOAT_ROUNDING * float(np.abs(model.mesh_vert[first:first + <int>model.mesh_vertnum[id]]).max())
        m.sphere_tolerance = 1e-13 * self._far(r.geom) ** 2
        done = _bin_triangles(m, pos, mat)
        if done == NO_MEMORY:
            raise MemoryError(f"index of a mesh with {m.nface} faces")
        if done == BINNED:
            r.kind, r.slot = GRIDDED_MESH, ix.nmeshes
            ix.nmeshes += 1
            self.free_triangles -= m.nface
        return 0

    def _domain(self):
        """The rectangle that the grid covers: of the finite geoms, a few outliers left out."""
        cdef Index* ix = &self.index
        if ix.nrecords == 0:
            return 0.0, 1.0, 0.0, 1.0
        raw = np.frombuffer((<unsigned char*>ix.records)[:ix.nrecords * sizeof(Record)], np.float64)
        cx, cy, hx, hy = raw.reshape(ix.nrecords, -1)[:, 1:5].T
        finite = np.isfinite(hx) & np.isfinite(hy)
        if not finite.any():
            return 0.0, 1.0, 0.0, 1.0
        return *_extent(cx[finite], hx[finite]), *_extent(cy[finite], hy[finite])

    cdef void build_grid(self, double x0, double x1, double y0, double y1) except *:
        cdef Index* ix = &self.index
        cdef Grid* g = &ix.grid
        cdef Py_ssize_t cells = min(max(CELLS_PER_GEOM * ix.nrecords, 64), MAX_CELLS), k
        binned = np.zeros(max(ix.nrecords, 1), np.uint8)
        g.x0, g.y0 = x0, y0
        _shape(x0, x1, y0, y1, cells, &g.nx, &g.ny, &g.inv)
        g.start = <int*>calloc(<Py_ssize_t>g.nx * g.ny + 2, sizeof(int))
        ix.always = <int*>malloc(max(ix.nrecords, 1) * sizeof(int))
        _count(ix, _limit(ix), <unsigned char*><size_t>binned.ctypes.data)
        g.nentries = 0
        for k in range(g.nx * g.ny + 2):
            g.nentries += g.start[k]
        g.entries = <int*>malloc(max(g.nentries, 1) * sizeof(int))
        if g.entries == NULL or g.start == NULL or ix.always == NULL:
            raise MemoryError(f"terrain index of {ix.nrecords} geoms")
        _fill(ix, <unsigned char*><size_t>binned.ctypes.data)

    @property
    def kinds(self):
        """Geom id -> how it is cast, for static geoms."""
        names = ["upright box", "upright plane", "primitive", "height field", "upright height field", "mesh",
                 "gridded mesh", "sdf"]
        return {self.index.records[k].geom: names[self.index.records[k].kind] for k in range(self.index.nrecords)}

    @property
    def memory(self):
        """Bytes of the records, of their grid and of those of the meshes."""
        cdef Index* ix = &self.index
        cdef const Mesh* m
        cdef Py_ssize_t meshes = 0, cells, k
        for k in range(ix.nmeshes):
            m, cells = ix.meshes + k, <Py_ssize_t>ix.meshes[k].nx * ix.meshes[k].ny
            meshes += m.nface * sizeof(Triangle) + (cells + 2 + m.start[cells]) * sizeof(int)
        return (meshes + ix.nrecords * (sizeof(Record) + sizeof(int)) + ix.grid.nentries * sizeof(int)
                + (<Py_ssize_t>ix.grid.nx * ix.grid.ny + 2) * sizeof(int))

    @property
    def outside(self):
        """How many geoms are in the always-list."""
        return self.index.nalways


def _extent(center, half):
    """Where all geoms but outliers lie along one axis: twice as far around the middle 96 % as these reach."""
    low, high = float((center - half).min()), float((center + half).max())
    q0, q1 = np.quantile(center, [0.02, 0.98])
    reach = (q1 - q0) + 4.0 * float(np.quantile(half, 0.98))
    low, high = max(low, float(q0) - reach), min(high, float(q1) + reach)
    margin = 1e-6 * (1.0 + abs(low) + abs(high))
    return low - margin, high + margin
