"""Which joint hangs which link on which: the URDF's flat lists as a tree."""

from collections.abc import Iterator
from dataclasses import dataclass

from xbot2_fast.mjcf.xml_input import Element


@dataclass(frozen=True)
class KinematicTree:
    """Links and joints of a valid URDF.

    Attributes:
        links: link name -> element, in document order.
        joints: joint elements in document order.
        below: link name -> joints whose parent it is, in document order.
        above: link name -> the joint whose child it is; root links are missing.
        roots: names of the links that are nobody's child.
    """

    links: dict[str, Element]
    joints: list[Element]
    below: dict[str, list[Element]]
    above: dict[str, Element]
    roots: list[str]

    def depth_first(self) -> Iterator[str]:
        """Link names, parents before children, in the order of the MJCF bodies."""
        waiting = list(reversed(self.roots))
        while waiting:
            link = waiting.pop()
            yield link
            waiting.extend(child_of(joint) for joint in reversed(self.below.get(link, ())))

    def is_static(self, link: str) -> bool:
        """Whether only fixed joints lie between a link and its root."""
        while link in self.above:
            joint = self.above[link]
            if joint.get("type") != "fixed":
                return False
            link = parent_of(joint)
        return True


def parent_of(joint: Element) -> str:
    """Name of a joint's parent link, "" when it names none."""
    return _link(joint, "parent")


def child_of(joint: Element) -> str:
    """Name of a joint's child link, "" when it names none."""
    return _link(joint, "child")


def _link(joint: Element, end: str) -> str:
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def kinematic_tree(robot: Element) -> KinematicTree:
    """The tree of a `<robot>` element whose problems were already refused."""
    links = {link.get("name"): link for link in robot.findall("link")}
    joints = robot.findall("joint")
    below: dict[str, list[Element]] = {}
    for joint in joints:
        below.setdefault(parent_of(joint), []).append(joint)
    above = {child_of(joint): joint for joint in joints}
    return KinematicTree(links, joints, below, above, [name for name in links if name not in above])
