"""Commands to actuators, and joints to state, over pointers into the model and the data."""

cdef enum:
    NO_LAW = 0         # no actuator, or none that a command can drive
    POSITION = 1
    INTVELOCITY = 2
    MOTOR = 3

cdef struct Drives:
    Py_ssize_t n
    int motors                 # how many joints follow the MOTOR law
    int commanded              # a command was applied
    # per joint
    const int* law
    const int* qpos            # address in qpos
    const int* dof             # address in qvel and qfrc_actuator
    const int* actuator        # actuator id, row of gainprm, biasprm and gear
    const int* ctrl            # address in ctrl
    const int* act             # address in act, INTVELOCITY only
    double* applied            # the last command applied: q dq tau k d, n each
    double* scratch            # 5 n
    # MuJoCo's arrays
    double* q
    double* v
    double* torque
    double* u
    double* a
    double* gear
    double* gain
    double* bias
    Py_ssize_t gear_stride, gain_stride, bias_stride

# Put a command (q dq tau k d, n each) into effect.
cdef void drives_apply(Drives* d, const double* command) noexcept nogil

# Without a controller: hold the present position with the gains in force, or only damp with them.
cdef void drives_let_go(Drives* d, int hold) noexcept nogil

# What must be done in each step: the torques of the MOTOR law.
cdef void drives_update(Drives* d) noexcept nogil

# q dq tau k d qref vref tauref, n each, into out.
cdef void drives_gather(Drives* d, double* out) noexcept nogil


cdef class Actuation:
    cdef Drives drives
    cdef const int[::1] law, qpos, dof, actuator, ctrl, act
    cdef double[::1] applied, scratch, q, v, torque, u, a
    cdef double[:, ::1] gear, gain, bias
    cdef object keep
    cdef int _bind_actuators(self, model, data) except -1
