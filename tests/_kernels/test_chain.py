"""Poses along a chain of bodies: the same bits as mj_kinematics, without touching the data."""

import mujoco
import numpy as np
import pytest
from xbot2_fast._kernels._chain import BodyChain, with_ancestors

MODELS = 25


def _vector(rng, n, scale=1.0):
    return " ".join(repr(float(v)) for v in rng.normal(size=n) * scale)


def _joints(rng, top):
    """Joints of one body: free or mocap only below the world, otherwise up to three in a row."""
    if top and rng.random() < 0.35:
        return "<freejoint/>"
    kinds = rng.choice(["hinge", "slide", "ball"], size=rng.integers(0, 4))
    return "".join(
        f'<joint type="{kind}" pos="{_vector(rng, 3, 0.3)}"'
        + (f' axis="{_vector(rng, 3)}" ref="{rng.normal():.3f}"' if kind != "ball" else "")
        + "/>"
        for kind in kinds
        if not (kind == "ball" and len(kinds) > 1)
    )


def _geom(rng):
    """A geom that is aligned with its body in every way that MuJoCo tells apart."""
    place = rng.choice(["", f'pos="{_vector(rng, 3)}"', f'pos="{_vector(rng, 3)}" quat="{_vector(rng, 4)}"'])
    return f'<geom type="box" size=".1 .2 .3" {place}/>'


def _body(rng, depth, top):
    mocap = top and rng.random() < 0.15
    inside = "" if mocap else _joints(rng, top)
    if not mocap and rng.random() < 0.3:
        quat = _vector(rng, 4)
        inside += f'<inertial pos="{_vector(rng, 3)}" quat="{quat}" mass="1" diaginertia=".1 .09 .08"/>'
        inside += f'<geom size=".1 .1 .1" type="box" pos="{_vector(rng, 3)}" quat="{quat}"/>'
    inside += "".join(_geom(rng) for _ in range(rng.integers(1, 3)))
    inside += f'<site pos="{_vector(rng, 3)}" quat="{_vector(rng, 4)}"/>'
    if depth:
        inside += "".join(_body(rng, depth - 1, False) for _ in range(rng.integers(0, 3)))
    attribute = ' mocap="true"' if mocap else ""
    return f'<body pos="{_vector(rng, 3)}" quat="{_vector(rng, 4)}"{attribute}>{inside}</body>'


def random_xml(rng):
    """A forest of bodies with all kinds of joints, each with sites and geoms."""
    bodies = "".join(_body(rng, 3, True) for _ in range(4))
    return f"<mujoco><worldbody>{_geom(rng)}{bodies}</worldbody></mujoco>"


def _random_model(rng):
    return mujoco.MjModel.from_xml_string(random_xml(rng))


def randomise(rng, data):
    data.qpos[:] = rng.normal(size=data.qpos.shape) * 2  # quaternions far from unit length too
    data.mocap_pos[:] = rng.normal(size=data.mocap_pos.shape)
    data.mocap_quat[:] = rng.normal(size=data.mocap_quat.shape)


def _assert_same_bits(got, expected):
    np.testing.assert_array_equal(np.asarray(got).view(np.int64), np.asarray(expected).view(np.int64))


@pytest.fixture(params=range(MODELS))
def case(request):
    rng = np.random.default_rng(request.param)
    model = _random_model(rng)
    return rng, model, mujoco.MjData(model)


def test_poses_have_the_bits_of_mj_kinematics(case):
    rng, model, data = case
    chain = BodyChain(model, data, range(model.nbody))
    expected = mujoco.MjData(model)
    for _ in range(10):
        randomise(rng, data)
        chain.refresh()
        expected.qpos[:], expected.mocap_pos[:], expected.mocap_quat[:] = data.qpos, data.mocap_pos, data.mocap_quat
        mujoco.mj_kinematics(model, expected)
        _assert_same_bits(chain.poses[:, :3], expected.xpos)
        _assert_same_bits(chain.poses[:, 3:7], expected.xquat)
        _assert_same_bits(chain.poses[:, 7:], expected.xmat)


def test_geom_site_and_inertia_frames_have_the_bits_of_mj_kinematics(case):
    rng, model, data = case
    chain = BodyChain(model, data, range(model.nbody))
    randomise(rng, data)
    chain.refresh()
    mujoco.mj_kinematics(model, data)
    pos, mat = np.empty(3), np.empty(9)
    for what, frames in (("geom", (data.geom_xpos, data.geom_xmat)), ("site", (data.site_xpos, data.site_xmat))):
        bodies, places, quats, same = (getattr(model, f"{what}_{a}") for a in ("bodyid", "pos", "quat", "sameframe"))
        for i, body in enumerate(bodies):
            chain.frame(body, places[i], quats[i], same[i], pos, mat)
            _assert_same_bits(pos, frames[0][i])
            _assert_same_bits(mat, frames[1][i])
    for body in range(model.nbody):
        chain.inertia(body, pos, mat)
        _assert_same_bits(pos, data.xipos[body])
        _assert_same_bits(mat, data.ximat[body])


def test_one_body_visits_only_its_ancestors_and_leaves_the_data_alone(case):
    rng, model, data = case
    body = int(rng.integers(1, model.nbody))
    randomise(rng, data)
    state = data.qpos.copy(), data.xpos.copy(), data.xquat.copy(), data.xmat.copy()
    chain = BodyChain(model, data, [body])
    chain.refresh()
    for before, after in zip(state, (data.qpos, data.xpos, data.xquat, data.xmat), strict=True):
        _assert_same_bits(after, before)
    assert chain.order == with_ancestors(model, [body])
    assert chain.order[-1] == body
    assert len(chain.order) <= 5
    mujoco.mj_kinematics(model, data)
    _assert_same_bits(chain.poses[chain.slot(body), :3], data.xpos[body])


def test_random_models_reach_every_joint_type_and_alignment():
    models = [_random_model(np.random.default_rng(seed)) for seed in range(MODELS)]
    assert set(np.concatenate([m.jnt_type for m in models])) == {0, 1, 2, 3}
    assert set(np.concatenate([m.geom_sameframe for m in models])) == {0, 1, 2, 3, 4}
    assert any(m.nmocap for m in models)
    assert {len(with_ancestors(m, [m.nbody - 1])) for m in models} >= {2, 3, 4}


def test_edits_of_the_model_count_at_the_next_refresh():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="a" pos="1 2 3"><joint/><geom size=".1"/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    chain = BodyChain(model, data, [1])
    model.body_pos[1] = 4, 5, 6
    chain.refresh()
    np.testing.assert_array_equal(chain.poses[1, :3], [4, 5, 6])


def test_bodies_without_ancestors_is_the_world():
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    chain = BodyChain(model, mujoco.MjData(model), [])
    chain.refresh()
    assert chain.order == [0]
    np.testing.assert_array_equal(chain.poses[0], [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
