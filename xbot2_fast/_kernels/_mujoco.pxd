"""How the other kernels reach MuJoCo's C library: by address, so that no struct of MuJoCo is compiled in."""

ctypedef void (*body_fn)(void* context) noexcept nogil

# Address of a function of the loaded libmujoco; raises ImportError naming the symbol where it is missing.
cdef void* symbol(str name) except NULL

# Run body(context) so that a MuJoCo error inside returns 1 here instead of ending the process; 0 when it went well.
# Frames that an error jumps over must hold no Python object, destructor or lock: keep `body` plain C.
cdef int guarded(body_fn body, void* context) noexcept nogil

# Raise what made the last guarded call of this thread return 1: the exception of a Python callback, else FatalError.
cdef int raise_error() except -1

# mj_step(model, data), guarded: 1 after a MuJoCo error.
cdef int step(void* model, void* data) noexcept nogil

# Simulation time of an mjData [s].
cdef double get_time(void* model, void* data) noexcept nogil
