"""Timed wrenches on bodies, summed into xfrc_applied before each step.

The schedule lives here, in one array, in the order in which wrenches were added; what is over falls out in passing.
Poses come from a chain of bodies (`_chain`), since data.xmat is one step old and zero before the first step.
"""
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from xbot2_fast._kernels._chain cimport BodyChain, Chain, chain_inertia, chain_refresh
from xbot2_fast._kernels._loop cimport DONE, Clock, Stage

cdef struct Wrench:
    int target           # index into the targets
    int body_frame       # force and torque are in the body's axes
    int at_point         # the force acts at `point`, not at the centre of mass
    double force[3]      # [N]
    double torque[3]     # [Nm]
    double point[3]      # [m], body frame
    double start         # simulation time [s]
    double end           # half a step before the first step without it, so that rounding cannot miscount
    double half          # half a time step [s]
    double duration, ramp_up, ramp_down   # [s]
    long long id

cdef struct Target:      # a body whose slot of xfrc_applied is in use
    int body
    int slot             # of the chain; -1: no wrench on it needs its pose
    int active           # wrenches on it
    int next             # its index after those without wrenches were dropped
    double base[6]       # what others left in the slot
    double written[6]    # what we left in it; both are zero at first, which is right for whatever is in the slot
    double ours[6]       # sum of the active wrenches: force, torque about the centre of mass, world axes

cdef struct Schedule:
    Wrench* wrenches
    Target* targets
    int nwrench, ntarget, capacity, target_capacity
    Chain* chain         # NULL: no pose is needed
    double* xfrc         # nbody x 6


cdef inline void _cross_add(double* out, const double* a, const double* b) noexcept nogil:
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


cdef inline void _rotate(double* out, const double* m, const double* v) noexcept nogil:
    out[0] = m[0] * v[0] + m[1] * v[1] + m[2] * v[2]
    out[1] = m[3] * v[0] + m[4] * v[1] + m[5] * v[2]
    out[2] = m[6] * v[0] + m[7] * v[1] + m[8] * v[2]


cdef double _factor(const Wrench* w, double time) noexcept nogil:
    """Where the ramps are in the middle of the step that begins at `time`."""
    cdef double t = time - w.start + w.half
    cdef double left = w.duration - t
    if w.ramp_up > 0 and t < w.ramp_up:
        return t / w.ramp_up
    if w.ramp_down > 0 and left < w.ramp_down:
        return left / w.ramp_down if left > 0 else 0.0
    return 1.0


cdef inline void _add_scaled(double* out, double factor, const double* v) noexcept nogil:
    out[0] += factor * v[0]
    out[1] += factor * v[1]
    out[2] += factor * v[2]


cdef void _add_posed(const Schedule* s, const Wrench* w, Target* target, double factor) noexcept nogil:
    """A wrench that needs the body's pose."""
    cdef double force[3]
    cdef double torque[3]
    cdef double lever[3]
    cdef double com[3]
    cdef const double* pos = s.chain.poses[target.slot].pos
    cdef const double* mat = s.chain.poses[target.slot].mat
    cdef int i
    if w.body_frame:
        _rotate(force, mat, w.force)
        _rotate(torque, mat, w.torque)
    else:
        memcpy(force, w.force, sizeof(force))
        memcpy(torque, w.torque, sizeof(torque))
    if w.at_point:
        _rotate(lever, mat, w.point)
        chain_inertia(s.chain, s.chain.poses, target.slot, com, NULL)
        for i in range(3):
            lever[i] = lever[i] + pos[i] - com[i]
        _cross_add(torque, lever, force)
    _add_scaled(target.ours, factor, force)
    _add_scaled(target.ours + 3, factor, torque)


cdef inline void _add_wrench(const Schedule* s, const Wrench* w, Target* target, double time) noexcept nogil:
    cdef double factor = _factor(w, time) if w.ramp_up > 0 or w.ramp_down > 0 else 1.0
    if w.body_frame or w.at_point:
        _add_posed(s, w, target, factor)
    else:
        _add_scaled(target.ours, factor, w.force)
        _add_scaled(target.ours + 3, factor, w.torque)


