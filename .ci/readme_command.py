"""Prints a command of the README: the code block behind the line `<!-- command: NAME -->`."""

import re
import sys
from pathlib import Path

name = sys.argv[1]
readme = Path(__file__).resolve().parents[1].joinpath("README.md").read_text()
found = re.search(rf"<!-- command: {re.escape(name)} -->\n```sh\n(.*?)```", readme, re.DOTALL)
if not found:
    sys.exit(f"README.md has no command named {name!r}")
print(found[1].strip())
