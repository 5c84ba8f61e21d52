"""The validate stage: all problems of a URDF that no repair can mend, found at once."""

from collections import Counter

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.kinematic_tree import child_of, parent_of
from xbot2_fast.mjcf.xml_input import Element


def refuse_problems(robot: Element) -> None:
    """Raise one ModelError that lists every problem of a `<robot>`, sorted by link."""
    if robot.tag != "robot":
        raise ModelError(f"URDF: expected the root element <robot>, got <{robot.tag}>")
    problems = _structure(robot)
    if problems:
        raise ModelError(
            f"URDF {robot.get('name', '')!r} cannot become a model:", [text for _, text in sorted(problems)]
        )


def _structure(robot: Element) -> list[tuple[str, str]]:
    links = Counter(link.get("name", "") for link in robot.findall("link"))
    problems = [(name, f"link {name!r} exists {n} times") for name, n in links.items() if n > 1]
    if not links:
        problems.append(("", "there is no link"))
    children: Counter[str] = Counter()
    for joint in robot.findall("joint"):
        for what, link in (("parent", parent_of(joint)), ("child", child_of(joint))):
            if link not in links:
                problems.append((link, f"joint {joint.get('name')!r}: its {what} link {link!r} does not exist"))
        children[child_of(joint)] += 1
    problems += [(name, f"link {name!r} is the child of {n} joints") for name, n in children.items() if n > 1]
    if links and not problems and all(name in children for name in links):
        problems.append(("", "no link is a root: the joints form a cycle"))
    return problems
