"""Before a merge: a fragment is made independent of its own file, directories, units and conventions."""

import math
from collections.abc import Iterator
from pathlib import Path

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.numeric import read_numbers, write_numbers
from xbot2_fast.mjcf.output_folder import OutputFolder
from xbot2_fast.mjcf.report import Report
from xbot2_fast.mjcf.rotations import from_euler
from xbot2_fast.mjcf.xml_input import Element, parse_xml

_TEXTURE_FILES = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
# Tag -> (attributes that name files, compiler attribute of their folder).
_FILES: dict[str, tuple[tuple[str, ...], str]] = {
    "mesh": (("file",), "meshdir"),
    "hfield": (("file",), "meshdir"),
    "skin": (("file",), "meshdir"),
    "flexcomp": (("file",), "meshdir"),
    "texture": (_TEXTURE_FILES, "texturedir"),
}
_INCLUDES = 1000  # files that include each other several times would multiply without end
_OWN_COMPILER = ("angle", "eulerseq", "autolimits", "coordinate", "meshdir", "texturedir", "assetdir", "strippath")


def load_fragment(source: str | Path) -> tuple[Element, Path | None]:
    """Root of a fragment with its includes in place, and the folder it came from (None for text)."""
    if isinstance(source, Path):
        folder: Path | None = source.absolute().parent
        what = "merge_xml"
    elif isinstance(source, str):
        folder, what = None, "merge_xml text"
    else:
        raise TypeError(f"xml: expected XML text (str) or a pathlib.Path, got {type(source).__name__}")
    root = parse_xml(source, what)
    if root.tag != "mujoco":
        raise ModelError(f"{what}: expected the root element <mujoco>, got <{root.tag}>")
    _include(
        root, folder or Path.cwd(), (source.absolute(),) if isinstance(source, Path) else (), iter(range(_INCLUDES))
    )
    return root, folder


def _include(root: Element, folder: Path, open_files: tuple[Path, ...], allowed: Iterator[int]) -> None:
    """Replace every `<include file=...>` by the children of that file's root, relative to the including file."""
    for include in list(root.iter("include")):
        path = folder / include.get("file", "")
        if path in open_files:
            raise ModelError(f"<include>: {path} includes itself")
        if next(allowed, None) is None:
            raise ModelError(
                f"<include>: more than {_INCLUDES} files, the last one {path}; are they included repeatedly?"
            )
        included = parse_xml(path, "<include> of")
        _include(included, path.parent, (*open_files, path), allowed)
        _anchor_files(included, path.parent, folder)
        parent, position = include.getparent(), include.getparent().index(include)
        parent.remove(include)
        for offset, child in enumerate(list(included)):
            parent.insert(position + offset, child)


def _anchor_files(included: Element, own: Path, including: Path) -> None:
    """Name the files of an included file absolutely where its own folder or its own directories have them.

    Its directories end with it then; those of a file that names none, such as shared settings, hold for all.
    """
    compilers = included.findall("compiler")
    given = {name: value for compiler in compilers for name, value in compiler.items()}
    strip = given.get("strippath") == "true"
    files = [
        (element, attribute, given.get(directory, given.get("assetdir")))
        for element in included.iter(*_FILES)
        for attributes, directory in [_FILES[element.tag]]
        for attribute in attributes
        if element.get(attribute)
    ]
    for element, attribute, directory in files:
        name = Path(element.get(attribute)).name if strip else element.get(attribute)
        places = [own / directory, including / directory] if directory is not None else []
        places += [own] if own != including else []
        found = next((place / name for place in places if (place / name).is_file()), None)
        if found is not None:
            element.set(attribute, str(found.absolute()))
    for compiler in compilers if files else ():
        for name in ("meshdir", "texturedir", "assetdir", "strippath"):
            compiler.attrib.pop(name, None)


class _Conventions:
    """What a fragment's own `<compiler>` elements say; later ones win."""

    def __init__(self, root: Element):
        self.compiler: dict[str, str] = {}
        for compiler in root.findall("compiler"):
            self.compiler.update(compiler.attrib)
            for name in _OWN_COMPILER:
                compiler.attrib.pop(name, None)
            if not compiler.attrib and not len(compiler):
                root.remove(compiler)
        self.scale = math.pi / 180 if self.compiler.get("angle") == "degree" else 1.0
        self.eulerseq = self.compiler.get("eulerseq", "xyz")
        if self.compiler.get("coordinate", "local") != "local":
            raise ModelError('<compiler coordinate="global">: MuJoCo no longer has global coordinates; use local ones')

    def folder(self, attribute: str) -> str:
        return self.compiler.get(attribute, self.compiler.get("assetdir", ""))


