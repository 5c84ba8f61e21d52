"""What each command does and answers, without a socket; the seed's examples verbatim."""

import json

import mujoco
import numpy as np
import pytest

from tests.remote_control.robots import bytes_of
from xbot2_fast.remote_control import CommandError, RemoteControlServer

SEED = {
    "contact": """{"id": "contact-1", "command": "set_contact_parameters", "bodies": ["left_foot", "right_foot"],
        "parameters": {"friction": [0.8, 0.005, 0.001], "solref": [0.004, 1.2], "condim": 3}}""",
    "push": """{"id": "push-1", "command": "apply_wrench", "body": "base_link", "force": [100.0, 0.0, 0.0],
        "torque": [0.0, 0.0, 5.0], "duration": 0.25}""",
    "body": """{"id": "body-1", "command": "set_body_properties", "bodies": ["base_link"],
        "properties": {"mass": 25.0, "com": [0.02, 0.0, 0.08]}}""",
    "payload": """{"id": "payload-1", "command": "add_payload", "body": "base_link", "mass": 5.0,
        "position": [0.2, 0.0, 0.1]}""",
    "limits": """{"command": "set_joint_torque_limits", "joints": [".*_knee", ".*_ankle.*"], "limit": 40.0}""",
    "restore": """{"id": "restore-1", "command": "restore"}""",
}


def step(control, count=1):
    for _ in range(count):
        control.wrenches.apply()
        if control.data.time >= control.faults.before.when:
            control.faults.on_before()
        mujoco.mj_step(control.model, control.data)


@pytest.mark.requirement("S0-343", "S0-344", "S0-356", "S0-357", "S0-358", "S0-362", "S0-354")
def test_seed_contact_reaches_the_geoms_of_the_bodies_and_no_others(control):
    model = control.model
    others = [g for g in range(model.ngeom) if model.geom(g).name not in
              ("left_sole", "left_heel", "right_sole", "right_heel")]  # fmt: skip
    before = model.geom_friction[others].copy(), model.geom_solref[others].copy()
    result = control.handle(json.loads(SEED["contact"]))
    assert result == {
        "bodies": ["left_foot", "right_foot"],
        "geoms": ["left_sole", "left_heel", "right_sole", "right_heel"],
        "parameters": {"friction": [0.8, 0.005, 0.001], "solref": [0.004, 1.2], "condim": 3},
    }
    for name in result["geoms"]:
        assert model.geom(name).friction.tolist() == [0.8, 0.005, 0.001]
        assert model.geom(name).solref.tolist() == [0.004, 1.2]
        assert model.geom(name).condim == 3
    assert (model.geom_friction[others] == before[0]).all()
    assert (model.geom_solref[others] == before[1]).all()


@pytest.mark.requirement("S0-359", "S0-360", "S0-361", "S0-363")
@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("solimp", [0.9, 0.95, 0.001, 0.5, 2], [0.9, 0.95, 0.001, 0.5, 2.0]),
        ("margin", 0.01, 0.01),
        ("gap", 0.005, 0.005),
        ("condim", 6.0, 6),
        ("priority", 3.0, 3),
    ],
)
def test_every_contact_property(control, name, value, stored):
    request = {"command": "set_contact_parameters", "bodies": ["left_foot", "world"], "parameters": {name: value}}
    result = control.handle(request)
    assert result["parameters"] == {name: stored}
    assert result["geoms"] == ["left_sole", "left_heel", "floor"]
    assert isinstance(result["parameters"][name], type(stored))
    values = getattr(control.model, f"geom_{name}")[control.model.geom("left_heel").id]
    np.testing.assert_array_equal(values, stored)


def test_contact_parameters_come_back_in_one_order(control):
    parameters = {"priority": 1, "friction": [1, 0, 0], "margin": 0.0, "solref": [0.02, 1]}
    result = control.handle({"command": "set_contact_parameters", "bodies": ["left_foot"], "parameters": parameters})
    assert list(result["parameters"]) == ["friction", "solref", "margin", "priority"]
    assert all(isinstance(element, float) for element in result["parameters"]["friction"])


