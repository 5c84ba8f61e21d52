"""Rotations as MuJoCo writes them (quaternions, w first) from the conventions of URDF and MJCF."""

import math
from collections.abc import Sequence

Quaternion = tuple[float, float, float, float]


def product(a: Sequence[float], b: Sequence[float]) -> Quaternion:
    """Rotation b followed by rotation a (a and b as quaternions w, x, y, z)."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def about(axis: str, angle: float) -> Quaternion:
    """Rotation by an angle [rad] about "x", "y" or "z"."""
    half = angle / 2
    x, y, z = (math.sin(half) * (axis == letter) for letter in "xyz")
    return (math.cos(half), x, y, z)


def from_euler(angles: Sequence[float], sequence: str = "XYZ") -> Quaternion:
    """Quaternion of three rotations [rad] as MJCF's `eulerseq` has them: lower case letters turn with the frame,
    upper case ones stay fixed. URDF's roll, pitch, yaw are "XYZ"."""
    result: Quaternion = (1.0, 0.0, 0.0, 0.0)
    for letter, angle in zip(sequence, angles, strict=True):
        turn = about(letter.lower(), angle)
        result = product(turn, result) if letter.isupper() else product(result, turn)
    return result


def matrix(quaternion: Sequence[float]) -> list[list[float]]:
    """3 x 3 rotation matrix of a unit quaternion."""
    w, x, y, z = quaternion
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
