"""Frames of a URDF's links, joint by joint from the root: the obvious way, for every joint type."""

import xml.etree.ElementTree as ET

import numpy as np


def rotation(axis, angle: float) -> np.ndarray:
    """Rotation matrix by Rodrigues' formula."""
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def placed(turn=None, shift=(0, 0, 0)) -> np.ndarray:
    frame = np.eye(4)
    frame[:3, :3] = np.eye(3) if turn is None else turn
    frame[:3, 3] = shift
    return frame


def origin(element) -> np.ndarray:
    found = element.find("origin")
    if found is None:
        return np.eye(4)
    r, p, y = map(float, found.get("rpy", "0 0 0").split())
    turn = rotation([0, 0, 1], y) @ rotation([0, 1, 0], p) @ rotation([1, 0, 0], r)
    return placed(turn, [float(word) for word in found.get("xyz", "0 0 0").split()])


def link_frames(urdf: str, motions: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """4x4 frame of every link in its root; `motions` holds the 4x4 motion of each joint, still without."""
    robot = ET.fromstring(urdf)
    above = {joint.find("child").get("link"): joint for joint in robot.findall("joint")}

    def frame(link: str) -> np.ndarray:
        joint = above.get(link)
        if joint is None:
            return np.eye(4)
        return frame(joint.find("parent").get("link")) @ origin(joint) @ motions.get(joint.get("name"), np.eye(4))

    return {link.get("name"): frame(link.get("name")) for link in robot.findall("link")}
