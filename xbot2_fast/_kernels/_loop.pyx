"""One step of the simulation in one compiled call: the stages before mj_step, mj_step, the stages behind it.

Python hears of a stage only when the stage asks for it. `pre_step` and `post_step` return 0, or k when the handler of
stage k - 1 is to be called and the same method called again, which goes on from there. `run` does all three parts, and
calls `attend` for whatever needs Python.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from xbot2_fast._kernels cimport _mujoco

cdef enum:
    MAX_STAGES = 16

# Why `attend` is called: what is left of the step, or what ended it.
cpdef enum:
    HELD = 1            # nothing was done: the simulation does not run freely
    IN_PRE_STEP = 2     # a stage before mj_step asks; pre_step() goes on there
    IN_POST_STEP = 3    # a stage behind mj_step asks; post_step() goes on there
    DIVERGED = 4        # mj_step left a value that is not finite or beyond 1e10
    FAILED = 5          # an exception: a signal's, MuJoCo's, or one of a callback of MuJoCo's

# MuJoCo's own bound on positions, velocities and accelerations (mjMAXVAL).
cdef double HUGE_VALUE = 1e10


cdef long long monotonic_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec * 1_000_000_000 + t.tv_nsec


cdef class Stage:
    pass


cdef int _flag_run(void* context, Clock* clock) noexcept nogil:
    return ATTEND if (<int*>context)[0] else DONE


cdef class Flag(Stage):
    """Asks for its handler in each step while it is raised; any thread may raise it."""
    cdef int value

    def __cinit__(self):
        self.run = _flag_run
        self.context = &self.value

    def raise_(self):
        self.value = 1

    def lower(self):
        self.value = 0

    @property
    def raised(self):
        return self.value != 0


cdef int _reset_run(void* context, Clock* clock) noexcept nogil:
    return ATTEND if clock.time < clock.last_time or clock.step == 0 else DONE


cdef class ResetWatch(Stage):
    """Asks for its handler before the first step and whenever the time went back."""

    def __cinit__(self):
        self.run = _reset_run
        self.context = NULL


cdef struct Due:
    long long every      # steps
    long long interval   # wall time [ns]
    long long counter
    long long next_at


cdef int _every_run(void* context, Clock* clock) noexcept nogil:
    cdef Due* due = <Due*>context
    due.counter += 1
    if due.counter < due.every:
        return DONE
    due.counter = 0
    return ATTEND


cdef class EverySteps(Stage):
    """Asks for its handler in every n-th step, the n-th step first."""
    cdef Due due

    def __cinit__(self, long long n):
        self.due.every = n
        self.run = _every_run
        self.context = &self.due


cdef int _interval_run(void* context, Clock* clock) noexcept nogil:
    cdef Due* due = <Due*>context
    if clock.now < due.next_at:
        return DONE
    due.next_at = clock.now + due.interval
    return ATTEND


cdef class EveryInterval(Stage):
    """Asks for its handler once per interval of wall time [s]; at once the first time."""
    cdef Due due

    def __cinit__(self, double seconds):
        self.due.interval = <long long>(seconds * 1e9)
        self.run = _interval_run
        self.context = &self.due


cdef struct Stages:
    stage_fn run[MAX_STAGES]
    void* context[MAX_STAGES]
    int n
    int cursor     # the stage to go on with; 0 also when the next run is a new one
    int asked      # a stage that asked and was not told to the caller yet, plus 1


cdef int _run_stages(Stages* stages, Clock* clock) noexcept nogil:
    cdef int i, answer
    if stages.asked:
        answer = stages.asked
        stages.asked = 0
        return answer
    for i in range(stages.cursor, stages.n):
        answer = stages.run[i](stages.context[i], clock)
        if answer != DONE:
            stages.cursor = i if answer == AGAIN else i + 1
            return i + 1
    stages.cursor = 0
    return 0


cdef class StepLoop:
    """Runs the stages around mj_step in order.

    Holds the model, the data and the stages; the stages hold what they point to. `run` steps while `free` is raised;
    `attend(why, exception)` does what it cannot, and its result is the result of `run`.
    """
    cdef Clock clock
    cdef Stages pre, post
    cdef void* model
    cdef void* data
    cdef double[::1] qpos, qvel
    cdef double* q
    cdef double* v
    cdef Py_ssize_t nq, nv
    cdef object keep
    cdef list stages
    cdef Flag free
    cdef object attend

    def __cinit__(self, model, data, Flag free=None, attend=None):
        self.keep = (model, data)
        self.free = free
        self.attend = attend
        self.stages = []
        self.model = <void*><size_t>model._address
        self.data = <void*><size_t>data._address
        self.nq = model.nq
        self.nv = model.nv
        if self.nq:
            self.qpos = data.qpos
            self.q = &self.qpos[0]
        if self.nv:
            self.qvel = data.qvel
            self.v = &self.qvel[0]
        self.clock.last_time = -INFINITY
        self.clock.time = _mujoco.get_time(self.model, self.data)
        self.clock.now = monotonic_ns()

    cdef int _insert(self, Stages* stages, Stage stage, int index) except -1:
        cdef int i
        if stages.n == MAX_STAGES:
            raise RuntimeError(f"StepLoop: more than {MAX_STAGES} stages")
        for i in range(stages.n, index, -1):
            stages.run[i] = stages.run[i - 1]
            stages.context[i] = stages.context[i - 1]
        stages.run[index] = stage.run
        stages.context[index] = stage.context
        stages.n += 1
        self.stages.append(stage)
        return 0

    def before(self, Stage stage not None, int index):
        """Insert a stage before mj_step at this place of their order."""
        self._insert(&self.pre, stage, index)

    def after(self, Stage stage not None, int index):
        """Insert a stage behind mj_step at this place of their order."""
        self._insert(&self.post, stage, index)

    cdef int _pre_step(self) noexcept:
        if self.pre.cursor == 0 and not self.pre.asked:
            self.clock.time = _mujoco.get_time(self.model, self.data)
        return _run_stages(&self.pre, &self.clock)

    cdef bint _step(self) except -1:
        cdef int failed
        cdef Py_ssize_t i
        with nogil:
            failed = _mujoco.step(self.model, self.data)
        if failed:
            _mujoco.raise_error()
        self.clock.time = _mujoco.get_time(self.model, self.data)
        self.clock.last_time = self.clock.time
        self.clock.step += 1
        for i in range(self.nq):
            if not fabs(self.q[i]) < HUGE_VALUE:
                return False
        for i in range(self.nv):
            if not fabs(self.v[i]) < HUGE_VALUE:
                return False
        return True

    cdef int _post_step(self) noexcept:
        if not self.post.asked:
            self.clock.now = monotonic_ns()
        return _run_stages(&self.post, &self.clock)

    def pre_step(self):
        return self._pre_step()

    def step(self):
        """mj_step. False when a position or velocity is not finite or beyond 1e10 afterwards."""
        return self._step()

    def post_step(self):
        return self._post_step()

    cdef int _run(self) except -1:
        """0 when the step is done, else why it is not."""
        if not self.free.value:
            return HELD
        self.pre.asked = self._pre_step()
        if self.pre.asked:
            return IN_PRE_STEP
        if not self._step():
            return DIVERGED
        self.post.asked = self._post_step()
        if self.post.asked:
            return IN_POST_STEP
        PyErr_CheckSignals()   # here, so that Ctrl-C ends this call and not the frame of the caller
        return 0

    def run(self):
        """A whole step without a Python frame, which costs 1 us where mj_step has just emptied the caches."""
        cdef int why
        try:
            why = self._run()
        except BaseException as exception:
            return self.attend(FAILED, exception)
        return True if why == 0 else self.attend(why, None)

    def rewind(self):
        """Forget where an interrupted pre_step or post_step stood."""
        self.pre.cursor = self.pre.asked = 0
        self.post.cursor = self.post.asked = 0

    def refresh_time(self):
        """Read the time of the data again, after a handler changed it."""
        self.clock.time = _mujoco.get_time(self.model, self.data)

    @property
    def last_time(self):
        """Simulation time after the last step [s]; -inf before the first."""
        return self.clock.last_time

    @property
    def steps(self):
        return self.clock.step
