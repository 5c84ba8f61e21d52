"""IMU states of the instant of qpos and qvel.

After mj_step the poses and sensor data of MuJoCo belong to the state before the integration. Orientation and angular
velocity are therefore computed here, along the chain of bodies from the world to the IMU's site; MjData is only read.
The acceleration is MuJoCo's: that of the step just taken, the one that led to qvel.
"""
from libc.math cimport cos, sin, sqrt

from xbot2_fast._kernels._chain cimport BodyChain, Chain, Link, Pose, chain_refresh

cdef enum:
    FREE = 0     # mjtJoint
    BALL = 1
    SLIDE = 2
    HINGE = 3


cdef void _multiply(double* out, const double* a, const double* b) noexcept nogil:
    cdef double w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]
    cdef double x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2]
    cdef double y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1]
    out[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]
    out[0] = w
    out[1] = x
    out[2] = y


cdef void _add_rotated(double* out, const double* q, const double* v) noexcept nogil:
    """out += v, turned by q."""
    cdef double tx = 2 * (q[2] * v[2] - q[3] * v[1])
    cdef double ty = 2 * (q[3] * v[0] - q[1] * v[2])
    cdef double tz = 2 * (q[1] * v[1] - q[2] * v[0])
    out[0] += v[0] + q[0] * tx + q[2] * tz - q[3] * ty
    out[1] += v[1] + q[0] * ty + q[3] * tx - q[1] * tz
    out[2] += v[2] + q[0] * tz + q[1] * ty - q[2] * tx


cdef void _undo(const Chain* c, int joint, double* quat) noexcept nogil:
    """Turn an orientation behind a hinge or ball joint back to what it was before it."""
    cdef const double* axis = c.jnt_axis + 3 * joint
    cdef const double* q = c.qpos + c.jnt_qposadr[joint]
    cdef double back[4]
    cdef double half, norm
    cdef int i
    if c.jnt_type[joint] == HINGE:
        half = -0.5 * (q[0] - c.qpos0[c.jnt_qposadr[joint]])
        back[0] = cos(half)
        for i in range(3):
            back[i + 1] = axis[i] * sin(half)
    elif c.jnt_type[joint] == BALL:
        norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
        if norm < 1e-15:
            return
        back[0] = q[0] / norm
        for i in range(1, 4):
            back[i] = -q[i] / norm
    else:
        return
    _multiply(quat, quat, back)


cdef void _add_rates(const Sensors* s, const Link* link, const Pose* pose, double* omega) noexcept nogil:
    """Angular velocity (world axes) that the joints of one body add, from its last joint to its first."""
    cdef const Chain* c = s.chain
    cdef const double* v
    cdef double quat[4]
    cdef double rate[3]
    cdef int i, joint
    for i in range(4):
        quat[i] = pose.quat[i]
    for joint in range(link.joint + link.njoint - 1, link.joint - 1, -1):
        v = s.v + s.jnt_dof[joint]
        if c.jnt_type[joint] == HINGE:
            for i in range(3):
                rate[i] = c.jnt_axis[3 * joint + i] * v[0]
            _add_rotated(omega, quat, rate)
        elif c.jnt_type[joint] == BALL:
            _add_rotated(omega, quat, v)
        elif c.jnt_type[joint] == FREE:
            _add_rotated(omega, quat, v + 3)
        if joint > link.joint:
            _undo(c, joint, quat)


cdef void _imu(const Sensors* s, Py_ssize_t i, double* out) noexcept nogil:
    cdef const Chain* c = s.chain
    cdef double quat[4]
    cdef double omega[3]
    cdef int slot = s.slot[i], j
    _multiply(quat, c.poses[slot].quat, s.site_quat + 4 * s.site[i])
    omega[0] = omega[1] = omega[2] = 0.0
    while slot:
        _add_rates(s, c.links + slot, c.poses + slot, omega)
        slot = c.links[slot].parent
    out[0] = quat[1]
    out[1] = quat[2]
    out[2] = quat[3]
    out[3] = quat[0]
    for j in range(3):
        out[4 + j] = s.sensordata[s.accelerometer[i] + j]
        out[7 + j] = 0.0
        quat[j + 1] = -quat[j + 1]
    _add_rotated(out + 7, quat, omega)


cdef void imu_gather(Sensors* s, double* out) noexcept nogil:
    cdef Py_ssize_t i
    if s.n == 0:
        return
    chain_refresh(s.chain)
    for i in range(s.n):
        _imu(s, i, out + 10 * i)


cdef class Imus:
    """Gathers the states of IMU sites.

    Args:
        site, accelerometer: int32 per IMU, site id and address of the accelerometer in sensordata.
    """

    def __cinit__(self, model, data, const int[::1] site, const int[::1] accelerometer, const int[::1] slot,
                  BodyChain chain not None):
        self.keep = (model, data)
        self.chain = chain
        self.sensors.chain = &chain.chain
        self.sensors.n = site.shape[0]
        if self.sensors.n == 0:
            return
        self.site, self.accelerometer, self.slot = site, accelerometer, slot
        self.site_quat, self.sensordata = model.site_quat, data.sensordata
        self.sensors.site = &site[0]
        self.sensors.accelerometer = &accelerometer[0]
        self.sensors.slot = &slot[0]
        self.sensors.site_quat = &self.site_quat[0, 0]
        self.sensors.sensordata = &self.sensordata[0]
        if model.nv:
            self.v, self.jnt_dof = data.qvel, model.jnt_dofadr
            self.sensors.v = &self.v[0]
            self.sensors.jnt_dof = &self.jnt_dof[0]

    def gather(self, double[::1] out):
        """quat_w (x y z w), lin_acc_b, ang_vel_b of each IMU into out."""
        if self.sensors.n:
            imu_gather(&self.sensors, &out[0])
