"""The real-time schedule: when the next step is due, and how late it starts."""
from libc.math cimport INFINITY

from xbot2_fast._kernels._loop cimport AGAIN, ATTEND, DONE, Clock, Stage, monotonic_ns

cdef extern from *:
    """
    #include <poll.h>
    #include <time.h>

    /* Sleep this long, or until one of the descriptors is readable: 1 when one is. Gives the GIL up meanwhile. */
    static int xb_wait(struct pollfd* fds, int n, long long wait_ns) {
        struct timespec t = {wait_ns / 1000000000LL, wait_ns % 1000000000LL};
        PyThreadState* thread = PyEval_SaveThread();
        int ready = ppoll(fds, (nfds_t)n, &t, NULL) > 0;
        PyEval_RestoreThread(thread);
        return ready;
    }
    """
    struct pollfd:
        int fd
        short events
        short revents
    enum: POLLIN
    int xb_wait(pollfd* fds, int n, long long wait_ns) noexcept nogil

cdef enum:
    MAX_FDS = 8

cdef long long CATCH_UP_NS = 100_000_000   # lateness beyond this is given up: the schedule starts anew


cdef struct Schedule:
    double target_rtf        # simulated seconds per wall second; inf: no pacing
    double wanted_rtf        # the target from the next look at the schedule on
    double anchor_time       # the schedule is a line through this simulation time ...
    long long anchor_now     # ... and this wall time [ns]
    int anchored
    double last_time         # the step that began last: simulation time before it,
    long long last_due       # and when it was due [ns]
    long long lost           # wall time given up in all [ns]
    # of the window since the last report
    long long window_now
    double window_time
    double lateness_sum      # [ns]
    long long lateness_max   # [ns]
    long long starts
    long long window_lost    # [ns]


cdef void _anchor(Schedule* s, double time, long long now) noexcept nogil:
    s.anchor_time = time
    s.anchor_now = now
    s.anchored = 1
    s.last_time = time
    s.last_due = now


cdef long long _on_line(Schedule* s, double time, long long now) noexcept nogil:
    if s.target_rtf == INFINITY:
        return now
    return s.anchor_now + <long long>((time - s.anchor_time) / s.target_rtf * 1e9)


cdef void _retarget(Schedule* s, double time, long long now) noexcept nogil:
    """Bend the line where the last step was due, so that changes move no step but by their own slope.

    A faster target may put the step that waits now into the past: then it is due now, unless it was late already.
    """
    cdef long long earliest = min(_on_line(s, time, now), now)
    s.target_rtf = s.wanted_rtf
    _anchor(s, s.last_time, s.last_due)
    if _on_line(s, time, now) < earliest:
        s.anchor_time = time
        s.anchor_now = earliest


cdef long long _due(Schedule* s, double time, long long now) noexcept nogil:
    """Wall time at which the step after simulation time `time` is due [ns]."""
    if not s.anchored or time < s.anchor_time:
        _anchor(s, time, now)
    if s.target_rtf != s.wanted_rtf:
        _retarget(s, time, now)
    return _on_line(s, time, now)


cdef void _started(Schedule* s, long long due, double time, long long now) noexcept nogil:
    """Book that the step after simulation time `time`, due at `due`, starts at `now`; early counts as on time."""
    cdef long long late = now - due
    if late < 0:
        late = 0
    s.last_time = time
    s.last_due = due
    s.starts += 1
    s.lateness_sum += late
    if late > s.lateness_max:
        s.lateness_max = late
    if late > CATCH_UP_NS:
        s.lost += late
        s.window_lost += late
        _anchor(s, time, now)


cdef struct Wait:
    Schedule schedule
    pollfd fds[MAX_FDS]          # those that also end a rest come first
    int nfds
    int nresting
    long long sync_interval      # [ns]
    long long last_wait          # [ns]
    long long until              # when the step is due that is, or was last, waited for [ns]
    long long report_interval    # [ns]


