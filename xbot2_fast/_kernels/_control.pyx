"""Numbers of a JSON command into an array.

`read_command` reads the text of a command as controllers write it, and nothing else: whatever it does not know, from
escapes to numbers of twenty digits, it leaves to a whole JSON reader and `read_numbers`, which then decide. What it
takes they would take too, with the same bits. Numbers: Lemire, "Number Parsing at a Gigabyte per Second", Software:
Practice and Experience 51 (2021): the decimal significand times a 128-bit power of five.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from libc.math cimport isfinite
from libc.string cimport memcmp

cdef extern from "Python.h":
    double PyLong_AsDouble(object) except? -1.0

cdef extern from *:
    """
    #include <string.h>
    /* High word of a product of 64-bit numbers; the low one into *low. */
    typedef unsigned long long xb_u64;
    static inline xb_u64 xb_multiply(xb_u64 a, xb_u64 b, xb_u64* low) {
        unsigned __int128 product = (unsigned __int128)a * b;
        *low = (xb_u64)product;
        return (xb_u64)(product >> 64);
    }
    static inline int xb_leading_zeros(xb_u64 x) { return __builtin_clzll(x); }
    static inline double xb_double(xb_u64 bits) {
        double x;
        memcpy(&x, &bits, 8);
        return x;
    }
    """
    unsigned long long xb_multiply(unsigned long long a, unsigned long long b, unsigned long long* low) noexcept nogil
    int xb_leading_zeros(unsigned long long x) noexcept nogil
    double xb_double(unsigned long long bits) noexcept nogil

cdef enum:
    LEAST = -140             # powers of ten that are read here; others are left to the whole reader
    GREATEST = 140
    DIGITS = 19              # that fit into 64 bits
    ZERO = 48                # the character

cdef unsigned long long five_high[GREATEST - LEAST + 1]   # the leading 128 bits of 5^q
cdef unsigned long long five_low[GREATEST - LEAST + 1]


cdef _build_powers():
    """Powers of five cut off after 128 bits, those with a negative exponent rounded up."""
    for q in range(LEAST, GREATEST + 1):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power << 128 >> power.bit_length()
        else:
            shift = power.bit_length() + 127 if q >= -27 else 2 * power.bit_length() + 128
            bits = (1 << shift) // power + 1
            bits >>= max(bits.bit_length() - 128, 0)
        five_high[q - LEAST] = bits >> 64
        five_low[q - LEAST] = bits & 0xFFFFFFFFFFFFFFFF


_build_powers()


cdef int _decimal(unsigned long long w, long q, int negative, double* out) noexcept nogil:
    """w 10^q, rounded to the nearest double; 0 where that is left to the whole reader."""
    cdef unsigned long long high, low, more, mantissa
    cdef int zeros, upper
    cdef long exponent
    if w == 0:
        out[0] = -0.0 if negative else 0.0
        return 1
    if q < LEAST or q > GREATEST:
        return 0
    zeros = xb_leading_zeros(w)
    w <<= zeros
    high = xb_multiply(w, five_high[q - LEAST], &low)
    if high & 0x1FF == 0x1FF:   # the low half of the power may carry into what is kept
        more = xb_multiply(w, five_low[q - LEAST], &mantissa)
        low += more
        high += low < more
        if low + 1 == 0:
            return 0
    upper = high >> 63
    mantissa = high >> (upper + 9)
    exponent = (((152170 + 65536) * q) >> 16) + 63 + upper - zeros + 1023
    if low <= 1 and -4 <= q <= 23 and mantissa & 3 == 1 and mantissa << (upper + 9) == high:
        mantissa &= ~<unsigned long long>1   # just between two doubles: to the even one
    mantissa = (mantissa + (mantissa & 1)) >> 1
    if mantissa >> 53:
        mantissa >>= 1
        exponent += 1
    if exponent <= 0 or exponent >= 2047:
        return 0
    out[0] = xb_double(<unsigned long long>negative << 63 | <unsigned long long>exponent << 52
                       | (mantissa & ((<unsigned long long>1 << 52) - 1)))
    return 1


cdef inline const char* _skip(const char* c) noexcept nogil:
    while c[0] == b" " or c[0] == b"\n" or c[0] == b"\t" or c[0] == b"\r":
        c += 1
    return c


cdef inline int _is_digit(char c) noexcept nogil:
    return b"0" <= c <= b"9"


cdef const char* _number(const char* c, double* out) noexcept nogil:
    """Behind the number that begins here; NULL where it is none, or one for the whole reader."""
    cdef unsigned long long w = 0
    cdef long q = 0, exponent = 0
    cdef int negative = c[0] == b"-", whole = 1, minus
    cdef Py_ssize_t digits
    cdef const char* begin = c + negative
    cdef const char* first
    c = begin
    while _is_digit(c[0]):
        w = 10 * w + <unsigned long long>(c[0] - ZERO)
        c += 1
    digits = c - begin
    if digits == 0 or (begin[0] == b"0" and digits > 1):
        return NULL
    if c[0] == b".":
        whole = 0
        c += 1
        first = c
        while _is_digit(c[0]):
            w = 10 * w + <unsigned long long>(c[0] - ZERO)
            c += 1
        if c == first:
            return NULL
        q = first - c
        digits -= q
    if digits > DIGITS:
        while begin[0] == b"0" or begin[0] == b".":
            digits -= begin[0] == b"0"
            begin += 1
        if digits > DIGITS:   # w may have run over
            return NULL
    if c[0] == b"e" or c[0] == b"E":
        whole = 0
        c += 1
        minus = c[0] == b"-"
        if c[0] == b"-" or c[0] == b"+":
            c += 1
        first = c
        while _is_digit(c[0]):
            if c - first > 4:
                return NULL
            exponent = 10 * exponent + (c[0] - ZERO)
            c += 1
        if c == first:
            return NULL
        q += -exponent if minus else exponent
    if whole and negative and w == 0:
        return NULL   # the integer -0 is 0 to the whole reader
    if not _decimal(w, q, negative, out):
        return NULL
    return c


cdef const char* _list(const char* c, Py_ssize_t n, double* out) noexcept nogil:
    """Behind a list of n numbers; NULL where there is none."""
    cdef Py_ssize_t i
    if c[0] != b"[":
        return NULL
    c = _skip(c + 1)
    for i in range(n):
        if i:
            if c[0] != b",":
                return NULL
            c = _skip(c + 1)
        c = _number(c, out + i)
        if c == NULL:
            return NULL
        c = _skip(c)
    return c + 1 if c[0] == b"]" else NULL


cdef const char* _stamp(const char* c, unsigned long long* stamp) noexcept nogil:
    """Behind a whole number of at most 19 digits; NULL where there is none."""
    cdef const char* first = c
    stamp[0] = 0
    while _is_digit(c[0]):
        stamp[0] = 10 * stamp[0] + <unsigned long long>(c[0] - ZERO)
        c += 1
    if c == first or c - first > DIGITS or (first[0] == b"0" and c - first > 1):
        return NULL
    if c[0] == b"." or c[0] == b"e" or c[0] == b"E":
        return NULL
    return c


cdef const char* _key(const char* c, const char** name, Py_ssize_t* length) noexcept nogil:
    """Behind a key without escapes and its colon; NULL where there is none."""
    if c[0] != b'"':
        return NULL
    c += 1
    name[0] = c
    while c[0] != b'"':
        if c[0] < b" " or c[0] == b"\\" or c[0] > b"~":   # also the 0 behind the text
            return NULL
        c += 1
    length[0] = c - name[0]
    c = _skip(c + 1)
    return _skip(c + 1) if c[0] == b":" else NULL


cdef int _field(const char* name, Py_ssize_t length) noexcept nogil:
    """Place of a field of a command in the order q dq tau k d stamp_rx_feedback, -1 for none."""
    if length == 1:
        return 0 if name[0] == b"q" else 3 if name[0] == b"k" else 4 if name[0] == b"d" else -1
    if length == 2 and memcmp(name, b"dq", 2) == 0:
        return 1
    if length == 3 and memcmp(name, b"tau", 3) == 0:
        return 2
    return 5 if length == 17 and memcmp(name, b"stamp_rx_feedback", 17) == 0 else -1


cdef const char* _joint_command(const char* c, Py_ssize_t n, double* out, unsigned long long* stamp) noexcept nogil:
    """Behind the object of a command with its five lists; NULL where there is none."""
    cdef const char* name
    cdef Py_ssize_t length
    cdef int field, found = 0
    if c[0] != b"{":
        return NULL
    while True:
        c = _key(_skip(c + 1), &name, &length)
        field = _field(name, length) if c != NULL else -1
        if field < 0 or found >> field & 1:
            return NULL
        found |= 1 << field
        c = _stamp(c, stamp) if field == 5 else _list(c, n, out + field * n)
        if c == NULL:
            return NULL
        c = _skip(c)
        if c[0] != b",":
            break
    return c + 1 if c[0] == b"}" and found & 31 == 31 else NULL


cdef int _command(const char* c, const char* end, Py_ssize_t n, double* out, unsigned long long* stamp) noexcept nogil:
    """Whether the text is a control message of n joints, in a form that is known here."""
    cdef const char* name
    cdef Py_ssize_t length
    cdef int found = 0
    c = _skip(c)
    if c[0] != b"{":
        return 0
    while True:
        c = _key(_skip(c + 1), &name, &length)
        if c == NULL:
            return 0
        if length == 4 and memcmp(name, b"type", 4) == 0 and not found & 1:
            found |= 1
            if end - c < 9 or memcmp(c, b'"control"', 9) != 0:
                return 0
            c += 9
        elif length == 13 and memcmp(name, b"joint_command", 13) == 0 and not found & 2:
            found |= 2
            c = _joint_command(c, n, out, stamp)
            if c == NULL:
                return 0
        else:
            return 0
        c = _skip(c)
        if c[0] != b",":
            break
    return c[0] == b"}" and _skip(c + 1) == end and found == 3


def read_command(bytes text not None, double[::1] out not None, Py_ssize_t n):
    """The numbers of a control message into out: q dq tau k d, n each.

    Returns its stamp_rx_feedback, 0 where it has none; or None where a whole JSON reader must look: out is undefined
    then.
    """
    cdef unsigned long long stamp = 0
    cdef const char* begin = PyBytes_AS_STRING(text)   # a 0 stands behind the text
    if n < 1 or out.shape[0] < 5 * n:
        return None
    return stamp if _command(begin, begin + PyBytes_GET_SIZE(text), n, &out[0], &stamp) else None


def read_numbers(list rows not None, double[::1] out, Py_ssize_t n):
    """Rows of n numbers each, one behind the other, into out.

    Returns "" or what is wrong with the first bad row, in one of a few fixed texts; out is undefined then.
    """
    cdef Py_ssize_t i, row = 0
    cdef double value
    for numbers in rows:
        if not PyList_CheckExact(numbers):
            return "fields are not all lists"
        if PyList_GET_SIZE(numbers) != n:
            return "lists have not one number per joint"
        for i in range(n):
            item = <object>PyList_GET_ITEM(numbers, i)
            if PyFloat_CheckExact(item):
                value = PyFloat_AS_DOUBLE(item)
            elif PyLong_CheckExact(item):
                value = PyLong_AsDouble(item)
            else:
                return "lists do not hold numbers only"
            if not isfinite(value):
                return "numbers are not all finite"
            out[row * n + i] = value
        row += 1
    return ""
