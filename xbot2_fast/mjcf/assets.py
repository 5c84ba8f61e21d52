"""The asset stages: every mesh and texture that the URDF names is found, converted and put into the output folder."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.mesh_conversion import THICKNESS, Converted
from xbot2_fast.mjcf.mesh_files import MeshError
from xbot2_fast.mjcf.mesh_jobs import Job, run_jobs
from xbot2_fast.mjcf.numeric import read_numbers, write_numbers
from xbot2_fast.mjcf.output_folder import OutputFolder, content_hash
from xbot2_fast.mjcf.packages import FileFinder
from xbot2_fast.mjcf.report import Report
from xbot2_fast.mjcf.rotations import from_euler, matrix
from xbot2_fast.mjcf.validation import Problem
from xbot2_fast.mjcf.xml_input import Element

_NO_VOLUME = 1e-14  # [m3]; MuJoCo refuses 1e-15


def resolve_assets(
    robot: Element, finder: FileFinder, report: Report, *, skip_missing: bool
) -> tuple[dict[Element, Path], list[Problem]]:
    """The file of each mesh and texture element of `<visual>`, `<collision>` and `<material>`, and what is missing.

    File names elsewhere (plugins, transmissions, sensors) are nobody's asset and stay as they are. With `skip_missing`
    what needs a missing file is removed from the tree and noted in the report; it is no problem then.
    """
    files: dict[Element, Path] = {}
    problems: list[Problem] = []
    for element in list(_assets(robot)):
        name, link = element.get("filename").strip(), link_of(element)
        try:
            path = finder.find(name)
            if not path.is_file():
                raise ModelError(f"{name}: no such file {path}")
            files[element] = path
        except ModelError as error:
            if skip_missing:
                report.add("dropped", link, f"<{element.tag}> {error}")
                _drop(element)
            else:
                problems.append((link, f"link {link!r}: {error} (missing_assets='skip' leaves it out)"))
    return files, problems


def store_assets(files: dict[Element, Path], output: OutputFolder, report: Report, *, link_assets: bool) -> None:
    """Convert what MuJoCo cannot read, put all files into the output folder and point the tree at them.

    Raises:
        ModelError: with every file that is no usable mesh or texture, and its link.
    """
    hashes = {path: content_hash(path) for path in dict.fromkeys(files.values())}
    jobs = {
        element: Job(hashes[path], path.suffix.lower(), _role(element), path)
        for element, path in files.items()
        if element.tag == "mesh"
    }
    results = run_jobs(list(dict.fromkeys(jobs.values())))
    problems = []
    for element, path in files.items():
        try:
            if element.tag == "mesh":
                _store_mesh(element, jobs[element], results[jobs[element]], output, report, link_assets)
            else:
                _store_texture(element, path, output, report, link_assets)
        except MeshError as error:
            problems.append(f"link {link_of(element)!r}: {path}: {error}")
    if problems:
        raise ModelError("the URDF names files that cannot be used:", dict.fromkeys(problems))


def link_of(element: Element) -> str:
    """Name of the link that an element belongs to, "" for none."""
    return next((e.get("name", "") for e in element.iterancestors("link")), "")


def _assets(robot: Element) -> Iterator[Element]:
    for link in robot.findall("link"):
        for geometry in (*link.findall("visual"), *link.findall("collision")):
            yield from (mesh for mesh in geometry.iterfind("geometry/mesh[@filename]") if mesh.get("filename").strip())
            yield from geometry.iterfind("material/texture[@filename]")
    yield from robot.iterfind("material/texture[@filename]")


def _role(mesh: Element) -> str:
    return next(mesh.iterancestors("visual", "collision")).tag


def _drop(element: Element) -> None:
    """Remove a texture, or the whole visual or collision of a mesh."""
    if element.tag == "mesh":
        element = next(element.iterancestors("visual", "collision"))
    element.getparent().remove(element)


# ---- meshes


def _store_mesh(
    mesh: Element, job: Job, result: Converted | MeshError, output: OutputFolder, report: Report, link: bool
) -> None:
    if isinstance(result, MeshError):
        raise result
    owner, name = link_of(mesh), job.path.name
    for note in result.notes:
        report.add("converted", owner, f"{job.role} mesh {name}: {note}")
    scale = _scale(mesh)
    if result.degenerate or (result.flat and job.role == "collision"):
        _become_box(mesh, result, scale)
        report.add("repaired", owner, f"{job.role} mesh {name} is flat or empty: its bounding box took its place")
        return
    if result.volume * abs(scale[0] * scale[1] * scale[2]) < _NO_VOLUME:
        mesh.set("inertia", "shell")
        report.add("repaired", owner, f"{job.role} mesh {name} has no volume: it is kept as a shell")
    if not result.files:
        mesh.set("filename", output.add_asset(job.path, link=link, content=job.content))
        return
    stored = [
        output.add_asset(
            job.folder / file,
            link=False,
            content=f"{job.folder.name}/{file}",
            name=_part_name(job.path, number, result),
        )
        for number, file in enumerate(result.files)
    ]
    _become_parts(mesh, stored, result.colors)


def _part_name(path: Path, number: int, result: Converted) -> str:
    return f"{path.stem}_{number}.stl" if len(result.files) > 1 else f"{path.stem}.stl"


def _scale(mesh: Element) -> tuple[float, ...]:
    text = mesh.get("scale", "1 1 1")
    return read_numbers(text, 3) if len(text.split()) != 1 else read_numbers(text, 1) * 3


def _become_parts(mesh: Element, files: list[str], colors: list) -> None:
    """One visual for each colour, in the place of the one that had the mesh; its own material fills the gaps."""
    first = next(mesh.iterancestors("visual", "collision"))
    mesh.set("filename", files[0])
    copies = [first, *(_copy_behind(first, count) for count in range(1, len(files)))]
    for element, file, color in zip(copies, files, colors, strict=True):
        element.find("geometry/mesh").set("filename", file)
        if color is not None and element.tag == "visual":
            for material in element.findall("material"):
                element.remove(material)
            etree.SubElement(etree.SubElement(element, "material"), "color", rgba=write_numbers(color))


def _copy_behind(first: Element, count: int) -> Element:
    copy = etree.fromstring(etree.tostring(first))
    copy.attrib.pop("name", None)
    parent = first.getparent()
    parent.insert(parent.index(first) + count, copy)
    return copy


def _become_box(mesh: Element, result: Converted, scale: tuple[float, ...]) -> None:
    """Put the mesh's bounding box, at least THICKNESS thick, where the mesh was."""
    element = next(mesh.iterancestors("visual", "collision"))
    corners = [[float(b) * s for b, s in zip(bound, scale, strict=True)] for bound in (result.low, result.high)]
    size = [max(abs(high - low), THICKNESS) for low, high in zip(*corners, strict=True)]
    center = [(high + low) / 2 for low, high in zip(*corners, strict=True)]
    origin = element.find("origin")
    if origin is None:
        origin = etree.SubElement(element, "origin")
    rotation = matrix(from_euler(read_numbers(origin.get("rpy", "0 0 0"), 3)))
    start = read_numbers(origin.get("xyz", "0 0 0"), 3)
    moved = [start[i] + sum(rotation[i][k] * center[k] for k in range(3)) for i in range(3)]
    origin.set("xyz", write_numbers(moved))
    geometry = mesh.getparent()
    geometry.remove(mesh)
    etree.SubElement(geometry, "box", size=write_numbers(size))


# ---- textures


def _store_texture(texture: Element, path: Path, output: OutputFolder, report: Report, link: bool) -> None:
    """PNG files serve as they are; other images are written as PNG."""
    if path.suffix.lower() == ".png":
        texture.set("filename", output.add_asset(path, link=link))
        return
    from PIL import Image

    try:
        with Image.open(path) as image, tempfile.TemporaryDirectory() as folder:
            png = Path(folder, f"{path.stem}.png")
            image.convert("RGB").save(png)
            texture.set("filename", output.add_asset(png, link=False))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise MeshError(f"it is not a readable image ({error})") from None
    report.add("converted", link_of(texture), f"texture {path.name} written as PNG")