@pytest.mark.requirement("S0-345", "S0-347", "S0-348")
def test_patterns_match_whole_names_once_each_in_selection_order(control):
    request = {"command": "set_contact_parameters", "parameters": {"margin": 0.0}, "regex": True}
    select = lambda *patterns: control.handle({**request, "bodies": list(patterns)})["bodies"]  # noqa: E731
    assert select(".*_foot") == ["left_foot", "right_foot"]
    assert select("right_.*", ".*_foot") == ["right_thigh", "right_foot", "right_toe", "left_foot"]
    assert select("left_foot", "left_(foot|toe)", "left_foot") == ["left_foot", "left_toe"]
    with pytest.raises(CommandError, match="no body matches 'foot' entirely"):
        select("foot")


@pytest.mark.requirement("S0-369", "S0-364", "S0-351")
def test_seed_push_acts_for_its_duration_at_the_centre_of_mass(control):
    result = control.handle(json.loads(SEED["push"]))
    assert result == {"body": "base_link", "expires_at": 0.25, "id": 1}
    body = control.model.body("base_link").id
    for _ in range(125):
        step(control)
        assert control.data.xfrc_applied[body].tolist() == [100, 0, 0, 0, 0, 5]
    step(control)
    assert not control.data.xfrc_applied.any()


@pytest.mark.requirement("S0-353", "S0-352")
def test_wrench_and_payload_on_several_bodies_are_the_same_for_each(control):
    wrench = {"command": "apply_wrench", "force": [1, 0, 0], "torque": [0, 1, 0], "duration": 0.004}
    result = control.handle({**wrench, "body": ".*_foot", "regex": True})
    assert result["bodies"] == ["left_foot", "right_foot"]
    step(control)
    feet = [control.model.body(name).id for name in result["bodies"]]
    assert control.data.xfrc_applied[feet].tolist() == [[1, 0, 0, 0, 1, 0]] * 2
    assert control.handle({"command": "cancel_wrench", "wrench": result["id"]}) == {"cancelled": 2, "id": result["id"]}
    payload = {"command": "add_payload", "bodies": ["left_foot", "right_foot"], "mass": 1, "position": [0, 0, 0]}
    result = control.handle(payload)
    assert list(result) == ["payload", "bodies", "properties"]
    assert result["bodies"] == ["left_foot", "right_foot"]
    assert result["properties"]["left_foot"]["mass"] == pytest.approx(1.7)
    one = control.handle({**payload, "bodies": [".*t_foot", "left_foot"][1:], "regex": True})
    assert list(one) == ["payload", "body", "properties"]
    assert set(one["properties"]) == {"mass", "com"}


@pytest.mark.requirement("S0-375", "S0-379", "S0-391", "S0-401", "S0-393", "S0-394", "S0-421")
def test_seed_body_payload_limits_and_restore(control):
    model = control.model
    before = bytes_of(model)
    assert control.handle(json.loads(SEED["body"])) == {
        "bodies": ["base_link"], "properties": {"mass": 25.0, "com": [0.02, 0.0, 0.08]},
    }  # fmt: skip
    assert model.body("base_link").mass == 25.0
    result = control.handle(json.loads(SEED["payload"]))
    assert result["payload"] == {"mass": 5.0, "position": [0.2, 0.0, 0.1]}
    assert result["body"] == "base_link"
    assert result["properties"]["mass"] == 15.0
    assert result["properties"]["com"] == pytest.approx([(0.1 + 1.0) / 15, 0, (0.2 + 0.5) / 15])
    result = control.handle(json.loads(SEED["limits"]))
    assert result == {"joints": ["left_knee", "right_knee", "left_ankle_pitch", "right_ankle_pitch"], "limit": 40.0}
    assert model.jnt_actfrcrange[model.joint("left_knee").id].tolist() == [-40, 40]
    assert control.handle(json.loads(SEED["restore"])) == {"restored": True, "cleared_wrenches": 0}
    assert bytes_of(model) == before


