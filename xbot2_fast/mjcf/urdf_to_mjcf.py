"""The compile stage: a URDF without problems becomes an MJCF tree, number for number.

Visuals become geoms of group 1 without contact and mass, collisions geoms of group 0, joint efforts
`actuatorfrcrange`, `<mimic>` an equality, and every link a body of its own (`simple="false"`, so that its mass and
centre of mass can be edited while the simulation runs).
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from lxml import etree

from xbot2_fast.mjcf.kinematic_tree import KinematicTree, kinematic_tree, parent_of
from xbot2_fast.mjcf.numeric import read_numbers, write_numbers
from xbot2_fast.mjcf.rotations import from_euler, matrix, product
from xbot2_fast.mjcf.xml_input import Element

_IDENTITY = (1.0, 0.0, 0.0, 0.0)


def urdf_to_mjcf(robot: Element, name: str) -> Element:
    """MJCF tree of a `<robot>` whose mesh file names are already those of the output folder.

    Args:
        robot: the URDF after the validate, asset and repair stages; it is not changed.
        name: the model's name.
    """
    root = etree.Element("mujoco", model=name)
    etree.SubElement(root, "compiler", angle="radian")
    assets = _Assets(robot, etree.SubElement(root, "asset"))
    tree = kinematic_tree(robot)
    bodies: dict[str, Element] = {}
    worldbody = etree.SubElement(root, "worldbody")
    names: set[str] = set()
    for link in tree.depth_first():
        joint = tree.above.get(link)
        if joint is None and link == "world":  # ROS's way to say that the robot is fixed to the world
            bodies[link] = _geoms(tree.links[link], worldbody, assets, names)
            continue
        free = joint is not None and joint.get("type") == "floating" and tree.is_static(parent_of(joint))
        parent = worldbody if joint is None or free else bodies[parent_of(joint)]
        bodies[link] = _body(tree.links[link], joint, parent, assets, names)
        if free:
            _place(bodies[link], bodies[parent_of(joint)])
    _mimics(tree, root)
    if not len(root.find("asset")):
        root.remove(root.find("asset"))
    return root


def _body(link: Element, joint: Element | None, parent: Element, assets: "_Assets", geom_names: set[str]) -> Element:
    body = etree.SubElement(parent, "body", name=link.get("name"), **pose(joint), simple="false")
    _inertial(link, body)
    if joint is not None:
        _joints(joint, body)
    return _geoms(link, body, assets, geom_names)


def _geoms(link: Element, body: Element, assets: "_Assets", geom_names: set[str]) -> Element:
    for visual in link.findall("visual"):
        _geom(visual, body, assets, geom_names)
    density = link.get("density", "0")  # URDF knows none: without an inertial a link weighs nothing
    for collision in link.findall("collision"):
        geom = _geom(collision, body, assets, geom_names)
        if link.find("inertial") is None:
            geom.set("density", density)
    return body


def pose(element: Element | None) -> dict[str, str]:
    """MJCF `pos` and `quat` of an element's `<origin>`; attributes of the identity are left out."""
    origin = None if element is None else element.find("origin")
    if origin is None:
        return {}
    attributes = {}
    position = read_numbers(origin.get("xyz", "0 0 0"), 3)
    if any(position):
        attributes["pos"] = " ".join(origin.get("xyz").split())
    quaternion = from_euler(read_numbers(origin.get("rpy", "0 0 0"), 3))
    if quaternion != _IDENTITY:
        attributes["quat"] = write_numbers(quaternion)
    return attributes


