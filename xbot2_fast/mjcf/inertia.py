"""Inertia tensors that no body can have, and the nearest ones that one can. Order: ixx ixy ixz iyy iyz izz."""

from collections.abc import Sequence

import numpy as np

_DENSITY = 1000.0  # [kg/m3] of the sphere that stands for an unknown shape
_LEAST_RATIO = 1e-6  # smallest principal moment relative to the largest
_LEAST = 1e-14  # [kg m2]; MuJoCo refuses 1e-15
_MARGIN = 1e-9  # relative; an eigenvalue found by MuJoCo may differ from ours in the last bits


def sphere_inertia(mass: float) -> list[float]:
    """Inertia of a solid sphere of a mass [kg] and of the density of water [kg m2]."""
    radius = (3 * mass / (4 * np.pi * _DENSITY)) ** (1 / 3)
    moment = max(0.4 * mass * radius**2, _LEAST)
    return [moment, 0.0, 0.0, moment, 0.0, moment]


def mended_inertia(values: Sequence[float]) -> tuple[list[float] | None, str]:
    """The nearest possible tensor and what was wrong; (None, "") for a tensor that a body can have.

    The principal axes stay. Moments that are not positive, and the two smaller ones where the largest exceeds their
    sum, are raised.
    """
    ixx, ixy, ixz, iyy, iyz, izz = values
    if not (ixy or ixz or iyz):
        moments, axes = np.array([ixx, iyy, izz]), np.eye(3)
    else:
        moments, axes = np.linalg.eigh(np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]]))
    why = _fault(moments, exact=not (ixy or ixz or iyz))
    if not why:
        return None, ""
    mended = axes @ np.diag(_raised(moments)) @ axes.T
    return [float(mended[i, j]) for i in range(3) for j in range(i, 3)], why


def _fault(moments: np.ndarray, *, exact: bool) -> str:
    low, middle, high = np.sort(moments)
    if low < 0:
        return "negative principal moment"
    if low < _LEAST or low < 1e-12 * high:
        return "zero principal moment"
    if low + middle < high * (1.0 if exact else 1.0 + 1e-12):
        return "largest principal moment above the sum of the others"
    return ""


def _raised(moments: np.ndarray) -> np.ndarray:
    high = float(np.max(np.abs(moments)))
    raised = np.maximum(moments, max(_LEAST_RATIO * high, _LEAST))
    order = np.argsort(raised)
    lack = raised[order[2]] * (1 + _MARGIN) - raised[order[0]] - raised[order[1]]
    if lack > 0:
        raised[order[:2]] += lack / 2
    return raised
