"""The ring of delayed commands. With no delay and nothing waiting a command passes through untouched."""
from libc.string cimport memcpy


cdef void _push(Ring* r, const double* command, double deadline) noexcept nogil:
    """Deadlines stay sorted: a waiting command that is due no earlier than this newer one could never act."""
    cdef Py_ssize_t slot
    while r.count and r.deadlines[(r.oldest + r.count - 1) % r.capacity] >= deadline:
        r.count -= 1
        r.superseded += 1
    if r.count == r.capacity:
        r.oldest = (r.oldest + 1) % r.capacity
        r.count -= 1
        r.overflowed += 1
    slot = (r.oldest + r.count) % r.capacity
    memcpy(r.slots + slot * r.words, command, r.words * sizeof(double))
    r.deadlines[slot] = deadline
    r.count += 1


cdef const double* ring_due(Ring* r, double time) noexcept nogil:
    cdef const double* newest = NULL
    while r.count and time >= r.deadlines[r.oldest] - r.tolerance:
        r.superseded += newest != NULL
        newest = r.slots + r.oldest * r.words
        r.oldest = (r.oldest + 1) % r.capacity
        r.count -= 1
    return newest


cdef const double* ring_receive(Ring* r, const double* command, double time) noexcept nogil:
    if r.delay <= 0:
        ring_clear(r)
        return command
    _push(r, command, time + r.delay)
    return ring_due(r, time)


cdef void ring_clear(Ring* r) noexcept nogil:
    r.superseded += r.count
    r.count = 0


cdef class DelayRing:
    """Holds commands of `words` numbers each until simulation time passed their deadlines.

    Args:
        tolerance: a command counts as due this much before its deadline [s].
    """

    def __cinit__(self, Py_ssize_t words, double tolerance):
        self.ring.words = words
        self.ring.tolerance = tolerance

    def allocate(self, double[:, ::1] slots, double[::1] deadlines):
        """Memory of the ring, kept; before the first delay above zero."""
        self.slots = slots
        self.deadlines = deadlines
        self.ring.capacity = deadlines.shape[0]
        self.ring.deadlines = &deadlines[0]
        self.ring.slots = &slots[0, 0] if slots.shape[1] else <double*>self.ring.deadlines

    @property
    def allocated(self):
        return self.ring.slots != NULL

    def receive(self, const double[::1] command, double time, double[::1] out):
        """A command arrives at this simulation time; True when `out` now holds one to be applied."""
        cdef const double* due = ring_receive(&self.ring, &command[0], time)
        if due != NULL:
            memcpy(&out[0], due, self.ring.words * sizeof(double))
        return due != NULL

    def due(self, double time, double[::1] out):
        """True when `out` now holds the newest due command."""
        cdef const double* due = ring_due(&self.ring, time)
        if due != NULL:
            memcpy(&out[0], due, self.ring.words * sizeof(double))
        return due != NULL

    @property
    def delay(self):
        return self.ring.delay

    @delay.setter
    def delay(self, double seconds):
        self.ring.delay = seconds

    @property
    def waiting(self):
        return self.ring.count

    @property
    def overflowed(self):
        return self.ring.overflowed

    @property
    def superseded(self):
        return self.ring.superseded
