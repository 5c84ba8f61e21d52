"""A stage that wakes its handler at simulation times, and one that watches a descriptor."""
from libc.math cimport INFINITY

from xbot2_fast._kernels._loop cimport ATTEND, DONE, Clock, Stage, monotonic_ns

cdef extern from *:
    """
    #include <poll.h>
    static int xb_readable(int fd) {
        struct pollfd p = {fd, POLLIN, 0};
        return poll(&p, 1, 0) > 0;
    }
    """
    int xb_readable(int fd) noexcept nogil


cdef int _due(void* context, Clock* clock) noexcept nogil:
    return ATTEND if clock.time >= (<double*>context)[0] else DONE


cdef class AtTime(Stage):
    """Asks for its handler in every step that begins (behind mj_step: ends) at or after simulation time `when` [s].

    The handler sets the next time; `when` is inf at first.
    """
    cdef double time

    def __cinit__(self):
        self.time = INFINITY
        self.run = _due
        self.context = &self.time

    @property
    def when(self):
        return self.time

    @when.setter
    def when(self, double time):
        self.time = time


cdef struct Watch:
    int fd
    int waiting              # requests are held back for the next step
    int budget               # requests a step
    int left                 # of the budget of this step
    int fresh                # the step began since somebody asked
    long long interval       # least wall time between two looks [ns]
    long long looked_at      # [ns]


cdef int _look(void* context, Clock* clock) noexcept nogil:
    cdef Watch* w = <Watch*>context
    cdef long long now
    w.left = w.budget
    w.fresh = 1
    if w.waiting:
        return ATTEND
    now = monotonic_ns()
    if now - max(w.looked_at, clock.quiet_at) < w.interval:
        return DONE
    w.looked_at = now
    return ATTEND if w.fd >= 0 and xb_readable(w.fd) else DONE


cdef class RequestWatch(Stage):
    """Asks for its handler when a descriptor is readable or requests wait; begins the budget of each step anew.

    The descriptor is looked at no more than once per `interval` [s of wall time], since a look is a system call; a wait
    that ended with nothing to read counts as a look, so the descriptor has to be watched in waits (`Pacer.watch`).
    """
    cdef Watch w

    def __cinit__(self, int fd, int budget, double interval):
        self.w.fd = fd
        self.w.budget = budget
        self.w.left = budget
        self.w.interval = <long long>(interval * 1e9)
        self.run = _look
        self.context = &self.w

    def begin_step(self):
        self.w.left = self.w.budget

    def take(self):
        """One request of this step's budget; False when there is none left."""
        if self.w.left <= 0:
            return False
        self.w.left -= 1
        return True

    def step_began(self):
        """Whether a step began since the last call."""
        cdef bint fresh = self.w.fresh
        self.w.fresh = 0
        return fresh

    @property
    def left(self):
        return self.w.left

    @property
    def waiting(self):
        return bool(self.w.waiting)

    @waiting.setter
    def waiting(self, bint value):
        self.w.waiting = value

    def close(self):
        self.w.fd = -1
        self.w.waiting = 0