def _inertial(link: Element, body: Element) -> None:
    inertial = link.find("inertial")
    if inertial is None:
        return
    origin = pose(inertial)
    mass = inertial.find("mass").get("value").strip()
    element = etree.SubElement(body, "inertial", pos=origin.get("pos", "0 0 0"), mass=mass)
    inertia = inertial.find("inertia")
    text = {key: inertia.get(key, "0").strip() for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")}
    if not any(float(text[key]) for key in ("ixy", "ixz", "iyz")):
        element.set("diaginertia", " ".join(text[key] for key in ("ixx", "iyy", "izz")))
        if "quat" in origin:
            element.set("quat", origin["quat"])
    elif "quat" in origin:
        rotation = matrix(read_numbers(origin["quat"], 4))
        element.set(
            "fullinertia", write_numbers(_rotated({key: float(value) for key, value in text.items()}, rotation))
        )
    else:
        element.set("fullinertia", " ".join(text.values()))


def _rotated(inertia: dict[str, float], rotation: list[list[float]]) -> list[float]:
    """R I R^T in MuJoCo's order xx yy zz xy xz yz: a full inertia has no orientation of its own in MJCF."""
    rows = [
        [inertia["ixx"], inertia["ixy"], inertia["ixz"]],
        [inertia["ixy"], inertia["iyy"], inertia["iyz"]],
        [inertia["ixz"], inertia["iyz"], inertia["izz"]],
    ]
    turned = [[sum(rotation[i][k] * rows[k][j] for k in range(3)) for j in range(3)] for i in range(3)]
    full = [[sum(turned[i][k] * rotation[j][k] for k in range(3)) for j in range(3)] for i in range(3)]
    return [full[0][0], full[1][1], full[2][2], full[0][1], full[0][2], full[1][2]]


# ---- joints


def _joints(joint: Element, body: Element) -> None:
    name = joint.get("name")
    axis = (joint.find("axis").get("xyz") if joint.find("axis") is not None else None) or "1 0 0"
    axis = " ".join(axis.split())
    match joint.get("type"):
        case "revolute" | "continuous":
            _finish(etree.SubElement(body, "joint", name=name, axis=axis), joint)
        case "prismatic":
            _finish(etree.SubElement(body, "joint", name=name, type="slide", axis=axis), joint)
        case "spherical":
            _finish(etree.SubElement(body, "joint", name=name, type="ball"), joint)
        case "planar":
            _planar(name, axis, body)
        case "floating" if body.getparent().tag == "worldbody":
            etree.SubElement(body, "freejoint", name=name)
        case "floating":
            for suffix, direction in zip(("TX", "TY", "TZ"), ("1 0 0", "0 1 0", "0 0 1"), strict=True):
                etree.SubElement(body, "joint", name=f"{name}_{suffix}", type="slide", axis=direction)
            etree.SubElement(body, "joint", name=f"{name}_R", type="ball")


def _finish(element: Element, joint: Element) -> None:
    """Limits, effort and passive forces of one scalar joint."""
    limit, dynamics = joint.find("limit"), joint.find("dynamics")
    if limit is not None and joint.get("type") in ("revolute", "prismatic"):
        lower, upper = limit.get("lower", "0").strip(), limit.get("upper", "0").strip()
        if limit.get("lower") is not None or limit.get("upper") is not None:
            element.set("range", f"{lower} {upper}")
    if limit is not None and float(limit.get("effort", "0")) > 0:
        effort = limit.get("effort").strip()
        element.set("actuatorfrcrange", f"-{effort.removeprefix('+')} {effort}")
    if dynamics is not None:
        for attribute, ours in (("damping", "damping"), ("friction", "frictionloss")):
            if float(dynamics.get(attribute, "0")):
                element.set(ours, dynamics.get(attribute).strip())


def _planar(name: str, axis: str, body: Element) -> None:
    """Two slides across the axis and a hinge about it, as MuJoCo's own importer names them."""
    normal = read_numbers(axis, 3)
    length = sum(value * value for value in normal) ** 0.5
    normal = tuple(value / length for value in normal)
    helper = (1.0, 0.0, 0.0) if abs(normal[0]) < 0.9 else (0.0, 1.0, 0.0)
    along = sum(h * n for h, n in zip(helper, normal, strict=True))
    first = tuple(h - along * n for h, n in zip(helper, normal, strict=True))
    size = sum(value * value for value in first) ** 0.5
    first = tuple(value / size for value in first)
    second = (
        normal[1] * first[2] - normal[2] * first[1],
        normal[2] * first[0] - normal[0] * first[2],
        normal[0] * first[1] - normal[1] * first[0],
    )
    etree.SubElement(body, "joint", name=f"{name}_TX", type="slide", axis=write_numbers(first))
    etree.SubElement(body, "joint", name=f"{name}_TY", type="slide", axis=write_numbers(second))
    etree.SubElement(body, "joint", name=f"{name}_RZ", axis=axis)


def _place(body: Element, parent: Element) -> None:
    """Give a body of the world, whose pose was relative to a static body, the pose in the world that this means."""
    while parent.tag == "body":
        quaternion = read_numbers(parent.get("quat", "1 0 0 0"), 4)
        offset, rotation = read_numbers(body.get("pos", "0 0 0"), 3), matrix(quaternion)
        start = read_numbers(parent.get("pos", "0 0 0"), 3)
        moved = [start[i] + sum(rotation[i][k] * offset[k] for k in range(3)) for i in range(3)]
        body.set("pos", write_numbers(moved))
        body.set("quat", write_numbers(product(quaternion, read_numbers(body.get("quat", "1 0 0 0"), 4))))
        parent = parent.getparent()


def _mimics(tree: KinematicTree, root: Element) -> None:
    followers = [joint for joint in tree.joints if joint.find("mimic") is not None and joint.get("type") != "fixed"]
    if not followers:
        return
    equality = etree.SubElement(root, "equality")
    for joint in followers:
        mimic = joint.find("mimic")
        ratio, offset = mimic.get("multiplier", "1").strip(), mimic.get("offset", "0").strip()
        etree.SubElement(
            equality, "joint", joint1=joint.get("name"), joint2=mimic.get("joint"), polycoef=f"{offset} {ratio} 0 0 0"
        )


# ---- geometry


def _geom(element: Element, body: Element, assets: "_Assets", names: set[str]) -> Element:
    geom = etree.SubElement(body, "geom")
    name = element.get("name")
    if name and name not in names:
        names.add(name)
        geom.set("name", name)
    shape = next(child for child in element.find("geometry") if isinstance(child.tag, str))
    for key, value in _SHAPES[shape.tag](shape).items():
        geom.set(key, value)
    if shape.tag == "mesh":
        geom.set("mesh", assets.mesh(shape))
    for key, value in pose(element).items():
        geom.set(key, value)
    if element.tag == "visual":
        geom.attrib.update({"contype": "0", "conaffinity": "0", "group": "1", "density": "0"})
    geom.attrib.update(assets.appearance(element.find("material")))
    return geom


def _size(*numbers: str, half: int = 0) -> str:
    """Size attribute; the last `half` numbers are whole lengths in URDF and half lengths in MJCF."""
    whole = len(numbers) - half
    return write_numbers(float(number) / (1 if i < whole else 2) for i, number in enumerate(numbers))


_SHAPES: dict[str, Callable[[Element], dict[str, str]]] = {
    "box": lambda e: {"type": "box", "size": _size(*e.get("size").split(), half=3)},
    "cylinder": lambda e: {"type": "cylinder", "size": _size(e.get("radius"), e.get("length"), half=1)},
    "capsule": lambda e: {"type": "capsule", "size": _size(e.get("radius"), e.get("length"), half=1)},
    "sphere": lambda e: {"type": "sphere", "size": _size(e.get("radius"))},
    "mesh": lambda e: {"type": "mesh"},
}


class _Assets:
    """Mesh, texture and material elements of the model, each written once."""

    def __init__(self, robot: Element, asset: Element):
        self._asset = asset
        self._meshes: dict[tuple[str, str], str] = {}
        self._names: set[str] = set()
        self._textures: dict[str, str] = {}
        self._materials = {m.get("name"): m for m in robot.iter("material") if m.get("name") and len(m)}

    def mesh(self, shape: Element) -> str:
        """Name of the mesh asset of a file and scale."""
        file, scale = shape.get("filename"), " ".join(shape.get("scale", "1 1 1").split())
        if len(scale.split()) == 1:
            scale = " ".join([scale] * 3)
        key = (file, write_numbers(read_numbers(scale, 3)))
        if key not in self._meshes:
            element = etree.SubElement(self._asset, "mesh", name=self._unique(_stem(file)), file=file)
            if key[1] != "1 1 1":
                element.set("scale", scale)
            if shape.get("inertia"):
                element.set("inertia", shape.get("inertia"))
            self._meshes[key] = element.get("name")
        return self._meshes[key]

    def appearance(self, material: Element | None) -> dict[str, str]:
        """Geom attributes of a URDF material: its colour, or an asset material when it has a texture."""
        if material is None:
            return {}
        if not len(material):
            material = self._materials.get(material.get("name"), material)
        texture, color = material.find("texture"), material.find("color")
        rgba = " ".join(color.get("rgba").split()) if color is not None and color.get("rgba") else None
        if texture is not None and texture.get("filename"):
            return {"material": self._material(texture.get("filename"), rgba)}
        return {"rgba": rgba} if rgba else {}

    def _material(self, file: str, rgba: str | None) -> str:
        key = f"{file} {rgba}"
        if key not in self._textures:
            name = self._textures[key] = self._unique(_stem(file))
            etree.SubElement(self._asset, "texture", name=name, type="2d", file=file)
            material = etree.SubElement(self._asset, "material", name=name, texture=name)
            if rgba:
                material.set("rgba", rgba)
        return self._textures[key]

    def _unique(self, name: str) -> str:
        candidate, n = name, 0
        while candidate in self._names:
            n += 1
            candidate = f"{name}_{n}"
        self._names.add(candidate)
        return candidate


def _stem(file: str) -> str:
    """Name of a stored file without the number in front: assets/12_hip.stl is hip."""
    return PurePosixPath(file).stem.partition("_")[2] or PurePosixPath(file).stem
