"""Every error code of every command, and that a refused request changes nothing."""

import math

import numpy as np
import pytest

from tests.remote_control.robots import bytes_of
from xbot2_fast.remote_control import CommandError

NAN, INF, HUGE = math.nan, math.inf, 10**400
CONTACT = {"command": "set_contact_parameters", "bodies": ["left_foot"], "parameters": {"friction": [1, 0, 0]}}
BODY = {"command": "set_body_properties", "bodies": ["left_foot"], "properties": {"mass": 2}}
PAYLOAD = {"command": "add_payload", "body": "base_link", "mass": 5.0, "position": [0.2, 0.0, 0.1]}
WRENCH = {"command": "apply_wrench", "body": "base_link", "force": [1, 0, 0], "torque": [0, 0, 0], "duration": 0.1}
ONE = {"body": "base_link", "force": [1, 0, 0], "torque": [0, 0, 0], "duration": 0.1}
LIMITS = {"command": "set_joint_torque_limits", "joints": [".*_knee"], "limit": 40}
PUSH = {"command": "push", "body": "base_link", "linear": [1, 0, 0]}
GRAVITY = {"command": "set_gravity", "gravity": [0, 0, -1]}
STATE = {"command": "set_state", "joints": {"left_knee": 0.1}}
FAULT = {"command": "fault", "kind": "lock", "joints": ["left_knee"], "duration": 1}


def changed(request, **fields):
    return {name: value for name, value in {**request, **fields}.items() if value is not ...}


NOT_NUMBERS = [None, True, "1", [1], {}, NAN, INF, -INF, HUGE, -HUGE, 1e300]
NOT_VECTORS = [None, 1, [], [1, 2], [1, 2, 3, 4], [1, 2, True], [1, 2, "3"], [1, 2, NAN], [1, HUGE, 2], [[1], 2, 3]]
NOT_SELECTORS = [..., None, [], "left_foot", 3, [3], [None], [["left_foot"]], {}]

