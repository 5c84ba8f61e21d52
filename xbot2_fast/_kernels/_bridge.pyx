"""The bridge's stages of a step: take a command, put the due one into effect, send the state."""
from xbot2_fast._kernels._actuation cimport Actuation, Drives, drives_apply, drives_gather, drives_let_go, drives_update
from xbot2_fast._kernels._delay cimport DelayRing, Ring, ring_clear, ring_due, ring_receive
from xbot2_fast._kernels._imu cimport Imus, Sensors, imu_gather
from xbot2_fast._kernels._loop cimport AGAIN, ATTEND, DONE, Clock, Stage, monotonic_ns
from xbot2_fast._kernels._noise cimport Noise, VelocityNoiseKernel, noise_add
from xbot2_fast._kernels._port cimport Port, PortState, port_commit, port_finite, port_take

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <time.h>
    /* Whether a datagram waits. */
    static int xb_waiting(int fd) {
        char byte;
        return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) >= 0;
    }
    /* Sleep without the GIL; 1 when a signal ended the sleep. */
    static int xb_nap(long ns) {
        struct timespec t = {0, ns};
        PyThreadState* thread = PyEval_SaveThread();
        int interrupted = nanosleep(&t, NULL) != 0;
        PyEval_RestoreThread(thread);
        return interrupted;
    }
    """
    int xb_waiting(int fd) noexcept nogil
    int xb_nap(long ns) noexcept nogil

cdef long long POLL_NS = 8_000_000    # wall time between two looks at the socket while nobody sends commands over it
cdef long long SLICE_NS = 10_000_000  # a lockstep wait lets Python look after this time
cdef long long SPIN_NS = 50_000       # a lockstep wait begins without sleeping, as most answers come soon
cdef long NAP_NS = 20_000


cdef struct Receive:
    PortState* port
    int fd                   # -1: closed
    int eager                # look at the socket in each step
    long long next_poll
    # lockstep
    int lockstep
    long long answered       # states published when the last answer came
    long long waiting_since  # wall time [ns], 0: not waiting
    long long timeout        # [ns]
    int timed_out


cdef int _answers(const PortState* p) noexcept nogil:
    """Whether the command taken is an answer to the last state: one computed from an older state is not."""
    return p.fresh and (p.stamp == 0 or <double>p.stamp * 1e-9 > p.published_before)


cdef int _lockstep(Receive* r, Clock* clock) noexcept nogil:
    """Wait for the answer to the last state, in slices."""
    cdef long long start = monotonic_ns()
    if r.port.states == r.answered:
        return DONE
    if r.waiting_since == 0:
        r.waiting_since = start
    while not _answers(r.port):
        if xb_waiting(r.fd):
            return AGAIN
        if clock.now - r.waiting_since >= r.timeout:
            r.timed_out = 1
            return ATTEND
        if clock.now - start >= SLICE_NS or (clock.now - start >= SPIN_NS and xb_nap(NAP_NS)):
            clock.now = monotonic_ns()
            return AGAIN
        clock.now = monotonic_ns()
        port_take(r.port, clock.now, clock.time)
    r.answered = r.port.states
    r.waiting_since = 0
    return DONE


cdef int _receive(void* context, Clock* clock) noexcept nogil:
    cdef Receive* r = <Receive*>context
    if r.fd < 0:
        return DONE
    port_take(r.port, clock.now, clock.time)
    if r.lockstep:
        return _lockstep(r, clock)
    # The wait of a paced loop watches the socket too: while it does, nobody needs to look.
    if r.eager or clock.now >= max(r.next_poll, clock.quiet_at + POLL_NS):
        r.next_poll = clock.now + POLL_NS
        if xb_waiting(r.fd):
            return ATTEND
    return DONE


cdef class ReceiveStage(Stage):
    """Takes the newest command of the segment; asks for its handler when a datagram waits on the socket.

    With `lockstep` it holds the step until the last state was answered, and asks for its handler at least every 10 ms.
    """
    cdef Receive receive
    cdef Port port

    def __cinit__(self, Port port not None, int fd):
        self.port = port
        self.receive.port = &port.p
        self.receive.fd = fd
        self.run = _receive
        self.context = &self.receive

    def close(self):
        self.receive.fd = -1

    def lockstep(self, double timeout):
        """Wait from now on for a command behind each state, this long at most [s of wall time]."""
        self.receive.lockstep = 1
        self.receive.timeout = <long long>(timeout * 1e9)

    @property
    def timed_out(self):
        """Whether a lockstep wait was in vain."""
        return bool(self.receive.timed_out)

    @property
    def eager(self):
        """Whether the socket is looked at in each step, as JSON controllers need it.

        Otherwise once in 8 ms of wall time without a wait that watched it.
        """
        return bool(self.receive.eager)

    @eager.setter
    def eager(self, bint value):
        self.receive.eager = value


cdef enum:
    KEEP = 0
    HOLD = 1
    DAMP = 2


cdef struct Loss:
    int policy               # KEEP, HOLD or DAMP
    long long timeout        # [ns]
    int armed                # a command came once
    int lost
    long long silence        # wall time without a command [ns]
    long long last_now       # 0: do not count up to the next step
    long long count


cdef struct Apply:
    PortState* port
    Drives* drives
    Ring* ring
    Loss loss


cdef int _watch(Apply* a, long long now) noexcept nogil:
    """Notice a controller that fell silent, and one that is back; ATTEND when either happened."""
    cdef Loss* loss = &a.loss
    if a.port.fresh:
        loss.armed = 1
        loss.silence = 0
        loss.last_now = now
        if loss.lost:
            loss.lost = 0
            return ATTEND
        return DONE
    if loss.last_now:
        loss.silence += now - loss.last_now
    loss.last_now = now
    if not loss.armed or loss.lost or loss.silence < loss.timeout:
        return DONE
    loss.lost = 1
    loss.count += 1
    if loss.policy != KEEP and a.drives.commanded:
        ring_clear(a.ring)
        drives_let_go(a.drives, loss.policy == HOLD)
    return ATTEND


cdef int _apply(void* context, Clock* clock) noexcept nogil:
    cdef Apply* a = <Apply*>context
    cdef const double* command
    cdef int answer = _watch(a, clock.now)
    if a.port.fresh:
        a.port.fresh = 0
        command = ring_receive(a.ring, a.port.command, clock.time)
    else:
        command = ring_due(a.ring, clock.time)
    if command != NULL:
        drives_apply(a.drives, command)
    drives_update(a.drives)
    return answer


cdef class ApplyStage(Stage):
    """Puts the newest due command into effect, computes the torques of the motor law, and notices a silent controller.

    It asks for its handler when a controller fell silent, and when one is back.
    """
    cdef Apply apply
    cdef object keep

    def __cinit__(self, Port port not None, Actuation actuation not None, DelayRing ring not None, int policy,
                  double timeout):
        self.keep = (port, actuation, ring)
        self.apply.port = &port.p
        self.apply.drives = &actuation.drives
        self.apply.ring = &ring.ring
        self.apply.loss.policy = policy
        self.apply.loss.timeout = <long long>(timeout * 1e9)
        self.run = _apply
        self.context = &self.apply

    def now(self, double time, long long now):
        """What the step at this simulation time [s] and wall time [ns] does; True when the handler is asked for."""
        cdef Clock clock
        clock.time = time
        clock.now = now
        return _apply(&self.apply, &clock) == ATTEND

    def restart_silence(self):
        """Count the controller's silence anew from the next step on."""
        self.apply.loss.silence = 0
        self.apply.loss.last_now = 0

    @property
    def lost(self):
        """Whether a controller that sent commands fell silent."""
        return bool(self.apply.loss.lost)

    @property
    def losses(self):
        """How often that happened."""
        return self.apply.loss.count


