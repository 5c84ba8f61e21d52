"""A grid of vertical rays over an index of the terrain: one cdef call a scan, for any qpos, without the GIL."""
from xbot2_fast._kernels._chain cimport BodyChain, Chain, Pose
from xbot2_fast._kernels._loop cimport Stage
from xbot2_fast._kernels._scan_index cimport Index, Record, ScanIndex

cdef struct Pattern:
    int n, m              # forward and lateral samples
    double dx, dy         # between them [m]
    double z_offset
    double max_distance

# A body that moves, with the geoms that rays might see.
cdef struct Mover:
    int slot
    int first, count      # in mover_geoms
    double radius         # around the body's origin; no geom reaches out of it

# What culls a free body, small enough for many of them to stay in the cache.
cdef struct Free:
    int qadr              # of its position
    float radius

# What all threads share: read only while rays are cast.
cdef struct Plan:
    Pattern pattern
    const Index* index
    const Chain* base
    const Chain* moving
    int base_slot
    Mover* movers
    int* mover_geoms
    int nmovers
    Free* free            # of the first movers
    int nfree
    void* model
    void* sdf_model       # the model with all but its SDFs hidden; NULL without SDFs
    const double* hfield_size
    int nq, nmocap
    int through_mj_ray    # every ray goes through mj_ray
    int subtree           # geoms are masked one by one, which mj_ray cannot do

# What a thread needs for itself.
cdef struct Worker:
    void* data            # a private mjData
    double* xpos
    double* xmat
    double* qpos
    double* mocap_pos
    double* mocap_quat
    Pose* base
    Pose* moving
    Record* records       # outside the grid and under the pattern, highest top first
    int nrecords
    int* near             # scratch for the free bodies, nfree + 1
    double* across        # scratch for the lateral offsets of a row, 2 * m

cdef struct Out:
    double* pose          # position (3) and matrix (9) of the body; may be NULL
    double* x             # n*m each; x and y may be NULL
    double* y
    double* heights
    int* ids              # may be NULL

# One scan for a state of the model. Call it guarded: MuJoCo may raise below it.
cdef void scan_state(const Plan* plan, Worker* worker, const double* qpos, const double* mocap_pos,
                     const double* mocap_quat, const Out* out) noexcept nogil


cdef class ScanPlan:
    cdef Plan plan
    cdef readonly ScanIndex index
    cdef BodyChain base
    cdef BodyChain moving
    cdef tuple keep
    cdef object sdf_model
    cdef list sdfs
    cpdef show_sdfs(self)


cdef class ScanWorker:
    cdef Worker worker
    cdef ScanPlan plan
    cdef tuple keep
