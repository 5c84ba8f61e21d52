"""A real robot with its meshes stands on its own actuators."""

import mujoco
import numpy as np

from tests.centauro import centauro_generator


def test_stands_upright_for_five_seconds_within_005_rad_of_its_pose(tmp_path):
    model, data = centauro_generator(tmp_path).create_mj_model_data()
    reference = data.qpos.copy()
    assert model.nu == model.njnt - 1  # every joint but the free one has its actuator
    while data.time < 5.0:
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos[7:] - reference[7:]).max() < 0.05
    assert data.body("pelvis").xmat[8] > 0.999
    assert abs(data.qpos[2] - reference[2]) < 0.01
    assert not data.warning.number.any()


def test_starts_one_millimetre_above_the_floor(tmp_path):
    model, data = centauro_generator(tmp_path).create_mj_model_data()
    data.qpos[2] -= 0.9e-3
    mujoco.mj_forward(model, data)
    assert not any(0 in model.geom_bodyid[list(contact.geom)] for contact in data.contact)
    data.qpos[2] -= 0.2e-3
    mujoco.mj_forward(model, data)
    assert any(0 in model.geom_bodyid[list(contact.geom)] for contact in data.contact)


def test_effort_limits_are_kept(tmp_path):
    model, _ = centauro_generator(tmp_path).create_mj_model_data()
    assert tuple(model.jnt_actfrcrange[model.joint("hip_pitch_1").id]) == tuple(
        model.actuator("hip_pitch_1").forcerange
    )
    assert model.actuator("hip_pitch_1").forcerange[1] > 0
