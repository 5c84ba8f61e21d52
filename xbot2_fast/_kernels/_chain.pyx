"""World poses of a few bodies and their ancestors from qpos, equal to the bit to what mj_kinematics computes.

MuJoCo's own mju_* functions do the arithmetic, in the order of mj_kinematics; only the bodies asked for are visited,
and nothing is written to mjData. (After mj_step its xpos still belong to the state before the integration.)
"""
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from xbot2_fast._kernels cimport _mujoco

ctypedef void (*mul_quat_fn)(double* res, const double* left, const double* right) noexcept nogil
ctypedef void (*rotate_fn)(double* res, const double* vec, const double* quat) noexcept nogil
ctypedef void (*axis_angle_fn)(double* res, const double* axis, double angle) noexcept nogil
ctypedef void (*quat_to_mat_fn)(double* res, const double* quat) noexcept nogil
ctypedef double (*normalize_fn)(double* quat) noexcept nogil

cdef mul_mat_vec_fn mul_mat_vec = <mul_mat_vec_fn>_mujoco.symbol("mju_mulMatVec3")
cdef mul_quat_fn mul_quat = <mul_quat_fn>_mujoco.symbol("mju_mulQuat")
cdef rotate_fn rotate = <rotate_fn>_mujoco.symbol("mju_rotVecQuat")
cdef axis_angle_fn axis_angle_to_quat = <axis_angle_fn>_mujoco.symbol("mju_axisAngle2Quat")
cdef quat_to_mat_fn quat_to_mat = <quat_to_mat_fn>_mujoco.symbol("mju_quat2Mat")
cdef normalize_fn normalize = <normalize_fn>_mujoco.symbol("mju_normalize4")

cdef enum:  # mjtJoint
    FREE = 0
    BALL = 1
    SLIDE = 2
    HINGE = 3

cdef enum:  # mjtSameFrame
    SAME_NONE = 0
    SAME_BODY = 1
    SAME_INERTIA = 2
    SAME_BODY_ROTATION = 3
    SAME_INERTIA_ROTATION = 4


cdef inline void _add(double* a, const double* b) noexcept nogil:
    a[0] += b[0]
    a[1] += b[1]
    a[2] += b[2]


cdef void _turn(const Chain* c, int joint, const double* anchor, const double* qpos, Pose* p) noexcept nogil:
    """A ball or hinge: rotate, then put the anchor back where it was."""
    cdef int adr = c.jnt_qposadr[joint]
    cdef double local[4]
    cdef double offset[3]
    if c.jnt_type[joint] == BALL:
        memcpy(local, qpos + adr, 4 * sizeof(double))
        normalize(local)
    else:
        axis_angle_to_quat(local, c.jnt_axis + 3 * joint, qpos[adr] - c.qpos0[adr])
    mul_quat(p.quat, p.quat, local)
    rotate(offset, c.jnt_pos + 3 * joint, p.quat)
    p.pos[0] = anchor[0] - offset[0]
    p.pos[1] = anchor[1] - offset[1]
    p.pos[2] = anchor[2] - offset[2]


cdef void _move(const Chain* c, int joint, const double* qpos, Pose* p) noexcept nogil:
    cdef int adr = c.jnt_qposadr[joint]
    cdef double axis[3]
    cdef double anchor[3]
    cdef double travel
    if c.jnt_type[joint] == SLIDE:
        rotate(axis, c.jnt_axis + 3 * joint, p.quat)
        travel = qpos[adr] - c.qpos0[adr]
        p.pos[0] += axis[0] * travel
        p.pos[1] += axis[1] * travel
        p.pos[2] += axis[2] * travel
    else:
        rotate(anchor, c.jnt_pos + 3 * joint, p.quat)
        _add(anchor, p.pos)
        _turn(c, joint, anchor, qpos, p)


cdef void _place(const Chain* c, const Link* link, const double* mocap_pos, const double* mocap_quat,
                 const Pose* parent, Pose* p) noexcept nogil:
    """Where the body is before its joints move it."""
    cdef const double* pos = c.body_pos + 3 * link.body
    cdef double quat[4]
    memcpy(quat, c.body_quat + 4 * link.body, sizeof(quat))
    if link.mocap >= 0:
        pos = mocap_pos + 3 * link.mocap
        memcpy(quat, mocap_quat + 4 * link.mocap, sizeof(quat))
        normalize(quat)
    if link.parent:
        mul_mat_vec(p.pos, parent.mat, pos)
        _add(p.pos, parent.pos)
        mul_quat(p.quat, parent.quat, quat)
    else:
        memcpy(p.pos, pos, sizeof(p.pos))
        memcpy(p.quat, quat, sizeof(quat))


cdef void chain_link(const Chain* c, int slot, const double* qpos, const double* mocap_pos, const double* mocap_quat,
                     Pose* poses) noexcept nogil:
    cdef const Link* link = c.links + slot
    cdef Pose* p = poses + slot
    cdef int j
    if link.njoint == 1 and c.jnt_type[link.joint] == FREE:
        memcpy(p.pos, qpos + c.jnt_qposadr[link.joint], sizeof(p.pos))
        memcpy(p.quat, qpos + c.jnt_qposadr[link.joint] + 3, sizeof(p.quat))
        normalize(p.quat)
    else:
        _place(c, link, mocap_pos, mocap_quat, poses + link.parent, p)
        for j in range(link.joint, link.joint + link.njoint):
            _move(c, j, qpos, p)
    normalize(p.quat)
    quat_to_mat(p.mat, p.quat)


