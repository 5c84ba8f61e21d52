"""One mesh file becomes what MuJoCo can read: itself, other files, or the box that stands for it."""

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xbot2_fast.mjcf.mesh_files import (
    Color,
    Part,
    is_binary_stl,
    is_single_obj,
    joined,
    read_mesh,
    write_stl,
)

VERSION = 3  # of the conversion; results of another version in the cache are not used
MOST_FACES = 200_000  # MuJoCo's limit for an STL
_FLAT = 1e-6  # thickness / size below which a mesh has no volume to speak of
THICKNESS = 1e-3  # [m] of the boxes and plates that stand for flat meshes


@dataclass
class Converted:
    """What became of a mesh file in one role ("visual" or "collision").

    Attributes:
        files: names of the written files beside the result, one a colour; empty when the original serves.
        colors: colour of each file, None where the mesh gives none.
        volume: volume [m3] as MuJoCo's default rule measures it, over all parts the smallest; for the shell decision.
        low, high: bounds of all vertices [m].
        flat: no volume: a collision needs its box, a visual shell inertia.
        degenerate: not even a surface: also a visual needs its box.
        notes: what was done.
    """

    files: list[str] = field(default_factory=list)
    colors: list[Color | None] = field(default_factory=list)
    volume: float = 0.0
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    flat: bool = False
    degenerate: bool = False
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)


def convert_mesh(source: Path, suffix: str, role: str, folder: Path) -> Converted:
    """Convert a mesh file; new files are written into `folder`.

    Raises:
        MeshError: the file is no usable mesh.
    """
    parts, notes = read_mesh(source, suffix)
    native = (suffix == ".obj" and is_single_obj(source)) or (suffix == ".stl" and is_binary_stl(source))
    everything = joined(parts)
    corners = everything.reshape(-1, 3)
    result = Converted(
        low=corners.min(axis=0).tolist(), high=corners.max(axis=0).tolist(), notes=notes, volume=_volume(everything)
    )
    result.flat = _thickness(corners)[0] <= _FLAT
    result.degenerate = not _is_surface(everything)
    if result.degenerate or (result.flat and role == "collision"):
        return result
    if native and not notes and len(everything) <= MOST_FACES:  # a note: triangles were left out
        return result
    parts = [Part(_for_collision(everything, notes))] if role == "collision" else _by_color(parts, notes)
    result.volume = min(_volume(part.corners) for part in parts)
    if not native:
        several = "of several objects " if suffix == ".obj" else "ASCII " if suffix == ".stl" else ""
        notes.insert(0, f"{several}{suffix} written as STL" + (f", {len(parts)} colours" if len(parts) > 1 else ""))
    for number, part in enumerate(parts):
        write_stl(folder / f"{number}.stl", part.corners)
        result.files.append(f"{number}.stl")
        result.colors.append(part.color)
    return result


def _volume(corners: NDArray) -> float:
    """A lower bound of the volume that MuJoCo may find: misoriented faces count against it or not, as is worse."""
    center = corners.mean(axis=(0, 1))
    a, b, c = (corners[:, i] - center for i in range(3))
    pyramids = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    return float(min(np.abs(pyramids).sum(), abs(pyramids.sum())))


def _thickness(points: NDArray) -> tuple[float, float]:
    """Smallest and middle principal extent relative to the largest."""
    centered = points - points.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    along = axes.T @ centered.T
    extents = np.sort(along.max(axis=1) - along.min(axis=1))
    return (0.0, 0.0) if extents[2] == 0 else (float(extents[0] / extents[2]), float(extents[1] / extents[2]))


def _for_collision(corners: NDArray, notes: list[str]) -> NDArray:
    """The triangles, or their convex hull, which collides the same, when they are too many."""
    if len(corners) <= MOST_FACES:
        return corners
    from scipy.spatial import ConvexHull

    hull = ConvexHull(corners.reshape(-1, 3))
    triangles = hull.points[hull.simplices]
    inward = np.einsum("ij,ij->i", np.cross(*np.diff(triangles, axis=1).transpose(1, 0, 2)), hull.equations[:, :3]) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    notes.append(f"{len(corners)} faces replaced by the {len(triangles)} of their convex hull")
    return triangles


def _by_color(parts: list[Part], notes: list[str]) -> list[Part]:
    """One part a colour, in order of first use, none above MuJoCo's limit of faces; too small ones join the first."""
    colors = dict.fromkeys(part.color for part in parts)
    grouped = [Part(joined(part for part in parts if part.color == color), color) for color in colors]
    usable = [part for part in grouped if _is_surface(part.corners)]
    if not usable:  # each colour is a sliver, together they are a surface
        usable = [Part(joined(grouped), grouped[0].color)]
    elif len(usable) < len(grouped):
        notes.append(f"{len(grouped) - len(usable)} of {len(grouped)} colours left out: their surface is too small")
    return [Part(_simplified(part.corners, notes), part.color) for part in usable]


def _is_surface(corners: NDArray) -> bool:
    """Whether MuJoCo sees a surface: four different corners at least, not all on one line."""
    thickness, width = _thickness(corners.reshape(-1, 3))
    if thickness > _FLAT:
        return True
    return width > _FLAT and len(_indexed(corners.astype(np.float32))[0]) >= 4


def _indexed(corners: NDArray) -> tuple[NDArray, NDArray]:
    """Different points of triangles, and the triangles as their indices."""
    points = corners.reshape(-1, 3)
    order = np.lexsort(points.T)  # np.unique over rows compares tuples, ten times as slow
    sorted_points = points[order]
    new = np.ones(len(points), bool)
    new[1:] = (sorted_points[1:] != sorted_points[:-1]).any(axis=1)
    index = np.empty(len(points), np.int64)
    index[order] = np.cumsum(new) - 1
    return sorted_points[new], index.reshape(-1, 3)


def _simplified(corners: NDArray, notes: list[str]) -> NDArray:
    if len(corners) <= MOST_FACES:
        return corners
    import fast_simplification

    points, faces = _indexed(corners)
    for aggression in (5, 8, 10):
        fewer_points, fewer = fast_simplification.simplify(
            points, faces.astype(np.int32), target_count=MOST_FACES - 1000, agg=aggression
        )
        if len(fewer) <= MOST_FACES:
            break
    if len(fewer) > MOST_FACES:  # unconnected triangles cannot collapse: keep the largest ones
        size = np.linalg.norm(np.cross(*np.diff(fewer_points[fewer], axis=1).transpose(1, 0, 2)), axis=1)
        fewer = fewer[np.sort(np.argsort(-size, kind="stable")[:MOST_FACES])]
    notes.append(f"{len(corners)} faces simplified to {len(fewer)}")
    return np.asarray(fewer_points, np.float64)[fewer]


def cache_folder() -> Path:
    """Where converted meshes are kept between runs: `$XDG_CACHE_HOME/xbot2_fast/meshes`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "xbot2_fast" / "meshes"
