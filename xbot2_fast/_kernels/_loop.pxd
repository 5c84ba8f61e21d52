"""The stages of a step, and what each may know of it."""

ctypedef struct Clock:
    double time         # simulation time [s]: before mj_step in the stages before it, after it in those behind it
    double last_time    # simulation time after the last step of the loop; -inf before the first
    long long now       # CLOCK_MONOTONIC [ns], read behind each mj_step, each Python handler and each wait
    long long step      # steps taken
    long long quiet_at  # CLOCK_MONOTONIC [ns] when a wait last ended with no watched descriptor readable; 0: never

cdef enum:
    DONE = 0            # go on with the next stage
    ATTEND = 1          # call this stage's Python handler, then go on with the next stage
    AGAIN = 2           # call this stage's Python handler, then run this stage again

# Called with the GIL held, once a step. It must not touch Python; a stage that blocks gives the GIL up itself.
ctypedef int (*stage_fn)(void* context, Clock* clock) noexcept nogil


cdef class Stage:
    """Base of whatever runs inside a step: a C function and its context, owned by the instance."""
    cdef stage_fn run
    cdef void* context


cdef long long monotonic_ns() noexcept nogil
