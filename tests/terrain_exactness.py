"""How many rays of a random scene differ from mj_ray, by bits of the distance or by geom.

`python -m tests.terrain_exactness FIRST LAST [RAYS]` prints it for a range of seeds, against compiled calls of mj_ray.
"""

import sys

import mujoco
import numpy as np
from xbot2_fast._kernels._scan import cast

from tests.reference import terrain_scan as reference
from tests.reference import terrain_scenes as scenes
from xbot2_fast.terrain_scan import TerrainScanner

GROUPS = np.array([0, 0, 1, 1, 1, 1], np.uint8)


def _cast(scanner, data, origins, everywhere):
    distances, ids = np.empty(len(origins)), np.empty(len(origins), np.int32)
    cast(scanner._workers[0], data.qpos, data.mocap_pos, data.mocap_quat, origins, everywhere, distances, ids)
    return distances, ids


def _differ(got, expected):
    return int(((got[0].view(np.int64) != expected[0].view(np.int64)) | (got[1] != expected[1])).sum())


def compare(seed, rays=300, sdf=False, compiled=False, closed_forms=True):
    """(rays cast, rays that differ, ids hit) over three states of the scene, with a second pass from what was hit."""
    rng = np.random.default_rng(seed)
    model = scenes.random_scene(rng, sdf)
    scanner = TerrainScanner(model, "base")
    scanner._build(closed_forms, through_mj_ray=False)  # whatever its self-check found
    data = mujoco.MjData(model)
    total = differ = 0
    seen = set()
    for state in range(3):
        if state:
            scenes.randomise(rng, model, data)
        mujoco.mj_kinematics(model, data)
        origins = scenes.random_origins(rng, model, data, rays)
        for _ in range(2):
            if len(origins) == 0:
                break
            got = _cast(scanner, data, origins, False)
            expected = _cast(scanner, data, origins, True) if compiled else reference.cast(model, data, origins, GROUPS)
            differ += _differ(got, expected)
            total += len(origins)
            seen |= {int(model.geom_type[i]) for i in np.unique(expected[1]) if i >= 0}
            origins = scenes.second_pass(rng, origins, expected[0])
    return total, differ, seen


def compare_box_tests(seed, rays=300):
    """(rays cast, rays that differ, types of geom that mj_ray missed) where rounding decides MuJoCo's box tests."""
    rng = np.random.default_rng(seed)
    model = scenes.box_test_scene(rng)
    scanner = TerrainScanner(model, "base")
    scanner._build(closed_forms=True, through_mj_ray=False)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    origins, aimed = scenes.box_test_origins(rng, model, data, rays)
    expected = _cast(scanner, data, origins, True)
    missed = set(model.geom_type[aimed[expected[1] < 0]].tolist())
    return rays, _differ(_cast(scanner, data, origins, False), expected), missed


def main(first, last, rays=300):
    total = differ = 0
    for seed in range(first, last):
        cast_now, differ_now, _ = compare(seed, rays, compiled=True)
        total, differ = total + cast_now, differ + differ_now
    print(f"{total} rays, {differ} differ from mj_ray")
    return differ


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
