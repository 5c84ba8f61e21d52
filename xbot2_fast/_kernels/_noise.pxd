"""Gaussian noise on velocities."""

cdef struct Noise:
    Py_ssize_t n
    int active               # a standard deviation is above zero
    double* sigma            # per joint [rad/s or m/s]
    unsigned long long s[4]  # state of the generator

# Add to each velocity a sample of its joint's distribution.
cdef void noise_add(Noise* noise, double* dq) noexcept nogil


cdef class VelocityNoiseKernel:
    cdef Noise noise
    cdef double[::1] sigma