@pytest.mark.requirement("S0-395")
def test_limits_take_exact_names_when_told(control):
    limits = {"command": "set_joint_torque_limits", "joints": ["left_knee"], "regex": False, "limit": 0}
    assert control.handle(limits)["joints"] == ["left_knee"]


@pytest.mark.requirement("S0-415", "S0-417", "S0-418", "S0-420")
def test_restore_cancels_wrenches_clears_forces_and_leaves_the_state(control):
    control.handle(json.loads(SEED["push"]))
    control.handle({"command": "fault", "kind": "lock", "joints": ["left_knee"], "duration": 1})
    control.handle({"command": "set_gravity", "gravity": [0, 0, -1.6]})
    step(control, 5)
    data = control.data
    data.xfrc_applied[:] = 1
    data.qfrc_applied[:] = 2
    data.ctrl[:] = 0.1
    state = data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), data.time
    assert control.handle({"command": "restore"}) == {"restored": True, "cleared_wrenches": 1}
    assert not data.xfrc_applied.any()
    assert not data.qfrc_applied.any()
    for now, then in zip((data.qpos, data.qvel, data.ctrl), state, strict=False):
        np.testing.assert_array_equal(now, then)
    assert data.time == state[3]
    assert control.model.opt.gravity.tolist() == [0, 0, -9.81]
    assert control.faults.active == []
    step(control)
    assert not data.xfrc_applied.any()


@pytest.mark.requirement("S1-017")
def test_wrenches_of_a_list_act_from_the_same_step_on_and_can_be_listed_and_cancelled(control):
    wrenches = [
        {"body": "base_link", "force": [1, 0, 0], "torque": [0, 0, 0], "duration": 0.1, "ramp_up_duration": 0.05},
        {
            "body": "left_foot",
            "force": [0, 2, 0],
            "torque": [0, 0, 0],
            "duration": 0,
            "frame": "body",
            "point": [0, 0, 0],
        },
    ]
    result = control.handle({"command": "apply_wrenches", "wrenches": wrenches})
    assert result == {
        "wrenches": [
            {"body": "base_link", "expires_at": 0.1, "id": 1},
            {"body": "left_foot", "expires_at": 0.0, "id": 2},
        ]
    }
    listed = control.handle({"command": "list_wrenches"})["wrenches"]
    assert [(w["id"], w["body"], w["frame"], w["expires_at"]) for w in listed] == [
        (1, "base_link", "world", 0.1), (2, "left_foot", "body", 0.0),
    ]  # fmt: skip
    json.dumps(listed)
    base, foot = (control.model.body(name).id for name in ("base_link", "left_foot"))
    step(control)
    assert control.data.xfrc_applied[base, 0] == pytest.approx(0.001 / 0.05)
    assert np.linalg.norm(control.data.xfrc_applied[foot, :3]) == pytest.approx(2)
    step(control)
    assert not control.data.xfrc_applied[foot].any()
    assert control.handle({"id": 1, "command": "cancel_wrench"}) == {"cancelled": 1, "id": 1}
    step(control)
    assert not control.data.xfrc_applied.any()


def test_push_gives_an_impulse_within_one_step(control):
    data, body = control.data, control.model.body("crate").id
    control.handle({"command": "push", "bodies": ["crate"], "linear": [2, 0, 0], "angular": [0, 0, 0.1]})
    address = control.model.joint("crate_free").dofadr[0]
    step(control)
    mass, inertia = control.model.body_mass[body], control.model.body_inertia[body, 2]
    assert data.qvel[address] == pytest.approx(2 / mass)
    assert data.qvel[address + 5] == pytest.approx(0.1 / inertia)
    step(control)
    assert not data.xfrc_applied.any()


