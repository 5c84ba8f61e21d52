"""Normal samples from xoshiro256++ by the ziggurat method.

xoshiro256++: Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM TOMS 47 (2021). Ziggurat:
Marsaglia and Tsang, "The Ziggurat Method for Generating Random Variables", J. Stat. Softw. 5 (2000), with Doornik's
remedies (2005): the layer and the position in it come from different bits, and the position is a double.
"""
from libc.math cimport exp, fabs, log, sqrt

cdef enum:
    LAYERS = 128

cdef double TAIL = 3.442619855899           # where the tail of the last layer begins
cdef double AREA = 9.91256303526217e-3      # of each layer

cdef double edge[LAYERS + 1]                # right edges of the layers, widest first
cdef double inner[LAYERS]                   # part of a layer that lies under the curve as a whole


cdef void _build_tables():
    cdef int i
    cdef double f = exp(-0.5 * TAIL * TAIL)
    edge[0] = AREA / f
    edge[1] = TAIL
    for i in range(2, LAYERS):
        edge[i] = sqrt(-2.0 * log(AREA / edge[i - 1] + f))
        f = exp(-0.5 * edge[i] * edge[i])
    edge[LAYERS] = 0.0
    for i in range(LAYERS):
        inner[i] = edge[i + 1] / edge[i]


_build_tables()


cdef inline unsigned long long _rotate(unsigned long long x, int k) noexcept nogil:
    return (x << k) | (x >> (64 - k))


cdef unsigned long long _next(unsigned long long* s) noexcept nogil:
    cdef unsigned long long result = _rotate(s[0] + s[3], 23) + s[0]
    cdef unsigned long long t = s[1] << 17
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = _rotate(s[3], 45)
    return result


cdef inline double _uniform(unsigned long long bits) noexcept nogil:
    """In (0, 1), from the upper 52 bits."""
    return (<double>(bits >> 12) + 0.5) * (1.0 / 4503599627370496.0)


cdef double _tail(unsigned long long* s, int negative) noexcept nogil:
    cdef double x, y
    while True:
        x = log(_uniform(_next(s))) / TAIL
        y = log(_uniform(_next(s)))
        if -2.0 * y >= x * x:
            return x - TAIL if negative else TAIL - x


cdef double _normal(unsigned long long* s) noexcept nogil:
    cdef unsigned long long bits
    cdef double u, x, f0, f1
    cdef int i
    while True:
        bits = _next(s)
        i = bits & (LAYERS - 1)
        u = 2.0 * _uniform(bits) - 1.0
        if fabs(u) < inner[i]:
            return u * edge[i]
        if i == 0:
            return _tail(s, u < 0)
        x = u * edge[i]
        f0 = exp(-0.5 * (edge[i] * edge[i] - x * x))
        f1 = exp(-0.5 * (edge[i + 1] * edge[i + 1] - x * x))
        if f1 + _uniform(_next(s)) * (f0 - f1) < 1.0:
            return x


cdef void noise_add(Noise* noise, double* dq) noexcept nogil:
    cdef Py_ssize_t j
    if not noise.active:
        return
    for j in range(noise.n):
        if noise.sigma[j] > 0:
            dq[j] += noise.sigma[j] * _normal(noise.s)


cdef class VelocityNoiseKernel:
    """Adds noise to the velocities of n joints.

    Args:
        sigma: n standard deviations, kept; call `changed()` after writing them.
        seeds: four words, not all zero.
    """

    def __cinit__(self, double[::1] sigma not None, const unsigned long long[::1] seeds not None):
        cdef int i
        self.sigma = sigma
        self.noise.n = sigma.shape[0]
        if self.noise.n:
            self.noise.sigma = &sigma[0]
        for i in range(4):
            self.noise.s[i] = seeds[i]

    def changed(self):
        """Look at the standard deviations again."""
        cdef Py_ssize_t j
        self.noise.active = 0
        for j in range(self.noise.n):
            self.noise.active |= self.noise.sigma[j] > 0

    def add(self, double[::1] dq not None):
        """Add a sample to each velocity."""
        if self.noise.n:
            noise_add(&self.noise, &dq[0])
