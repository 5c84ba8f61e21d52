"""Numbers of a JSON command into an array."""
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from libc.math cimport isfinite


cdef extern from "Python.h":
    double PyLong_AsDouble(object) except? -1.0


def read_numbers(list rows not None, double[::1] out, Py_ssize_t n):
    """Rows of n numbers each, one behind the other, into out.

    Returns "" or what is wrong with the first bad row; out is undefined then.
    """
    cdef Py_ssize_t i, row = 0
    cdef double value
    for numbers in rows:
        if not PyList_CheckExact(numbers):
            return f"row {row}: expected a list"
        if PyList_GET_SIZE(numbers) != n:
            return f"row {row}: expected {n} numbers, got {PyList_GET_SIZE(numbers)}"
        for i in range(n):
            item = <object>PyList_GET_ITEM(numbers, i)
            if PyFloat_CheckExact(item):
                value = PyFloat_AS_DOUBLE(item)
            elif PyLong_CheckExact(item):
                value = PyLong_AsDouble(item)
            else:
                return f"row {row}: expected numbers, got {type(item).__name__}"
            if not isfinite(value):
                return f"row {row}: expected finite numbers"
            out[row * n + i] = value
        row += 1
    return ""
