"""Orientation, angular velocity and acceleration of IMU sites."""
from xbot2_fast._kernels._chain cimport BodyChain, Chain

cdef struct Sensors:
    Py_ssize_t n               # IMUs
    Chain* chain
    const int* slot            # of the site's body in the chain, per IMU
    const int* site
    const int* accelerometer   # address in sensordata
    const double* site_quat
    const double* sensordata
    const int* jnt_dof
    const double* v

# quat_w (x y z w), lin_acc_b, ang_vel_b of each IMU into out.
cdef void imu_gather(Sensors* s, double* out) noexcept nogil


cdef class Imus:
    cdef Sensors sensors
    cdef BodyChain chain
    cdef const int[::1] slot, site, accelerometer, jnt_dof
    cdef const double[:, ::1] site_quat
    cdef const double[::1] v, sensordata
    cdef object keep
