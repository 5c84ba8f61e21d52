"""SRDF: link pairs that never collide become contact excludes, group states become poses."""

from pathlib import Path

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.numeric import read_numbers
from xbot2_fast.mjcf.xml_input import parse_xml

Pose = dict[str, float]


def read_srdf(source: bytes | str | Path) -> tuple[list[tuple[str, str]], dict[str, Pose]]:
    """Disabled link pairs (each once, names sorted) and poses (name -> joint -> position [rad or m]).

    Group states of one name are one pose; states of joints with several values are left out.
    """
    root = parse_xml(source, "SRDF")
    if root.tag != "robot":
        raise ModelError(f"SRDF: expected the root element <robot>, got <{root.tag}>")
    pairs = []
    for element in root.iter("disable_collisions"):
        link1, link2 = sorted((element.get("link1", ""), element.get("link2", "")))
        if not link1:
            raise ModelError(f"SRDF line {element.sourceline}: <disable_collisions> needs link1 and link2")
        pairs.append((link1, link2))
    poses: dict[str, Pose] = {}
    for state in root.iter("group_state"):
        pose = poses.setdefault(state.get("name", ""), {})
        for joint in state.findall("joint"):
            text = joint.get("value", "")
            if len(text.split()) != 1:
                continue  # a floating or spherical joint: no single position
            try:
                (pose[joint.get("name", "")],) = read_numbers(text, 1)
            except ValueError as error:
                raise ModelError(f"SRDF line {joint.sourceline}: joint {joint.get('name')!r}: {error}") from None
    return list(dict.fromkeys(pairs)), poses
