"""The three control laws and the state of the joints.

All quantities of a command and of a state are joint-side. An actuator with gear g has length g q and gives the joint
g times its force, hence ctrl = g q_ref, gainprm[0] = k / g^2, biasprm = ((d dq_ref + tau) / g, -k / g^2, -d / g^2).
"""


cdef void drives_apply(Drives* d, const double* command) noexcept nogil:
    cdef Py_ssize_t n = d.n, j
    cdef const double* q = command
    cdef const double* dq = command + n
    cdef const double* tau = command + 2 * n
    cdef const double* k = command + 3 * n
    cdef const double* b = command + 4 * n
    cdef double g
    cdef double* gain
    cdef double* bias
    for j in range(5 * n):
        d.applied[j] = command[j]
    d.commanded = 1
    for j in range(n):
        if d.law[j] == NO_LAW or d.law[j] == MOTOR:
            continue
        g = d.gear[d.actuator[j] * d.gear_stride]
        gain = d.gain + d.actuator[j] * d.gain_stride
        bias = d.bias + d.actuator[j] * d.bias_stride
        d.u[d.ctrl[j]] = g * (q[j] if d.law[j] == POSITION else dq[j])
        gain[0] = k[j] / (g * g)
        bias[0] = (b[j] * dq[j] + tau[j]) / g
        bias[1] = -gain[0]
        bias[2] = -b[j] / (g * g)


cdef void drives_let_go(Drives* d, int hold) noexcept nogil:
    cdef Py_ssize_t n = d.n, j
    cdef double* c = d.scratch
    for j in range(n):
        c[j] = d.q[d.qpos[j]]
        c[n + j] = c[2 * n + j] = 0.0
        c[3 * n + j] = d.applied[3 * n + j] if hold else 0.0
        c[4 * n + j] = d.applied[4 * n + j]
    drives_apply(d, c)


cdef void drives_update(Drives* d) noexcept nogil:
    cdef Py_ssize_t n = d.n, j
    cdef const double* c = d.applied
    cdef double torque
    if d.motors == 0 or not d.commanded:
        return
    for j in range(n):
        if d.law[j] == MOTOR:
            torque = c[3 * n + j] * (c[j] - d.q[d.qpos[j]]) + c[4 * n + j] * (c[n + j] - d.v[d.dof[j]]) + c[2 * n + j]
            d.u[d.ctrl[j]] = torque / (d.gear[d.actuator[j] * d.gear_stride] * d.gain[d.actuator[j] * d.gain_stride])


cdef void drives_gather(Drives* d, double* out) noexcept nogil:
    cdef Py_ssize_t n = d.n, j
    cdef const double* c = d.applied
    cdef double g, gain
    cdef double* q = out
    cdef double* dq = out + n
    cdef double* tau = out + 2 * n
    cdef double* k = out + 3 * n
    cdef double* b = out + 4 * n
    cdef double* qref = out + 5 * n
    cdef double* vref = out + 6 * n
    cdef double* tauref = out + 7 * n
    for j in range(n):
        q[j] = d.q[d.qpos[j]]
        dq[j] = d.v[d.dof[j]]
        tau[j] = d.torque[d.dof[j]]
        if d.law[j] == NO_LAW:
            k[j] = b[j] = vref[j] = tauref[j] = 0.0
            qref[j] = q[j]
            continue
        g = d.gear[d.actuator[j] * d.gear_stride]
        gain = d.gain[d.actuator[j] * d.gain_stride]
        vref[j] = c[n + j]
        tauref[j] = c[2 * n + j]
        if d.law[j] == MOTOR:
            k[j] = c[3 * n + j]
            b[j] = c[4 * n + j]
            if d.commanded:
                qref[j] = c[j]
            else:
                qref[j] = q[j]
                tauref[j] = g * gain * d.u[d.ctrl[j]]
            continue
        k[j] = gain * (g * g)
        b[j] = -d.bias[d.actuator[j] * d.bias_stride + 2] * (g * g)
        if d.law[j] == POSITION:
            qref[j] = d.u[d.ctrl[j]] if g == 1.0 else d.u[d.ctrl[j]] / g   # a division takes longer than the rest
        else:
            qref[j] = d.a[d.act[j]] / g
            if not d.commanded:
                vref[j] = d.u[d.ctrl[j]] / g


cdef class Actuation:
    """Applies commands to the actuators of some joints and gathers the state of these joints.

    Args:
        law, qpos, dof, actuator, ctrl, act: int32, one per joint, as in `Drives`.
        applied, scratch: 5 n numbers each, kept: the last command applied, q dq tau k d, and room for one.
    """

    def __cinit__(self, model, data, const int[::1] law, const int[::1] qpos, const int[::1] dof,
                  const int[::1] actuator, const int[::1] ctrl, const int[::1] act, double[::1] applied,
                  double[::1] scratch):
        cdef Py_ssize_t j
        self.keep = (model, data)
        self.law, self.qpos, self.dof, self.actuator, self.ctrl, self.act = law, qpos, dof, actuator, ctrl, act
        self.applied, self.scratch = applied, scratch
        self.drives.n = law.shape[0]
        if self.drives.n == 0:
            return
        self.drives.law = &law[0]
        self.drives.qpos = &qpos[0]
        self.drives.dof = &dof[0]
        self.drives.actuator = &actuator[0]
        self.drives.ctrl = &ctrl[0]
        self.drives.act = &act[0]
        self.drives.applied = &applied[0]
        self.drives.scratch = &scratch[0]
        self.q = data.qpos
        self.v = data.qvel
        self.torque = data.qfrc_actuator
        self.drives.q = &self.q[0]
        self.drives.v = &self.v[0]
        self.drives.torque = &self.torque[0]
        for j in range(self.drives.n):
            self.drives.motors += law[j] == MOTOR
        if model.nu:
            self._bind_actuators(model, data)

    cdef int _bind_actuators(self, model, data) except -1:
        self.u = data.ctrl
        self.gear = model.actuator_gear
        self.gain = model.actuator_gainprm
        self.bias = model.actuator_biasprm
        self.drives.u = &self.u[0]
        self.drives.gear = &self.gear[0, 0]
        self.drives.gain = &self.gain[0, 0]
        self.drives.bias = &self.bias[0, 0]
        self.drives.gear_stride = self.gear.shape[1]
        self.drives.gain_stride = self.gain.shape[1]
        self.drives.bias_stride = self.bias.shape[1]
        if model.na:
            self.a = data.act
            self.drives.a = &self.a[0]
        return 0

    def apply(self, const double[::1] command):
        """Put a command (q dq tau k d) into effect."""
        drives_apply(&self.drives, &command[0] if command.shape[0] else NULL)

    def let_go(self, bint hold):
        """Hold the present position with the gains in force, or only damp with them."""
        drives_let_go(&self.drives, hold)

    def update(self):
        """Torques of the joints that follow the motor law, from the present state; once before each mj_step."""
        drives_update(&self.drives)

    def gather(self, double[::1] out):
        """q dq tau k d qref vref tauref into out."""
        if self.drives.n:
            drives_gather(&self.drives, &out[0])

    @property
    def commanded(self):
        """Whether a command was applied."""
        return bool(self.drives.commanded)
