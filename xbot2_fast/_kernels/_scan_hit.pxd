"""Where a vertical ray meets one geom: MuJoCo's functions by address, and closed forms with the same bits.

A closed form is MuJoCo's own arithmetic on the one part of the geom that the ray can meet; where rounding could make
MuJoCo choose otherwise (at the rim of a box test, in a slab test) MuJoCo's function is called.
"""
from libc.math cimport fabs

from xbot2_fast._kernels._scan_index cimport Field, Mesh, Triangle, cell

ctypedef double (*ray_geom_fn)(const double* pos, const double* mat, const double* size, const double* pnt,
                               const double* vec, int type, double* normal) noexcept nogil
ctypedef double (*ray_asset_fn)(const void* model, const void* data, int geom, const double* pnt, const double* vec,
                                double* normal) noexcept nogil

cdef enum:
    BOX = 6


cdef inline double ray_triangle(const double* v, const double* p, const double* d, const double* b0,
                                const double* b1) noexcept nogil:
    """Distance along p + x*d to the triangle of the vertices v (3x3), or a negative number. 1e-15 is mjMINVAL."""
    cdef double q[9]
    cdef double s[3]
    cdef double t[3]
    cdef double det, t0, t1, a0, a1, a2, a3
    cdef double e0[3]
    cdef double e1[3]
    cdef double n[3]
    cdef int k
    for k in range(3):
        q[3 * k] = v[3 * k] - p[0]
        q[3 * k + 1] = v[3 * k + 1] - p[1]
        q[3 * k + 2] = v[3 * k + 2] - p[2]
        s[k] = b0[0] * q[3 * k] + b0[1] * q[3 * k + 1] + b0[2] * q[3 * k + 2]
        t[k] = b1[0] * q[3 * k] + b1[1] * q[3 * k + 1] + b1[2] * q[3 * k + 2]
    if ((s[0] > 0 and s[1] > 0 and s[2] > 0) or (s[0] < 0 and s[1] < 0 and s[2] < 0)
            or (t[0] > 0 and t[1] > 0 and t[2] > 0) or (t[0] < 0 and t[1] < 0 and t[2] < 0)):
        return -1
    a0, a1, a2, a3 = s[0] - s[2], s[1] - s[2], t[0] - t[2], t[1] - t[2]
    det = a0 * a3 - a1 * a2
    if fabs(det) < 1e-15:
        return -1
    t0 = (a3 * -s[2] - a1 * -t[2]) / det
    t1 = (-a2 * -s[2] + a0 * -t[2]) / det
    if t0 < 0 or t1 < 0 or t0 + t1 > 1:
        return -1
    for k in range(3):
        e0[k] = v[k] - v[6 + k]
        e1[k] = v[3 + k] - v[6 + k]
    n[0] = e0[1] * e1[2] - e0[2] * e1[1]
    n[1] = e0[2] * e1[0] - e0[0] * e1[2]
    n[2] = e0[0] * e1[1] - e0[1] * e1[0]
    det = d[0] * n[0] + d[1] * n[1] + d[2] * n[2]
    if fabs(det) < 1e-15:
        return -1
    return -((p[0] - v[6]) * n[0] + (p[1] - v[7]) * n[1] + (p[2] - v[8]) * n[2]) / det


cdef inline void to_local(const double* pos, const double* mat, const double* p, double* local) noexcept nogil:
    cdef double x = p[0] - pos[0], y = p[1] - pos[1], z = p[2] - pos[2]
    local[0] = mat[0] * x + mat[3] * y + mat[6] * z
    local[1] = mat[1] * x + mat[4] * y + mat[7] * z
    local[2] = mat[2] * x + mat[5] * y + mat[8] * z


cdef inline double _nearer(double x, double found) noexcept nogil:
    return found if found >= 0 and (x < 0 or found < x) else x


cdef inline double _floor_of_field(const Field* f, double pz, double mz, double z) noexcept nogil:
    """The field's base box from above or inside."""
    cdef double half = f.base * 0.5
    cdef double lz = mz * (z - (pz - mz * f.base * 0.5))
    return _nearer(_nearer(-1, (-half - lz) / f.lz), (half - lz) / f.lz)


