"""Colours of heights, and spheres written straight into the geoms of an mjvScene.

MuJoCo's own mjv_initGeom fills a template once; a marker is a copy of it with another position and colour. Where the
members of an mjvGeom lie is measured on that template, so that no struct of MuJoCo is compiled in.
"""
from libc.math cimport INFINITY, isfinite
from libc.string cimport memcpy, memset

import mujoco
import numpy as np


cdef inline float _channel(double level) noexcept nogil:
    """A level from 0 to 1 at saturation 0.7."""
    return <float>(0.3 + 0.7 * (0.0 if level < 0.0 else 1.0 if level > 1.0 else level))


cdef inline void _color(double height, double high, double span, float* rgb) noexcept nogil:
    """colorsys.hsv_to_rgb of a hue from red (high) over green to blue (high - span), of value 1; green without span.

    Its six cases of one hue are three ramps that end at 0 and 1: no branch is left.
    """
    cdef double below = 4.0 * ((high - height) / span) if span > 0.0 else 2.0   # 0 at the top, 4 at the bottom
    rgb[0] = _channel(2.0 - below)
    rgb[1] = _channel(below if below < 2.0 else 4.0 - below)
    rgb[2] = _channel(below - 2.0)


def colors(const double[::1] heights, double low, double high, float[:, ::1] rgb):
    """Colour of each height (n, 3); what a NaN gets is not defined."""
    cdef Py_ssize_t i
    for i in range(heights.shape[0]):
        _color(heights[i], high, high - low, &rgb[i, 0])


def finite_range(const double[:, ::1] heights):
    """Lowest and highest of the finite heights; (inf, -inf) when there is none."""
    cdef double low = INFINITY, high = -INFINITY, h
    cdef Py_ssize_t i, j
    for i in range(heights.shape[0]):
        for j in range(heights.shape[1]):
            h = heights[i, j]
            if isfinite(h):
                low = h if h < low else low
                high = h if h > high else high
    return low, high


_template = mujoco.MjvScene(mujoco.MjModel.from_xml_string("<mujoco/>"), maxgeom=2)

cdef char* _array(array):
    cdef float[::1] view = array
    return <char*>&view[0]


cdef Py_ssize_t _measure_head() except -1:
    """Bytes from the start of an mjvGeom (its type, the first member) to its size."""
    cdef int* at = <int*>_array(_template.geoms[1].size)
    cdef int back
    _template.geoms[1].type = 0x5EED
    for back in range(1, 64):
        if at[-back] == 0x5EED:
            return 4 * back
    raise ImportError(f"MuJoCo {mujoco.__version__} lays out mjvGeom in an unknown way: pip install -U xbot2-fast")

cdef Py_ssize_t HEAD = _measure_head()
cdef char* TEMPLATE = _array(_template.geoms[0].size) - HEAD
cdef Py_ssize_t STRIDE = _array(_template.geoms[1].size) - _array(_template.geoms[0].size)
cdef Py_ssize_t POS = _array(_template.geoms[0].pos) - TEMPLATE
cdef Py_ssize_t RGBA = _array(_template.geoms[0].rgba) - TEMPLATE

memset(TEMPLATE, 0, STRIDE)   # mjv_initGeom leaves some members as they are
mujoco.mjv_initGeom(_template.geoms[0], mujoco.mjtGeom.mjGEOM_SPHERE, np.ones(3), np.zeros(3), np.eye(3).ravel(),
                    np.ones(4, np.float32))
_template.geoms[0].category = int(mujoco.mjtCatBit.mjCAT_DECOR)
_template.geoms[0].objid = -1


def write_spheres(geoms, Py_ssize_t first, const double[:, ::1] x, const double[:, ::1] y, const double[:, ::1] z,
                  double radius, double low, double high):
    """A sphere at each finite z into scene.geoms[first:], as many as there is room for; returns how many."""
    cdef Py_ssize_t i, j, k, n = 0, free = len(geoms) - first
    cdef char* geom
    cdef float* place
    if free <= 0:
        return 0
    geom = _array(geoms[first].size) - HEAD
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            if not isfinite(z[i, j]):
                continue
            if n == free:
                return n
            memcpy(geom, TEMPLATE, STRIDE)
            place = <float*>(geom + HEAD)
            for k in range(3):
                place[k] = radius
            place = <float*>(geom + POS)
            place[0] = x[i, j]
            place[1] = y[i, j]
            place[2] = z[i, j]
            _color(z[i, j], high, high - low, <float*>(geom + RGBA))
            geom += STRIDE
            n += 1
    return n
