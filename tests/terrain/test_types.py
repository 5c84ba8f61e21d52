"""Every kind of sub-terrain: compiles, agrees with MuJoCo's rays, carries a ball where it says, and is well formed."""

import mujoco
import numpy as np
import pytest

from tests.terrain.kinds import NAMES, classes, compiled, kinds, random_points, ray_heights, world

RADIUS = 0.05


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    return kinds(tmp_path_factory.mktemp("kinds"))


def test_catalogue_is_complete(catalogue):
    assert sorted(catalogue) == NAMES
    assert len(classes()) == 32


def resting_height(generator, x, y):
    """Height of the centre of a ball that slides down a vertical line: the highest point of the surface grown by it."""
    offsets = np.linspace(-RADIUS, RADIUS, 101)
    dx, dy = np.meshgrid(offsets, offsets)
    inside = dx**2 + dy**2 <= RADIUS**2
    dx, dy = dx[inside], dy[inside]
    return np.nanmax(generator.height(x + dx, y + dy) + np.sqrt(RADIUS**2 - dx**2 - dy**2))


def drop_ball(generator, x, y, z):
    """Height of the centre of a ball after it fell along a vertical slide from z."""
    ball = f"""<body pos="{x} {y} {z}"><joint type="slide" axis="0 0 1" damping="3"/>
        <geom type="sphere" size="{RADIUS}" mass="0.2" solref="0.005 1"/></body></worldbody>"""
    xml = generator.to_xml_string().replace("</worldbody>", ball)
    model = mujoco.MjModel.from_xml_string(xml.replace("<default>", '<option timestep="0.002"/><default>', 1))
    data = mujoco.MjData(model)
    for _ in range(600):
        mujoco.mj_step(model, data)
    assert abs(data.qvel[0]) < 1e-3
    return z + data.qpos[0]


@pytest.mark.parametrize("name", NAMES)
def test_table(catalogue, name):
    """Difficulty 0, 1/2 and 1 with three seeds: rays agree, and a ball dropped on the origin rests where it should."""
    for difficulty in (0.0, 0.5, 1.0):
        for seed in (0, 1, 2):
            generator = world(catalogue[name], difficulty_range=(difficulty, difficulty), seed=seed)
            model, data = compiled(generator)
            assert np.isfinite(model.geom_pos).all()
            x, y = random_points(generator, 120, seed=seed)
            np.testing.assert_allclose(generator.height(x, y), ray_heights(model, data, x, y), rtol=0, atol=1e-6)
        ox, oy, oz = generator.terrain_origins[0, 0]
        assert generator.height(ox, oy) <= oz + 1e-7
        rest = drop_ball(generator, ox, oy, oz + RADIUS + 0.05)
        assert rest == pytest.approx(resting_height(generator, ox, oy), abs=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_heights_are_those_of_rays(catalogue, name):
    """10,000 random points of every type, over tiles of three difficulties and the border."""
    checked = 0
    for difficulty in (0.1, 0.6, 1.0):
        generator = world(catalogue[name], difficulty_range=(difficulty, difficulty), seed=7, border_width=0.5)
        model, data = compiled(generator)
        x, y = random_points(generator, 3400, beyond=0.7)
        np.testing.assert_allclose(generator.height(x, y), ray_heights(model, data, x, y), rtol=0, atol=1e-6)
        checked += len(x)
    assert checked >= 10_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("difficulty", [0.0, 1.0])
def test_well_formed(catalogue, name, difficulty):
    """No geom without volume, none outside its tile, and no two tops in the same place (they would flicker)."""
    generator = world(catalogue[name], difficulty_range=(difficulty, difficulty), seed=3)
    (tile,) = generator.tiles[0]
    assert np.isfinite(tile.boxes).all()
    assert (tile.boxes[:, 3:6] > 1e-6).all()
    model, data = compiled(generator)
    for geom in range(model.ngeom):
        corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]) * model.geom_aabb[geom, 3:]
        corners = (corners + model.geom_aabb[geom, :3]) @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
        if model.geom_type[geom] == int(mujoco.mjtGeom.mjGEOM_BOX):
            assert np.abs(corners[:, :2]).max() <= 4.0 + 1e-9, model.geom(geom).name
    upright = tile.boxes[tile.boxes[:, 6] == 1]
    x, y = random_points(generator, 4000, seed=5)
    covered = (np.abs(x[:, None] - upright[:, 0]) < upright[:, 3]) & (
        np.abs(y[:, None] - upright[:, 1]) < upright[:, 4]
    )
    tops = np.sort(np.where(covered, upright[:, 2] + upright[:, 5], -np.inf), axis=1)
    if tops.shape[1] > 1:
        visible = tops[:, -1] >= generator.height(x, y) - 1e-9
        doubled = np.isfinite(tops[:, -1]) & visible & (tops[:, -1] - np.maximum(tops[:, -2], -1e9) < 1e-9)
        assert not doubled.any()


@pytest.mark.parametrize("name", sorted(classes()))
def test_difficulty_goes_from_the_first_to_the_second_value(name, catalogue):
    """A range that is one value at both ends gives, at any difficulty, what the same class gives with that value."""
    sub = catalogue[name]
    ranges = [field for field in vars(sub) if field.endswith("_range") and field != "noise_range"]
    ends = [type(sub)(**{**vars(sub), **{field: (getattr(sub, field)[i],) * 2 for field in ranges}}) for i in (0, 1)]
    for end, fixed in zip((0.0, 1.0), ends, strict=True):
        ours = world(sub, difficulty_range=(end, end)).to_xml_string()
        if name == "MeshRandomStairsTerrainCfg":  # draws between the first and the value at the difficulty
            continue
        assert ours == world(fixed, difficulty_range=(0.3, 0.3)).to_xml_string()


@pytest.mark.parametrize("name", NAMES)
def test_tiles_longer_than_wide(catalogue, name):
    generator = world(catalogue[name], size=(10.0, 8.0), num_cols=2, difficulty_range=(0.7, 0.7))
    model, data = compiled(generator)
    x, y = random_points(generator, 200)
    np.testing.assert_allclose(generator.height(x, y), ray_heights(model, data, x, y), rtol=0, atol=1e-6)
