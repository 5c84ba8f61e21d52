"""The package as a whole: cheap to import, honest when it is not built, one version."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xbot2_fast

pytestmark = pytest.mark.core

PACKAGE = Path(xbot2_fast.__file__).parent


def python(code: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)


def test_every_public_name_resolves():
    for name in xbot2_fast.__all__:
        assert getattr(xbot2_fast, name)
    with pytest.raises(AttributeError, match="nonsense"):
        xbot2_fast.nonsense  # noqa: B018


@pytest.mark.requirement("S0-001")
def test_the_two_main_components_are_public():
    assert xbot2_fast.MjcfGenerator.__name__ == "MjcfGenerator"
    assert xbot2_fast.MjXbot2Bridge.__name__ == "MjXbot2Bridge"


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("xbot2_fast", {"mujoco", "numpy", "numba", "rclpy", "mujoco.viewer", "ray", "lxml"}),
        ("xbot2_fast.mjctl", {"mujoco", "numpy"}),
        ("xbot2_fast.bridge.client", {"mujoco"}),
        ("xbot2_fast.simulator_wrapper", {"numba", "rclpy", "mujoco.viewer", "ray", "lxml", "trimesh"}),
    ],
)
def test_imports_stay_cheap(module, unwanted):
    done = python(f"import sys, {module}; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    assert unwanted.isdisjoint(done.stdout.split())


def test_an_unbuilt_tree_explains_what_to_run(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "xbot2_fast", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    # -S and no user site: nothing but this tree and the standard library, as in a clone that was not built.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import xbot2_fast"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install --no-build-isolation -e ." in done.stderr
    assert "clone's root" in done.stderr


def test_the_version_is_the_one_of_the_build():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", xbot2_fast.__version__)


def test_setup_py_hands_over_and_refuses_the_rest():
    setup = Path(__file__).resolve().parents[1] / "setup.py"
    if not setup.exists():
        pytest.skip("tests run outside the source tree")
    done = subprocess.run([sys.executable, str(setup), "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install" in done.stderr