cdef void _sum(Schedule* s, double time) noexcept nogil:
    """What the active wrenches make of each target; those that are over leave the schedule."""
    cdef int i, kept = 0
    cdef Target* target
    for i in range(s.ntarget):
        memset(s.targets[i].ours, 0, sizeof(s.targets[i].ours))
        s.targets[i].active = 0
    if s.chain != NULL and s.nwrench:
        chain_refresh(s.chain)
    for i in range(s.nwrench):
        if time >= s.wrenches[i].end:
            continue
        if kept != i:
            s.wrenches[kept] = s.wrenches[i]
        target = &s.targets[s.wrenches[kept].target]
        target.active += 1
        _add_wrench(s, &s.wrenches[kept], target, time)
        kept += 1
    s.nwrench = kept


cdef void _write(Schedule* s) noexcept nogil:
    """Put base + ours into each slot; a slot without wrenches gets its base back once."""
    cdef int i, k
    cdef Target* t
    cdef double* slot
    for i in range(s.ntarget):
        t = &s.targets[i]
        slot = s.xfrc + 6 * t.body
        if memcmp(slot, t.written, sizeof(t.written)) != 0:
            memcpy(t.base, slot, sizeof(t.base))
        if t.active == 0:
            memcpy(slot, t.base, sizeof(t.base))
            continue
        for k in range(6):
            t.written[k] = t.base[k] + t.ours[k]
        memcpy(slot, t.written, sizeof(t.written))


cdef void _forget_idle(Schedule* s) noexcept nogil:
    """Drop the targets without wrenches."""
    cdef int i, kept = 0
    for i in range(s.ntarget):
        s.targets[i].next = kept
        kept += s.targets[i].active > 0
    if kept == s.ntarget:
        return
    for i in range(s.nwrench):
        s.wrenches[i].target = s.targets[s.wrenches[i].target].next
    for i in range(s.ntarget):
        if s.targets[i].active > 0:
            s.targets[s.targets[i].next] = s.targets[i]
    s.ntarget = kept


cdef void _apply(Schedule* s, double time) noexcept nogil:
    if s.ntarget:
        _sum(s, time)
        _write(s)
        _forget_idle(s)


cdef int _run(void* context, Clock* clock) noexcept nogil:
    _apply(<Schedule*>context, clock.time)
    return DONE


cdef int _grown(void** array, int* capacity, int wanted, size_t size) except -1:
    """Room for `wanted` elements."""
    if wanted <= capacity[0]:
        return 0
    cdef void* grown = realloc(array[0], 2 * wanted * size)
    if grown == NULL:
        raise MemoryError
    array[0] = grown
    capacity[0] = 2 * wanted
    return 0


cdef tuple _triple(const double* v):
    return v[0], v[1], v[2]


