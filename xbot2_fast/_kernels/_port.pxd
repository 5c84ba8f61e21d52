"""The server's end of the bridge: one state out, one command in, over shared memory where there is any."""

from xbot2_fast._kernels._command_log cimport CommandLog, Log

ctypedef unsigned long long word

cdef struct PortState:
    Py_ssize_t n             # joints
    Py_ssize_t state_words   # time, 8 per joint, 10 per IMU
    double* state            # what the next commit publishes
    double* command          # the last command taken: q dq tau k d, n each
    double* incoming         # a command that is being checked
    word stamp               # its stamp_rx_feedback [ns of simulation time], 0: none
    int fresh                # a command was taken that nobody has applied yet
    long long taken_at       # wall time of the last take [ns]
    # shared memory
    word* shared             # NULL without
    word* state_out
    word* command_in
    word magic, version, session
    word state_seq
    word client_session      # the one that this discovery cycle locked on to, 0: none yet
    word last_taken          # command sequence
    word last_refused        # command sequence that was looked at and found bad for good
    word last_odd            # odd command sequence that was waited for in vain
    word last_counted        # command sequence whose refusal was counted
    int discovered
    long long freshness      # age up to which a command counts [ns]
    Log* log                 # of the controller that discovered last
    long long states         # published
    double published, published_before   # simulation times of the last two states [s]

# Take the newest command from shared memory when it counts at wall time `now` [ns]; 1 when it was taken.
# `time` is the simulation time [s].
cdef int port_take(PortState* p, long long now, double time) noexcept nogil

# Publish the state, stamped with this simulation time [s].
cdef void port_commit(PortState* p, double time) noexcept nogil

# Whether every number of the state is finite.
cdef int port_finite(const PortState* p) noexcept nogil


cdef class Port:
    cdef PortState p
    cdef double[::1] state_memory, command_memory, incoming_memory
    cdef unsigned char[::1] segment
    cdef const unsigned long long[::1] header
    cdef CommandLog log
    cdef void _write_header(self)
