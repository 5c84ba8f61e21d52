"""Each rule of exactness is needed, and the random scenes see it: with a rule dropped, rays differ from mj_ray."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "xbot2_fast" / "_kernels"

# rule -> (file, what stands before the expression, the expression, what it is without the rule)
RULES = {
    "transparent geoms": ("_scan_index.pxd", "if ", "g.rgba[4 * geom + 3] == 0", "False"),
    "a material decides": (
        "_scan_index.pxd", "elif ", "g.mat_rgba[4 * material + 3] == 0", "g.rgba[4 * geom + 3] == 0",
    ),
    "groups are clamped": (
        "_scan_index.pxd", "", "0 if group < 0 else 5 if group > 5 else group",
        "2 if group < 0 or group > 5 else group",
    ),
    "welded children are static": (
        "_scan_index.pyx", "", "model.body_weldid[model.geom_bodyid] == 0", "model.geom_bodyid == 0",
    ),
    "what moves is not baked": (
        "_scan_index.pyx", "", "model.body_weldid[model.geom_bodyid] == 0", "model.geom_bodyid >= 0",
    ),
    "lowest id of equals": ("_scan.pyx", "or ", "geom < best.geom", "geom > best.geom"),
    "planes end": ("_scan_index.pyx", "r.hx = ", "size[0] if size[0] > 0 else INFINITY", "INFINITY"),
    "planes have a front": ("_scan.pyx", "distance = ", "z - r.cz", "fabs(z - r.cz)"),
    "tilted fields": (
        "_scan_index.pyx", "b.h[i] = ", "_row(mat, i, size[0], size[1], 0.5 * (size[2] + size[3]))",
        "size[i] if i < 2 else size[2]",
    ),
    "rectangles are padded": ("_scan_index.pyx", "r.hx, r.hy, r.hz = ", "b.h[0] + b.pad", "b.h[0]"),
    "quadrics far away": ("_scan_index.pyx", "grow = ", "sqrt(1.0 + QUADRIC * far * far)", "1.0"),
    "origins far away": ("_scan.pyx", "return ", "not fabs(z - p.index.middle) <= FAR", "False"),
    "thin boxes": ("_scan_index.pyx", "upright and ", "size[2] * size[2] > 1e-13 * far * far", "True"),
    "thin fields": (
        "_scan_index.pyx", "f.thick = ", "fmin(0.5 * size[2], 0.5 * size[3]) ** 2 > 1e-13 * far * far", "True",
    ),
    "fields stand out of their box": ("_scan_index.pyx", "r.kind = HFIELD\n        r.top = ", "INFINITY", "r.top"),
    "lines of a field": (
        "_scan_hit.pxd", "if not (", "1e-6 < fu < 1 - 1e-6 and 1e-6 < fv < 1 - 1e-6", "0 < fu and 0 < fv < 1 - 1e-6",
    ),
    "floor of a field": ("_scan_hit.pxd", "return ", "x[0] > rim and p[2] + x[0] * f.lz > rim", "x[0] > rim"),
    "slabs of a triangle": ("_scan_hit.pxd", "sure[0] = ", "x[0] >= 0 and _slabs_open(m, v, p)", "True"),
    "vertices are rounded": (
        "_scan_index.pyx", "m.rounding = FLOAT_ROUNDING * ",
        "float(np.abs(model.mesh_vert[first:first + <int>model.mesh_vertnum[id]]).max())", "0.0",
    ),
    "box of a mesh": ("_scan.pyx", "return distance if ", "boxed", "True"),
}  # fmt: skip

# In the built copy each expression is chosen at run time, so that one build serves all rules.
SWITCH = '''
cdef extern from *:
    """
    #ifndef RULE_OFF
    #define RULE_OFF
    #include <stdlib.h>
    static int rule_off(void) {
        static int rule = -2;
        if (rule == -2) rule = atoi(getenv("SCAN_RULE_OFF"));
        return rule;
    }
    #endif
    """
    int rule_off() noexcept nogil

'''

RUN = """
import importlib.util, sys
folder, suffix, seeds = sys.argv[1:]
for name in ("_scan_index", "_scan"):
    full = "xbot2_fast._kernels." + name
    spec = importlib.util.spec_from_file_location(full, folder + "/" + name + suffix)
    sys.modules[full] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
