"""Prints the requirements of an extra of pyproject.toml."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).resolve().parents[1].joinpath("pyproject.toml").read_text())["project"]
print(" ".join(requirement.replace(" ", "") for requirement in project["optional-dependencies"][sys.argv[1]]))