def make_independent(
    root: Element, folder: Path | None, output: OutputFolder, report: Report, *, link_assets: bool, skip_missing: bool
) -> None:
    """Translate a fragment's angles to radian and "xyz", and put its files into the output folder.

    Angles of a fragment that does not say its unit are taken as radian, the unit of the robot.
    """
    conventions = _Conventions(root)
    _translate_angles(root, conventions)
    for name in conventions.compiler.keys() - set(_OWN_COMPILER):
        report.add("noticed", "", f'a fragment sets <compiler {name}="{conventions.compiler[name]}">: it is global')
    missing = list(_store_files(root, folder, conventions, output, link_assets))
    if missing and not skip_missing:
        raise ModelError("merge_xml: files are missing:", [f"<{e.tag}>: {path}" for e, path in missing])
    for element, path in missing:
        report.add("dropped", "", f"<{element.tag}> of a fragment and what uses it: {path} does not exist")
        _drop(root, element)


# ---- angles


def _translate_angles(root: Element, conventions: _Conventions) -> None:
    if conventions.scale == 1.0 and conventions.eulerseq == "xyz":
        return
    types = _joint_types(root)
    for element in root.iter():
        if element.get("euler") is not None:
            _translate_euler(element, conventions)
        if element.get("axisangle") is not None:
            *axis, angle = read_numbers(element.get("axisangle"), 4)
            element.set("axisangle", write_numbers((*axis, angle * conventions.scale)))
        if _is_angular_joint(element, types):
            _scale(element, ("range", "ref", "springref"), conventions.scale)


def _is_angular_joint(element: Element, types: dict[str, str]) -> bool:
    if element.tag != "joint" or element.getparent().tag not in ("body", "default", "frame", "replicate"):
        return False
    return _joint_type(element, types) in ("hinge", "ball")


def _scale(element: Element, attributes: tuple[str, ...], scale: float) -> None:
    for name in attributes:
        if element.get(name) is not None and scale != 1.0:
            words = element.get(name).split()
            element.set(name, write_numbers(value * scale for value in read_numbers(element.get(name), len(words))))


def _translate_euler(element: Element, conventions: _Conventions) -> None:
    angles = [angle * conventions.scale for angle in read_numbers(element.get("euler"), 3)]
    if conventions.eulerseq == "xyz":
        element.set("euler", write_numbers(angles))
    elif element.tag == "replicate":
        if sum(map(bool, angles)) > 1:
            raise ModelError(f"<replicate euler>: cannot be translated from eulerseq {conventions.eulerseq!r} to 'xyz'")
        about = dict(zip(conventions.eulerseq.lower(), angles, strict=True))
        element.set("euler", write_numbers(about.get(axis, 0.0) for axis in "xyz"))
    else:
        del element.attrib["euler"]
        element.set("quat", write_numbers(from_euler(angles, conventions.eulerseq)))


def _joint_types(root: Element) -> dict[str, str]:
    """Default class -> joint type it sets, inherited ones included."""
    types: dict[str, str] = {}
    for default in root.iter("default"):
        joint, parent = default.find("joint"), default.getparent()
        inherited = types.get(parent.get("class", "main"), "hinge") if parent.tag == "default" else "hinge"
        types[default.get("class", "main")] = inherited if joint is None else joint.get("type", inherited)
    return types


def _joint_type(joint: Element, types: dict[str, str]) -> str:
    if joint.get("type"):
        return joint.get("type")
    if joint.getparent().tag == "default":
        return types[joint.getparent().get("class", "main")]
    name = joint.get("class") or next(
        (a.get("childclass") for a in joint.iterancestors() if a.get("childclass")), "main"
    )
    return types.get(name, "hinge")


# ---- files


def _store_files(
    root: Element, folder: Path | None, conventions: _Conventions, output: OutputFolder, link: bool
) -> Iterator[tuple[Element, Path]]:
    """Put the fragment's files into the output folder; yields elements whose file does not exist."""
    strip = conventions.compiler.get("strippath") == "true"
    for element in root.iter(*_FILES):
        attributes, directory = _FILES[element.tag]
        for attribute in attributes:
            name = element.get(attribute)
            if not name or (folder is None and (output.path / name).is_file()):
                continue
            path = Path(folder or ".", conventions.folder(directory), Path(name).name if strip else name).absolute()
            if not path.is_file():
                yield element, path
                continue
            if element.tag in ("mesh", "hfield", "texture", "skin") and attribute == "file" and not element.get("name"):
                element.set("name", path.stem)  # the name that MuJoCo would have taken from the original file
            element.set(attribute, output.add_asset(path, link=link))
    for element in root.iterfind("asset/model"):
        element.set("file", str(Path(folder or ".", element.get("file", "")).absolute()))


def _drop(root: Element, asset: Element) -> None:
    """Remove an asset and the elements that cannot exist without it."""
    name = asset.get("name") or Path(asset.get("file", "")).stem
    asset.getparent().remove(asset)
    for user in [e for e in root.iter("geom", "site", "material") if e.get(asset.tag) == name]:
        if user.tag == "material":
            del user.attrib[asset.tag]
        else:
            user.getparent().remove(user)
