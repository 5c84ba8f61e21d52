"""Where a robot starts, that it does not touch the terrain there, and that nothing of its past is left."""

import math
import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from xbot2_fast import SimulatorWrapper
from xbot2_fast.spawning import (
    CLEARANCE,
    Spawner,
    check_spawn_locations,
    detect_spawn_file,
    geom_bounds,
    load_spawn_locations,
)
from xbot2_fast.terrain import (
    HfPerlinTerrainCfg,
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    TerrainGenerator,
    TerrainGeneratorCfg,
)

ROBOT = """
  <body name="base" pos="0 0 1">
    <freejoint/>
    <geom type="box" size="0.3 0.15 0.05" mass="10"/>
    <body name="leg" pos="0.2 0 0"><joint name="knee" axis="0 1 0" damping="1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="1"/>
      <geom type="sphere" pos="0 0 -2" size="0.1" contype="0" conaffinity="0" mass="0"/></body>
    <body name="wheel" pos="-0.2 0 -0.1"><joint name="spin" axis="0 1 0"/>
      <geom type="cylinder" size="0.2 0.05" euler="90 0 0" mass="1"/></body>
  </body>"""
ACTUATORS = """<actuator><position name="knee" joint="knee" kp="100" kv="5"/>
  <intvelocity name="spin" joint="spin" kp="5" kv="1" actrange="-9 9"/></actuator></mujoco>"""


def terrain():
    stairs = {"step_height_range": (0.1, 0.2), "step_width": 0.3, "platform_width": 1.0, "border_width": 0.5}
    return TerrainGenerator(
        TerrainGeneratorCfg(
            size=(4.0, 4.0),
            num_rows=2,
            num_cols=3,
            seed=2,
            curriculum=True,
            spawn_height=0.1,
            sub_terrains={
                "up": MeshPyramidStairsTerrainCfg(**stairs),
                "down": MeshInvertedPyramidStairsTerrainCfg(**stairs),
                "hills": HfPerlinTerrainCfg(amplitude_range=(0.3, 0.6)),
            },
        )
    )


@pytest.fixture(scope="module")
def world():
    generator = terrain()
    xml = generator.to_xml_string().replace("</worldbody>", ROBOT + "</worldbody>").replace("</mujoco>", ACTUATORS)
    return generator, mujoco.MjModel.from_xml_string(xml)


@pytest.fixture
def simulator(world, tmp_path):
    made = []

    def make(**arguments):
        made.append(
            SimulatorWrapper(
                world[1],
                viewer=False,
                target_rtf=math.inf,
                ros=False,
                socket_path=str(tmp_path / "s.sock"),
                **arguments,
            )
        )
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def touching(model, data):
    """Contacts between the robot and the terrain at the positions of `data`."""
    probe = mujoco.MjData(model)
    probe.qpos[:] = data.qpos
    mujoco.mj_forward(model, probe)
    return [c for c in probe.contact if c.dist <= 0 and 0 in model.geom_bodyid[c.geom]]


def lowest_point(model, data):
    probe = mujoco.MjData(model)
    probe.qpos[:] = data.qpos
    mujoco.mj_kinematics(model, probe)
    geoms = [g for g in range(model.ngeom) if model.geom_bodyid[g] and model.geom_contype[g]]
    return min(geom_bounds(model, probe, g)[0][2] for g in geoms)


def test_placed_clear_of_the_terrain_at_every_location(world):
    generator, model = world
    data = mujoco.MjData(model)
    data.qpos[7:] = 0.4, 1.0
    spawner = Spawner(model, generator.spawn_locations)
    for location in generator.spawn_locations:
        spawner.choose(location)
        spawner.place(data)
        np.testing.assert_array_equal(data.qpos[:2], location[:2])
        np.testing.assert_array_equal(data.qpos[3:], [1, 0, 0, 0, 0.4, 1.0])
        assert data.qpos[2] >= location[2]
        assert not touching(model, data)
        lowest = lowest_point(model, data)
        assert lowest > generator.height(*location[:2])
        assert lowest < generator.height(*location[:2]) + 0.9  # clear, but not in the sky


