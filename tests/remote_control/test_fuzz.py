"""Anything that JSON can say: every reply is a result or a named refusal, never an internal error."""

import json
import logging

import mujoco
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.remote_control import robots
from xbot2_fast.remote_control import CommandError, RemoteControl
from xbot2_fast.remote_control.protocol import decode, identifier_of
from xbot2_fast.remote_control.replies import encode_error, encode_result
from xbot2_fast.remote_control.simulator_commands import register_actuator_delay, register_velocity_noise

CODES = {
    "invalid_json", "invalid_request", "unknown_command", "unknown_body", "unknown_joint", "invalid_regex",
    "no_matches", "no_geoms", "invalid_parameter",
}  # fmt: skip

MODEL = robots.model()
DATA = mujoco.MjData(MODEL)
CONTROL = RemoteControl(MODEL, DATA)
register_actuator_delay(CONTROL.table, lambda delay: None, lambda: None)
register_velocity_noise(CONTROL.table, MODEL, lambda joints, stddev: None, lambda: None)
COMMANDS = sorted(CONTROL.table._commands)

numbers = st.one_of(
    st.integers(-5, 5), st.floats(allow_nan=True, allow_infinity=True), st.integers(-(10**400), 10**400),
    st.sampled_from([0, 1, 3, 0.0, -0.0, 1e308, 5e-324, 1e10, 10**5000 // 10**4500]),
)  # fmt: skip
names = st.one_of(
    st.sampled_from(["base_link", "left_foot", "world", "empty", "crate", "left_knee", "root", "neck", "imu_gyro",
                     ".*", "(", ".*_foot", "left_toe_slide", "(a+)+$", "", "\x00", "\ud800", "lock", "weak", "drop",
                     "sensor", "body"]),
    st.text(max_size=8),
)  # fmt: skip
vectors = st.lists(numbers, min_size=1, max_size=7)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, names, vectors),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=8,
)
FIELDS = """body bodies joints sensors regex parameters properties mass com position force torque duration frame limit
delay stddev wrenches wrench linear angular gravity kind scale velocities requests friction solref condim margin point
ramp_up_duration at id"""
fields = st.sampled_from(FIELDS.split())
plausible = st.one_of(
    values, st.lists(names, max_size=3), st.dictionaries(st.one_of(fields, names), values, max_size=4),
    st.lists(st.dictionaries(fields, values, max_size=6), max_size=3),
)  # fmt: skip
requests = st.builds(
    lambda command, rest: {**rest, "command": command},
    st.one_of(st.sampled_from(COMMANDS), names),
    st.dictionaries(fields, plausible, max_size=7),
)


def serve(raw: bytes) -> dict:
    identifier = None
    try:
        request = decode(raw)
        identifier = identifier_of(request)
        return json.loads(encode_result(identifier, CONTROL.handle(request)))
    except CommandError as error:
        return json.loads(encode_error(identifier, error))


def check(raw: bytes) -> None:
    reply = serve(raw)
    assert reply["ok"] or reply["error"]["code"] in CODES, reply
    CONTROL.handle({"command": "restore"})
    DATA.qpos[:] = MODEL.qpos0
    DATA.qvel[:] = 0


@given(requests)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_requests_of_any_shape(request):
    check(json.dumps(request).encode())


@given(st.one_of(st.binary(max_size=60), values.map(lambda value: json.dumps(value).encode())))
@settings(max_examples=80, deadline=None)
def test_messages_of_any_kind(raw):
    check(raw)


@pytest.mark.fuzz
@given(requests)
@settings(max_examples=20000, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_requests_of_any_shape(request):
    logging.disable(logging.NOTSET)
    check(json.dumps(request).encode())


@pytest.fixture(autouse=True, scope="module")
def _closed():
    yield
    CONTROL.close()