cdef void chain_poses(const Chain* c, const double* qpos, const double* mocap_pos, const double* mocap_quat,
                      Pose* out) noexcept nogil:
    cdef int slot
    for slot in range(1, c.n):
        chain_link(c, slot, qpos, mocap_pos, mocap_quat, out)


cdef void chain_refresh(Chain* c) noexcept nogil:
    chain_poses(c, c.qpos, c.mocap_pos, c.mocap_quat, c.poses)


cdef void chain_inertia(const Chain* c, const Pose* poses, int slot, double* xipos, double* ximat) noexcept nogil:
    cdef int body = c.links[slot].body
    chain_frame(c, poses, slot, c.body_ipos + 3 * body, c.body_iquat + 4 * body, c.body_sameframe[body], xipos, ximat)


cdef void chain_frame(const Chain* c, const Pose* poses, int slot, const double* pos, const double* quat,
                      int sameframe, double* xpos, double* xmat) noexcept nogil:
    cdef const Pose* p = poses + slot
    cdef double inertia_pos[3]
    cdef double inertia_mat[9]
    cdef double turned[4]
    if sameframe == SAME_INERTIA or sameframe == SAME_INERTIA_ROTATION:
        chain_inertia(c, poses, slot, inertia_pos, inertia_mat)
    if sameframe == SAME_BODY:
        memcpy(xpos, p.pos, sizeof(p.pos))
    elif sameframe == SAME_INERTIA:
        memcpy(xpos, inertia_pos, sizeof(inertia_pos))
    else:
        mul_mat_vec(xpos, p.mat, pos)
        _add(xpos, p.pos)
    if xmat == NULL:
        return
    if sameframe == SAME_NONE:
        mul_quat(turned, p.quat, quat)
        quat_to_mat(xmat, turned)
    elif sameframe == SAME_BODY or sameframe == SAME_BODY_ROTATION:
        memcpy(xmat, p.mat, sizeof(p.mat))
    else:
        memcpy(xmat, inertia_mat, sizeof(inertia_mat))


def with_ancestors(model, bodies):
    """The bodies and all their ancestors, the world included, in the model's order: parents before children."""
    parents = model.body_parentid
    found = {0}
    for body in bodies:
        body = int(body)
        while body not in found:
            found.add(body)
            body = int(parents[body])
    return sorted(found)


cdef const double* _doubles(array) except? NULL:
    return <const double*><size_t>array.ctypes.data


cdef const int* _ints(array) except? NULL:
    return <const int*><size_t>array.ctypes.data


cdef class BodyChain:
    """Poses of some bodies of a model, refreshed from the bound data's qpos and mocap poses; the data is only read.

    `poses` is this object's own memory, one row a slot: world position [m] (3), quaternion w x y z (4), matrix (9).
    `slot(body)` is the row of a body or of one of its ancestors; `order` lists the body of each row.
    """

    def __cinit__(self, model, data, bodies):
        cdef Chain* c = &self.chain
        order = with_ancestors(model, bodies)
        self.slots = {body: slot for slot, body in enumerate(order)}
        self.poses = np.zeros((len(order), 16))
        self.poses[0, [3, 7, 11, 15]] = 1.0   # the world: unit quaternion, unit matrix
        self.keep = (model, data, self.poses)
        c.n = len(order)
        c.poses = <Pose*><size_t>self.poses.ctypes.data
        c.links = <Link*>calloc(c.n, sizeof(Link))
        if c.links == NULL:
            raise MemoryError
        for slot, body in enumerate(order):
            c.links[slot] = Link(body, self.slots[int(model.body_parentid[body])], model.body_mocapid[body],
                                 model.body_jntadr[body], model.body_jntnum[body])
        self._bind_model(model)
        c.qpos, c.mocap_pos, c.mocap_quat = _doubles(data.qpos), _doubles(data.mocap_pos), _doubles(data.mocap_quat)

    def __dealloc__(self):
        free(self.chain.links)

    def _bind_model(self, model):
        cdef Chain* c = &self.chain
        c.body_pos, c.body_quat = _doubles(model.body_pos), _doubles(model.body_quat)
        c.body_ipos, c.body_iquat = _doubles(model.body_ipos), _doubles(model.body_iquat)
        c.body_sameframe = <const unsigned char*><size_t>model.body_sameframe.ctypes.data
        c.jnt_type, c.jnt_qposadr = _ints(model.jnt_type), _ints(model.jnt_qposadr)
        c.jnt_pos, c.jnt_axis = _doubles(model.jnt_pos), _doubles(model.jnt_axis)
        c.qpos0 = _doubles(model.qpos0)

    cpdef int slot(self, int body) except -1:
        return self.slots[body]

    @property
    def order(self):
        return list(self.slots)

    def refresh(self):
        """Bring `poses` up to the bound data's current qpos and mocap poses."""
        chain_refresh(&self.chain)

    def frame(self, int body, const double[::1] pos, const double[::1] quat, int sameframe, double[::1] xpos,
              double[::1] xmat):
        """World frame of something fixed to a body, after `refresh`: xpos (3) and xmat (9) are written."""
        chain_frame(&self.chain, self.chain.poses, self.slot(body), &pos[0], &quat[0], sameframe, &xpos[0], &xmat[0])

    def inertia(self, int body, double[::1] xipos, double[::1] ximat):
        """World frame of a body's inertia, after `refresh`: xipos (3) and ximat (9) are written."""
        chain_inertia(&self.chain, self.chain.poses, self.slot(body), &xipos[0], &ximat[0])
