"""Where the files that a URDF names are: package://, model://, file://, absolute and relative paths."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from xbot2_fast.mjcf.errors import ModelError

_MODEL_PATHS = ("GAZEBO_MODEL_PATH", "GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH")
_DEPTH = 4  # folders below an entry of ROS_PACKAGE_PATH that are looked into


class FileFinder:
    """Turns a file name as it stands in a URDF into a path.

    Packages are looked up, in this order, in the explicit map, in ROS_PACKAGE_PATH, AMENT_PREFIX_PATH, with rospkg if
    it is installed, and at last among the folders above the URDF file (one of the package's name).

    Args:
        packages: package name -> its folder.
        base: folder that relative names start from; None for the current working directory.
        mesh_folder: looked at first for relative names; itself relative to `base`.
        strip_path: relative names lose their folders (MuJoCo's `strippath`).
    """

    def __init__(
        self,
        packages: Mapping[str, str | Path] | None = None,
        base: Path | None = None,
        mesh_folder: str = "",
        strip_path: bool = False,
    ):
        self._explicit = {name: Path(folder).expanduser() for name, folder in (packages or {}).items()}
        self._base = base
        self._mesh_folder, self._strip_path = mesh_folder, strip_path
        self._known: dict[str, Path | None] = {}

    def find(self, name: str) -> Path:
        """Absolute path for a file name of the URDF; the file itself need not exist.

        Raises:
            ModelError: an unknown scheme or package; the message lists the places that were searched.
        """
        scheme, separator, rest = name.partition("://")
        if not separator:
            return self._relative(name.removeprefix("file:"))
        match scheme:
            case "file":
                return self._existing(Path("/" + rest.removeprefix("localhost").lstrip("/")))
            case "package" | "model":
                package, _, path = rest.lstrip("/").partition("/")
                return self._existing(self._package(unquote(package), scheme) / path)
        raise ModelError(f"{name}: unknown scheme {scheme!r}; expected package, model or file, or a plain path")

    def _relative(self, name: str) -> Path:
        base = self._base or Path.cwd()
        if self._strip_path:
            name = Path(name).name
        below = self._existing(base / self._mesh_folder / name)
        return below if below.exists() or not self._mesh_folder else self._existing(base / name)

    @staticmethod
    def _existing(path: Path) -> Path:
        """The path as written, or with its %20 and the like decoded when only that exists."""
        path = Path(os.path.normpath(path.absolute()))
        decoded = Path(unquote(str(path)))
        return decoded if not path.exists() and decoded.exists() else path

    def _package(self, name: str, scheme: str) -> Path:
        if name not in self._known:
            self._known[name] = next(self._candidates(name, scheme), None)
        found = self._known[name]
        if found is None:
            raise ModelError(f"{scheme}://{name}: package {name!r} was not found; searched {self._searched(scheme)}")
        return found

    def _candidates(self, name: str, scheme: str) -> Iterator[Path]:
        if name in self._explicit:
            yield self._explicit[name]
        if scheme == "model":
            yield from (entry / name for entry in _entries(*_MODEL_PATHS) if (entry / name).is_dir())
        for entry in _entries("ROS_PACKAGE_PATH"):
            yield from _packages_below(entry, name, _DEPTH)
        yield from (
            entry / "share" / name for entry in _entries("AMENT_PREFIX_PATH") if (entry / "share" / name).is_dir()
        )
        yield from _rospkg(name)
        above = self._base.absolute() if self._base else Path.cwd()
        yield from (folder for folder in (above, *above.parents) if folder.name == name)

    def _searched(self, scheme: str) -> str:
        paths = [*(_MODEL_PATHS if scheme == "model" else ()), "ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"]
        explicit = ", ".join(sorted(self._explicit)) or "empty"
        variables = ", ".join(f"{path}={os.environ.get(path, '')!r}" for path in paths)
        return f"packages ({explicit}), {variables}, rospkg, and the folders above {self._base or Path.cwd()}"


def _entries(*variables: str) -> list[Path]:
    return [Path(entry) for name in variables for entry in os.environ.get(name, "").split(os.pathsep) if entry]


def _packages_below(folder: Path, name: str, depth: int) -> Iterator[Path]:
    """Folders with a package.xml that are called `name`, by their own name or in the package.xml."""
    if (folder / "package.xml").is_file():
        if folder.name == name or f"<name>{name}</name>" in (folder / "package.xml").read_text(errors="replace"):
            yield folder
        return
    if folder.name == name and folder.is_dir():
        yield folder
    if depth:
        try:
            children = sorted(child for child in folder.iterdir() if child.is_dir())
        except OSError:
            return
        for child in children:
            yield from _packages_below(child, name, depth - 1)


def _rospkg(name: str) -> Iterator[Path]:
    try:
        import rospkg
    except ImportError:
        return
    try:
        yield Path(rospkg.RosPack().get_path(name))
    except rospkg.ResourceNotFound:
        return
