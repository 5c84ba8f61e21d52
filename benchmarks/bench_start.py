"""What a user waits for: the import, and the first step of the command."""

import subprocess
import sys
import time

from benchmarks.interleave import report
from benchmarks.quiet import quiet_times

IMPORT_BUDGET = 0.020  # [s] beyond MuJoCo and NumPy
FIRST_STEP = 1.0  # [s] after the command's start

IMPORT = """
import mujoco, numpy
from time import perf_counter
start = perf_counter()
import xbot2_fast
print(perf_counter() - start)
"""


def _import_seconds() -> float:
    return float(subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True).stdout)


def test_import_beyond_mujoco_and_numpy(benchmark):
    """An editable install, as here, looks meanwhile whether something must be built again."""
    times = quiet_times(_import_seconds, 9)
    report(benchmark, _import_seconds, times, rounds=1)
    assert times.median <= 2 * IMPORT_BUDGET


def _first_state(folder) -> float:
    """Seconds from the command's start to its first step, which ends the run."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", "--duration", "0.001", "--target-rtf", "max",
         "--output-dir", str(folder / "model"), "--socket-path", str(folder / "sim.sock")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    assert done.returncode == 0, done.stderr
    return seconds


def test_first_step_of_the_demo_robot(benchmark, tmp_path):
    """The whole process, its end included: the bound is on the first step, so this is the stricter figure.

    An editable install keeps no bytecode, which costs 0.2 s of it.
    """
    _first_state(tmp_path)
    times = quiet_times(lambda: _first_state(tmp_path), 7)
    report(benchmark, lambda: _first_state(tmp_path), times, rounds=1)
    assert times.median <= 2 * FIRST_STEP
