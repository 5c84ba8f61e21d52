"""The last rows of some arrays, kept in a ring that a stage writes once a step."""
from libc.string cimport memcpy

from xbot2_fast._kernels._loop cimport DONE, Clock, Stage

cdef enum:
    MAX_ARRAYS = 8


cdef struct Ring:
    double* rows
    Py_ssize_t length        # rows
    Py_ssize_t width         # doubles in a row: the time, then the arrays
    long long written        # rows in all
    int narrays
    double* source[MAX_ARRAYS]
    size_t size[MAX_ARRAYS]  # bytes


cdef int _record(void* context, Clock* clock) noexcept nogil:
    cdef Ring* ring = <Ring*>context
    cdef double* row = ring.rows + (ring.written % ring.length) * ring.width
    cdef int i
    row[0] = clock.time
    row += 1
    for i in range(ring.narrays):
        memcpy(row, ring.source[i], ring.size[i])
        row += ring.size[i] // sizeof(double)
    ring.written += 1
    return DONE


cdef class Recorder(Stage):
    """Copies the time and some arrays into the next row of `rows`, which it keeps alive with the arrays.

    `rows` has 1 + the sum of the arrays' sizes columns; the oldest row is overwritten.
    """
    cdef Ring ring
    cdef double[:, ::1] rows
    cdef list arrays

    def __cinit__(self, double[:, ::1] rows not None, list arrays not None):
        cdef double[::1] array
        self.rows = rows
        self.arrays = []
        self.ring.rows = &rows[0, 0]
        self.ring.length = rows.shape[0]
        self.ring.width = rows.shape[1]
        for array in arrays:
            if array.shape[0] == 0:
                continue
            self.arrays.append(array)
            self.ring.source[self.ring.narrays] = &array[0]
            self.ring.size[self.ring.narrays] = array.shape[0] * sizeof(double)
            self.ring.narrays += 1
        self.run = _record
        self.context = &self.ring

    @property
    def written(self):
        """Rows written in all."""
        return self.ring.written