cdef inline void _corner(const Field* f, int r, int c, double* v) noexcept nogil:
    v[0] = f.dx * c - f.sx
    v[1] = f.dy * r - f.sy
    v[2] = f.data[r * f.ncol + c] * f.sz


cdef inline double _cell_of_field(const Field* f, int r, int c, const double* p, double x) noexcept nogil:
    """The nearer of x and the two triangles of a cell."""
    cdef double v[9]
    cdef double d[3]
    d[0], d[1], d[2] = 0.0, 0.0, f.lz
    _corner(f, r, c, v)
    _corner(f, r, c + 1, v + 3)
    _corner(f, r + 1, c + 1, v + 6)
    x = _nearer(x, ray_triangle(v, p, d, f.b0, f.b1))
    v[3], v[4], v[5] = v[6], v[7], v[8]
    _corner(f, r + 1, c, v + 6)
    return _nearer(x, ray_triangle(v, p, d, f.b0, f.b1))


cdef inline double _plane_of(const double* v, const double* p, double lz) noexcept nogil:
    """Where the ray meets the plane of a triangle, as ray_triangle computes it."""
    cdef double ax = v[0] - v[6], ay = v[1] - v[7], az = v[2] - v[8]
    cdef double bx = v[3] - v[6], by = v[4] - v[7], bz = v[5] - v[8]
    cdef double nx = ay * bz - az * by, ny = az * bx - ax * bz, nz = ax * by - ay * bx
    return -((p[0] - v[6]) * nx + (p[1] - v[7]) * ny + (p[2] - v[8]) * nz) / (0.0 * nx + 0.0 * ny + lz * nz)


cdef inline bint _inside_triangle(const Field* f, int r, int c, double fu, double fv, const double* p, double rim,
                                  double* x) noexcept nogil:
    """Well inside one triangle and above the floor, only that triangle counts; fu, fv are the place in the cell."""
    cdef double v[9]
    if not (1e-6 < fu < 1 - 1e-6 and 1e-6 < fv < 1 - 1e-6 and fabs(fu - fv) > 1e-6):
        return False
    _corner(f, r, c, v)
    if fu > fv:
        _corner(f, r, c + 1, v + 3)
        _corner(f, r + 1, c + 1, v + 6)
    else:
        _corner(f, r + 1, c + 1, v + 3)
        _corner(f, r + 1, c, v + 6)
    x[0] = _plane_of(v, p, f.lz)
    return x[0] > rim and p[2] + x[0] * f.lz > rim


cdef inline bint hit_field(const Field* f, const double* pos, const double* mat, const double* p,
                           double* x) noexcept nogil:
    """False when the closed form is not certain to have MuJoCo's bits."""
    cdef double local[3]
    cdef double u, v, rim
    cdef int c, r, c0, c1, r0, r1
    to_local(pos, mat, p, local)
    rim = f.rim + 1e-9 * fabs(local[2])
    if fabs(local[0]) > f.sx + rim or fabs(local[1]) > f.sy + rim:
        x[0] = -1
        return True
    if not f.thick or fabs(local[0]) > f.sx - rim or fabs(local[1]) > f.sy - rim or local[2] <= rim:
        return False
    u, v = (local[0] + f.sx) * f.per_dx, (local[1] + f.sy) * f.per_dy
    c, r = <int>u, <int>v
    if _inside_triangle(f, r, c, u - c, v - r, local, rim, x):
        return True
    c0, c1, r0, r1 = <int>(u - 1e-6), <int>(u + 1e-6), <int>(v - 1e-6), <int>(v + 1e-6)
    x[0] = _floor_of_field(f, pos[2], mat[8], p[2])
    for r in range(r0, (r1 if r1 < f.nrow - 2 else f.nrow - 2) + 1):
        for c in range(c0, (c1 if c1 < f.ncol - 2 else f.ncol - 2) + 1):
            x[0] = _cell_of_field(f, r, c, local, x[0])
    return True


