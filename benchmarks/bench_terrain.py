"""How long a terrain takes: generated and saved, merged into a robot, asked for heights."""

import dataclasses
import time

import mujoco
import numpy as np
import pytest

from benchmarks.interleave import compare, report
from benchmarks.quiet import quiet_times
from xbot2_fast.mjcf import MjcfGenerator
from xbot2_fast.robots import demo
from xbot2_fast.terrain import ROUGH_TERRAINS_CFG, TerrainGenerator

ROUGH, LARGE, MERGED = 0.060, 0.5, 1.0  # promised [s]
HEIGHTS = 5.0  # times as fast as rays


def large_configuration():
    """200 tiles of the kinds of ROUGH_TERRAINS_CFG with more than 13,000 geoms."""
    subs = dict(ROUGH_TERRAINS_CFG.sub_terrains)
    subs["boxes"] = dataclasses.replace(subs["boxes"], proportion=0.35)
    return dataclasses.replace(ROUGH_TERRAINS_CFG, num_rows=10, num_cols=20, sub_terrains=subs)


def check_and_report(benchmark, call, promised):
    """The gate is on processor time, all of it in one thread: the wall time of a machine that does nothing else."""
    call()
    times = quiet_times(call, 7, time.process_time)
    report(benchmark, call, times, rounds=1)
    assert times.median <= 2 * promised


def test_rough_terrain(benchmark, tmp_path):
    path = TerrainGenerator(ROUGH_TERRAINS_CFG).save(tmp_path / "world.xml")
    assert mujoco.MjModel.from_xml_path(str(path)).nhfield == 12
    check_and_report(benchmark, lambda: TerrainGenerator(ROUGH_TERRAINS_CFG).save(path), ROUGH)


def test_large_terrain(benchmark, tmp_path):
    cfg = large_configuration()
    path = TerrainGenerator(cfg).save(tmp_path / "world.xml")
    assert mujoco.MjModel.from_xml_path(str(path)).ngeom > 13_000
    check_and_report(benchmark, lambda: TerrainGenerator(cfg).save(path), LARGE)


def test_large_terrain_merged_into_a_robot(benchmark, tmp_path):
    path = TerrainGenerator(large_configuration()).save(tmp_path / "terrain" / "world.xml")
    urdf, fragments = demo()

    def merge():
        generator = MjcfGenerator("demo", urdf.read_bytes(), output_dir=tmp_path / "model", urdf_path=urdf)
        for fragment in fragments:
            generator.merge_xml(fragment)
        generator.merge_xml(path)
        return generator.generate_mjcf_string()

    merge()
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "model" / "demo.xml")).ngeom > 13_000
    check_and_report(benchmark, merge, MERGED)


@pytest.mark.parametrize("points", [2000])
def test_heights_against_rays(benchmark, points):
    """Heights of points all over the rough terrain, against a loop of mj_ray over the compiled model."""
    generator = TerrainGenerator(ROUGH_TERRAINS_CFG)
    model = mujoco.MjModel.from_xml_string(generator.to_xml_string())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    x, y = np.random.default_rng(0).uniform((-16, -24), (16, 24), size=(points, 2)).T

    def rays():
        down, start = np.array([0.0, 0.0, -1.0]), np.array([0.0, 0.0, 9.0])
        heights = np.empty(points)
        for i in range(points):
            start[:2] = x[i], y[i]
            heights[i] = 9.0 - mujoco.mj_ray(model, data, start, down, None, 1, -1, None)
        return heights

    np.testing.assert_allclose(generator.height(x, y), rays(), atol=1e-6)
    comparison = compare(rays, lambda: generator.height(x, y), rounds=10)
    report(benchmark, lambda: generator.height(x, y), comparison)
    assert comparison.speedup >= HEIGHTS / 2
