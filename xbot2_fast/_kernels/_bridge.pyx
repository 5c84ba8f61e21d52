"""The bridge's stages of a step: take a command, put the due one into effect, send the state."""
from xbot2_fast._kernels._actuation cimport Actuation, Drives, drives_apply, drives_gather, drives_update
from xbot2_fast._kernels._delay cimport DelayRing, Ring, ring_due, ring_receive
from xbot2_fast._kernels._imu cimport Imus, Sensors, imu_gather
from xbot2_fast._kernels._loop cimport ATTEND, DONE, Clock, Stage
from xbot2_fast._kernels._port cimport Port, PortState, port_commit, port_take

cdef extern from *:
    """
    #include <sys/socket.h>
    /* Whether a datagram waits. */
    static int xb_waiting(int fd) {
        char byte;
        return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) >= 0;
    }
    """
    int xb_waiting(int fd) noexcept nogil

cdef long long POLL_NS = 5_000_000   # wall time between two looks at the socket while nobody sends commands over it


cdef struct Receive:
    PortState* port
    int fd                   # -1: closed
    int eager                # look at the socket in each step
    long long next_poll


cdef int _receive(void* context, Clock* clock) noexcept nogil:
    cdef Receive* r = <Receive*>context
    if r.fd < 0:
        return DONE
    port_take(r.port, clock.now)
    if r.eager or clock.now >= r.next_poll:
        r.next_poll = clock.now + POLL_NS
        if xb_waiting(r.fd):
            return ATTEND
    return DONE


cdef class ReceiveStage(Stage):
    """Takes the newest command of the segment; asks for its handler when a datagram waits on the socket."""
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

    @property
    def eager(self):
        """Whether the socket is looked at in each step, as JSON controllers need it, or every 5 ms of wall time."""
        return bool(self.receive.eager)

    @eager.setter
    def eager(self, bint value):
        self.receive.eager = value


cdef struct Apply:
    PortState* port
    Drives* drives
    Ring* ring


cdef int _apply(void* context, Clock* clock) noexcept nogil:
    cdef Apply* a = <Apply*>context
    cdef const double* command
    if a.port.fresh:
        a.port.fresh = 0
        command = ring_receive(a.ring, a.port.command, clock.time)
    else:
        command = ring_due(a.ring, clock.time)
    if command != NULL:
        drives_apply(a.drives, command)
    drives_update(a.drives)
    return DONE


cdef class ApplyStage(Stage):
    """Puts the newest due command into effect and computes the torques of the motor law."""
    cdef Apply apply
    cdef object keep

    def __cinit__(self, Port port not None, Actuation actuation not None, DelayRing ring not None):
        self.keep = (port, actuation, ring)
        self.apply.port = &port.p
        self.apply.drives = &actuation.drives
        self.apply.ring = &ring.ring
        self.run = _apply
        self.context = &self.apply

    def now(self, double time):
        """What the step at this simulation time does [s]."""
        cdef Clock clock
        clock.time = time
        _apply(&self.apply, &clock)


cdef struct Send:
    PortState* port
    Drives* drives
    Sensors* imus
    long long every, counter
    int attend               # JSON controllers are there
    int closed
    int finite               # the last state was


cdef void _gather_and_commit(Send* s, double time) noexcept nogil:
    drives_gather(s.drives, s.port.state + 1)
    imu_gather(s.imus, s.port.state + 1 + 8 * s.drives.n)
    s.finite = port_commit(s.port, time)


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

    def __cinit__(self, Port port not None, Actuation actuation not None, Imus imus not None, long long every):
        self.keep = (port, actuation, imus)
        self.send.port = &port.p
        self.send.drives = &actuation.drives
        self.send.imus = &imus.sensors
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
        return bool(self.send.attend)

    @attend.setter
    def attend(self, bint value):
        self.send.attend = value

    @property
    def finite(self):
        """Whether every number of the last state was finite."""
        return bool(self.send.finite)
