"""The server over JSON: discovery, states, commands, peers that come, go and misbehave."""

import json
import logging
import os
import socket
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.bridge.conftest import Peer, control
from xbot2_fast.bridge import BridgeServer, RobotState
from xbot2_fast.bridge.endpoint import is_live
from xbot2_fast.bridge.messages import ImuState, JointState
from xbot2_fast.bridge.permissions import Access
from xbot2_fast.bridge.segment import FOLDER, remove_dead_segments

N = 3


@pytest.fixture
def make_server(tmp_path):
    made = []

    def make(protocol="json", path=None, joints=N, **options):
        names = [f"j{i}" for i in range(joints)]
        made.append(BridgeServer("unit", str(path or tmp_path / f"s{len(made)}"), names, ["imu"], protocol, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def server(make_server):
    return make_server()


def connect(server, peer):
    peer.ask(server)
    server.receive()
    return peer.read()


# ---- discovery and states


@pytest.mark.requirement("S0-006", "S0-007")
def test_discovery_answer_as_json(server, peer):
    assert connect(server, peer) == {"type": "discovery", "joint_names": ["j0", "j1", "j2"], "imu_sensors": ["imu"]}


@pytest.mark.parametrize("protocol", ["auto", "shm"])
def test_discovery_answer_with_shared_memory(make_server, peer, protocol):
    server = make_server(protocol)
    reply = connect(server, peer)
    assert list(reply) == ["type", "joint_names", "imu_sensors", "protocol", "shm_name", "server_session_id", "layout"]
    assert reply["protocol"] == "xbot2-shm-v1"
    assert reply["shm_name"] == server.segment.name
    assert list(reply["layout"]) == [
        "magic", "version", "header_size", "total_size", "state_offset", "command_offset", "njoints", "nimus",
    ]  # fmt: skip


@pytest.mark.requirement("S0-007")
def test_state_message_bytes(server, peer):
    connect(server, peer)
    rows = [[f + i / 2 for i in range(N)] for f in range(8)]
    imu = ImuState([0.5, -0.5, 0.5, 0.5], [1, 2, 3], [4, 5, 6])
    server.send_state(RobotState(0.25, JointState(*rows), {"imu": imu}))
    text = peer.socket.recv(1 << 16)
    fields = ",".join(
        f'"{name}":{json.dumps(row, separators=(",", ":"))}'
        for name, row in zip(("q", "dq", "tau", "k", "d", "qref", "vref", "tauref"), rows, strict=True)
    )
    imus = '{"imu":{"quat_w":[0.5,-0.5,0.5,0.5],"lin_acc_b":[1.0,2.0,3.0],"ang_vel_b":[4.0,5.0,6.0]}}'
    assert text.decode() == f'{{"time":0.25,"joints":{{{fields}}},"imus":{imus},"type":"state"}}'


def test_unchanged_gains_are_sent_again_and_changed_ones_anew(server, peer):
    connect(server, peer)
    for value in (1.0, 1.0, 2.0):
        server.state.joints.q[:] = np.random.default_rng(0).normal()
        server.state.joints.k[:] = value
        server.commit_state(value)
        assert peer.read()["joints"]["k"] == [value] * N


def test_send_state_refuses_a_wrong_shape_whole(server):
    state = RobotState(1.0, JointState(*[[1.0] * N] * 7, [1.0]), {"imu": ImuState()})
    with pytest.raises(ValueError, match=r"state: joints.tauref: expected shape \(3,\), got \(1,\)"):
        server.send_state(state)
    with pytest.raises(ValueError, match="'imu' is missing"):
        server.send_state(RobotState(1.0, JointState(*[[1.0] * N] * 8), {}))
    assert server.port.states == 0
    np.testing.assert_array_equal(server.state.joints.q, 0)


def test_json_never_carries_a_number_that_is_not_finite(server, peer):
    connect(server, peer)
    server.state.joints.dq[1] = np.nan
    server.commit_state(1.0)
    server.state.joints.dq[1] = 0
    server.commit_state(2.0)
    assert peer.read()["time"] == 2.0


# ---- commands


@pytest.mark.requirement("S0-007")
def test_command_arrives_with_and_without_its_stamp(server, peer):
    peer.send(server, control(N, 1.5, stamp_rx_feedback=77))
    assert server.receive()
    assert server.command.joint_command.stamp_rx_feedback == 77
    np.testing.assert_array_equal(server.command.joint_command.k, 1.5)
    peer.send(server, control(N, 2))
    assert server.receive()
    assert server.command.joint_command.stamp_rx_feedback == 0
    np.testing.assert_array_equal(server.command.joint_command.d, 2)
    assert [str(client) for client in server.clients] == [peer.path]  # any sender becomes a client


def test_the_newest_queued_command_counts(server, peer):
    for value in range(5):
        peer.send(server, control(N, value))
    assert server.receive()
    np.testing.assert_array_equal(server.command.joint_command.q, 4)
    assert not server.receive()
    assert server.clients[0].log.counters["dropped"] == 4


def test_a_discovery_behind_a_command_is_answered(server, peer):
    peer.send(server, control(N, 3))
    peer.ask(server)
    assert server.receive()
    assert peer.read()["type"] == "discovery"
    np.testing.assert_array_equal(server.command.joint_command.q, 3)


@pytest.mark.parametrize("joints", [45, 300])
def test_commands_of_big_robots_fit(make_server, peer, joints):
    server = make_server(joints=joints)
    values = [-1.2345678901234567e-100] * joints
    peer.send(server, control(joints, q=values, dq=values, tau=values, k=values, d=values))
    assert server.receive()
    np.testing.assert_array_equal(server.command.joint_command.tau, values)


GOOD = json.dumps(control(N)).encode()
MALFORMED = {
    "empty": b"",
    "not JSON": b"hello",
    "not UTF-8": b"\xff\xfe{}",
    "array": b"[1,2]",
    "number": b"3",
    "no type": b"{}",
    "type of a wrong type": b'{"type":3}',
    "unknown type": b'{"type":"dance"}',
    "no joint_command": b'{"type":"control"}',
    "joint_command is a list": b'{"type":"control","joint_command":[]}',
    "short": GOOD.replace(b"0.0, ", b"", 1),
    "long": GOOD.replace(b"[", b"[1,", 1),
    "missing field": GOOD.replace(b'"tau"', b'"taw"'),
    "string inside": GOOD.replace(b"0.0", b'"x"', 1),
    "boolean inside": GOOD.replace(b"0.0", b"true", 1),
    "null inside": GOOD.replace(b"0.0", b"null", 1),
    "NaN inside": GOOD.replace(b"0.0", b"NaN", 1),
    "infinite inside": GOOD.replace(b"0.0", b"1e999", 1),
    "huge integer": GOOD.replace(b"0.0", b"9" * 400, 1),
    "list inside": GOOD.replace(b"0.0", b"[0]", 1),
    "negative stamp": GOOD.replace(b'"d"', b'"stamp_rx_feedback": -1, "d"'),
    "stamp of a wrong type": GOOD.replace(b'"d"', b'"stamp_rx_feedback": "now", "d"'),
    "too long": b"[" + b"0," * 40_000 + b"0]",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_datagrams_are_counted_logged_once_and_change_nothing(server, peer, data, caplog):
    for _ in range(6):
        peer.send(server, data)
        assert not server.receive()
    assert sum(server.status()["malformed"].values()) == 6
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    np.testing.assert_array_equal(server.command.joint_command.q, 0)
    peer.send(server, GOOD)
    assert server.receive()


def test_a_sound_command_before_a_malformed_one_counts(server, peer):
    peer.send(server, control(N, 5))
    peer.send(server, MALFORMED["short"])
    assert server.receive()
    np.testing.assert_array_equal(server.command.joint_command.q, 5)


def test_over_shared_memory_alone_json_commands_are_ignored(make_server, peer):
    server = make_server("shm")
    peer.send(server, control(N, 5))
    assert not server.receive()
    assert server.clients == []


# ---- the life of a connection


def test_two_json_controllers_get_states_and_the_newest_command_wins(server, tmp_path):
    with Peer(tmp_path / "a") as a, Peer(tmp_path / "b") as b:
        connect(server, a)
        connect(server, b)
        server.commit_state(1.0)
        assert a.read()["time"] == b.read()["time"] == 1.0
        a.send(server, control(N, 1))
        b.send(server, control(N, 2))
        assert server.receive()
        np.testing.assert_array_equal(server.command.joint_command.q, 2)


def test_a_client_that_is_gone_is_dropped_with_one_line_and_the_others_keep_their_states(server, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with Peer(tmp_path / "b") as b:
        refused = Peer(tmp_path / "a")
        unlinked = Peer(tmp_path / "c")
        for peer in (refused, b, unlinked):
            connect(server, peer)
        refused.socket.close()
        os.unlink(unlinked.path)
        caplog.clear()
        for count in range(5):
            server.commit_state(count)
            assert b.read()["time"] == count
        assert [str(client) for client in server.clients] == [b.path]
        assert len([r for r in caplog.records if "gone" in r.getMessage()]) == 1
        unlinked.socket.close()
        os.unlink(refused.path)


def test_a_client_that_does_not_read_never_blocks_and_is_logged_once(server, peer, caplog):
    connect(server, peer)
    for count in range(500):
        server.commit_state(count)
    client = server.clients[0]
    assert client.states + client.states_missed == 500
    assert client.states_missed > 400
    assert len([r for r in caplog.records if "does not read" in r.getMessage()]) == 1


def test_an_unbound_sender_may_command_but_is_no_client(server):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unbound:
        unbound.sendto(GOOD, server.endpoint.path)
        unbound.sendto(b'{"type":"discovery"}', server.endpoint.path)
        assert server.receive()
    server.commit_state(1)
    assert server.clients == []


def test_auto_serves_each_as_it_asks(make_server, tmp_path):
    server = make_server("auto")
    with Peer(tmp_path / "a") as text, Peer(tmp_path / "b") as shared:
        connect(server, text)
        connect(server, shared)
        memory = server.segment.memory
        memory[72:80] = (7).to_bytes(8, "little")  # announces its session
        server.commit_state(1)
        assert text.read()["time"] == 1
        shared.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            shared.read()
        assert [client.transport for client in server.clients] == ["json", "shm"]


# ---- socket and segment


@pytest.mark.parametrize("protocol", ["json", "shm"])
def test_close_leaves_nothing_and_a_call_afterwards_raises(make_server, protocol, tmp_path):
    server = make_server(protocol)
    path = server.endpoint.path
    segment = server.segment and server.segment.path
    server.close()
    server.close()
    assert not os.path.exists(path)
    assert segment is None or not os.path.exists(segment)
    for call in (server.receive, lambda: server.commit_state(0), lambda: server.send_state(RobotState())):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert not server.port.take(0, 0.0)
    server.port.commit(0.0)


def test_the_socket_of_a_live_simulator_is_refused_and_stays(server, make_server):
    with pytest.raises(OSError, match="--socket-path"):
        make_server(path=server.endpoint.path)
    assert is_live(server.endpoint.path)


def test_a_dead_socket_is_replaced_and_dead_clients_are_removed(make_server, tmp_path):
    path = tmp_path / "dead"
    for name in (str(path), f"{path}.client.4194999"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as alive:
        alive.bind(f"{path}.client.4194998")
        server = make_server(path=path)
        assert is_live(server.endpoint.path)
        assert not os.path.exists(f"{path}.client.4194999")
        assert os.path.exists(f"{path}.client.4194998")


def test_something_that_is_no_socket_is_left_alone(make_server, tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(OSError, match="no socket"):
        make_server(path=path)
    assert path.read_text() == "precious"


def test_directories_are_made_and_a_relative_path_works(make_server, tmp_path, monkeypatch):
    assert is_live(make_server(path=tmp_path / "new" / "dir" / "s").endpoint.path)
    monkeypatch.chdir(tmp_path)
    server = make_server(path="relative")
    monkeypatch.chdir("/")
    server.close()
    assert not (tmp_path / "relative").exists()


def test_a_path_that_is_too_long_is_refused(make_server, tmp_path):
    with pytest.raises(ValueError, match="at most 107 bytes.*--socket-path"):
        make_server(path=tmp_path / ("x" * 120))


def test_close_leaves_the_socket_of_a_successor(make_server, tmp_path):
    first = make_server(path=tmp_path / "s")
    os.unlink(first.endpoint.path)
    second = make_server(path=tmp_path / "s")
    first.close()
    assert is_live(second.endpoint.path)


@pytest.mark.parametrize("umask", [0o000, 0o077])
@pytest.mark.parametrize(("mode", "bits"), [(None, 0o600), ("0666", 0o666), (0o660, 0o660)])
def test_socket_and_segment_have_the_mode_asked_for(make_server, umask, mode, bits):
    before = os.umask(umask)
    try:
        server = make_server("shm", mode=mode)
    finally:
        os.umask(before)
    for path in (server.endpoint.path, server.segment.path):
        assert stat.S_IMODE(os.stat(path).st_mode) == bits


def test_mode_may_be_a_group(make_server):
    import grp

    group = grp.getgrgid(os.getgid())
    server = make_server("shm", mode=group.gr_name)
    for path in (server.endpoint.path, server.segment.path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        assert os.stat(path).st_gid == group.gr_gid


@pytest.mark.parametrize("mode", ["0777", "0066", "nobody-has-this-group", "-1", 0o4600])
def test_a_bad_mode_is_refused(mode):
    with pytest.raises(ValueError, match="bridge mode: expected"):
        Access.parse(mode)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"protocol": "tcp"}, "protocol: expected one of auto, shm, json, got 'tcp'"),
        ({"command_freshness_sec": 0}, "command_freshness_sec: expected a positive number, got 0"),
        ({"joint_names": ["a", "a"]}, "joint_names: 'a' comes twice"),
        ({"imu_names": [""]}, "imu_names: expected names, got ''"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        BridgeServer("unit", str(tmp_path / "s"), **arguments)
    assert not (tmp_path / "s").exists()


KILLED = """
import sys, time
from xbot2_fast.bridge import BridgeServer
server = BridgeServer("killed", sys.argv[1], ["j"], [], "shm")
print(server.segment.name, flush=True)
time.sleep(60)
"""


def test_what_a_killed_server_left_is_removed_at_the_next_start(make_server, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True)
    name = process.stdout.readline().strip()
    assert remove_dead_segments() == []  # alive
    assert os.path.exists(os.path.join(FOLDER, name))
    process.kill()
    process.wait()
    process.stdout.close()
    assert os.path.exists(os.path.join(FOLDER, name))
    make_server("shm", path=tmp_path / "s")
    assert not os.path.exists(os.path.join(FOLDER, name))


# ---- diagnostics


def test_status_shows_rates_and_round_trips(server, peer):
    connect(server, peer)
    server.commit_state(1.0)
    for k in range(1, 11):
        peer.send(server, control(N, stamp_rx_feedback=int(1e9) - k * 1_000_000))
        server.receive()
        time.sleep(0.001)
    peer.send(server, b"x")
    server.receive()
    status = server.status()
    json.dumps(status)
    (controller,) = status["controllers"]
    assert controller["address"] == peer.path
    assert controller["commands"] == controller["commands_per_s"] == 10
    assert controller["malformed"] == 1
    trip = controller["round_trip"]
    assert [round(trip[key] * 1e3, 6) for key in ("min", "median", "p99", "max")] == [1, 6, 10, 10]
