"""Automatic actuators: one for every hinge and slide that nothing else moves, named like its joint."""

import re
from collections.abc import Mapping

from lxml import etree

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.numeric import read_numbers, write_number
from xbot2_fast.mjcf.xml_input import Element

Gain = float | Mapping[str, float]

LAWS = ("position", "intvelocity", "motor")


def add_actuators(root: Element, law: str, kp: Gain, kd: Gain) -> list[str]:
    """Give an actuator to every named hinge and slide of the tree that has none and follows no other joint.

    Args:
        root: MJCF tree; its `<actuator>` section is extended.
        law: "position" (kp on the position error, kd on the velocity), "intvelocity" (kd on the velocity error, kp on
            its integral) or "motor" (torque).
        kp: stiffness [Nm/rad or N/m], one number or joint name or regular expression (whole name) -> number.
        kd: damping [Nm s/rad or N s/m], likewise.
    Returns:
        The joints that got one. The effort limit of a joint becomes the force range of its actuator.
    """
    section = root.find("actuator")
    if section is None:
        section = etree.SubElement(root, "actuator")
    driven = {actuator.get("joint") or actuator.get("jointinparent") for actuator in section}
    followers = {e.get("joint1") for e in root.iterfind("equality/joint") if e.get("joint2")}
    added = []
    for joint in root.iterfind("worldbody//joint"):
        name = joint.get("name")
        if name and joint.get("type", "hinge") in ("hinge", "slide") and name not in driven and name not in followers:
            section.append(_actuator(joint, law, gain_of(name, kp, "kp"), gain_of(name, kd, "kd")))
            added.append(name)
    return added


def gain_of(joint: str, gain: Gain, argument: str) -> float:
    """A joint's gain: an exact name first, then the first regular expression that matches the whole name."""
    if not isinstance(gain, Mapping):
        return float(gain)
    if joint in gain:
        return float(gain[joint])
    for pattern, value in gain.items():
        try:
            if re.fullmatch(pattern, joint):
                return float(value)
        except re.error as error:
            raise ModelError(f"{argument}: {pattern!r} is neither a joint nor a regular expression: {error}") from None
    raise ModelError(f"{argument}: nothing given for joint {joint!r}; add its name or a pattern such as '.*'")


def _actuator(joint: Element, law: str, kp: float, kd: float) -> Element:
    attributes = {"name": joint.get("name"), "joint": joint.get("name")}
    match law:
        case "position":
            attributes |= {"kp": write_number(kp), "kv": write_number(kd)}
        case "intvelocity":
            # MuJoCo's kp multiplies the integrated velocity command, its kv the velocity.
            attributes |= {"kp": write_number(kp), "kv": write_number(kd)}
            if joint.get("range") and read_numbers(joint.get("range"), 2) != (0.0, 0.0):
                attributes["inheritrange"] = "1"
    if joint.get("actuatorfrcrange"):
        attributes["forcerange"] = joint.get("actuatorfrcrange")
    return etree.Element(law, attributes)