def test_a_location_high_enough_is_kept_as_it_is(world):
    generator, model = world
    data = mujoco.MjData(model)
    spawner = Spawner(model, [[0.0, 0.0, 5.0]])
    spawner.place(data)
    np.testing.assert_array_equal(data.qpos[:3], [0, 0, 5])


def test_stands_the_clearance_above_flat_ground():
    xml = '<mujoco><worldbody><geom type="plane" size="5 5 1"/>' + ROBOT + "</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    Spawner(model, [[0.0, 0.0, 0.0]]).place(data)
    assert lowest_point(model, data) == pytest.approx(CLEARANCE, abs=1e-9)


def test_a_spike_between_the_rays_is_found_too():
    spike = '<geom type="capsule" fromto="0.2035 0.0073 -1 0.2035 0.0073 0.3" size="0.004"/>'
    xml = '<mujoco><worldbody><geom type="plane" size="5 5 1"/>' + spike + ROBOT + "</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    Spawner(model, [[0.0, 0.0, 0.0]]).place(data)
    assert not touching(model, data)
    assert data.qpos[2] < 1.0


@pytest.mark.parametrize("shape", [
    'type="sphere" size="0.2"', 'type="capsule" size="0.1 0.3"', 'type="ellipsoid" size="0.1 0.2 0.3"',
    'type="cylinder" size="0.2 0.1"', 'type="box" size="0.1 0.2 0.3"', 'type="mesh" mesh="wedge"',
])  # fmt: skip
def test_bounds_touch_the_geom(shape):
    """Rays towards each side of the bounds: the nearest hit among many lies on the bound."""
    model = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <asset><mesh name="wedge" vertex="0 0 0  .5 0 0  0 .4 0  0 0 .3"/></asset>
      <worldbody><body pos="0.1 -0.2 0.3" euler="25 40 65"><freejoint/><geom {shape} mass="1"/></body></worldbody>
      </mujoco>""")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    low, high = geom_bounds(model, data, 0)
    grid = np.linspace(0.0, 1.0, 41)
    for axis in range(3):
        direction = np.zeros(3)
        direction[axis] = 1.0
        others = [k for k in range(3) if k != axis]
        start, hits = np.zeros(3), []
        start[axis] = low[axis] - 1.0
        for u in grid:
            for v in grid:
                start[others] = low[others] + (high - low)[others] * (u, v)
                distance = mujoco.mj_ray(model, data, start, direction, None, 1, -1, None)
                if distance >= 0:
                    hits.append(distance)
        assert 1.0 - 1e-9 <= min(hits) <= 1.0 + 0.03


def test_starts_at_a_random_location_and_respawns_with_nothing_of_its_past(simulator, world):
    generator, model = world
    sim = simulator(q_init={"knee": 0.3}, spawn_locations=generator.spawn_locations.tolist())
    seen = set()
    for _ in range(12):
        assert sim.run()
        seen.add(tuple(sim.data.qpos[:2].round(1)))
        sim.data.qvel[:] = np.arange(1.0, 1.0 + model.nv)
        sim.data.act[:] = 3.0
        sim.data.qacc_warmstart[:] = 100.0
        sim.data.xfrc_applied[1] = 5.0
        for _ in range(5):
            sim.run()
        before = sim.data.time
        assert sim.respawn()
        fresh = mujoco.MjData(model)
        sim.pre_step()
        assert sim.data.time == before
        np.testing.assert_array_equal(sim.data.qvel, 0)
        np.testing.assert_array_equal(sim.data.qacc_warmstart, fresh.qacc_warmstart)
        np.testing.assert_array_equal(sim.data.xfrc_applied, 0)
        assert sim.data.joint("knee").qpos == 0.3
        assert sim.data.act[0] == sim.data.joint("spin").qpos[0]
        assert any(np.array_equal(sim.data.qpos[:2], place[:2]) for place in generator.spawn_locations)
        assert not touching(model, sim.data)
        sim.step()
        sim.post_step()
    assert len(seen) > 2


def test_respawn_at_a_position(simulator, world):
    generator, model = world
    sim = simulator(spawn_locations=generator.spawn_locations)
    sim.run()
    sim.respawn((1.0, 1.0, 3.0))
    sim.pre_step()
    np.testing.assert_array_equal(sim.data.qpos[:3], [1, 1, 3])
    with pytest.raises(ValueError, match="position: expected a list of locations"):
        sim.respawn((1.0, math.nan, 3.0))


def test_equal_seeds_choose_equal_locations(world):
    model, places = world[1], np.arange(60.0).reshape(20, 3)

    def chosen(seed):
        spawner = Spawner(model, places, seed=seed)
        return [spawner.choose() or spawner.current[0] for _ in range(10)]

    assert chosen(1) == chosen(1) != chosen(2)


@pytest.mark.parametrize("text", ["spawn_locations: [[1, 2, 3], [4, 5, 6.5]]", "[[1, 2, 3], [4, 5, 6.5]]"])
def test_file_with_and_without_the_key(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    np.testing.assert_array_equal(load_spawn_locations(tmp_path / "s.yaml"), [[1, 2, 3], [4, 5, 6.5]])


@pytest.mark.parametrize("text", ["", "[]", "[1, 2, 3]", "[[1, 2]]", "[[1, 2, x]]", "[[1, 2, .nan]]", "other: []", "3"])
def test_file_without_locations_is_refused(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"s\.yaml: expected a list of locations \[x, y, z\]"):
        load_spawn_locations(tmp_path / "s.yaml")


def test_file_that_is_not_yaml_is_refused(tmp_path):
    (tmp_path / "s.yaml").write_text("[[1, 2")
    with pytest.raises(ValueError, match=r"s\.yaml: not YAML"):
        load_spawn_locations(tmp_path / "s.yaml")


def test_the_first_xml_with_a_file_beside_it_counts(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    for name in "bc":
        (tmp_path / name / "spawn_locations.yaml").write_text("[]")
    paths = [tmp_path / name / "w.xml" for name in "abc"]
    assert detect_spawn_file(paths) == tmp_path / "b" / "spawn_locations.yaml"
    assert detect_spawn_file(paths[:1]) is None


def test_model_without_free_joint_is_refused():
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    with pytest.raises(ValueError, match="spawn_locations: the model has no free joint"):
        Spawner(model, [[0, 0, 0]])


def test_no_locations_are_refused():
    with pytest.raises(ValueError, match="spawn_locations: expected a list of locations"):
        check_spawn_locations([])


@pytest.mark.parametrize("options", [["--detect-spawn-locations"], ["--spawn-file", "spawn_locations.yaml"]])
def test_command_line(tmp_path, options):
    """The demo robot starts at the one location of the file, and runs."""
    generator = terrain()
    generator.save(tmp_path / "world.xml")
    (tmp_path / "spawn_locations.yaml").write_text("[[2.0, -4.0, 9.0]]")
    (tmp_path / "where.py").write_text(
        "from xbot2_fast.plugins import SimulationPlugin\n"
        "class Where(SimulationPlugin):\n"
        "    def pre_step(self, data): print('at', *data.qpos[:2].round(1), flush=True)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "xbot2_fast.simulate", "--headless", "--disable-ros", "--duration", "0.01",
         "--target-rtf", "max", "--xml", str(tmp_path / "world.xml"), "--socket-path", str(tmp_path / "s.sock"),
         "--output-dir", str(tmp_path / "model"), "--plugin", "where:Where", *options],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "at 2.0 -4.0\n" in result.stdout
