"""Every ray of the indexed scan has the bits of mj_ray: over random scenes, hard rays and live edits."""

import logging

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xbot2_fast._kernels._scan_index import ScanIndex

from tests import terrain_exactness as exactness
from tests.reference import terrain_scan as reference
from tests.reference import terrain_scenes as scenes
from xbot2_fast.terrain_scan import TerrainScanner


@pytest.mark.requirement("S0-237")
@pytest.mark.parametrize("chunk", range(8))
def test_over_100_000_rays_of_random_scenes_equal_mj_ray(chunk):
    total = 0
    for seed in range(10 * chunk, 10 * chunk + 10):
        rays, differ, _ = exactness.compare(seed, rays=320)
        assert differ == 0, f"seed {seed}"
        total += rays
    assert total > 12_500


def test_where_rounding_decides_mujocos_box_tests_rays_equal_mj_ray():
    missed = set()
    for seed in range(20):
        _, differ, types = exactness.compare_box_tests(seed)
        assert differ == 0, f"seed {seed}"
        missed |= types
    assert missed == {int(mujoco.mjtGeom.mjGEOM_BOX), int(mujoco.mjtGeom.mjGEOM_MESH)}


@settings(max_examples=15, deadline=None)
@given(st.integers(10_000, 2**32), st.booleans())
def test_any_scene_equals_mj_ray_with_and_without_closed_forms(seed, closed_forms):
    assert exactness.compare(seed, rays=60, closed_forms=closed_forms)[1] == 0


def test_scenes_with_sdfs_equal_mj_ray():
    seen = set()
    for seed in range(5):
        _, differ, types = exactness.compare(seed, rays=40, sdf=True)
        assert differ == 0, f"seed {seed}"
        seen |= types
    assert int(mujoco.mjtGeom.mjGEOM_SDF) in seen


def test_the_random_scenes_reach_every_type_and_every_closed_form():
    seen, kinds = set(), set()
    for seed in range(30):
        seen |= exactness.compare(seed, rays=100, compiled=True)[2]
        scanner = TerrainScanner(scenes.random_scene(np.random.default_rng(seed)), "base")
        kinds |= set(scanner._plan.index.kinds.values())
    assert seen == set(range(8))
    assert kinds == {
        "upright box", "upright plane", "primitive", "height field", "upright height field", "gridded mesh"
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_whole_scans_of_random_scenes_equal_a_python_loop(seed):
    rng = np.random.default_rng(seed)
    model = scenes.random_scene(rng)
    data = mujoco.MjData(model)
    shape, spacing = (int(rng.integers(1, 9)), int(rng.integers(1, 9))), tuple(rng.choice([0.05, 0.2, 0.5], 2))
    options = {"shape": shape, "spacing": spacing, "z_offset": 1.0, "max_distance": float(rng.choice([1.5, 5.0]))}
    scanners = [TerrainScanner(model, "base", method=method, **options) for method in ("indexed", "mj_ray")]
    for _ in range(3):
        expected = reference.scan(model, data, "base", shape, spacing, 1.0, options["max_distance"], (0, 1))
        for scanner in scanners:
            scan = scanner.scan(data)
            for got, want in zip((scan.x, scan.y, scan.heights), expected, strict=False):
                np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.int64), want.view(np.int64))
            np.testing.assert_array_equal(scan.geom_ids, expected[3])
        scenes.randomise(rng, model, data)


