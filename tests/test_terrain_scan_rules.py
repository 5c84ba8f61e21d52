"""Each rule of exactness is needed, and the random scenes see it: with a rule dropped, rays differ from mj_ray."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "xbot2_fast" / "_kernels"

# rule -> (file, what stands there, what stands there without the rule)
RULES = {
    "transparent geoms": ("_scan_index.pxd", "if g.rgba[4 * geom + 3] == 0:", "if False:"),
    "a material decides": (
        "_scan_index.pxd", "elif g.mat_rgba[4 * material + 3] == 0:", "elif g.rgba[4 * geom + 3] == 0:",
    ),
    "groups are clamped": (
        "_scan_index.pxd", "0 if group < 0 else 5 if group > 5 else group", "2 if group < 0 or group > 5 else group",
    ),
    "welded children are static": (
        "_scan_index.pyx", "model.body_weldid[model.geom_bodyid] == 0", "model.geom_bodyid == 0",
    ),
    "what moves is not baked": (
        "_scan_index.pyx", "model.body_weldid[model.geom_bodyid] == 0", "model.geom_bodyid >= 0",
    ),
    "lowest id of equals": ("_scan.pyx", "or geom < best.geom", "or geom > best.geom"),
    "planes end": ("_scan_index.pyx", "r.hx = size[0] if size[0] > 0 else INFINITY", "r.hx = INFINITY"),
    "planes have a front": ("_scan.pyx", "distance = origin[2] - r.cz", "distance = fabs(origin[2] - r.cz)"),
    "tilted fields": (
        "_scan_index.pyx", "_row(mat, i, size[0], size[1], 0.5 * (size[2] + size[3]))", "size[i] if i < 2 else size[2]",
    ),
    "rectangles are padded": ("_scan_index.pyx", "b.h[0] + b.pad, b.h[1] + b.pad", "b.h[0], b.h[1]"),
    "quadrics far away": ("_scan_index.pyx", "grow = sqrt(1.0 + QUADRIC * far * far)", "grow = 1.0"),
    "fields stand out of their box": ("_scan_index.pyx", "r.top = INFINITY        # data", "r.top += 0.0  # data"),
    "lines of a field": ("_scan_hit.pxd", "if not (1e-6 < fu < 1 - 1e-6 and 1e-6", "if not (0 < fu and 0"),
    "floor of a field": ("_scan_hit.pxd", "return x[0] > rim and p[2] + x[0] * f.lz > rim", "return x[0] > rim"),
    "slabs of a triangle": ("_scan_hit.pxd", "sure[0] = x[0] >= 0 and _slabs_open(m, v, p)", "sure[0] = True"),
    "box of a mesh": ("_scan.pyx", "return x if boxed or", "return x if True or"),
}  # fmt: skip

RUN = """
import importlib.util, sys
for name in ("_scan_index", "_scan"):
    full = "xbot2_fast._kernels." + name
    spec = importlib.util.spec_from_file_location(full, sys.argv[1] + "/" + name + sys.argv[2])
    sys.modules[full] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
from tests.terrain_exactness import compare
seed = 0
while seed < int(sys.argv[3]):
    if compare(seed, rays=600, compiled=True)[1]:
        print("differs")
        break
    seed += 1
"""


def _compile(folder: Path, name: str) -> None:
    """Cython and the C compiler on one kernel, as meson.build has it but quicker."""
    source, c = folder / "xbot2_fast" / "_kernels" / f"{name}.pyx", folder / f"{name}.c"
    directives = ("boundscheck=False", "wraparound=False", "cdivision=True", "freethreading_compatible=True")
    flags = [argument for directive in directives for argument in ("-X", directive)]
    subprocess.run([sys.executable, "-m", "cython", "-3", *flags, source, "-o", c], cwd=folder, check=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    include = sysconfig.get_path("include")
    command = [
        "cc",
        "-O1",
        "-shared",
        "-fPIC",
        "-ffp-contract=off",
        f"-I{include}",
        c,
        "-o",
        folder / f"{name}{suffix}",
    ]
    subprocess.run(command, check=True)


def _differs(folder: Path, seeds: int) -> bool:
    for name in ("_scan_index", "_scan"):
        _compile(folder, name)
    arguments = [str(folder), sysconfig.get_config_var("EXT_SUFFIX"), str(seeds)]
    run = subprocess.run([sys.executable, "-c", RUN, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return "differs" in run.stdout


def _copy(tmp_path: Path) -> Path:
    kernels = tmp_path / "xbot2_fast" / "_kernels"
    shutil.copytree(KERNELS, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "xbot2_fast" / "__init__.py", tmp_path / "xbot2_fast")
    return kernels


def test_every_rule_stands_where_the_table_says():
    for name, (file, there, _) in RULES.items():
        assert (KERNELS / file).read_text().count(there) == 1, name


@pytest.mark.fuzz
@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_rays_differ_from_mj_ray(rule, tmp_path):
    file, there, without = RULES[rule]
    path = _copy(tmp_path) / file
    path.write_text(path.read_text().replace(there, without))
    assert _differs(tmp_path, seeds=400)


@pytest.mark.fuzz
def test_with_all_rules_none_differs(tmp_path):
    _copy(tmp_path)
    assert not _differs(tmp_path, seeds=100)
