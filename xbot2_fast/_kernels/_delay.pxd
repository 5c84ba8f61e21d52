"""Commands that wait until they are due."""

cdef struct Ring:
    Py_ssize_t words         # of one command
    Py_ssize_t capacity
    double* slots            # capacity x words; NULL while the delay was never above zero
    double* deadlines        # simulation time [s], capacity
    Py_ssize_t oldest, count
    double delay             # [s]
    double tolerance         # a command counts as due this much before its deadline [s]
    long long overflowed     # commands dropped because the ring was full
    long long superseded     # commands dropped because a newer one was due

# A command arrives at simulation time `time`. Returns what is to be applied now, or NULL.
cdef const double* ring_receive(Ring* r, const double* command, double time) noexcept nogil

# The newest waiting command that is due at `time`, or NULL; all that were received before it are dropped.
cdef const double* ring_due(Ring* r, double time) noexcept nogil


# Forget what waits.
cdef void ring_clear(Ring* r) noexcept nogil


cdef class DelayRing:
    cdef Ring ring
    cdef double[:, ::1] slots
    cdef double[::1] deadlines