def test_an_index_that_disagrees_with_mj_ray_is_noticed_and_replaced(caplog):
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom name="box" type="box" size=".5 .5 .5" group="2"/>'
        '<body name="base" pos="0 0 2"><freejoint/><geom size=".1" group="1"/></body></worldbody></mujoco>'
    )
    scanner, data = TerrainScanner(model, "base"), mujoco.MjData(model)
    assert not caplog.records
    model.geom("box").size[2] = 0.25  # the index still has 0.5, as if MuJoCo computed another height
    assert not scanner._agrees_with_mj_ray()
    with caplog.at_level(logging.WARNING):
        scanner._check_index()
    assert [r.getMessage().split(",")[0] for r in caplog.records] == [
        f"terrain scan: closed forms disagree with MuJoCo {mujoco.__version__}"
    ]
    assert set(scanner._plan.index.kinds.values()) == {"primitive"}
    np.testing.assert_array_equal(scanner.scan(data).heights[5:12, 3:8], 0.25)

    caplog.clear()
    scanner._agrees_with_mj_ray = lambda: False
    scanner._check_index()
    assert [r.getMessage() for r in caplog.records] == [
        f"terrain scan: the index disagrees with MuJoCo {mujoco.__version__}, every ray uses mj_ray"
    ]


@pytest.mark.parametrize("n", [1, 10, 2000])
def test_the_memory_of_the_index_is_bounded(n):
    """Slabs that all cover the whole terrain, and one far outlier."""
    slabs = "".join(f'<geom type="box" size="50 50 .1" pos="0 0 {-k}" group="2"/>' for k in range(n))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody>{slabs}<geom type="box" size="1 1 1" pos="1e6 0 0" group="2"/>'
        '<body name="base" pos="0 0 1"><freejoint/><geom size=".1" group="1"/></body></worldbody></mujoco>'
    )
    scanner = TerrainScanner(model, "base")
    # entries of cells + per geom a record, its place in the always-list, 8 cells (more on rims) and 64 entries
    assert scanner._plan.index.memory <= 4 * (65536 + 100) + (64 + 4 + 4 * (2 * 8 + 64)) * (n + 1)
    scan = scanner.scan(mujoco.MjData(model))
    np.testing.assert_allclose(scan.heights, 0.1, atol=1e-12)


def _leaves(n, copies=1):
    """A model of n triangles that all cover most of one square, any number of times, and a robot above them."""
    spec = mujoco.MjSpec.from_string(
        '<mujoco><worldbody><body name="base" pos="0 0 3"><freejoint/><geom size=".1" group="1"/></body></worldbody>'
        "</mujoco>"
    )
    corners = np.array([[-1, -1, 0], [1, -1, 0], [0, 1, 0]]) + np.random.default_rng(0).uniform(-0.1, 0.1, (n, 3, 3))
    spec.add_mesh(
        name="leaves", uservert=corners.ravel(), userface=np.arange(3 * n),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
    )  # fmt: skip
    for k in range(copies):
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="leaves", group=2, pos=(0, 0, -k))
    return spec.compile()


@pytest.mark.parametrize(("n", "kind"), [(20, "gridded mesh"), (3000, "mesh")])
def test_a_mesh_whose_triangles_cover_each_other_is_not_gridded(n, kind):
    model = _leaves(n)
    scanner, data = TerrainScanner(model, "base"), mujoco.MjData(model)
    assert list(scanner._plan.index.kinds.values()) == [kind]
    assert scanner._plan.index.memory < 500_000 + 400 * n
    expected = reference.scan(model, data, "base", (17, 11), (0.1, 0.1), 2.0, 5.0, (0, 1))
    scan = scanner.scan(data)
    np.testing.assert_array_equal(scan.heights.view(np.int64), expected[2].view(np.int64))


def test_meshes_are_gridded_while_they_have_few_triangles_together():
    model = _leaves(20, copies=3)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    masked, groups = np.zeros(model.ngeom, np.uint8), np.ones(6, np.uint8)
    for most, gridded in ((0, 0), (19, 0), (20, 1), (50, 2), (1000, 3)):
        kinds = ScanIndex(model, data, masked, groups, max_triangles=most).kinds
        assert list(kinds.values()).count("gridded mesh") == gridded, most


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(20))
def test_five_million_rays_equal_mj_ray(chunk):
    total = 0
    for seed in range(100_000 + 100 * chunk, 100_000 + 100 * chunk + 100):
        rays, differ, _ = exactness.compare(seed, rays=600, compiled=True)
        assert differ == 0, f"seed {seed}"
        total += rays
    assert total > 250_000