REFUSALS = [
    ({}, "unknown_command"),
    ({"command": None}, "unknown_command"),
    ({"command": 3}, "unknown_command"),
    ({"command": ["restore"]}, "unknown_command"),
    ({"command": "explode"}, "unknown_command"),
    # bodies
    *((changed(CONTACT, bodies=bad), "invalid_parameter") for bad in NOT_SELECTORS),
    *((changed(BODY, bodies=bad), "invalid_parameter") for bad in NOT_SELECTORS),
    *((changed(r, bodies=["left_foot", "nobody"]), "unknown_body") for r in (CONTACT, BODY)),
    *((changed(r, bodies=["left_sole"]), "unknown_body") for r in (CONTACT, BODY)),
    *((changed(r, bodies=["left_foot", "(["], regex=True), "invalid_regex") for r in (CONTACT, BODY)),
    *((changed(r, bodies=[".*_foot", "left_fo"], regex=True), "no_matches") for r in (CONTACT, BODY)),
    *(
        (changed(r, regex=bad), "invalid_parameter")
        for r in (CONTACT, BODY, PAYLOAD, WRENCH)
        for bad in (1, "true", None)
    ),
    *((changed(r, body="nobody"), "unknown_body") for r in (PAYLOAD, WRENCH, PUSH)),
    *((changed(r, body="left_knee"), "unknown_body") for r in (PAYLOAD, WRENCH, PUSH)),
    *((changed(r, body=..., bodies=["base_link", "nobody"]), "unknown_body") for r in (PAYLOAD, WRENCH, PUSH)),
    *((changed(r, bodies=["base_link"]), "invalid_parameter") for r in (PAYLOAD, WRENCH, PUSH)),
    *(
        (changed(r, body=bad), "invalid_parameter")
        for r in (PAYLOAD, WRENCH, PUSH)
        for bad in (..., None, 3, ["base_link"])
    ),
    *((changed(r, body="*", regex=True), "invalid_regex") for r in (PAYLOAD, WRENCH, PUSH)),
    *((changed(r, body="base", regex=True), "no_matches") for r in (PAYLOAD, WRENCH, PUSH)),
    # contact
    (changed(CONTACT, bodies=["empty"]), "no_geoms"),
    (changed(CONTACT, body="left_foot", bodies=...), "invalid_parameter"),
    *((changed(CONTACT, parameters=bad), "invalid_parameter") for bad in (..., None, {}, [], {"colour": 1})),
    *((changed(CONTACT, parameters={"friction": bad}), "invalid_parameter") for bad in [*NOT_VECTORS, [-1, 0, 0]]),
    *((changed(CONTACT, parameters={"solref": bad}), "invalid_parameter") for bad in ([1], [1, 2, 3], [1, NAN], 1)),
    *((changed(CONTACT, parameters={"solimp": bad}), "invalid_parameter") for bad in ([1, 1, 1, 1], [1, 1, 1, 1, INF])),
    *((changed(CONTACT, parameters={"margin": bad}), "invalid_parameter") for bad in [*NOT_NUMBERS, -1]),
    *((changed(CONTACT, parameters={"gap": bad}), "invalid_parameter") for bad in NOT_NUMBERS),
    *((changed(CONTACT, parameters={"condim": bad}), "invalid_parameter") for bad in [*NOT_NUMBERS, 0, 2, 3.5, -3]),
    *((changed(CONTACT, parameters={"priority": bad}), "invalid_parameter") for bad in [*NOT_NUMBERS, -1, 0.5]),
    # bodies and payloads
    *((changed(BODY, properties=bad), "invalid_parameter") for bad in (..., None, {}, [], {"inertia": 1})),
    *((changed(BODY, properties={"mass": bad}), "invalid_parameter") for bad in [*NOT_NUMBERS, 0, -1]),
    *((changed(BODY, properties={"com": bad}), "invalid_parameter") for bad in NOT_VECTORS),
    (changed(BODY, bodies=["world"]), "invalid_parameter"),
    (changed(BODY, bodies=["crate"], properties={"com": [0.01, 0, 0]}), "invalid_parameter"),
    *((changed(PAYLOAD, mass=bad), "invalid_parameter") for bad in [..., *NOT_NUMBERS, 0, -1]),
    *((changed(PAYLOAD, position=bad), "invalid_parameter") for bad in [..., *NOT_VECTORS]),
    *((changed(PAYLOAD, body=bad), "invalid_parameter") for bad in ("world", "empty", "crate")),
    # wrenches
    *((changed(WRENCH, force=bad), "invalid_parameter") for bad in [..., *NOT_VECTORS]),
    *((changed(WRENCH, torque=bad), "invalid_parameter") for bad in [..., *NOT_VECTORS]),
    *((changed(WRENCH, duration=bad), "invalid_parameter") for bad in [..., *NOT_NUMBERS, 0, -1]),
    *((changed(WRENCH, frame=bad), "invalid_parameter") for bad in ("local", 1, None, ["world"])),
    *(({"command": "apply_wrenches", "wrenches": bad}, "invalid_parameter") for bad in (None, [], {}, [3], [None])),
    *(
        ({"command": "apply_wrenches", "wrenches": [ONE, changed(ONE, **{name: bad})]}, "invalid_parameter")
        for name in ("point", "force", "torque")
        for bad in NOT_VECTORS[1:]
    ),
    *(
        ({"command": "apply_wrenches", "wrenches": [ONE, changed(ONE, **{name: bad})]}, "invalid_parameter")
        for name in ("duration", "ramp_up_duration", "ramp_down_duration")
        for bad in [*NOT_NUMBERS, -1]
    ),
    ({"command": "apply_wrenches", "wrenches": [ONE, changed(ONE, body="nobody")]}, "unknown_body"),
    (
        {"command": "apply_wrenches", "wrenches": [changed(ONE, ramp_up_duration=0.06, ramp_down_duration=0.06)]},
        "invalid_parameter",
    ),
    *(({"command": "cancel_wrench", "wrench": bad}, "invalid_parameter") for bad in [*NOT_NUMBERS, 0, -1, 1.5, 99]),
    (changed(PUSH, linear=...), "invalid_parameter"),
    *((changed(PUSH, linear=bad), "invalid_parameter") for bad in NOT_VECTORS),
    *((changed(PUSH, angular=bad), "invalid_parameter") for bad in NOT_VECTORS),
    # joints
    *((changed(LIMITS, joints=bad), "invalid_parameter") for bad in NOT_SELECTORS),
    (changed(LIMITS, joints=["nothing"]), "no_matches"),
    (changed(LIMITS, joints=["left_knee", "nothing"], regex=False), "unknown_joint"),
    (changed(LIMITS, joints=[".*_knee"], regex=False), "unknown_joint"),
    (changed(LIMITS, joints=["left_sole"], regex=False), "unknown_joint"),
    (changed(LIMITS, joints=["left_toe"], regex=False), "unknown_joint"),
    (changed(LIMITS, joints=["left_knee", "root"]), "invalid_parameter"),
    (changed(LIMITS, joints=["left_knee", "neck"]), "invalid_parameter"),
    (changed(LIMITS, joints=["("]), "invalid_regex"),
    *((changed(LIMITS, limit=bad), "invalid_parameter") for bad in [..., *NOT_NUMBERS, -1]),
    # the others
    *((changed(GRAVITY, gravity=bad), "invalid_parameter") for bad in [..., *NOT_VECTORS]),
    *(({"command": "list", "kind": bad}, "invalid_parameter") for bad in (None, 3, "cats", ["bodies"])),
    ({"command": "get_state", "joints": ["left_knee("]}, "invalid_regex"),
    ({"command": "get_state", "joints": ["nothing"]}, "no_matches"),
    ({"command": "get_state", "bodies": ["nobody"]}, "unknown_body"),
    ({"command": "set_state"}, "invalid_parameter"),
    *((changed(STATE, joints=bad), "invalid_parameter") for bad in (None, {}, [], {"root": 1}, {"neck": [0, 0, 0, 0]})),
    *((changed(STATE, joints={"left_knee": bad}), "invalid_parameter") for bad in NOT_NUMBERS),
    (changed(STATE, joints={"left_knee": 1, "nothing": 1}), "unknown_joint"),
    (changed(STATE, velocities={"root": [1, 2, 3]}), "invalid_parameter"),
    *((changed(FAULT, kind=bad), "invalid_parameter") for bad in (..., "melt", 3)),
    *((changed(FAULT, duration=bad), "invalid_parameter") for bad in [..., *NOT_NUMBERS, 0, -1]),
    (changed(FAULT, joints=["nothing"]), "no_matches"),
    (changed(FAULT, joints=["root"]), "invalid_parameter"),
    (changed(FAULT, sensors=["imu_gyro"]), "invalid_parameter"),
    (changed(FAULT, scale=1), "invalid_parameter"),
    (changed(FAULT, kind="weak", scale=1.5), "invalid_parameter"),
    (changed(FAULT, kind="weak", scale=0.5, joints=["left_ankle_pitch"]), "invalid_parameter"),
    (changed(FAULT, kind="drop", joints=["right_toe_slide"]), "invalid_parameter"),
    (changed(FAULT, kind="sensor"), "invalid_parameter"),
    (changed(FAULT, kind="sensor", joints=..., sensors=["nothing"]), "no_matches"),
    *(({"command": "batch", "requests": bad}, "invalid_parameter") for bad in (..., None, [], {}, [3], [None])),
    ({"command": "batch", "requests": [GRAVITY, {"command": "explode"}]}, "unknown_command"),
    ({"command": "batch", "requests": [GRAVITY, {"command": "batch", "requests": [GRAVITY]}]}, "invalid_parameter"),
    ({"command": "batch", "requests": [GRAVITY, changed(LIMITS, limit=-1)]}, "invalid_parameter"),
]


