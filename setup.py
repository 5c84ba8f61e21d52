"""Thin entry for tools that still call setup.py: hands over to pip, which reads pyproject.toml and meson.build."""

import subprocess
import sys

COMMANDS = {"install": ["install", "."], "develop": ["install", "--no-build-isolation", "-e", "."]}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        sys.exit(f"setup.py: expected one of {', '.join(COMMANDS)}, got {arguments}; use 'pip install .' instead")
    sys.exit(subprocess.call([sys.executable, "-m", "pip", *COMMANDS[arguments[0]]]))
