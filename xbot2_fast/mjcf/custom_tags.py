"""The custom tags `<reference>`, `<setattribute>` and `<q_init>`: carried out in document order, then removed."""

import math

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.merge import CUSTOM_TAGS
from xbot2_fast.mjcf.report import Report
from xbot2_fast.mjcf.xml_input import Element


def apply_custom_tags(root: Element, q_init: dict[str, float], report: Report, *, lenient: bool = False) -> None:
    """Carry out and remove all custom tags of a `<mujoco>` tree.

    Args:
        root: the tree; changed in place.
        q_init: joint positions [rad or m] are added here, the last value of a joint wins.
        report: gets a note where a tag matched several elements, or none with `lenient`.
        lenient: a tag that cannot be carried out is skipped with a note instead of refused.
    Raises:
        ModelError: a nested custom tag, a tag without a target, a missing attribute, a value that is no number.
            The tree may be partly changed.
    """
    for element in root.iter(*CUSTOM_TAGS):
        if element.getparent() is not root:
            raise ModelError(
                f"<{element.tag}> stands inside <{element.getparent().tag}>; custom tags must be direct children of "
                "the root <mujoco>"
            )
    targets = _Targets(root)
    for element in [child for child in root if child.tag in CUSTOM_TAGS]:
        root.remove(element)
        try:
            match element.tag:
                case "q_init":
                    _q_init(element, q_init, report, lenient)
                case "reference":
                    target = targets.find(element, report)
                    children = list(element)
                    target.extend(children)
                    for child in children:
                        targets.add(child)
                case "setattribute":
                    _set_attributes(targets.find(element, report), element)
        except ModelError as error:
            if not lenient:
                raise
            report.add("dropped", "", str(error))


class _Targets:
    """First element of each (tag, name) in document order, and how many there are."""

    def __init__(self, root: Element):
        self._root = root
        self._found: dict[tuple[str, str], list[Element]] = {}
        for element in root.iter():
            self._add_one(element)

    def add(self, element: Element) -> None:
        for inner in element.iter():
            self._add_one(inner)

    def _add_one(self, element: Element) -> None:
        if element.get("name") is not None and isinstance(element.tag, str) and element.tag not in CUSTOM_TAGS:
            self._found.setdefault((element.tag, element.get("name")), []).append(element)

    def find(self, tag: Element, report: Report) -> Element:
        kind, name = _required(tag, "element"), tag.get("name")
        if name is None:
            found = [e for e in self._root.iter(kind) if e.getparent() is self._root]
        else:
            found = [e for e in self._found.get((kind, name), ()) if e.get("name") == name]
        if not found:
            shown = f'<{tag.tag} element="{kind}"' + (f' name="{name}">' if name is not None else ">")
            known = sorted(n for k, n in self._found if k == kind)
            raise ModelError(f"{shown}: the model has no such element; {_choices(kind, known)}")
        if len(found) > 1:
            report.add("noticed", "", f"<{tag.tag}>: {len(found)} <{kind}> are named {name!r}; the first one is used")
            return next(e for e in self._root.iter(kind) if e in found)
        return found[0]


def _choices(kind: str, known: list[str]) -> str:
    if not known:
        return f"it has no named <{kind}> at all"
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    return f"named <{kind}> elements: {', '.join(known[:8])}{more}"


def _required(element: Element, attribute: str) -> str:
    value = element.get(attribute)
    if not value:
        raise ModelError(f"<{element.tag}>: attribute {attribute!r} is missing")
    return value


def _set_attributes(target: Element, tag: Element) -> None:
    for attribute in tag.findall("attribute"):
        name = _required(attribute, "name")
        if attribute.get("value") is None:
            raise ModelError(f"<setattribute>: <attribute name={name!r}> has no value")
        target.set(name, attribute.get("value"))


def _q_init(tag: Element, q_init: dict[str, float], report: Report, lenient: bool) -> None:
    for joint in tag.findall("joint"):
        name, text = _required(joint, "name"), joint.get("value", "")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            q_init[name] = value
        elif lenient:
            report.add("dropped", "", f"<q_init>: joint {name!r}: value {text!r} is not a number")
        else:
            raise ModelError(f"<q_init>: joint {name!r}: expected a number, got {text!r}")
