"""The asset stage: every mesh and texture that the URDF names is put into the output folder under its own name."""

from collections.abc import Iterator

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.output_folder import OutputFolder
from xbot2_fast.mjcf.packages import FileFinder
from xbot2_fast.mjcf.report import Report
from xbot2_fast.mjcf.xml_input import Element


def resolve_assets(
    robot: Element, finder: FileFinder, output: OutputFolder, report: Report, *, link_assets: bool, skip_missing: bool
) -> None:
    """Store the files of all `<visual>`, `<collision>` and `<material>` and point the tree at the stored ones.

    File names elsewhere (plugins, transmissions, sensors) are nobody's asset and stay as they are.

    Raises:
        ModelError: with every missing file and unknown package and the links that need them, unless `skip_missing`.
    """
    problems = []
    for element in list(_assets(robot)):
        name = element.get("filename").strip()
        try:
            path = finder.find(name)
            if not path.is_file():
                raise ModelError(f"{name}: no such file {path}")
        except ModelError as error:
            problems.append(f"link {_link_of(element)!r}: {error}")
            if skip_missing:
                report.add("dropped", _link_of(element), f"<{element.tag}> {error}")
                _drop(element)
            continue
        element.set("filename", output.add_asset(path, link=link_assets))
    if problems and not skip_missing:
        raise ModelError(
            "the URDF names files that cannot be found (missing_assets='skip' leaves them out):",
            dict.fromkeys(problems),
        )


def _assets(robot: Element) -> Iterator[Element]:
    for link in robot.findall("link"):
        for geometry in (*link.findall("visual"), *link.findall("collision")):
            yield from geometry.iterfind("geometry/mesh[@filename]")
            yield from geometry.iterfind("material/texture[@filename]")
    yield from robot.iterfind("material/texture[@filename]")


def _link_of(element: Element) -> str:
    return next((e.get("name", "") for e in element.iterancestors("link")), "")


def _drop(element: Element) -> None:
    """Remove a texture, or the whole visual or collision of a mesh."""
    if element.tag == "mesh":
        element = next(element.iterancestors("visual", "collision"))
    element.getparent().remove(element)