cdef class WrenchSchedule(Stage):
    """The wrenches on the bodies of one simulation, and the stage that applies them before each step.

    Writes data.xfrc_applied and reads qpos; both live. Arguments are trusted: `xbot2_fast.wrenches` checks them.
    """
    cdef Schedule s
    cdef object model, data
    cdef double[:, ::1] xfrc
    cdef BodyChain chain
    cdef set posed       # bodies of the chain
    cdef long long last_id

    def __cinit__(self, model, data):
        self.model = model
        self.data = data
        self.xfrc = data.xfrc_applied
        self.s.xfrc = &self.xfrc[0, 0]
        self.posed = set()
        self.run = _run
        self.context = &self.s

    def __dealloc__(self):
        free(self.s.wrenches)
        free(self.s.targets)

    def next_id(self):
        self.last_id += 1
        return self.last_id

    def add(self, long long id, int body, bint body_frame, force, torque, point, double start, double end, double half,
            double duration, double ramp_up, double ramp_down):
        """Schedule one wrench; `point` is None for the centre of mass, `end` lies half a step before the first step
        without it."""
        cdef Wrench w
        cdef int i
        w.id, w.body_frame, w.at_point = id, body_frame, point is not None
        w.start, w.end, w.half = start, end, half
        w.duration, w.ramp_up, w.ramp_down = duration, ramp_up, ramp_down
        for i in range(3):
            w.force[i], w.torque[i] = force[i], torque[i]
            w.point[i] = point[i] if w.at_point else 0.0
        w.target = self._target(body)
        if w.body_frame or w.at_point:
            self._need_pose(body)
        _grown(<void**>&self.s.wrenches, &self.s.capacity, self.s.nwrench + 1, sizeof(Wrench))
        self.s.wrenches[self.s.nwrench] = w
        self.s.nwrench += 1

    cdef int _target(self, int body) except -1:
        cdef int i
        cdef Target t
        for i in range(self.s.ntarget):
            if self.s.targets[i].body == body:
                return i
        _grown(<void**>&self.s.targets, &self.s.target_capacity, self.s.ntarget + 1, sizeof(Target))
        memset(&t, 0, sizeof(t))
        t.body = body
        t.slot = self.chain.slot(body) if body in self.posed else -1
        self.s.targets[self.s.ntarget] = t
        self.s.ntarget += 1
        return self.s.ntarget - 1

    cdef int _need_pose(self, int body) except -1:
        cdef int i
        if body in self.posed:
            return 0
        if self.s.nwrench == 0:
            self.posed.clear()
        self.posed.add(body)
        self.chain = BodyChain(self.model, self.data, self.posed)
        self.s.chain = &self.chain.chain
        for i in range(self.s.ntarget):
            self.s.targets[i].slot = -1
            if self.s.targets[i].body in self.posed:
                self.s.targets[i].slot = self.chain.slot(self.s.targets[i].body)
        return 0

    def apply(self, double time):
        """What the stage does, for the step that begins at this simulation time. Once more does no harm."""
        _apply(&self.s, time)

    def cancel(self, long long id):
        """Drop the wrenches with this id; the next `apply` gives their slots back. How many there were."""
        cdef int i, kept = 0
        for i in range(self.s.nwrench):
            if self.s.wrenches[i].id != id:
                self.s.wrenches[kept] = self.s.wrenches[i]
                kept += 1
        cdef int dropped = self.s.nwrench - kept
        self.s.nwrench = kept
        return dropped

    def clear(self):
        """Drop all wrenches and zero every slot of xfrc_applied, whoever wrote it."""
        self.s.nwrench = 0
        self.s.ntarget = 0
        self.xfrc[:, :] = 0.0

    def active(self, double time):
        """(id, body, body_frame, force, torque, point or None, start, duration, ramp_up, ramp_down) of the wrenches
        that act in a step beginning at this time, in the order in which they were added."""
        cdef int i
        cdef Wrench* w
        found = []
        for i in range(self.s.nwrench):
            w = &self.s.wrenches[i]
            if time < w.end:
                found.append((w.id, self.s.targets[w.target].body, bool(w.body_frame), _triple(w.force),
                              _triple(w.torque), _triple(w.point) if w.at_point else None,
                              w.start, w.duration, w.ramp_up, w.ramp_down))
        return found

    def count(self, double time):
        """How many wrenches act in a step beginning at this time."""
        cdef int i, found = 0
        for i in range(self.s.nwrench):
            found += time < self.s.wrenches[i].end
        return found

    def net(self, double time):
        """body -> (force, torque about its centre of mass) [N, Nm, world axes] of a step beginning at this time."""
        cdef int i
        _sum(&self.s, time)
        return {self.s.targets[i].body: (_triple(self.s.targets[i].ours), _triple(self.s.targets[i].ours + 3))
                for i in range(self.s.ntarget) if self.s.targets[i].active}
