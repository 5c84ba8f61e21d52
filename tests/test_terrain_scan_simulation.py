"""The terrain scan in the running simulator: as a stage, by the command line, and in the viewer's markers."""

import math
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from tests.reference import terrain_scan as reference
from xbot2_fast.simulate import build_parser
from xbot2_fast.simulator_wrapper import SimulatorWrapper
from xbot2_fast.terrain_scan import TerrainScanner

WORLD = """<mujoco><option timestep="0.002"/><worldbody>
  <geom type="plane" size="9 9 1" group="2"/><geom type="box" size=".3 .3 .1" group="2" euler="0 0 20"/>
  <body name="base" pos="0 0 1"><freejoint/><geom type="box" size=".2 .1 .1" group="1"/></body>
  <body name="ball" pos=".4 0 2"><freejoint/><geom size=".1" group="2"/></body>
</worldbody></mujoco>"""


@pytest.fixture
def simulator(tmp_path):
    made = []

    def make(world=WORLD, scanner_options=None, **arguments):
        model = mujoco.MjModel.from_xml_string(world)
        scanner = TerrainScanner(model, "base", **(scanner_options or {}))
        made.append(
            SimulatorWrapper(
                model,
                viewer=False,
                target_rtf=math.inf,
                socket_path=str(tmp_path / f"{len(made)}.sock"),
                terrain_scanner=scanner,
                **arguments,
            )
        )  # fmt: skip
        return made[-1]

    yield make
    for sim in made:
        sim.close()


def _expected(sim):
    return reference.scan(sim.model, sim.data, "base", (17, 11), (0.1, 0.1), 2.0, 5.0, (0, 1))


@pytest.mark.requirement("S0-200", "S0-202", "S0-205", "S0-274")
def test_every_tenth_step_scans_the_state_behind_it(simulator):
    sim = simulator(terrain_scan_decimation=10)
    for _ in range(9):
        sim.run()
        assert sim.terrain_scan is None
    sim.run()
    first = sim.terrain_scan
    np.testing.assert_array_equal(first.heights, _expected(sim)[2])
    np.testing.assert_array_equal(first.geom_ids, _expected(sim)[3])
    assert first.time == sim.data.time
    np.testing.assert_array_equal(first.center, sim.data.qpos[:3])
    for _ in range(9):
        sim.run()
        assert sim.terrain_scan is first
    sim.run()
    assert sim.terrain_scan.time == sim.data.time > first.time
    np.testing.assert_array_equal(sim.terrain_scan.heights, _expected(sim)[2])


@pytest.mark.requirement("S0-206", "S0-207", "S0-208", "S0-209")
def test_a_scanned_simulation_takes_the_same_course(simulator):
    def course(decimation):
        sim = simulator(terrain_scan_decimation=decimation)
        for _ in range(200):
            sim.run()
        return np.concatenate([sim.data.qpos, sim.data.qvel, [sim.data.time]])

    np.testing.assert_array_equal(course(1), course(1000))


def test_the_default_is_a_scan_every_hundred_steps(simulator):
    sim = simulator()
    for _ in range(99):
        sim.run()
    assert sim.terrain_scan is None
    sim.run()
    assert sim.terrain_scan is not None


def test_a_running_simulator_goes_on_with_a_rebuilt_index(simulator):
    sim = simulator(terrain_scan_decimation=1)
    sim.run()
    assert 1 in sim.terrain_scan.geom_ids
    sim.model.geom_pos[1] = 3.0, 0.0, 0.0
    sim.model.geom_sameframe[1] = 0
    sim._scans._scanner.rebuild()
    sim.run()
    assert 1 not in sim.terrain_scan.geom_ids
    np.testing.assert_array_equal(sim.terrain_scan.heights, _expected(sim)[2])


def test_worlds_with_sdfs_are_scanned_in_steps_too(simulator):
    asset = (
        '<asset><mesh name="m" vertex="-1 -1 -1  1 -1 -1  -1 1 -1  1 1 -1  0 0 1" scale=".3 .3 .2"/></asset><worldbody>'
    )
    world = WORLD.replace("<worldbody>", asset).replace(
        "</worldbody>", '<geom type="sdf" mesh="m" group="2"/></worldbody>'
    )
    sim = simulator(world, terrain_scan_decimation=2)
    for _ in range(4):
        sim.run()
    np.testing.assert_array_equal(sim.terrain_scan.heights, _expected(sim)[2])


def test_without_a_scanner_there_is_no_scan(tmp_path):
    model = mujoco.MjModel.from_xml_string(WORLD)
    with SimulatorWrapper(model, viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "s.sock")) as sim:
        sim.run()
        assert sim.terrain_scan is None


