"""The plan-view index of a model's static geoms, and what a vertical ray must know of each."""

cdef enum Kind:
    UPRIGHT_BOX = 0       # closed form
    UPRIGHT_PLANE = 1     # closed form
    PRIMITIVE = 2         # mju_rayGeom
    HFIELD = 3            # mj_rayHfield
    UPRIGHT_HFIELD = 4    # closed form, Field
    MESH = 5              # mj_rayMesh
    GRIDDED_MESH = 6      # closed form, Mesh
    SDF = 7               # mj_ray alone can cast at it

# One cache line. No vertical ray meets the geom outside the rectangle or above `top`; of upright boxes and planes the
# rectangle is exact.
cdef struct Record:
    double top
    double cx, cy
    double hx, hy
    double cz, hz
    int geom
    short kind
    short slot            # of an upright height field or gridded mesh

cdef struct Bounds:
    double c[3]
    double h[3]
    double pad            # what rounding may add to each side

# An upright height field: the ray is -z in its frame too.
cdef struct Field:
    const float* data
    int nrow, ncol
    double sx, sy, sz, base
    double dx, dy
    double lz             # z of the ray's direction in the field's frame, -1 up to rounding
    double b0[3]          # plane that the triangles are projected on, as MuJoCo builds it
    double b1[3]
    double per_dx, per_dy
    double rim            # this near to the border or the floor rounding may decide
    int thick             # neither of MuJoCo's two box tests can fail by rounding

# A triangle of a static mesh: in the plan view, barycentric coordinates l0 = a0*(x - x2) + b0*(y - y2) and l1; in the
# mesh's frame, what MuJoCo computes of it for every vertical ray alike.
cdef struct Triangle:
    double x2, y2, a0, b0, a1, b1
    double n[3]
    double v2[3]
    double denominator
    long long fair        # well inside it, neither its own test nor its box's is decided by rounding

# A static mesh with its triangles binned in the world's plan view.
cdef struct Mesh:
    const float* vert
    const int* face
    int nface
    int nx, ny
    double x0, y0, inv
    int* start            # nx*ny + 1
    int* triangles
    double lvec[3]
    double b0[3]
    double b1[3]
    double per_lvec[3]
    Triangle* plan
    double scale
    double tolerance          # of distances along the ray
    double rounding           # of the vertices: MuJoCo's boxes of triangles are those of the vertices before it
    double sphere_tolerance   # of squared distances in MuJoCo's bounding-sphere test

cdef struct Grid:
    int nx, ny
    double x0, y0, inv
    int* start            # nx*ny + 1
    int* entries          # records of a cell, highest top first
    int nentries

# Arrays of the model and of the private data that rays read.
cdef struct Geoms:
    int n
    const int* type
    const int* bodyid
    const int* group
    const int* matid
    const int* dataid
    const float* rgba
    const float* mat_rgba
    const double* size
    const double* pos
    const double* quat
    const unsigned char* sameframe
    const double* xpos    # of the private data that the index was built from: right for static geoms
    const double* xmat
    const unsigned char* masked   # geoms that no ray sees, whatever their group
    unsigned char groups[6]       # 1: rays see the group

cdef struct Index:
    Grid grid
    Geoms geoms
    Record* records       # of all static geoms, highest top first
    int nrecords
    int* always           # records outside the grid
    int nalways
    Field* fields
    Mesh* meshes
    int nfields, nmeshes
    double middle         # median height of the static geoms

cdef double FAR           # the index holds for rays that start within this of the middle height [m]

cdef Bounds bounds(int type, const double* size, const double* pos, const double* mat,
                   double far) noexcept nogil
cdef void set_record(Record* r, int geom, int type, const double* size, const double* pos,
                     const double* mat, double far) noexcept nogil


cdef inline bint eliminated(const Geoms* g, int geom) noexcept nogil:
    """mj_ray's rule, read live: groups, and full transparency of the material, or of the geom where it has none."""
    cdef int group = g.group[geom], material = g.matid[geom]
    if g.masked[geom]:
        return True
    if material < 0:
        if g.rgba[4 * geom + 3] == 0:
            return True
    elif g.mat_rgba[4 * material + 3] == 0:
        return True
    return not g.groups[0 if group < 0 else 5 if group > 5 else group]


cdef inline int cell(double value, double origin, double inv, int n) noexcept nogil:
    """The same monotone map at insertion and at look-up, so that rounding opens no gap."""
    cdef double k = (value - origin) * inv
    return 0 if k < 0 else n - 1 if k >= n else <int>k


cdef class ScanIndex:
    cdef Index index
    cdef tuple keep
    cdef Py_ssize_t free_triangles
    cdef double _far(self, int geom) noexcept nogil
    cdef int _build_mesh(self, Record* r) except -1
    cdef void build_records(self, const int[::1] geoms, bint closed_forms)
    cdef void build_grid(self, double x0, double x1, double y0, double y1) except *