def test_state_is_read_of_now_and_set_at_once(control):
    step(control, 3)
    request = {"command": "set_state", "joints": {"left_knee": 0.4, "root": [0, 0, 1, 2, 0, 0, 0]},
               "velocities": {"left_knee": -1, "neck": [0.1, 0.2, 0.3]}}  # fmt: skip
    control.handle(request)
    state = control.handle(
        {"command": "get_state", "joints": ["left_knee", "root"], "regex": False, "bodies": ["base_link"]}
    )
    assert state["time"] == pytest.approx(0.006)
    assert state["joints"]["left_knee"]["position"] == 0.4
    assert state["joints"]["left_knee"]["velocity"] == -1
    assert state["joints"]["root"]["position"] == [0, 0, 1, 1, 0, 0, 0]  # quaternions are normalised
    assert state["bodies"]["base_link"]["position"] == [0, 0, 1]
    assert state["bodies"]["base_link"]["orientation"] == [1, 0, 0, 0]
    names = {name for name in control.table.names.of("joints") if name}
    assert set(control.handle({"command": "get_state"})["joints"]) == names


@pytest.mark.parametrize("kind", ["bodies", "joints", "geoms", "actuators", "sensors"])
def test_lists_name_everything_with_units(control, kind):
    entries = control.handle({"command": "list", "kind": kind})[kind]
    counts = {"bodies": "nbody", "joints": "njnt", "geoms": "ngeom", "actuators": "nu", "sensors": "nsensor"}
    assert len(entries) == getattr(control.model, counts[kind])
    assert all(entry["units"] for entry in entries)
    json.dumps(entries, allow_nan=False)


def test_status_tells_what_is_active_and_takes_more(control):
    control.handle(json.loads(SEED["push"]))
    control.handle(json.loads(SEED["payload"]))
    control.handle({"command": "fault", "kind": "sensor", "sensors": ["imu_.*"], "duration": 1})
    control.handle({"command": "fault", "kind": "lock", "joints": ["left_knee"], "duration": 1})
    control.handle({"command": "set_gravity", "gravity": [0, 0, -1.62]})
    control.state.add_status(lambda: {"rtf": 1.0})
    status = control.handle({"command": "status"})
    assert status["wrenches"] == 1
    assert status["payloads"] == {"base_link": {"mass": 5.0, "position": [0.2, 0.0, 0.1]}}
    assert [(fault["kind"], fault.get("sensors"), fault.get("joints")) for fault in status["faults"]] == [
        ("sensor", ["imu_gyro", "imu_acc"], None),
        ("lock", None, ["left_knee"]),
    ]
    assert status["gravity"] == [0, 0, -1.62]
    assert status["rtf"] == 1.0
    assert status["timestep"] == 0.002


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"joints": {"left_knee": 1e10}}, "position"),
        ({"velocities": {"left_knee": 1e10}}, "velocity"),
        ({"joints": {"left_toe_slide": 1e9}}, "acceleration"),
    ],
)
def test_a_state_that_would_end_the_simulation_is_refused(control, fields, what):
    before = control.data.qpos.copy()
    good = {"command": "set_state", "joints": {"right_knee": 0.2}}
    for request in (
        {"command": "set_state", **fields},
        {"command": "batch", "requests": [good, {"command": "set_state", **fields}]},
    ):
        with pytest.raises(CommandError, match=f"would diverge: a joint would have .* {what} beyond 1e10") as error:
            control.handle(request)
        assert error.value.code == "invalid_parameter"
    assert control.data.qpos.tolist() == before.tolist()
    assert not control.data.qvel.any()
    control.handle(good)
    mujoco.mj_step(control.model, control.data)
    assert control.data.time > 0


def test_batch_is_all_or_nothing(control):
    before = bytes_of(control.model)
    good = [json.loads(SEED["payload"]), json.loads(SEED["limits"]), {"command": "set_gravity", "gravity": [0, 0, -1]}]
    with pytest.raises(CommandError, match=r"requests\[3\]: "):
        control.handle({"command": "batch", "requests": [*good, {"command": "add_payload", "body": "nobody"}]})
    assert bytes_of(control.model) == before
    results = control.handle({"command": "batch", "requests": good})["results"]
    assert [next(iter(result)) for result in results] == ["payload", "joints", "gravity"]
    assert control.model.opt.gravity.tolist() == [0, 0, -1]