from tests.terrain_exactness import compare, compare_box_tests
for seed in range(int(seeds)):
    if compare(seed, rays=600, compiled=True)[1] or compare_box_tests(seed, rays=600)[1]:
        print("differs in scene", seed)
        break
"""


def _with_switches(file: str, text: str) -> str:
    """The text of a kernel with a choice in place of each expression of a rule."""
    choices: dict[str, str] = {}
    for number, (where, before, there, without) in enumerate(RULES.values()):
        if where == file:
            place = before + there
            choices[place] = f"({without}) if rule_off() == {number} else ({choices.get(place, there)})"
    for number, (place, choice) in enumerate(choices.items()):
        before = next(r[1] for r in RULES.values() if r[0] == file and r[1] + r[2] == place)
        assert text.count(place) == 1, f"{file}: {place}"
        text = text.replace(place, f"{before}@{number}@")
        choices[place] = choice
    for number, choice in enumerate(choices.values()):
        text = text.replace(f"@{number}@", f"({choice})")
    return text


def _declare_switch(text: str) -> str:
    end = text.index('"""', text.index('"""') + 3) + 4
    return text[:end] + SWITCH + text[end:]


def _compile(folder: Path, name: str) -> None:
    """Cython and the C compiler on one kernel, as meson.build has it but quicker."""
    source, c = folder / "xbot2_fast" / "_kernels" / f"{name}.pyx", folder / f"{name}.c"
    directives = ("boundscheck=False", "wraparound=False", "cdivision=True", "freethreading_compatible=True")
    flags = [argument for directive in directives for argument in ("-X", directive)]
    subprocess.run([sys.executable, "-m", "cython", "-3", *flags, source, "-o", c], cwd=folder, check=True)
    compiler = [*shlex.split(os.environ.get("CC", "cc")), "-O1", "-w", "-fPIC", "-ffp-contract=off"]
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([*compiler, include, "-c", c.name, "-o", f"{name}.o"], cwd=folder, check=True)
    module = name + sysconfig.get_config_var("EXT_SUFFIX")
    subprocess.run([*compiler, "-shared", f"{name}.o", "-o", module], cwd=folder, check=True)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A folder with both kernels, built so that SCAN_RULE_OFF=n drops a rule of them."""
    folder = tmp_path_factory.mktemp("rules")
    copy = folder / "xbot2_fast" / "_kernels"
    shutil.copytree(KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "xbot2_fast" / "__init__.py", folder / "xbot2_fast")
    for file in {rule[0] for rule in RULES.values()}:
        text = _with_switches(file, (copy / file).read_text())
        # A .pyx sees what its .pxd declares.
        (copy / file).write_text(text if file == "_scan_index.pyx" else _declare_switch(text))
    for name in ("_scan_index", "_scan"):
        _compile(folder, name)
    return folder


def _differs(folder: Path, rule: int, seeds: int) -> bool:
    command = [sys.executable, "-c", RUN, str(folder), sysconfig.get_config_var("EXT_SUFFIX"), str(seeds)]
    environment = {**os.environ, "SCAN_RULE_OFF": str(rule)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    print(run.stdout)
    return "differs" in run.stdout


def test_every_rule_stands_where_the_table_says():
    for file in {rule[0] for rule in RULES.values()}:
        assert "rule_off()" in _with_switches(file, (KERNELS / file).read_text())


@pytest.mark.fuzz
@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_rays_differ_from_mj_ray(rule, kernels):
    assert _differs(kernels, list(RULES).index(rule), seeds=400)


@pytest.mark.fuzz
def test_with_all_rules_none_differs(kernels):
    assert not _differs(kernels, -1, seeds=100)
