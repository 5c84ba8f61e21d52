"""The validate stage: all problems of a URDF that no repair can mend, found at once."""

from collections.abc import Iterable, Iterator

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.kinematic_tree import child_of, parent_of
from xbot2_fast.mjcf.numeric import read_numbers
from xbot2_fast.mjcf.xml_input import Element

Problem = tuple[str, str]  # link ("" for the whole robot), text

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
DEEPEST = 496  # bodies inside each other; MuJoCo's XML reader stops at 500 elements
_MOVES_ALONG_AXIS = ("revolute", "continuous", "prismatic", "planar")
# Shape -> attribute -> how many numbers.
_SHAPES: dict[str, dict[str, int]] = {
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "sphere": {"radius": 1},
    "mesh": {},
}


def refuse(robot: Element, problems: Iterable[Problem]) -> None:
    """Raise one ModelError that lists the problems, sorted by link; nothing when there are none."""
    texts = [text for _, text in sorted(problems)]
    if texts:
        raise ModelError(f"URDF {robot.get('name', '')!r} cannot become a model:", dict.fromkeys(texts))


def check_root(robot: Element) -> None:
    if robot.tag != "robot":
        raise ModelError(f"URDF: expected the root element <robot>, got <{robot.tag}>")


def structure_problems(robot: Element) -> list[Problem]:
    """Why links and joints form no tree: names, ends, cycles. Without any, the other stages may rely on a tree."""
    problems = list(_placeholders(robot))
    links = robot.findall("link")
    if not links and not robot.findall("joint"):
        return problems  # an empty robot is a model without bodies
    problems += _names(links, "link") + _names(robot.findall("joint"), "joint")
    known = {link.get("name") for link in links}
    above: dict[str, list[Element]] = {}
    for joint in robot.findall("joint"):
        for end, link in (("parent", parent_of(joint)), ("child", child_of(joint))):
            if link not in known:
                problems.append((link, f"{_shown(joint)}: its {end} link {link!r} does not exist"))
        above.setdefault(child_of(joint), []).append(joint)
    for link, joints in above.items():
        if len(joints) > 1:
            problems.append((link, f"link {link!r} has {len(joints)} parents: {' and '.join(map(_shown, joints))}"))
    if "world" in above:
        problems.append(
            ("world", "link 'world' is not the root; MuJoCo keeps that name for the world: rename the link")
        )
    return problems or list(_cycles(robot, above)) or list(_too_deep(robot, above))


def content_problems(robot: Element) -> list[Problem]:
    """What is wrong inside links and joints: numbers, shapes, axes, limits, mimics."""
    joints = {joint.get("name"): joint for joint in robot.findall("joint")}
    problems: list[Problem] = []
    for link in robot.findall("link"):
        problems += ((link.get("name"), f"link {link.get('name')!r}: {text}") for text in _link_problems(link))
    for joint in joints.values():
        problems += ((child_of(joint), f"{_shown(joint)}: {text}") for text in _joint_problems(joint, joints))
    return problems


# ---- structure


def _shown(element: Element) -> str:
    return f"{element.tag} {element.get('name', '')!r} (line {element.sourceline})"


def _names(elements: list[Element], what: str) -> list[Problem]:
    seen: dict[str, Element] = {}
    problems = []
    for element in elements:
        name = element.get("name")
        link = (name or "") if what == "link" else child_of(element)
        if not name:
            problems.append((link, f"the {what} at line {element.sourceline} has no name"))
        elif name in seen:
            problems.append((link, f"{what} name {name!r} is used twice: {_where(seen[name])} and {_where(element)}"))
        else:
            seen[name] = element
    return problems


def _where(element: Element) -> str:
    ends = f", {parent_of(element)!r} to {child_of(element)!r}" if element.tag == "joint" else ""
    return f"line {element.sourceline}{ends}"


def _cycles(robot: Element, above: dict[str, list[Element]]) -> Iterator[Problem]:
    done: set[str] = set()
    for link in (link.get("name") for link in robot.findall("link")):
        path: list[str] = []
        here: set[str] = set()
        while link in above and link not in done and link not in here:
            path.append(link)
            here.add(link)
            link = parent_of(above[link][0])
        if link in here:
            cycle = path[path.index(link) :]
            yield min(cycle), f"links form a cycle: {' <- '.join([*cycle, link])}"
        done.update(path)


def _too_deep(robot: Element, above: dict[str, list[Element]]) -> Iterator[Problem]:
    depths: dict[str, int] = {}
    for link in (link.get("name") for link in robot.findall("link")):
        path = []
        while link in above and link not in depths:
            path.append(link)
            link = parent_of(above[link][0])
        depth = depths.setdefault(link, 1)
        for name in reversed(path):
            depth += 1
            depths[name] = depth
    deepest = max(depths, key=depths.__getitem__, default="")
    if depths and depths[deepest] > DEEPEST:
        yield deepest, f"link {deepest!r} is nested {depths[deepest]} deep; MuJoCo reads {DEEPEST} at most"


def _placeholders(robot: Element) -> Iterator[Problem]:
    for element in robot.iter():
        for name, value in element.attrib.items():
            if "${" in value or "$(" in value:
                owner = next((e for e in (element, *element.iterancestors()) if e.tag in ("link", "joint")), None)
                link = "" if owner is None else owner.get("name", "") if owner.tag == "link" else child_of(owner)
                yield link, f"line {element.sourceline}: {name}={value!r} was not filled in; run the file through xacro"


# ---- links


