"""A process that converts meshes: one job a line in (JSON), one answer a line out (null or the error's text)."""

import json
import sys
from pathlib import Path

from xbot2_fast.mjcf.mesh_jobs import Job, run_job


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a mesh library prints must not end up among the answers
    for line in sys.stdin:
        content, suffix, role, path = json.loads(line)
        print(json.dumps(run_job(Job(content, suffix, role, Path(path)))), file=answers, flush=True)


if __name__ == "__main__":
    main()
