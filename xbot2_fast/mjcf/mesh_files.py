"""Mesh files in: every format that URDFs use, as parts of one colour each; binary STL out."""

import contextlib
import io
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from xbot2_fast.mjcf.xml_input import parse_xml

LARGEST_FILE = 500_000_000  # bytes
FORMATS = (".stl", ".obj", ".dae", ".glb", ".gltf", ".ply", ".off")
_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])

Color = tuple[float, float, float, float]


class MeshError(ValueError):
    """A file that is no usable mesh; the text says why, without the file's name."""


@dataclass(frozen=True)
class Part:
    """Triangles of one colour.

    Attributes:
        corners: corner points in metres, shape (faces, 3, 3).
        color: red, green, blue, alpha in 0..1; None when the file gives none.
    """

    corners: NDArray[np.float64]
    color: Color | None = None


def read_mesh(path: Path, suffix: str) -> tuple[list[Part], list[str]]:
    """Parts of a mesh file and notes on what was converted.

    Args:
        path: the file.
        suffix: its format, such as ".dae", in lower case.
    Raises:
        MeshError: not a mesh of that format, too large, or without a finite triangle.
    """
    if suffix not in FORMATS:  # the mesh library reads archives too, of which a small one can fill any memory
        raise MeshError(f"it is not of a format that is read: {', '.join(FORMATS)}")
    size = path.stat().st_size
    if size >= LARGEST_FILE:
        raise MeshError(f"it has {size / 1e6:.0f} MB; meshes of {LARGEST_FILE / 1e6:.0f} MB and more are refused")
    notes: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pycollada's use of NumPy is nobody's concern here
            parts = _read_collada(path, notes) if suffix == ".dae" else _read_stl_or_other(path, suffix, notes)
    except MeshError:
        raise
    except Exception as error:  # whatever a parser makes of junk
        raise MeshError(f"it is not a readable {suffix or 'mesh'} file ({type(error).__name__}: {error})") from None
    parts = [Part(finite, part.color) for part in parts if len(finite := _finite(part.corners, notes))]
    if not parts:
        raise MeshError("it has no triangle")
    return parts, notes


def _finite(corners: NDArray, notes: list[str]) -> NDArray:
    good = np.isfinite(corners).all(axis=(1, 2))
    if not good.all():
        notes.append(f"{int((~good).sum())} triangles with infinite or undefined corners left out")
    return corners[good]


def is_binary_stl(path: Path) -> bool:
    """Whether the file has exactly the length that its face count asks for."""
    size = path.stat().st_size
    if size < 84:
        return False
    with path.open("rb") as file:
        file.seek(80)
        return size == 84 + 50 * int(np.frombuffer(file.read(4), "<u4")[0])


def is_single_obj(path: Path) -> bool:
    """Whether an OBJ file holds one object: MuJoCo reads the first one only, and says nothing."""
    text = path.read_bytes()
    return len(re.findall(rb"^[og][ \t]", text, re.MULTILINE)) <= 1


def _read_stl_or_other(path: Path, suffix: str, notes: list[str]) -> list[Part]:
    if suffix == ".stl" and is_binary_stl(path):
        return [Part(np.fromfile(path, _STL_RECORD, offset=84)["corners"].astype(np.float64))]
    import trimesh

    if suffix == ".stl" and b"facet" not in path.read_bytes()[:4096]:
        raise MeshError("it is neither a binary STL of the length it announces nor an ASCII STL")
    if suffix in (".glb", ".gltf"):
        notes.append("its coordinates are taken as z up, as in RViz")
    scene = trimesh.load_scene(path, file_type=suffix.removeprefix("."), process=False)
    parts = []
    for node in sorted(scene.graph.nodes_geometry):
        transform, name = scene.graph[node]
        mesh = scene.geometry[name]
        if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces):
            points = np.asarray(mesh.vertices, np.float64) @ transform[:3, :3].T + transform[:3, 3]
            parts.append(Part(points[np.asarray(mesh.faces)], _trimesh_color(mesh)))
    return parts


def _trimesh_color(mesh) -> Color | None:
    if not mesh.visual.defined:
        return None
    material = getattr(mesh.visual, "material", None)
    color = material.main_color if material is not None else mesh.visual.main_color
    red, green, blue, alpha = (round(float(value) / 255, 4) for value in color)
    return red, green, blue, alpha


# ---- COLLADA


def _read_collada(path: Path, notes: list[str]) -> list[Part]:
    text = path.read_bytes()
    _refuse_entities(text)
    parts = _collada_parts(path, text, notes)
    if not parts:  # a geometry whose material is broken is left out by the reader: once more without materials
        root = parse_xml(path, "mesh")
        for binding in root.findall(".//{*}bind_material"):
            binding.getparent().remove(binding)
        parts = _collada_parts(path, etree.tostring(root), [])
        notes.append("its materials are broken and were left out")
    return parts