@pytest.fixture(scope="module")
def shared():
    """One set of commands for all refusals: none of them leaves a trace."""
    import mujoco

    from tests.remote_control import robots
    from xbot2_fast.remote_control import RemoteControl

    model = robots.model()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    control = RemoteControl(model, data)
    yield control, bytes_of(model)
    control.close()


@pytest.mark.requirement("S0-318", "S0-319", "S0-334", "S0-346", "S0-349", "S0-350", "S0-400", "S1-018", "S1-019")
@pytest.mark.parametrize(("request_", "code"), REFUSALS, ids=range(len(REFUSALS)))
def test_refusal_names_the_code_and_changes_nothing(shared, request_, code):
    control, before = shared
    request = {name: value for name, value in request_.items() if value is not ...}
    state = control.data.qpos.copy(), control.data.xfrc_applied.copy(), control.data.time
    with pytest.raises(CommandError) as error:
        control.handle(request)
    assert error.value.code == code, error.value.message
    assert bytes_of(control.model) == before
    assert control.wrenches.active() == []
    assert control.faults.active == []
    np.testing.assert_array_equal(control.data.qpos, state[0])
    np.testing.assert_array_equal(control.data.xfrc_applied, state[1])
    assert control.data.time == state[2]


def test_selectors_are_checked_before_values(control):
    for request in (CONTACT, BODY):
        with pytest.raises(CommandError) as error:
            control.handle(changed(request, bodies=["nobody"], parameters=3, properties=3))
        assert error.value.code == "unknown_body"
    with pytest.raises(CommandError) as error:
        control.handle(changed(LIMITS, joints=["nothing"], limit=-1))
    assert error.value.code == "no_matches"
