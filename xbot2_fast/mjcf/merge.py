"""The merge stage: a fragment's elements go into the tree, extending what is there and appending what is new."""

from collections.abc import Hashable

from xbot2_fast.mjcf.xml_input import Element

CUSTOM_TAGS = ("reference", "setattribute", "q_init")

# Elements of which a parent has one at most: matched by tag alone.
_ONCE = {
    "mujoco": {
        "compiler", "option", "size", "statistic", "visual", "asset", "worldbody", "contact", "equality", "tendon",
        "actuator", "sensor", "keyframe", "deformable", "custom", "extension",
    },
    "option": {"flag"},
    "visual": {"global", "quality", "headlight", "map", "scale", "rgba"},
    "body": {"inertial", "freejoint"},
    "flexcomp": {"edge", "elasticity", "contact"},
    "flex": {"edge", "elasticity", "contact"},
}  # fmt: skip
_PAIRS = {"exclude": ("body1", "body2"), "pair": ("geom1", "geom2")}
_ORIENTATION = frozenset({"quat", "axisangle", "euler", "xyaxes", "zaxis"})
_INERTIA = frozenset({"diaginertia", "fullinertia"})


def identity(element: Element, parent: Element) -> Hashable | None:
    """What makes two elements below the same parent the same one; None for an element that is always new."""
    tag = element.tag
    if tag in CUSTOM_TAGS and parent.tag == "mujoco":
        return None
    if tag == "default":
        return (tag, element.get("class", "main" if parent.tag == "mujoco" else None))
    if parent.tag == "default" or tag in _ONCE.get(parent.tag, ()):
        return (tag,)
    name = element.get("name")
    if name is not None:
        return (tag, name)
    if tag in _PAIRS:
        ends = [element.get(end) for end in _PAIRS[tag]]
        return (tag, *sorted(ends)) if None not in ends else None
    return None


class Merger:
    """Merges fragments into one tree, in time proportional to the fragment.

    Elements are found through an index of each parent's children that is made once and kept up to date, so the tree
    must not be changed behind its back between merges; `forget()` drops the index after such a change.
    """

    def __init__(self, root: Element):
        self.root = root
        self._children: dict[Element, dict[Hashable, Element]] = {}
        self._bodies: dict[str, Element] | None = None

    def forget(self) -> None:
        """Drop what is known about the tree, since someone else changed it."""
        self._children.clear()
        self._bodies = None

    def merge(self, fragment: Element) -> None:
        """Merge a `<mujoco>` fragment; its elements are moved, so it is empty afterwards."""
        self._merge_children(self.root, fragment)

    def _merge_children(self, target: Element, source: Element) -> None:
        work = [(target, source)]
        while work:
            target, source = work.pop()
            index = self._index(target)
            for element in list(source):
                key = identity(element, target)
                same = self._body(element) if element.tag == "body" else index.get(key) if key is not None else None
                if same is None:
                    target.append(element)
                    if key is not None:
                        index[key] = element
                    self._split_off_known_bodies(element, work)
                else:
                    _merge_attributes(same, element)
                    if len(element):
                        work.append((same, element))

    def _split_off_known_bodies(self, added: Element, work: list) -> None:
        """Bodies inside a newly added element: known ones extend the existing body, new ones become known."""
        if self._bodies is None or added.tag not in ("body", "frame", "worldbody"):
            return
        for body in list(added.iter("body")):
            name = body.get("name")
            known = self._bodies.get(name) if name else None
            if known is not None and known is not body:
                body.getparent().remove(body)
                _merge_attributes(known, body)
                work.append((known, body))
            elif name:
                self._bodies[name] = body

    def _body(self, element: Element) -> Element | None:
        if self._bodies is None:
            self._bodies = {}
            for body in self.root.iterfind("worldbody//body"):
                self._bodies.setdefault(body.get("name"), body)
        name = element.get("name")
        return self._bodies.get(name) if name else None

    def _index(self, parent: Element) -> dict[Hashable, Element]:
        index = self._children.get(parent)
        if index is None:
            index = self._children[parent] = {}
            for child in parent:
                key = identity(child, parent)
                if key is not None:
                    index.setdefault(key, child)
        return index


def _merge_attributes(target: Element, source: Element) -> None:
    """The source's attributes win; a new orientation or inertia replaces one in another notation."""
    given = source.items()
    for group in (_ORIENTATION, _INERTIA):
        names = [name for name, _ in given if name in group]
        for old in group.difference(names).intersection(target.keys()) if names else ():
            del target.attrib[old]
    for name, value in given:
        target.set(name, value)
