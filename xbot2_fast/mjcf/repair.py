"""The repair stage: what a URDF leaves out or gets wrong, and what is put in its place.

Every repair is a function (robot, tree, ask) that changes the tree only after `ask(link, kind, what)` said yes; ask
records the repair in the report, or, when the user switched the repair off, the problem.
"""

from collections.abc import Callable, Collection

from lxml import etree

from xbot2_fast.mjcf.inertia import mended_inertia, sphere_inertia
from xbot2_fast.mjcf.kinematic_tree import KinematicTree, child_of, kinematic_tree, parent_of
from xbot2_fast.mjcf.numeric import write_number
from xbot2_fast.mjcf.report import Report
from xbot2_fast.mjcf.validation import Problem
from xbot2_fast.mjcf.xml_input import Element

Ask = Callable[[str, str, str], bool]

DENSITY = 1000.0  # [kg/m3] of a link of which only the shape is known
LEAST_MASS, LEAST_INERTIA = 1e-3, 1e-6  # [kg], [kg m2] of a moving link of which nothing is known
LOCKED = 1e-6  # [rad or m] by which a joint without travel may move
LEAST_MOMENT = 1e-14  # [kg or kg m2] less than this counts as nothing; MuJoCo refuses 1e-15
_SCALAR = {"revolute", "continuous", "prismatic"}
_INERTIA_KEYS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def repair(robot: Element, report: Report, wanted: Collection[str], *, floating_base: bool) -> list[Problem]:
    """Mend a structurally sound `<robot>` in place.

    Args:
        wanted: names of the repairs to do, out of REPAIRS.
        floating_base: the root link will move.
    Returns:
        What would need a repair that is switched off.
    """
    problems: list[Problem] = []
    tree = kinematic_tree(robot)
    for name, function in REPAIRS.items():

        def ask(link: str, kind: str, what: str, name: str = name) -> bool:
            if name in wanted:
                report.add(kind, link, what)
                return True
            problems.append((link, f"link {link!r}: {what} (needs the repair {name!r}, which is switched off)"))
            return False

        if name == "mass":
            _mass(tree, ask, floating_base)
        else:
            function(tree, ask)
    return problems


# ---- joints


def _effort(tree: KinematicTree, ask: Ask) -> None:
    for joint in tree.joints:
        limit = joint.find("limit")
        effort = None if limit is None else limit.get("effort")
        if effort is None:
            continue
        if effort.strip().lower() in ("inf", "infinity"):
            del limit.attrib["effort"]
            continue
        what = f"joint {joint.get('name')!r}: effort 0 taken as no effort limit"
        if float(effort) == 0 and joint.get("type") in _SCALAR and ask(child_of(joint), "repaired", what):
            del limit.attrib["effort"]


def _limits(tree: KinematicTree, ask: Ask) -> None:
    for joint in tree.joints:
        if joint.get("type") not in ("revolute", "prismatic"):
            continue
        limit, name, link = joint.find("limit"), joint.get("name"), child_of(joint)
        if limit is None or (limit.get("lower") is None and limit.get("upper") is None):
            ask(link, "guessed", f"joint {name!r}: it has no position limits and moves without bounds")
            continue
        lower, upper = float(limit.get("lower", "0")), float(limit.get("upper", "0"))
        if lower != upper:
            continue
        if lower == 0:
            if ask(link, "guessed", f"joint {name!r}: limits 0 and 0 taken as none"):
                limit.attrib.pop("lower", None)
                limit.attrib.pop("upper", None)
        elif ask(link, "repaired", f"joint {name!r}: limits are both {lower:g}; it may move by {LOCKED:g} around that"):
            limit.set("lower", write_number(lower - LOCKED))
            limit.set("upper", write_number(upper + LOCKED))


