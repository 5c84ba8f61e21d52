"""World poses of a few bodies from qpos, to the bit as mj_kinematics gives them, written outside mjData."""

ctypedef void (*mul_mat_vec_fn)(double* res, const double* mat, const double* vec) noexcept nogil

cdef struct Pose:
    double pos[3]
    double quat[4]
    double mat[9]

cdef struct Link:
    int body
    int parent          # slot of the parent; 0, the world, for its children
    int mocap           # mocap id, -1: fixed to the parent or jointed
    int joint           # first joint id
    int njoint

# A plan: which bodies, in which order. Slot 0 is the world; parents stand before their children.
cdef struct Chain:
    int n
    Link* links
    Pose* poses         # n, written by chain_refresh
    # arrays of the model; read at each refresh, so edits of the model count
    const double* body_pos
    const double* body_quat
    const double* body_ipos
    const double* body_iquat
    const unsigned char* body_sameframe
    const int* jnt_type
    const int* jnt_qposadr
    const double* jnt_pos
    const double* jnt_axis
    const double* qpos0
    # arrays of the data
    const double* qpos
    const double* mocap_pos
    const double* mocap_quat

# Poses of all slots for any state of this model, into `out` (n). Needs no GIL; many threads may share one chain.
cdef void chain_poses(const Chain* chain, const double* qpos, const double* mocap_pos, const double* mocap_quat,
                      Pose* out) noexcept nogil

# Pose of one slot into poses[slot]; its parent's is there already.
cdef void chain_link(const Chain* chain, int slot, const double* qpos, const double* mocap_pos,
                     const double* mocap_quat, Pose* poses) noexcept nogil

# Poses of all slots for the bound data's current qpos and mocap poses, into chain.poses.
cdef void chain_refresh(Chain* chain) noexcept nogil

# World frame of something fixed to a body: a site or geom with its pos, quat and sameframe. `xmat` may be NULL.
cdef void chain_frame(const Chain* chain, const Pose* poses, int slot, const double* pos, const double* quat,
                      int sameframe, double* xpos, double* xmat) noexcept nogil

# World frame of a body's inertia: its centre of mass xipos, and ximat (may be NULL).
cdef void chain_inertia(const Chain* chain, const Pose* poses, int slot, double* xipos, double* ximat) noexcept nogil


cdef class BodyChain:
    """Owns a Chain over the given bodies and their ancestors; keeps the model and the data alive."""
    cdef Chain chain
    cdef tuple keep
    cdef dict slots
    cdef readonly object poses
    cpdef int slot(self, int body) except -1