cdef struct Send:
    PortState* port
    Drives* drives
    Sensors* imus
    Noise* noise
    long long every, counter
    int attend               # JSON controllers are there
    int closed
    int finite               # the last state for JSON controllers was


cdef void _gather_and_commit(Send* s, double time) noexcept nogil:
    cdef double* joints = s.port.state + 1
    drives_gather(s.drives, joints)
    noise_add(s.noise, joints + s.drives.n)
    imu_gather(s.imus, joints + 8 * s.drives.n)
    port_commit(s.port, time)
    if s.attend:
        s.finite = port_finite(s.port)


cdef int _send(void* context, Clock* clock) noexcept nogil:
    cdef Send* s = <Send*>context
    s.counter += 1
    if s.counter < s.every or s.closed:
        return DONE
    s.counter = 0
    _gather_and_commit(s, clock.time)
    return ATTEND if s.attend else DONE


cdef class SendStage(Stage):
    """Publishes the state of every n-th step; asks for its handler when controllers want it as JSON."""
    cdef Send send
    cdef object keep

    def __cinit__(self, Port port not None, Actuation actuation not None, Imus imus not None,
                  VelocityNoiseKernel noise not None, long long every):
        self.keep = (port, actuation, imus, noise)
        self.send.port = &port.p
        self.send.drives = &actuation.drives
        self.send.imus = &imus.sensors
        self.send.noise = &noise.noise
        self.send.every = every
        self.send.finite = 1
        self.run = _send
        self.context = &self.send

    def close(self):
        self.send.closed = 1

    def now(self, double time):
        """Publish the present state, stamped with this simulation time [s]."""
        _gather_and_commit(&self.send, time)

    @property
    def attend(self):
        """Whether controllers want the state as JSON."""
        return bool(self.send.attend)

    @attend.setter
    def attend(self, bint value):
        self.send.attend = value

    @property
    def finite(self):
        """Whether every number of the last state was finite; kept up only while `attend` is set."""
        return bool(self.send.finite)