def _joints(tree: KinematicTree, ask: Ask) -> None:
    types = {joint.get("name"): joint.get("type") for joint in tree.joints}
    for joint in tree.joints:
        name, link, kind = joint.get("name"), child_of(joint), joint.get("type")
        if kind == "planar":
            ask(link, "repaired", f"planar joint {name!r} became {name}_TX, {name}_TY (slides) and {name}_RZ (hinge)")
            if joint.find("limit") is not None and ask(link, "dropped", f"planar joint {name!r}: its limits"):
                joint.remove(joint.find("limit"))
        elif kind == "floating" and not tree.is_static(parent_of(joint)):
            what = f"floating joint {name!r} below a moving link became slides {name}_TX, _TY, _TZ and ball {name}_R"
            ask(link, "repaired", what)
        mimic = joint.find("mimic")
        if mimic is None:
            continue
        kinds = (kind, types.get(mimic.get("joint")))
        why = (
            "there is no such joint" if kinds[1] is None else "" if set(kinds) <= _SCALAR else "both must turn or slide"
        )
        if why and ask(link, "dropped", f"joint {name!r}: mimic of {mimic.get('joint')!r}: {why}"):
            joint.remove(mimic)


def _roots(tree: KinematicTree, ask: Ask) -> None:
    if len(tree.roots) > 1:
        for link in tree.roots[1:]:
            ask(link, "repaired", f"a root beside {tree.roots[0]!r}: it is fixed to the world at the origin")


# ---- masses


def _inertia(tree: KinematicTree, ask: Ask) -> None:
    for name, link in tree.links.items():
        inertial = link.find("inertial")
        if inertial is None:
            continue
        mass = float(inertial.find("mass").get("value"))
        inertia = inertial.find("inertia")
        values = [0.0] * 6 if inertia is None else [float(inertia.get(key, "0")) for key in _INERTIA_KEYS]
        if not any(abs(value) >= LEAST_MOMENT for value in values):
            values = [0.0] * 6
        if mass == 0 and not any(values):
            link.remove(inertial)  # says the same as no inertial
            continue
        if mass < LEAST_MOMENT:
            if ask(name, "dropped", f"inertia {_shown(values)} of a link without mass"):
                link.remove(inertial)
            continue
        mended, why = (sphere_inertia(mass), "no inertia") if not any(values) else mended_inertia(values)
        if mended is None:
            continue
        kind = "guessed" if why == "no inertia" else "repaired"
        if ask(name, kind, f"{why}: inertia {_shown(values)} became {_shown(mended)}"):
            if inertia is None:
                inertia = etree.SubElement(inertial, "inertia")
            for key, value in zip(_INERTIA_KEYS, mended, strict=True):
                inertia.set(key, write_number(value))


def _shown(values: Collection[float]) -> str:
    return "(" + " ".join(f"{value:.4g}" for value in values) + ")"


def _mass(tree: KinematicTree, ask: Ask, floating_base: bool) -> None:
    """Give each rigid group of links that moves, and that has no mass at all, the mass of its first link's shape."""
    for first in tree.depth_first():
        joint = tree.above.get(first)
        moves = floating_base if joint is None else joint.get("type") != "fixed"
        if not moves:
            continue
        group = _rigid_group(first, tree)
        if any(tree.links[link].find("inertial") is not None for link in group):
            continue
        shaped = next((link for link in group if _has_volume(tree.links[link])), None)
        if shaped is not None:
            if ask(shaped, "guessed", f"no mass: taken from its collision shape at {DENSITY:g} kg/m3"):
                tree.links[shaped].set("density", write_number(DENSITY))
        elif ask(first, "guessed", f"no mass and no shape: {LEAST_MASS:g} kg with inertia {LEAST_INERTIA:g} kg m2"):
            inertial = etree.SubElement(tree.links[first], "inertial")
            etree.SubElement(inertial, "mass", value=write_number(LEAST_MASS))
            diagonal = {key: write_number(LEAST_INERTIA if key[1] == key[2] else 0.0) for key in _INERTIA_KEYS}
            etree.SubElement(inertial, "inertia", diagonal)


def _rigid_group(first: str, tree: KinematicTree) -> list[str]:
    group = [first]
    for link in group:
        group.extend(child_of(joint) for joint in tree.below.get(link, ()) if joint.get("type") == "fixed")
    return group


def _has_volume(link: Element) -> bool:
    shapes = [shape for collision in link.findall("collision") for shape in collision.find("geometry")]
    return any(shape.get("inertia") != "shell" for shape in shapes)


# Name -> repair, in the order in which they are done.
REPAIRS: dict[str, Callable] = {
    "effort": _effort,
    "limits": _limits,
    "joints": _joints,
    "roots": _roots,
    "inertia": _inertia,
    "mass": _mass,
}