cdef inline void _vertices(const Mesh* m, int t, double* v) noexcept nogil:
    cdef const int* face = m.face + 3 * t
    cdef const float* a
    cdef int k
    for k in range(3):
        a = m.vert + 3 * face[k]
        v[3 * k], v[3 * k + 1], v[3 * k + 2] = a[0], a[1], a[2]


cdef inline bint _slabs_open(const Mesh* m, const double* v, const double* p) noexcept nogil:
    """Whether MuJoCo's slab test of the triangle's box, and so of every box around it, is sure to let the ray in.

    Its box is that of the vertices before they were rounded, so only what is well inside ours counts.
    """
    cdef double low, high, near, far, enter = -1e300, leave = 1e300
    cdef int k
    for k in range(3):
        low = min(v[k], min(v[3 + k], v[6 + k])) + m.rounding
        high = max(v[k], max(v[3 + k], v[6 + k])) - m.rounding
        if not low < high:
            return False
        if m.lvec[k] == 0:
            if not (p[k] - low > m.tolerance and high - p[k] > m.tolerance):
                return False
            continue
        near, far = (low - p[k]) / m.lvec[k], (high - p[k]) / m.lvec[k]
        enter = max(enter, min(near, far))
        leave = min(leave, max(near, far))
    return leave - enter > m.tolerance and leave > m.tolerance


cdef inline bint _box_met(const Mesh* m, const double* size, const double* p, double x) noexcept nogil:
    """Whether MuJoCo's test of the mesh's box is sure to pass: the hit is inside, and the exit clear of the edges."""
    cdef double first = 1e300, second = 1e300, t, h, inside = 0.0
    cdef int k
    for k in range(3):
        h = p[k] + x * m.lvec[k]
        if not size[k] - fabs(h) > m.tolerance:
            return False
        inside += size[k] * size[k] - h * h
        if fabs(m.lvec[k]) > 1e-9:
            t = (size[k] - h) * m.per_lvec[k] if m.lvec[k] > 0 else (-size[k] - h) * m.per_lvec[k]
            if t < first:
                first, second = t, first
            elif t < second:
                second = t
    return second - first > m.tolerance and inside > m.sphere_tolerance


cdef inline bint _meets(const Mesh* m, const Triangle* t, int k, double px, double py, const double* p,
                        double* x, bint* sure) noexcept nogil:
    """Whether the ray meets the triangle, where, and whether MuJoCo is sure to look at it."""
    cdef double l0, l1, least
    cdef double v[9]
    px -= t.x2
    py -= t.y2
    l0, l1 = t.a0 * px + t.b0 * py, t.a1 * px + t.b1 * py
    least = min(min(l0, l1), 1.0 - l0 - l1)
    if least < -1e-6:
        return False
    if t.fair and least > 1e-4:
        x[0] = -((p[0] - t.v2[0]) * t.n[0] + (p[1] - t.v2[1]) * t.n[1] + (p[2] - t.v2[2]) * t.n[2]) / t.denominator
        sure[0] = x[0] > m.tolerance
        return x[0] >= 0
    _vertices(m, k, v)
    x[0] = ray_triangle(v, p, m.lvec, m.b0, m.b1)
    sure[0] = x[0] >= 0 and _slabs_open(m, v, p)
    return x[0] >= 0


cdef inline bint hit_mesh(const Mesh* m, const double* pos, const double* mat, const double* size, const double* p,
                          double* x, bint* boxed) noexcept nogil:
    """False when the closed form is not certain to have MuJoCo's bits; `boxed` when its box test is sure to pass."""
    cdef double local[3]
    cdef double found = -1
    cdef int k, c
    cdef bint sure = True, found_sure = False
    to_local(pos, mat, p, local)
    x[0] = -1
    boxed[0] = True
    c = cell(p[1], m.y0, m.inv, m.ny) * m.nx + cell(p[0], m.x0, m.inv, m.nx)
    for k in range(m.start[c], m.start[c + 1]):
        if (_meets(m, m.plan + m.triangles[k], m.triangles[k], p[0], p[1], local, &found, &found_sure)
                and (x[0] < 0 or found < x[0])):
            x[0] = found
            sure = found_sure
    if x[0] >= 0:
        boxed[0] = _box_met(m, size, local, x[0])
    return sure
