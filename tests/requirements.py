"""Which facts of docs/requirements.csv have a passing test.

As a pytest plugin it records the ids that tests carry (`@pytest.mark.requirement("S0-015")`) and whether they passed.
`python -m tests.requirements [PART]` runs the marked tests and lists the lines without a passing one; without output
and with exit code 0 every line of the part is proved.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = "XBOT2_FAST_REQUIREMENTS_RECORD"


def read() -> list[dict[str, str]]:
    with (ROOT / "docs" / "requirements.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# ---- pytest plugin


def pytest_collection_modifyitems(config, items):
    known = {row["id"] for row in read()}
    for item in items:
        for identifier in _ids(item):
            if identifier not in known:
                raise ValueError(f"{item.nodeid}: no requirement {identifier!r} in docs/requirements.csv")
    wanted = os.environ.get(RECORD)
    if wanted:
        part_ids = set(json.loads(Path(wanted).read_text()))
        keep = [item for item in items if part_ids.intersection(_ids(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(keep)])
        items[:] = keep


def pytest_runtest_makereport(item, call):
    ids = _ids(item)
    if ids and call.excinfo is None and call.when == "call":
        item.user_properties.append(("requirements", ids))


def pytest_runtest_logreport(report):
    record = os.environ.get(RECORD)
    if not record or os.environ.get("PYTEST_XDIST_WORKER") or report.when != "teardown":
        return
    with Path(record + ".outcomes").open("a") as file:
        for name, ids in report.user_properties:
            if name == "requirements" and report.passed:
                file.write("\n".join(ids) + "\n")


def _ids(item) -> list[str]:
    return [identifier for mark in item.iter_markers("requirement") for identifier in mark.args]


# ---- command


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.requirements", description=__doc__.splitlines()[0])
    rows = read()
    parts = sorted({row["issue"] for row in rows})
    parser.add_argument("part", nargs="?", choices=parts, help="only the lines of this part")
    part = parser.parse_args(argv).part
    rows = [row for row in rows if part in (None, row["issue"])]
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "ids")
        record.write_text(json.dumps([row["id"] for row in rows]))
        outcomes = Path(str(record) + ".outcomes")
        outcomes.touch()
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"],
            cwd=ROOT,
            env={**os.environ, RECORD: str(record)},
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode not in (0, 5):
            print(run.stdout, run.stderr, file=sys.stderr)
        proved = set(outcomes.read_text().split())
    missing = [row for row in rows if row["id"] not in proved]
    for row in missing:
        print(f"{row['id']}  {row['issue']:<12} {row['requirement']}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
