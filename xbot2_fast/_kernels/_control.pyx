"""Numbers of a JSON command into an array."""
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from libc.math cimport isfinite


cdef extern from "Python.h":
    double PyLong_AsDouble(object) except? -1.0


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
