"""Fails when a benchmark of benchmarks/ is not in the record of a run: a gate that did not run guards nothing."""

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ran = {entry["fullname"].split("[")[0] for entry in json.loads(Path(sys.argv[1]).read_text())["benchmarks"]}
gates = {
    f"{path.relative_to(ROOT)}::{node.name}"
    for path in (ROOT / "benchmarks").rglob("bench_*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}
missing = sorted(gates - ran)
if missing or not gates:
    sys.exit("benchmarks that did not run:\n" + "\n".join(missing or ["all of them"]))
print(f"{len(gates)} gates, all held")
