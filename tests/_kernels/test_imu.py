"""IMU states of random mechanisms: the bits of the plain computation, and what mj_forward and MuJoCo's sensors say."""

import mujoco
import numpy as np
import pytest

from tests._kernels.test_chain import random_xml, randomise
from tests.reference import imu as reference
from xbot2_fast.bridge.mujoco_bridge import _bind_imus

SEEDS = range(12)


@pytest.fixture(params=SEEDS)
def case(request):
    """A random model with an IMU on every site, and a random state with velocities."""
    rng = np.random.default_rng(request.param)
    spec = mujoco.MjSpec.from_string(random_xml(rng))
    for i, site in enumerate(spec.sites):
        site.name = f"s{i}"
        for kind in (mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_ACCELEROMETER):
            spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site.name)
    model = spec.compile()
    return rng, model, mujoco.MjData(model)


def _gathered(model, data):
    sites = {model.site(i).name: (i, int(model.sensor_adr[2 * i + 1])) for i in range(model.nsite)}
    kernel = _bind_imus(model, data, sites)
    out = np.full((model.nsite, 10), np.nan)
    return kernel, out


def test_equals_the_reference_bit_for_bit(case):
    rng, model, data = case
    kernel, out = _gathered(model, data)
    for _ in range(10):
        randomise(rng, data)
        data.qvel[:] = rng.normal(size=model.nv)
        data.sensordata[:] = rng.normal(size=model.nsensordata)
        kernel.gather(out.ravel())
        for site in range(model.nsite):
            expected = np.array(reference.gather(model, data, site, model.sensor_adr[2 * site + 1]))
            np.testing.assert_array_equal(out[site].view(np.int64), expected.view(np.int64))


def test_is_what_mujoco_measures_at_that_instant(case):
    rng, model, data = case
    kernel, out = _gathered(model, data)
    randomise(rng, data)
    data.qvel[:] = rng.normal(size=model.nv)
    mujoco.mj_forward(model, data)
    kernel.gather(out.ravel())
    for site in range(model.nsite):
        expected = np.empty(4)
        mujoco.mju_mat2Quat(expected, data.site_xmat[site])
        got = np.roll(out[site, :4], 1)
        np.testing.assert_allclose(got * np.sign(got @ expected), expected, atol=1e-9)
        gyro, accelerometer = (model.sensor_adr[2 * site + i] for i in (0, 1))
        np.testing.assert_allclose(out[site, 7:], data.sensordata[gyro : gyro + 3], atol=1e-9)
        np.testing.assert_array_equal(out[site, 4:7], data.sensordata[accelerometer : accelerometer + 3])


def test_random_models_have_every_joint_type_above_a_site():
    kinds = set()
    for seed in SEEDS:
        model = mujoco.MjModel.from_xml_string(random_xml(np.random.default_rng(seed)))
        kinds |= set(model.jnt_type.tolist())
        assert model.nsite
    assert kinds == {0, 1, 2, 3}