def _link_problems(link: Element) -> Iterator[str]:
    inertial = link.find("inertial")
    if inertial is not None:
        yield from _origin_problems(inertial, "inertial")
        mass = inertial.find("mass")
        if mass is None or mass.get("value") is None:
            yield "inertial: <mass value> is missing"
        else:
            yield from _numbers(mass, {"value": 1}, "inertial mass", least=0.0)
        inertia = inertial.find("inertia")
        if inertia is not None:
            given = {key: 1 for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz") if key in inertia.attrib}
            yield from _numbers(inertia, given, "inertia")
    for element in (*link.findall("visual"), *link.findall("collision")):
        where = f"{element.tag} (line {element.sourceline})"
        yield from _origin_problems(element, where)
        yield from _shape_problems(element, where)
        yield from _material_problems(element, where)


def _origin_problems(element: Element, where: str) -> Iterator[str]:
    origin = element.find("origin")
    if origin is not None:
        yield from _numbers(origin, {key: 3 for key in ("xyz", "rpy") if key in origin.attrib}, f"{where} origin")


def _shape_problems(element: Element, where: str) -> Iterator[str]:
    geometry = element.find("geometry")
    shapes = [] if geometry is None else list(geometry)
    if len(shapes) != 1 or shapes[0].tag not in _SHAPES:
        found = ", ".join(f"<{shape.tag}>" for shape in shapes) or "nothing"
        yield f"{where}: <geometry> needs one of {', '.join(_SHAPES)}; it holds {found}"
        return
    (shape,) = shapes
    if shape.tag == "mesh":
        if not (shape.get("filename") or "").strip():
            yield f"{where}: <mesh> has no filename"
        if "scale" in shape.attrib:
            count = 1 if len(shape.get("scale").split()) == 1 else 3
            problems = list(_numbers(shape, {"scale": count}, f"{where} mesh"))
            yield from problems
            if not problems and 0.0 in read_numbers(shape.get("scale"), count):
                yield f"{where} mesh: scale: expected numbers other than 0, got {shape.get('scale')!r}"
    else:
        yield from _numbers(shape, _SHAPES[shape.tag], f"{where} {shape.tag}", above=0.0)


def _material_problems(element: Element, where: str) -> Iterator[str]:
    for color in element.iterfind("material/color[@rgba]"):
        yield from _numbers(color, {"rgba": 4}, f"{where} color", least=0.0)


# ---- joints


def _joint_problems(joint: Element, joints: dict[str, Element]) -> Iterator[str]:
    kind = joint.get("type")
    if kind not in JOINT_TYPES:
        yield f"type: expected one of {', '.join(JOINT_TYPES)}, got {kind!r}"
        return
    yield from _origin_problems(joint, "its")
    axis = joint.find("axis")
    if kind in _MOVES_ALONG_AXIS and axis is not None and axis.get("xyz") is not None:
        problems = list(_numbers(axis, {"xyz": 3}, "axis"))
        yield from problems
        if not problems and sum(value * value for value in read_numbers(axis.get("xyz"), 3)) < 1e-20:
            yield f"axis: expected a direction, got {axis.get('xyz')!r}"
    limit = joint.find("limit")
    if limit is not None:
        yield from _limit_problems(limit, kind)
    dynamics = joint.find("dynamics")
    if dynamics is not None:
        given = {key: 1 for key in ("damping", "friction") if key in dynamics.attrib}
        yield from _numbers(dynamics, given, "dynamics", least=0.0)
    yield from _mimic_problems(joint, joints)


def _limit_problems(limit: Element, kind: str) -> Iterator[str]:
    given = {key: 1 for key in ("lower", "upper") if key in limit.attrib and kind in ("revolute", "prismatic")}
    problems = list(_numbers(limit, given, "limit"))
    yield from problems
    if not problems and given:
        lower, upper = (read_numbers(limit.get(key, "0"), 1)[0] for key in ("lower", "upper"))
        if lower > upper:
            yield f"limit: lower {limit.get('lower', '0')} is above upper {limit.get('upper', '0')}"
    if "effort" in limit.attrib and limit.get("effort").strip().lower() not in ("inf", "infinity"):
        yield from _numbers(limit, {"effort": 1}, "limit", least=0.0)


def _mimic_problems(joint: Element, joints: dict[str, Element]) -> Iterator[str]:
    mimic = joint.find("mimic")
    if mimic is None:
        return
    yield from _numbers(mimic, {key: 1 for key in ("multiplier", "offset") if key in mimic.attrib}, "mimic")
    seen = [joint.get("name")]
    while mimic is not None:
        leader = mimic.get("joint")
        if leader not in joints:
            return  # a repair leaves the mimic out
        if leader in seen:
            yield f"mimic: joints follow each other in a circle: {' -> '.join([*seen, leader])}"
            return
        seen.append(leader)
        mimic = joints[leader].find("mimic")


def _numbers(
    element: Element, attributes: dict[str, int], where: str, *, least: float | None = None, above: float | None = None
) -> Iterator[str]:
    """Problems of numeric attributes that must be there: attribute -> how many numbers."""
    for name, count in attributes.items():
        if element.get(name) is None:
            yield f"{where}: {name} is missing"
            continue
        try:
            values = read_numbers(element.get(name), count)
        except ValueError as error:
            yield f"{where} {name}: {error}"
            continue
        if least is not None and min(values) < least:
            yield f"{where} {name}: expected >= {least:g}, got {element.get(name)!r}"
        if above is not None and min(values) <= above:
            yield f"{where} {name}: expected > {above:g}, got {element.get(name)!r}"