class _PrologEnds(Exception):
    pass


def _refuse_entities(text: bytes) -> None:
    """Refuse a document that declares entities: pycollada's parser has no bound on what they expand to."""

    def entity(*_: object) -> None:
        raise MeshError("it declares XML entities, which are not accepted")

    def element(*_: object) -> None:
        raise _PrologEnds

    parser = expat.ParserCreate()
    parser.EntityDeclHandler, parser.StartElementHandler = entity, element
    with contextlib.suppress(_PrologEnds):
        parser.Parse(text, True)


def _collada_parts(path: Path, text: bytes, notes: list[str]) -> list[Part]:
    import collada

    document = collada.Collada(io.BytesIO(text), ignore=[collada.common.DaeError])
    if document.scene is None:
        raise MeshError("its COLLADA document has no scene")
    parts = []
    for geometry in document.scene.objects("geometry"):
        for primitive in geometry.primitives():
            triangles = primitive.triangleset() if hasattr(primitive, "triangleset") else primitive
            if getattr(triangles, "vertex_index", None) is None or np.shape(triangles.vertex_index)[-1:] != (3,):
                _once(notes, f"{type(primitive).__name__} left out: only surfaces are shown")
                continue
            corners = np.asarray(triangles.vertex, np.float64)[np.asarray(triangles.vertex_index)]
            corners = _in_urdf_axes(corners, document.assetInfo, notes)
            parts.append(Part(corners, _collada_color(primitive.material, path, notes)))
    return parts


# From a file's axes to z up, as COLLADA defines them: right, up and inwards are (x, y, z), (-y, x, z), (x, z, -y).
_TO_Z_UP = {
    "X_UP": np.array([[0, -1, 0], [0, 0, -1], [1, 0, 0]], np.float64),
    "Y_UP": np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], np.float64),
}
# MeshLab's exporter (VCGLib) writes Y_UP over whatever coordinates the mesh had, which in a URDF are z up.
_ALWAYS_WRITES_Y_UP = ("vcglib", "meshlab")


def _in_urdf_axes(corners: NDArray, info, notes: list[str]) -> NDArray:
    """Metres and z up, as the file's asset element says what its numbers are; MeshLab's Y_UP means nothing."""
    unit, up = float(info.unitmeter or 1.0), info.upaxis
    if unit != 1.0:
        _once(notes, f"unit of {unit:g} m applied")
    if up in _TO_Z_UP:
        tools = " ".join(str(who.authoring_tool or "") for who in info.contributors).lower()
        if up == "Y_UP" and any(name in tools for name in _ALWAYS_WRITES_Y_UP):
            _once(notes, f"its up-axis {up} was not applied: MeshLab writes it over any coordinates")
        else:
            _once(notes, f"up-axis {up} applied")
            corners = corners @ _TO_Z_UP[up].T
    return corners * unit


def _once(notes: list[str], note: str) -> None:
    if note not in notes:
        notes.append(note)


def _collada_color(material, path: Path, notes: list[str]) -> Color | None:
    """Diffuse colour of a COLLADA material; a texture counts as its mean colour."""
    effect = getattr(material, "effect", None)
    diffuse = getattr(effect, "diffuse", None)
    if diffuse is None:
        return None
    if hasattr(diffuse, "sampler"):
        image = diffuse.sampler.surface.image.path
        color = _mean_color(path.parent / image)
        _once(notes, f"texture {image} " + ("replaced by its mean colour" if color else "left out: it cannot be read"))
        return color
    red, green, blue = (round(min(max(float(value), 0.0), 1.0), 4) for value in diffuse[:3])
    return red, green, blue, 1.0


def _mean_color(image: Path) -> Color | None:
    from PIL import Image

    try:
        with Image.open(image) as opened:
            red, green, blue = np.asarray(opened.convert("RGB"), np.float64).mean(axis=(0, 1)) / 255
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
    return round(float(red), 4), round(float(green), 4), round(float(blue), 4), 1.0


# ---- out


def write_stl(path: Path, corners: NDArray) -> None:
    """Binary STL; equal triangles give equal bytes."""
    faces = np.zeros(len(corners), _STL_RECORD)
    faces["corners"] = corners
    with path.open("wb") as file:
        file.write(b"binary STL".ljust(80, b" "))
        file.write(np.uint32(len(faces)).tobytes())
        file.write(faces.tobytes())


def joined(parts: Iterable[Part]) -> NDArray[np.float64]:
    """All triangles of several parts, shape (faces, 3, 3)."""
    return np.concatenate([part.corners for part in parts])