def _markers(sim):
    scene = mujoco.MjvScene(sim.model, maxgeom=2000)
    for add in sim._markers:
        add(scene)
    return scene


@pytest.mark.requirement("S0-265", "S0-266", "S0-274", "S0-275")
def test_the_viewer_s_markers_are_the_latest_scan_behind_those_of_the_remote_control(simulator, tmp_path):
    sim = simulator(terrain_scan_decimation=1, remote_control_endpoint=f"ipc://{tmp_path}/remote")
    assert _markers(sim).ngeom == 0
    for _ in range(2):
        sim.remote_control.handle_request(
            {"command": "add_payload", "body": "base", "mass": 1.0, "position": [0, 0, 0]}
        )
        sim.run()
        scene = _markers(sim)
        scan = sim.terrain_scan
        assert scene.ngeom == 1 + scan.valid.sum()
        np.testing.assert_array_equal(scene.geoms[1].size, np.float32([0.025] * 3))
        hits = np.stack([scan.x, scan.y, scan.heights], -1)[scan.valid].astype(np.float32)
        np.testing.assert_array_equal([g.pos for g in scene.geoms[1 : scene.ngeom]], hits)


@pytest.mark.requirement("S0-276")
def test_visualization_can_be_switched_off(simulator):
    sim = simulator(terrain_scan_decimation=1, terrain_scan_visualization=False)
    sim.run()
    assert sim.terrain_scan.valid.any()
    assert _markers(sim).ngeom == 0


# ---- command line


@pytest.mark.requirement("S0-186", "S0-187", "S0-188", "S0-189", "S0-190", "S0-191", "S0-192")
def test_the_flags_have_the_seed_s_defaults_and_are_off():
    a = build_parser().parse_args([])
    assert a.terrain_scan_body is None
    assert (tuple(a.terrain_scan_shape), tuple(a.terrain_scan_spacing)) == ((17, 11), (0.1, 0.1))
    assert (a.terrain_scan_z_offset, a.terrain_scan_max_distance) == (2.0, 5.0)
    assert (tuple(a.terrain_scan_excluded_groups), a.terrain_scan_decimation) == ((0, 1), 100)
    assert not a.no_terrain_scan_visualization


ROBOT = """<robot name="r"><link name="base_link"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
ixz="0" iyz="0"/></inertial><visual><geometry><box size=".2 .2 .2"/></geometry></visual></link></robot>"""
TERRAIN = '<mujoco><worldbody><geom type="box" size="3 3 .1" pos="0 0 -1" group="2"/></worldbody></mujoco>'


def _simulate(tmp_path, *arguments):
    (tmp_path / "robot.urdf").write_text(ROBOT)
    (tmp_path / "terrain.xml").write_text(TERRAIN)
    command = [
        sys.executable, "-m", "xbot2_fast.simulate",
        "--urdf", tmp_path / "robot.urdf", "--xml", tmp_path / "terrain.xml", "--headless",
        "--disable-ros", "--target-rtf", "max", "--duration", "0.3", "--output-dir", tmp_path / "out",
        "--socket-path", tmp_path / "s.sock", *arguments,
    ]  # fmt: skip
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.requirement("S0-185", "S0-193", "S0-194", "S0-195")
def test_the_seed_s_command_line_runs_headless(tmp_path):
    run = _simulate(
        tmp_path, "--terrain-scan-body", "base_link", "--terrain-scan-shape", "17", "11", "--terrain-scan-spacing",
        "0.1", "0.1", "--terrain-scan-z-offset", "2", "--terrain-scan-max-distance", "5",
        "--terrain-scan-excluded-groups", "0", "1", "--terrain-scan-decimation", "100",
        "--no-terrain-scan-visualization",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_an_unknown_body_is_an_error_without_traceback(tmp_path):
    run = _simulate(tmp_path, "--terrain-scan-body", "nobody")
    assert run.returncode == 1
    assert "--terrain-scan-body: robot_body: expected the name of a body of the model, got 'nobody'" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--terrain-scan-shape", "0", "3"), ("--terrain-scan-shape", "3"), ("--terrain-scan-spacing", "0", "1"),
        ("--terrain-scan-z-offset", "nan"), ("--terrain-scan-max-distance", "-1"),
        ("--terrain-scan-excluded-groups", "6"), ("--terrain-scan-decimation", "0"),
    ],
)  # fmt: skip
def test_bad_scan_values_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args(list(arguments))
    assert end.value.code == 2
    assert arguments[0] in capsys.readouterr().err
