"""The seqlock of `xbot2-shm-v1` in C11 atomics, and the words of its header.

A frame is protected by one sequence word: odd while its writer works on it, even when whole, 0 before the first.
Payload words are accessed with relaxed atomics, so neither side has a data race. Writer: the odd store comes before the
payload because of the release fence; the even store releases the payload. Reader: the acquire load of the sequence
comes before the payload, the acquire fence keeps the second load behind it. On arm64 these are dmb/ldar/stlr, on x86
plain moves.
"""

cdef extern from *:
    """
    #ifndef XB_SEQLOCK
    #define XB_SEQLOCK
    #include <stdatomic.h>
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    typedef _Atomic uint64_t xb_word;
    _Static_assert(sizeof(xb_word) == 8, "the layout needs 8-byte words");
    _Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared words must be lock-free");
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "xbot2-shm-v1 is little-endian"
    #endif

    static inline uint64_t xb_load(const void* word) {
        return atomic_load_explicit((const xb_word*)word, memory_order_acquire);
    }
    static inline void xb_store(void* word, uint64_t value) {
        atomic_store_explicit((xb_word*)word, value, memory_order_release);
    }
    /* Begin to write a frame: `seq` becomes odd before anything of the payload changes. */
    static inline void xb_begin(void* seq, uint64_t odd) {
        atomic_store_explicit((xb_word*)seq, odd, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
    }
    static inline void xb_put(void* to, const void* from, size_t words) {
        #pragma GCC unroll 8
        for (size_t i = 0; i < words; i++) {
            uint64_t value;
            memcpy(&value, (const char*)from + 8 * i, 8);
            atomic_store_explicit((xb_word*)to + i, value, memory_order_relaxed);
        }
    }
    static inline void xb_get(void* to, const void* from, size_t words) {
        #pragma GCC unroll 8
        for (size_t i = 0; i < words; i++) {
            uint64_t value = atomic_load_explicit((const xb_word*)from + i, memory_order_relaxed);
            memcpy((char*)to + 8 * i, &value, 8);
        }
    }
    /* Whether everything read since `seen` was loaded from `seq` belongs to one frame. */
    static inline int xb_unchanged(const void* seq, uint64_t seen) {
        atomic_thread_fence(memory_order_acquire);
        return atomic_load_explicit((const xb_word*)seq, memory_order_relaxed) == seen;
    }
    #endif
    """
    unsigned long long xb_load(const void* word) noexcept nogil
    void xb_store(void* word, unsigned long long value) noexcept nogil
    void xb_begin(void* seq, unsigned long long odd) noexcept nogil
    void xb_put(void* to, const void* source, size_t words) noexcept nogil
    void xb_get(void* to, const void* source, size_t words) noexcept nogil
    int xb_unchanged(const void* seq, unsigned long long seen) noexcept nogil

# Words of the header.
cdef enum:
    MAGIC = 0
    VERSION = 1
    HEADER_SIZE = 2
    TOTAL_SIZE = 3
    JOINTS = 4
    IMUS = 5
    STATE_SEQ = 6
    COMMAND_SEQ = 7
    SERVER_SESSION = 8
    CLIENT_SESSION = 9
    COMMAND_VALID = 10
    STATE_OFFSET = 11
    COMMAND_OFFSET = 12
    COMMAND_STAMP = 13