cdef int _pace(void* context, Clock* clock) noexcept nogil:
    cdef Wait* w = <Wait*>context
    cdef Schedule* s = &w.schedule
    cdef int ready
    cdef long long due = _due(s, clock.time, clock.now)
    if s.window_now == 0:
        s.window_now = clock.now
        s.window_time = clock.time
    w.until = due
    # The second rule keeps a fast model from running far ahead between two waits.
    if due > clock.now and max(clock.now - w.last_wait, due - clock.now) >= w.sync_interval:
        ready = xb_wait(w.fds, w.nfds, due - clock.now)
        clock.now = monotonic_ns()
        if not ready:
            clock.quiet_at = clock.now
        if ready or clock.now < due:   # a request, or a signal: let Python look, then wait on
            return AGAIN
        w.last_wait = clock.now
    _started(s, due, clock.time, clock.now)
    if clock.now - s.window_now >= w.report_interval:
        return ATTEND
    return DONE


cdef class Pacer(Stage):
    """Waits behind each step for the next one's time.

    Asks for its handler once a report interval, and while waiting when a watched descriptor is readable.

    `due` and `started` are the arithmetic alone, for any clock.
    """
    cdef Wait w

    def __cinit__(self, double target_rtf, double sync_interval=0.0, double report_interval=1.0):
        self.run = _pace
        self.context = &self.w
        self.w.schedule.target_rtf = self.w.schedule.wanted_rtf = target_rtf
        self.w.sync_interval = <long long>(sync_interval * 1e9)
        self.w.report_interval = <long long>(report_interval * 1e9)

    def watch(self, int fd, bint resting=True):
        """Wake from the wait, and with `resting` also from `rest`, when this descriptor is readable."""
        cdef int at = self.w.nresting if resting else self.w.nfds
        if self.w.nfds == MAX_FDS:
            raise RuntimeError(f"Pacer: more than {MAX_FDS} descriptors")
        self.w.fds[self.w.nfds] = self.w.fds[at]
        self.w.fds[at].fd = fd
        self.w.fds[at].events = POLLIN
        self.w.nfds += 1
        self.w.nresting += resting

    def unwatch(self, int fd):
        cdef int i, n = 0, nresting = 0
        for i in range(self.w.nfds):
            if self.w.fds[i].fd != fd:
                self.w.fds[n] = self.w.fds[i]
                n += 1
                nresting += i < self.w.nresting
        self.w.nfds = n
        self.w.nresting = nresting

    def readable(self, int fd):
        """Whether this descriptor is watched and was readable at the end of the last wait."""
        cdef int i
        for i in range(self.w.nfds):
            if self.w.fds[i].fd == fd:
                return self.w.fds[i].revents != 0
        return False

    def rest(self, double seconds):
        """Wait this long, or until a descriptor watched with `resting` is readable; True when one is."""
        cdef long long ns = <long long>(seconds * 1e9)
        return bool(xb_wait(self.w.fds, self.w.nresting, ns))

    def anchor(self, double time):
        """Start the schedule anew: the step after this simulation time [s] is due now."""
        _anchor(&self.w.schedule, time, monotonic_ns())

    def due(self, double time, long long now):
        return _due(&self.w.schedule, time, now)

    def started(self, long long due, double time, long long now):
        _started(&self.w.schedule, due, time, now)

    @property
    def target_rtf(self):
        return self.w.schedule.wanted_rtf

    @target_rtf.setter
    def target_rtf(self, double value):
        self.w.schedule.wanted_rtf = value

    @property
    def waits_until(self):
        """When the step is due that is being waited for, by time.monotonic() [s]."""
        return self.w.until * 1e-9

    @property
    def lost(self):
        """Wall time given up so far because the loop was more than 0.1 s late [s]."""
        return self.w.schedule.lost * 1e-9

    def report_due(self):
        """Whether the window since the last take is full."""
        return self.w.schedule.window_now != 0 and (
            monotonic_ns() - self.w.schedule.window_now >= self.w.report_interval)

    def take_window(self, double time, long long now):
        """(rtf, mean lateness, worst lateness, lost) since the last take [-, s, s, s], and begin a new window."""
        cdef Schedule* s = &self.w.schedule
        cdef double wall = (now - s.window_now) * 1e-9
        result = ((time - s.window_time) / wall if wall > 0 else 0.0,
                  s.lateness_sum * 1e-9 / s.starts if s.starts else 0.0,
                  s.lateness_max * 1e-9, s.window_lost * 1e-9)
        s.window_now = now
        s.window_time = time
        s.lateness_sum = 0
        s.lateness_max = 0
        s.starts = 0
        s.window_lost = 0
        return result
