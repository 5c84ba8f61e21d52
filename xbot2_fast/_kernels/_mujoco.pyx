"""The one door to libmujoco: symbols by address, errors caught, warnings collected.

An error below a call made by address would end the process, since MuJoCo's default handler exits. One log handler, put
in place when this module is imported, jumps back to the guard of the calling thread instead. Threads without a guard,
and Python bindings that trap errors themselves, see no change.
"""
import ctypes
import os
from glob import glob

import mujoco

cdef extern from *:
    """
    #include <setjmp.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <string.h>

    /* Leading members of mjLogMessage, the only layout of MuJoCo that is known here. */
    typedef struct { int level; int topic; char subject[1024]; } xb_message;
    enum { XB_WARNING = 2, XB_ERROR = 3, XB_RING = 32 };
    typedef void (*xb_handler)(const void*);
    typedef void (*xb_body)(void*);

    static _Thread_local jmp_buf* xb_jump = NULL;
    static _Thread_local char xb_error[1024];
    static atomic_int xb_guards = 0;          /* guards that are open in any thread */
    static xb_handler xb_previous = NULL;

    /* Warnings wait here until the simulation thread takes them; a full ring drops the newest. */
    static char xb_ring[XB_RING][256];
    static int xb_ring_used = 0;
    static atomic_flag xb_ring_lock = ATOMIC_FLAG_INIT;
    static atomic_int xb_ring_waiting = 0;

    static void xb_keep_warning(const char* text) {
        while (atomic_flag_test_and_set_explicit(&xb_ring_lock, memory_order_acquire)) {}
        if (xb_ring_used < XB_RING) snprintf(xb_ring[xb_ring_used++], 256, "%.255s", text);
        atomic_store_explicit(&xb_ring_waiting, xb_ring_used, memory_order_relaxed);
        atomic_flag_clear_explicit(&xb_ring_lock, memory_order_release);
    }

    static int xb_take_warnings(char* out) {  /* out: XB_RING x 256 bytes */
        while (atomic_flag_test_and_set_explicit(&xb_ring_lock, memory_order_acquire)) {}
        int n = xb_ring_used;
        memcpy(out, xb_ring, (size_t)n * 256);
        xb_ring_used = 0;
        atomic_store_explicit(&xb_ring_waiting, 0, memory_order_relaxed);
        atomic_flag_clear_explicit(&xb_ring_lock, memory_order_release);
        return n;
    }

    static int xb_warnings_waiting(void) { return atomic_load_explicit(&xb_ring_waiting, memory_order_relaxed); }

    static void xb_on_message(const void* raw) {
        const xb_message* message = (const xb_message*)raw;
        if (message->level == XB_ERROR && xb_jump) {
            snprintf(xb_error, sizeof xb_error, "%.1023s", message->subject);
            longjmp(*xb_jump, 1);
        }
        if (message->level == XB_WARNING && atomic_load_explicit(&xb_guards, memory_order_relaxed)) {
            xb_keep_warning(message->subject);
            return;
        }
        if (xb_previous) xb_previous(raw);
    }

    /* setjmp must stand in the frame that makes the call, hence one function for every guarded call. */
    static int xb_guarded(xb_body body, void* context) {
        jmp_buf here;
        jmp_buf* outer = xb_jump;
        atomic_fetch_add_explicit(&xb_guards, 1, memory_order_relaxed);
        if (setjmp(here)) {
            xb_jump = outer;
            atomic_fetch_sub_explicit(&xb_guards, 1, memory_order_relaxed);
            return 1;
        }
        xb_jump = &here;
        body(context);
        xb_jump = outer;
        atomic_fetch_sub_explicit(&xb_guards, 1, memory_order_relaxed);
        return 0;
    }

    typedef struct { void* model; void* data; } xb_pair;
    static void (*xb_mj_step)(const void*, void*) = NULL;
    static void (*xb_mj_get_state)(const void*, const void*, double*, int) = NULL;
    static void xb_step_body(void* pair) { xb_mj_step(((xb_pair*)pair)->model, ((xb_pair*)pair)->data); }
    static int xb_step(void* model, void* data) {
        xb_pair pair = {model, data};
        return xb_guarded(xb_step_body, &pair);
    }
    static double xb_time(void* model, void* data) {
        double time;
        xb_mj_get_state(model, data, &time, 1 /* mjSTATE_TIME */);
        return time;
    }
    static xb_handler xb_install(void* set_handler) {
        if (!xb_previous) xb_previous = ((xb_handler (*)(xb_handler))set_handler)(xb_on_message);
        return xb_previous;
    }
    static void xb_bind(void* step, void* get_state) {
        xb_mj_step = (void (*)(const void*, void*))step;
        xb_mj_get_state = (void (*)(const void*, const void*, double*, int))get_state;
    }
    """
    enum: XB_RING
    const char* xb_error
    int xb_take_warnings(char* out) nogil
    int xb_warnings_waiting() noexcept nogil
    int xb_guarded(body_fn body, void* context) noexcept nogil
    int xb_step(void* model, void* data) noexcept nogil
    double xb_time(void* model, void* data) noexcept nogil
    void* xb_install(void* set_handler)
    void xb_bind(void* step, void* get_state)

from cpython.exc cimport PyErr_Occurred

MAJOR = 4


def _open_library():
    version = mujoco.mj_version() // 1_000_000
    if version != MAJOR:
        raise ImportError(f"xbot2_fast needs MuJoCo {MAJOR}.x, found {mujoco.__version__}: "
                          f"pip install 'mujoco>={MAJOR},<{MAJOR + 1}'")
    found = sorted(glob(os.path.join(os.path.dirname(mujoco.__file__), "libmujoco*.so*")))
    if not found:
        raise ImportError(f"no libmujoco beside {mujoco.__file__}: pip install --force-reinstall mujoco")
    return ctypes.CDLL(found[0])


_library = _open_library()


cdef void* symbol(str name) except NULL:
    try:
        function = getattr(_library, name)
    except AttributeError:
        raise ImportError(f"MuJoCo {mujoco.__version__} has no function {name}: pip install -U mujoco") from None
    return <void*><size_t>ctypes.cast(function, ctypes.c_void_p).value


cdef int guarded(body_fn body, void* context) noexcept nogil:
    return xb_guarded(body, context)


cdef int raise_error() except -1:
    if PyErr_Occurred() != NULL:
        return -1
    raise mujoco.FatalError((<bytes>xb_error).decode("utf-8", "replace"))


cdef int step(void* model, void* data) noexcept nogil:
    return xb_step(model, data)


cdef double get_time(void* model, void* data) noexcept nogil:
    return xb_time(model, data)


def take_warnings():
    """Warnings that MuJoCo gave inside guarded calls since the last take, oldest first."""
    cdef char text[XB_RING * 256]
    cdef int i, n
    if not xb_warnings_waiting():
        return []
    n = xb_take_warnings(text)
    return [(<bytes>(text + 256 * i)).decode("utf-8", "replace") for i in range(n)]


xb_bind(symbol("mj_step"), symbol("mj_getState"))
xb_install(symbol("mju_setLogHandler"))
