"""The output folder: which files in it are ours to replace, and nothing else is touched."""

import json
import os
import re
import shutil
from hashlib import sha256
from pathlib import Path

from xbot2_fast.mjcf.errors import ModelError

MANIFEST = ".xbot2_mjcf.json"
ASSETS = "assets"


class OutputFolder:
    """A folder that the generator writes into.

    Files of an earlier run (those its manifest lists, or that lie in the layout of the old simulator) are removed when
    the folder is opened; any other file is left alone, and a clash with one is refused when it is about to be written.
    """

    def __init__(self, path: Path, robot: str):
        self.path = path.absolute()
        self._robot = robot
        self._assets: dict[str, str] = {}  # content hash + scheme -> relative name
        self._written: set[str] = set()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in self._own_files():
                (self.path / name).unlink(missing_ok=True)
            self._save_manifest()
        except OSError as error:
            raise ModelError(f"output_dir {self.path}: cannot be written: {error.strerror}") from None

    def write(self, name: str, text: str) -> Path:
        """Write a text file of ours; returns its path."""
        path = self._claim(name)
        path.write_text(text, encoding="utf-8")
        return path

    def add_asset(self, source: Path, *, link: bool, content: str | None = None, name: str | None = None) -> str:
        """Put a file under assets/, once per content; returns its name relative to the folder.

        Args:
            source: an existing file.
            link: a symbolic link to the source instead of a copy.
            content: what identifies its content, when the caller knows it; default: its hash.
            name: the name that follows its number; default: the source's own.
        """
        content = content or content_hash(source)
        if content not in self._assets:
            stored = f"{ASSETS}/{len(self._assets)}_{name or source.name}"
            path = self._claim(stored)
            path.parent.mkdir(exist_ok=True)
            if link:
                path.symlink_to(source.absolute())
            else:
                shutil.copyfile(source, path)
            self._assets[content] = stored
        return self._assets[content]

    def _claim(self, name: str) -> Path:
        path = self.path / name
        if name not in self._written:
            if os.path.lexists(path):
                raise ModelError(
                    f"output_dir {self.path}: {name} exists and was not written by the generator; "
                    "remove it or choose another output_dir"
                )
            self._written.add(name)
            self._save_manifest()
        return path

    def _own_files(self) -> list[str]:
        try:
            listed = json.loads((self.path / MANIFEST).read_text())["files"]
        except FileNotFoundError:
            return self._old_layout()
        except (ValueError, KeyError, TypeError):
            raise ModelError(f"output_dir {self.path}: {MANIFEST} is damaged; remove the folder's contents") from None
        return [name for name in listed if _is_inside(name)]

    def _old_layout(self) -> list[str]:
        """Files of the simulator whose place we take: it wrote no manifest, but always these."""
        top = [f"{self._robot}.urdf", f"{self._robot}.orig.xml", f"{self._robot}.xml"]
        if not all((self.path / name).is_file() for name in top[:2]):
            return []
        assets = self.path / ASSETS
        numbered = sorted(assets.iterdir()) if assets.is_dir() and not assets.is_symlink() else []
        return top + [f"{ASSETS}/{file.name}" for file in numbered if re.match(r"\d+_", file.name)]

    def _save_manifest(self) -> None:
        text = json.dumps({"files": sorted(self._written)}, indent=1, ensure_ascii=False) + "\n"
        (self.path / MANIFEST).write_text(text, encoding="utf-8")


def _is_inside(name: object) -> bool:
    return isinstance(name, str) and not Path(name).is_absolute() and ".." not in Path(name).parts


def content_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
