"""The `<mujoco>` block that a URDF may carry: MuJoCo's own extension of the format."""

from lxml import etree

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.report import Report
from xbot2_fast.mjcf.xml_input import Element

# What the block may set and what becomes of it: True passes on, False is settled by the generator itself.
_COMPILER = {
    "angle": False, "meshdir": False, "texturedir": False, "assetdir": False, "strippath": False, "fusestatic": False,
    "discardvisual": False, "eulerseq": False, "coordinate": False, "autolimits": False,
    "boundmass": True, "boundinertia": True, "balanceinertia": True, "inertiafromgeom": True, "settotalmass": True,
    "inertiagrouprange": True, "fitaabb": True, "usethread": True, "alignfree": True, "saveinertial": True,
    "savecompiled": True, "savecanonical": True, "conflict": True, "passthrough": True,
}  # fmt: skip


def take_block(robot: Element, report: Report) -> tuple[Element, dict[str, str]]:
    """Remove all `<mujoco>` blocks of a URDF.

    Returns:
        A fragment with what they ask of the model, and the compiler attributes that say where files are.
    Raises:
        ModelError: a compiler attribute that MuJoCo does not know; it would be ignored in silence.
    """
    fragment, folders = etree.Element("mujoco"), {}
    for block in robot.findall("mujoco"):
        robot.remove(block)
        for child in list(block):
            if child.tag == "compiler":
                folders.update(_settled(child, report))
                if not child.attrib:
                    continue
            fragment.append(child)
    return fragment, folders


def _settled(compiler: Element, report: Report) -> dict[str, str]:
    """Take the attributes out that the generator settles itself; returns those that say where files are."""
    folders = {}
    for name, value in list(compiler.attrib.items()):
        if name not in _COMPILER:
            known = ", ".join(sorted(_COMPILER))
            raise ModelError(f"URDF line {compiler.sourceline}: <compiler> has no attribute {name!r}; it has {known}")
        if _COMPILER[name]:
            continue
        del compiler.attrib[name]
        if name in ("meshdir", "assetdir", "strippath"):
            folders[name] = value
        elif (name, value) in (("fusestatic", "true"), ("discardvisual", "true")):
            report.add("dropped", "", f'<compiler {name}="true">: every link stays a body, and visuals are kept')
    return folders
