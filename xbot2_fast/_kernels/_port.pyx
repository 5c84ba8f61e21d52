"""Shared-memory transport of the server, and the command checks of `xbot2-shm-v1`.

The state is gathered in private memory and copied out under the seqlock; a command is copied into private memory under
the seqlock and only then looked at. So nobody ever sees, or is driven by, half a frame, and no later write of a client
reaches what was taken.
"""
from libc.math cimport INFINITY, isfinite

from xbot2_fast._kernels._command_log cimport CommandLog, log_arrival
from xbot2_fast._kernels._seqlock cimport (
    CLIENT_SESSION, COMMAND_OFFSET, COMMAND_SEQ, COMMAND_STAMP, COMMAND_VALID, HEADER_SIZE, IMUS, JOINTS, MAGIC,
    SERVER_SESSION, STATE_OFFSET, STATE_SEQ, TOTAL_SIZE, VERSION, xb_begin, xb_get, xb_load, xb_put, xb_store,
    xb_unchanged)

cdef enum:
    COPIES = 8              # attempts to copy a frame that its writer keeps changing
    ODD_SPINS = 4000        # looks at an odd sequence before it is left for the next step (about 20 us)


cdef int _all_finite(const double* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if not isfinite(x[i]):
            return 0
    return 1


cdef void _count_refused(PortState* p, word seq) noexcept nogil:
    if p.last_counted != seq:
        p.last_counted = seq
        p.log.refused += 1


cdef word _even_sequence(PortState* p) noexcept nogil:
    """The command sequence once it is even; 0 while a writer stays inside its frame.

    A writer that died inside its frame is waited for once, not in every step.
    """
    cdef word seq = xb_load(&p.shared[COMMAND_SEQ])
    cdef int spins = 0
    if seq & 1 and seq == p.last_odd:
        return 0
    while seq & 1:
        spins += 1
        if spins == 1:
            p.log.torn += 1
        if spins > ODD_SPINS:
            p.last_odd = seq
            return 0
        seq = xb_load(&p.shared[COMMAND_SEQ])
    return seq


cdef int port_take(PortState* p, long long now, double time) noexcept nogil:
    cdef word seq, valid, session, stamp, stamp_rx
    cdef int _copy
    if p.shared == NULL or not p.discovered:
        return 0
    for _copy in range(COPIES):
        seq = _even_sequence(p)
        if seq <= p.last_taken or seq == p.last_refused:   # 0 is never newer
            return 0
        valid = xb_load(&p.shared[COMMAND_VALID])
        session = xb_load(&p.shared[CLIENT_SESSION])
        stamp = xb_load(&p.shared[COMMAND_STAMP])
        stamp_rx = xb_load(p.command_in)
        xb_get(p.incoming, p.command_in + 1, 5 * p.n)
        if xb_unchanged(&p.shared[COMMAND_SEQ], seq):
            break
        p.log.torn += 1
    else:
        return 0
    if (valid == 0 or session == 0 or stamp == 0 or (p.client_session != 0 and session != p.client_session)
            or xb_load(&p.shared[MAGIC]) != p.magic or xb_load(&p.shared[VERSION]) != p.version
            or xb_load(&p.shared[SERVER_SESSION]) != p.session):
        _count_refused(p, seq)
        return 0
    p.client_session = session
    if now - <long long>stamp > p.freshness:
        p.last_refused = seq
        p.log.stale += 1
        return 0
    if not _all_finite(p.incoming, 5 * p.n):
        p.last_refused = seq
        p.log.malformed += 1
        return 0
    if p.last_taken:
        p.log.dropped += (seq - p.last_taken) // 2 - 1
    p.last_taken = seq
    xb_get(p.command, p.incoming, 5 * p.n)
    _deliver(p, stamp_rx, now)
    log_arrival(p.log, now, time, stamp_rx)
    return 1


cdef void _deliver(PortState* p, word stamp, long long now) noexcept nogil:
    p.stamp = stamp
    p.taken_at = now
    p.fresh = 1


cdef void port_commit(PortState* p, double time) noexcept nogil:
    p.state[0] = time
    p.states += 1
    p.published_before = p.published
    p.published = time
    if p.shared != NULL:
        xb_begin(&p.shared[STATE_SEQ], p.state_seq + 1)
        xb_put(p.state_out, p.state, p.state_words)
        p.state_seq += 2
        xb_store(&p.shared[STATE_SEQ], p.state_seq)


cdef int port_finite(const PortState* p) noexcept nogil:
    return _all_finite(p.state, p.state_words)


cdef class Port:
    """Memory of one state and one command, published and taken by compiled code.

    Args:
        state, command: arrays of 1 + 8 n + 10 m and of 5 n numbers, kept; the port copies from and to them.
        n: number of joints.
        freshness: age up to which a command in shared memory counts [s].
    """

    def __cinit__(self, double[::1] state, double[::1] command, double[::1] incoming, Py_ssize_t n, double freshness):
        self.state_memory = state
        self.command_memory = command
        self.incoming_memory = incoming
        self.p.n = n
        self.p.state_words = state.shape[0]
        self.p.state = &state[0]
        if n:
            self.p.command = &command[0]
            self.p.incoming = &incoming[0]
        self.p.freshness = <long long>(freshness * 1e9)
        self.log = CommandLog()
        self.p.log = &self.log.log
        self.p.published = self.p.published_before = -INFINITY

    def attach(self, unsigned char[::1] segment not None, const unsigned long long[::1] header not None):
        """Publish in this segment from now on, under a header of 16 words."""
        self.segment = segment
        self.header = header
        self.p.magic = header[MAGIC]
        self.p.version = header[VERSION]
        self.p.session = header[SERVER_SESSION]
        self.p.shared = <word*>&segment[0]
        self.p.state_out = self.p.shared + header[STATE_OFFSET] // 8
        self.p.command_in = self.p.shared + header[COMMAND_OFFSET] // 8
        self._write_header()

    cdef void _write_header(self):
        """All words of the server but the state sequence; the magic last."""
        cdef int i
        for i in (VERSION, HEADER_SIZE, TOTAL_SIZE, JOINTS, IMUS, STATE_OFFSET, COMMAND_OFFSET, SERVER_SESSION, MAGIC):
            xb_store(&self.p.shared[i], self.header[i])

    def detach(self):
        """Never touch the segment again, and let go of its buffer."""
        self.p.shared = NULL
        self.p.state_out = NULL
        self.p.command_in = NULL
        self.segment = None

    def discovered(self, CommandLog log not None):
        """A controller discovered: it must announce a session and publish a fresh command before one counts.

        What becomes of the commands in shared memory goes into its log from now on.
        """
        self.log = log
        self.p.log = &log.log
        self.p.discovered = 1
        self.p.client_session = 0
        self.p.last_taken = 0
        self.p.last_refused = 0
        self.p.last_odd = 0
        self.p.last_counted = 0
        if self.p.shared != NULL:
            self._write_header()
            xb_store(&self.p.shared[COMMAND_VALID], 0)
            xb_store(&self.p.shared[COMMAND_STAMP], 0)
            xb_store(&self.p.shared[CLIENT_SESSION], 0)
            xb_store(&self.p.shared[COMMAND_SEQ], 0)

    def announced(self):
        """Whether a client announced its session in the segment since the last discovery."""
        return self.p.shared != NULL and xb_load(&self.p.shared[CLIENT_SESSION]) != 0

    def take(self, long long now, double time):
        """Take the newest command of the segment when it counts at this wall time [ns]; True when it was taken.

        Args:
            time: simulation time [s], for the log.
        """
        return bool(port_take(&self.p, now, time))

    def deliver(self, word stamp, long long now):
        """The command array holds a command that came by another way."""
        _deliver(&self.p, stamp, now)

    def commit(self, double time):
        """Publish the state array, stamped with this simulation time [s]; False when a number of it is not finite."""
        port_commit(&self.p, time)
        return bool(port_finite(&self.p))

    @property
    def fresh(self):
        """Whether a command was taken that has not been applied."""
        return bool(self.p.fresh)

    def take_fresh(self):
        """Whether a command came since the last call."""
        cdef int fresh = self.p.fresh
        self.p.fresh = 0
        return bool(fresh)

    @property
    def stamp(self):
        """stamp_rx_feedback of the last command [ns of simulation time]; 0 where the controller gave none."""
        return self.p.stamp

    @property
    def states(self):
        """States published so far."""
        return self.p.states