def test_a_part_registers_its_command_once_and_restores_with_the_others(control):
    restored = []
    control.table.register("blink", lambda request: request.get("times", 1), lambda times: {"times": times})
    control.table.on_restore(lambda: restored.append(1))
    assert control.handle({"command": "blink", "times": 3}) == {"times": 3}
    control.handle({"command": "restore"})
    assert restored == [1]
    with pytest.raises(ValueError, match="'blink' is registered already"):
        control.table.register("blink", lambda request: None, lambda plan: {})


def test_old_names_of_the_server_work_without_a_loop(model, data):
    server = RemoteControlServer(model, data, "tcp://127.0.0.1:*")
    try:
        assert server.endpoint.startswith("tcp://127.0.0.1:")
        assert server.handle_request(json.loads(SEED["push"]))["expires_at"] == 0.25
        server.apply_wrenches()
        assert data.xfrc_applied[model.body("base_link").id, 0] == 100
        server.clear_wrenches()
        assert not data.xfrc_applied.any()
        assert server.process_requests() == 0
        with pytest.raises(CommandError) as error:
            server.handle_request({"command": "nonsense"})
        assert error.value.code == "unknown_command"
    finally:
        server.close()
        server.close()


LOCK = {"command": "fault", "kind": "lock", "joints": ["left_knee"], "duration": 1}
PUSH = {"command": "push", "body": "crate", "linear": [1, 0, 0]}


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([LOCK, {**LOCK, "joints": ["right_knee", "left_knee"]}], "'left_knee' has a fault of kind lock already"),
        ([{"command": "cancel_wrench", "wrench": 1}] * 2, "no active wrench has the id 1"),
        (
            [{**PUSH, "body": ".*", "regex": True}] * 60
            + [
                {
                    "command": "apply_wrenches",
                    "wrenches": [{"body": "crate", "force": [1, 0, 0], "torque": [0, 0, 0], "duration": 0}],
                }
            ],
            "more than the 513 that act",
        ),
        ([PUSH] * 65, "at most 64, got 65"),
    ],
)
def test_a_batch_is_refused_for_what_its_requests_cannot_do_together(control, requests, message):
    for _ in range(513):
        control.handle(PUSH)
    before = control.handle({"command": "status"})
    for request in requests[-1], requests[0]:  # each alone is right
        control.table.prepare(request)
    with pytest.raises(CommandError, match=message) as error:
        control.handle({"command": "batch", "requests": requests})
    assert error.value.code == "invalid_parameter"
    assert control.handle({"command": "status"}) == before


def test_wrenches_are_no_more_than_a_step_can_bear(control):
    """Each costs every step something: a client in a loop must not end real time. All of a request or nothing."""
    wrench = {"body": "base_link", "force": [1, 0, 0], "torque": [0, 0, 0], "duration": 1}
    control.handle({"command": "apply_wrenches", "wrenches": [wrench] * 1000})
    for request in [
        {"command": "apply_wrenches", "wrenches": [wrench] * 25},
        {"command": "batch", "requests": [{"command": "apply_wrenches", "wrenches": [wrench] * 25}]},
    ]:
        with pytest.raises(CommandError, match="at most 1024 active wrenches") as error:
            control.handle(request)
        assert error.value.code == "invalid_parameter"
    assert control.handle({"command": "status"})["wrenches"] == 1000
    control.handle({"command": "apply_wrenches", "wrenches": [wrench] * 24})
    for command in ({**wrench, "command": "apply_wrench"}, {"command": "push", "body": "crate", "linear": [1, 0, 0]}):
        with pytest.raises(CommandError, match="1 more than the 1024 that act"):
            control.handle(command)
    assert control.handle({"command": "restore"})["cleared_wrenches"] == 1024
    assert control.handle({"command": "push", "body": "crate", "linear": [1, 0, 0]})["id"]
