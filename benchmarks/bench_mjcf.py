"""MjcfGenerator: conversion of the demo robot and of Centauro, and merges of large worlds.

Times are processor time of this process, which other work on the machine hardly touches; each gate is twice the
promise, on a quiet machine.
"""

from time import process_time

import mujoco
import pytest
from lxml import etree

from benchmarks.interleave import compare, report
from benchmarks.quiet import quiet_times
from tests.centauro import centauro_generator
from tests.reference import merge as reference
from xbot2_fast.mjcf import MjcfGenerator
from xbot2_fast.mjcf.merge import Merger
from xbot2_fast.robots import demo


def world(count: int) -> str:
    geoms = "".join(f'<geom name="g{i}" type="box" size=".1 .1 .1" pos="{i * 0.3} 0 0"/>' for i in range(count))
    return f"<mujoco><worldbody>{geoms}</worldbody></mujoco>"


def demo_generator(folder) -> MjcfGenerator:
    urdf, fragments = demo()
    generator = MjcfGenerator("demo", urdf.read_bytes(), folder, urdf_path=urdf)
    for fragment in fragments:
        generator.merge_xml(fragment)
    return generator


@pytest.mark.parametrize(("count", "promise"), [(10_000, 0.3), (100_000, 3.0)])
def test_merge_of_a_large_world(benchmark, tmp_path, count, promise):
    text = world(count)
    generator = demo_generator(tmp_path)
    before = len(generator._tree.find("worldbody"))
    new = quiet_times(lambda: generator.merge_xml(text), 1, process_time)
    again = quiet_times(lambda: generator.merge_xml(text), 1, process_time)  # every name is known now
    assert len(generator._tree.find("worldbody")) == before + count
    benchmark.extra_info.update(new=new.median, again=again.median, slowness=again.slowness, promise=promise)
    print(f"\n{count} geoms, processor time: new {new}, again {again}")
    assert new.median <= 2 * promise
    assert again.median <= 2 * promise
    benchmark.pedantic(lambda: generator.merge_xml(text), rounds=1)


def test_merge_beats_looking_at_every_sibling(benchmark):
    """2,000 named geoms into 2,000 others, against the obvious quadratic merge: at least 20x (40x promised)."""
    text = world(2000).encode()

    def with_index():
        tree = etree.fromstring(text)
        Merger(tree).merge(etree.fromstring(text))
        return tree

    def obvious():
        tree = etree.fromstring(text)
        reference.merge(tree, etree.fromstring(text))
        return tree

    assert etree.tostring(with_index()) == etree.tostring(obvious())
    comparison = compare(obvious, with_index, rounds=5)
    report(benchmark, with_index, comparison)
    assert comparison.speedup >= 20


@pytest.mark.parametrize(("robot", "promise"), [("demo", 0.05), ("centauro", 0.4)])
def test_conversion(benchmark, tmp_path, robot, promise):
    """From the URDF's text to the final string; Centauro's meshes were read before, as in every run but the first."""

    def convert() -> str:
        if robot == "demo":
            return demo_generator(tmp_path).generate_mjcf_string()
        generator = centauro_generator(tmp_path)
        generator._floating_base = False  # setting it down compiles the model, which is MuJoCo's time
        return generator.generate_mjcf_string()

    assert mujoco.MjModel.from_xml_string(convert()).nu == {"demo": 12, "centauro": 39}[robot]
    times = quiet_times(convert, 5, process_time)
    report(benchmark, convert, times, rounds=1)
    assert times.median <= 2 * promise
