"""The server over real sockets: ordinary clients, pauses, patterns, and clients that mean no good."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

import mujoco
import pytest
import zmq

from tests.remote_control import robots
from xbot2_fast.remote_control import CommandError, RemoteControlClient, RemoteControlServer
from xbot2_fast.remote_control import server as server_module
from xbot2_fast.remote_control.server import MAX_MESSAGE
from xbot2_fast.simulator_wrapper import SimulatorWrapper

EVIL = "(.*.*)*(.*.*)*(.*.*)*(.*.*)*(.*.*)*z"
STATUS = {"command": "status"}


@pytest.fixture
def raw(running):
    """A running simulator and plain sockets to it."""
    simulator = running()
    context = zmq.Context()
    sockets = []

    def connect(kind=zmq.REQ):
        socket = context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, 20000)
        socket.connect(simulator.endpoint)
        sockets.append(socket)
        return socket

    yield simulator, connect
    for socket in sockets:
        socket.close()
    context.term()


def ask(socket, text):
    socket.send(text if isinstance(text, bytes) else text.encode())
    return json.loads(socket.recv())


# ---- replies


@pytest.mark.requirement("S0-338", "S0-342", "S0-422", "S0-423", "S0-424")
@pytest.mark.parametrize(
    ("text", "identifier", "code"),
    [
        (b"", None, "invalid_json"),
        (b"{", None, "invalid_json"),
        (b"\xff\xfe", None, "invalid_json"),
        (b"nonsense", None, "invalid_json"),
        (b"[" * 60000, None, "invalid_json"),
        (b"[" * 30000 + b"]" * 30000, None, "invalid_json"),
        (b'{"id": 1, "command": "status", "x": ' + b"[" * 80 + b"]" * 80 + b"}", None, "invalid_json"),
        (b'{"id": 1, "x": "' + b"a" * MAX_MESSAGE + b'"}', None, "invalid_request"),
        (b"[]", None, "invalid_request"),
        (b"3", None, "invalid_request"),
        (b"null", None, "invalid_request"),
        (b'"restore"', None, "invalid_request"),
        (b'{"id": NaN, "command": "restore"}', None, "invalid_request"),
        (b"{}", None, "unknown_command"),
        (b'{"id": [1, {"a": null}], "command": 3}', [1, {"a": None}], "unknown_command"),
        (b'{"id": "\\ud800", "command": "\\ud800"}', "\ud800", "unknown_command"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, NaN]}', 7, "invalid_parameter"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, -Infinity]}', 7, "invalid_parameter"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, ' + b"9" * 400 + b"]}", 7, "invalid_parameter"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, 1e400]}', 7, "invalid_parameter"),
    ],
    ids=range(20),
)
def test_every_malformed_message_gets_its_error(raw, text, identifier, code):
    simulator, connect = raw
    socket = connect()
    reply = ask(socket, text)
    assert reply["id"] == identifier
    assert reply["ok"] is False
    assert reply["error"]["code"] == code
    assert reply["error"]["message"]
    assert ask(socket, '{"id": 1, "command": "status"}')["ok"] is True


@pytest.mark.parametrize("identifier", [None, 0, -1.5, "x", [], {}, True, 10**300, [[{"a": [1]}]]])
def test_any_json_value_is_echoed_as_id(raw, identifier):
    socket = raw[1]()
    reply = ask(socket, json.dumps({"id": identifier, **STATUS}))
    assert reply["id"] == identifier
    assert list(reply) == ["id", "ok", "result"]
    assert ask(socket, json.dumps(STATUS))["id"] is None


def test_dealer_clients_may_have_many_requests_in_flight(raw):
    dealer = raw[1](zmq.DEALER)
    for i in range(40):
        dealer.send_multipart([b"", json.dumps({"id": i, **STATUS}).encode()])
    assert [json.loads(dealer.recv_multipart()[1])["id"] for _ in range(40)] == list(range(40))
    dealer.send_multipart([b"", b"{}", b"{}"])
    assert json.loads(dealer.recv_multipart()[1])["error"]["code"] == "invalid_request"
    dealer.send(json.dumps({"id": "bare", **STATUS}).encode())
    assert json.loads(dealer.recv())["id"] == "bare"


def test_client_raises_what_the_server_refuses(running):
    client = running().client
    assert client.call("status")["timestep"] == 0.002
    with pytest.raises(CommandError) as error:
        client.call("apply_wrench", body="nobody")
    assert error.value.code == "unknown_body"


# ---- with the loop


def test_a_request_filed_before_a_step_acts_in_that_step(model, tmp_path):
    with SimulatorWrapper(
        model,
        viewer=False,
        target_rtf=math.inf,
        socket_path=str(tmp_path / "s"),
        remote_control_endpoint="tcp://127.0.0.1:*",
    ) as sim:
        for _ in range(5):
            sim.run()

        def push():
            with RemoteControlClient(sim.remote_control.endpoint) as client:
                client.call("apply_wrench", body="base_link", force=[0, 0, 500], torque=[0, 0, 0], duration=0.01)

        client = threading.Thread(target=push)
        client.start()
        time.sleep(0.3)
        sim.run()
        assert sim.data.xfrc_applied[1, 2] == 500
        client.join()


@pytest.fixture
def asked(model, data):
    """A server in no loop, and a client of it with eight requests on the way."""
    server = RemoteControlServer(model, data, "tcp://127.0.0.1:*", max_requests_per_step=3)
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(server.endpoint)
    for i in range(8):
        dealer.send_multipart([b"", json.dumps({"id": i, **STATUS}).encode()])
    time.sleep(0.3)
    yield server, dealer
    dealer.close(0)
    context.term()
    server.close()


def answered_ids(dealer):
    return [json.loads(dealer.recv_multipart()[1])["id"] for _ in range(8)]


def test_at_most_the_budget_is_answered_a_step_and_nothing_is_lost(asked, monkeypatch):
    server, dealer = asked
    monkeypatch.setattr(server_module, "_TURN", math.inf)
    assert [server.process_requests() for _ in range(4)] == [3, 3, 2, 0]
    assert answered_ids(dealer) == list(range(8))


def test_slow_requests_are_answered_one_a_turn_and_nothing_is_lost(asked, monkeypatch):
    server, dealer = asked
    monkeypatch.setattr(server_module, "_TURN", -1.0)  # the time is over after any request
    assert [server.process_requests() for _ in range(9)] == [1] * 8 + [0]
    assert answered_ids(dealer) == list(range(8))


def test_a_real_time_factor_of_almost_nothing_can_be_mended(raw):
    """The next step is then weeks away: a flood before it must not lock the server up."""
    simulator, connect = raw
    client, dealer = simulator.client, connect(zmq.DEALER)
    client.call("set_rtf", rtf=1e-9)
    for _ in range(100):
        dealer.send_multipart([b"", json.dumps(STATUS).encode()])
    client.call("set_rtf", rtf=1.0)
    at = client.call("status")["time"]
    deadline = time.monotonic() + 20
    while client.call("status")["time"] < at + 0.05:
        assert time.monotonic() < deadline
    for _ in range(100):
        assert json.loads(dealer.recv_multipart()[1])["ok"]


def test_paused_only_what_needs_no_step_is_answered(running):
    simulator = running()
    client = simulator.client
    assert client.call("pause") == {"paused": True}
    time.sleep(0.1)
    at = client.call("status")["time"]
    assert client.call("status")["paused"] is True
    assert client.call("list", kind="joints")
    assert client.call("set_rtf", rtf=5)["rtf"] == 5
    answers = []

    def push():
        with RemoteControlClient(simulator.endpoint, timeout=20) as other:
            answers.append(other.call("push", body="crate", linear=[1, 0, 0]))

    waiting = threading.Thread(target=push)
    waiting.start()
    time.sleep(0.3)
    assert answers == []
    assert client.call("status")["time"] == at
    assert client.call("advance", duration=0.0039) == {"duration": 0.0039, "paused": True}
    waiting.join()
    assert answers[0]["body"] == "crate"
    time.sleep(0.2)
    assert client.call("status")["time"] == pytest.approx(at + 0.004)
    assert client.call("resume") == {"paused": False}


def test_respawn_at_a_position(running):
    simulator = running()
    client = simulator.client
    client.call("pause")
    client.call("resume")
    before = client.call("status")["time"]
    assert client.call("respawn", position=[5, 6, 1])["respawned"] is True  # before the next step
    time.sleep(0.1)
    state = client.call("get_state", bodies=["base_link"])
    assert state["time"] >= before
    assert state["bodies"]["base_link"]["position"][:2] == pytest.approx([5, 6], abs=0.5)


# ---- patterns


def test_a_catastrophic_pattern_is_refused_and_holds_up_nobody(running):
    simulator = running()
    request = {
        "command": "apply_wrench",
        "body": EVIL,
        "regex": True,
        "force": [0] * 3,
        "torque": [0] * 3,
        "duration": 1,
    }
    codes, stop = [], threading.Event()

    def attack():
        with RemoteControlClient(simulator.endpoint, timeout=20) as client:
            while not stop.is_set():
                codes.append(client.request({**request, "body": EVIL + "x" * len(codes)})["error"]["code"])

    attacker = threading.Thread(target=attack)
    attacker.start()
    for _ in range(20):
        assert simulator.client.call("status")
    stop.set()
    attacker.join()
    assert set(codes) == {"invalid_regex"}


def test_requests_of_one_client_keep_their_order_behind_a_pattern(raw):
    simulator, connect = raw
    dealer = connect(zmq.DEALER)
    contact = {
        "command": "set_contact_parameters",
        "bodies": ["left_fo+t"],
        "regex": True,
        "parameters": {"margin": 0.01},
    }
    for i, request in enumerate([contact, {"command": "restore"}, STATUS]):
        dealer.send_multipart([b"", json.dumps({"id": i, **request}).encode()])
    assert [json.loads(dealer.recv_multipart()[1])["id"] for _ in range(3)] == [0, 1, 2]
    assert simulator.sim.model.geom("left_sole").margin == 0


def test_a_dead_pattern_worker_is_replaced(running):
    simulator = running()
    matcher = simulator.sim.remote_control.control.table.names.matcher
    assert simulator.client.call("get_state", joints=[".*_knee"])["joints"].keys() == {"left_knee", "right_knee"}
    os.kill(matcher._worker.pid, signal.SIGKILL)
    time.sleep(0.2)
    first = simulator.client.request({"command": "get_state", "joints": [".*ankle.*"]})
    assert first["ok"] or first["error"]["code"] == "invalid_regex"
    assert simulator.client.call("get_state", joints=["left_ankle.*"])["joints"]


# ---- who may connect


@pytest.mark.requirement("S0-340")
def test_without_an_endpoint_nothing_listens(model, tmp_path):
    with SimulatorWrapper(model, viewer=False, target_rtf=math.inf, socket_path=str(tmp_path / "s")) as sim:
        sim.run()
        assert sim.remote_control is None


@pytest.mark.parametrize(
    "endpoint", ["tcp://0.0.0.0:*", "tcp://*:*", "tcp://[::]:*", "tcp://eth0:5555", "tcp://192.168.1.2:1"]
)
def test_other_machines_are_kept_out_unless_wanted(model, data, endpoint, caplog):
    with pytest.raises(ValueError, match="--remote-control-allow-remote"):
        RemoteControlServer(model, data, endpoint)
    if endpoint == "tcp://0.0.0.0:*":
        RemoteControlServer(model, data, endpoint, allow_remote=True).close()
        assert "without authentication or encryption" in caplog.text


@pytest.mark.parametrize("endpoint", ["", "5555", "udp://127.0.0.1:1", "inproc://x", "tcp://", "ws://127.0.0.1:1"])
def test_what_is_no_endpoint_is_explained(model, data, endpoint):
    with pytest.raises(ValueError, match="endpoint: expected tcp://HOST:PORT or ipc://PATH, got"):
        RemoteControlServer(model, data, endpoint)


def test_a_taken_endpoint_is_refused_and_a_stale_one_reused(model, data, tmp_path):
    path = f"ipc://{os.path.relpath(tmp_path)}/rc"
    for endpoint in ("tcp://127.0.0.1:*", path):
        server = RemoteControlServer(model, data, endpoint)
        with pytest.raises(OSError, match="--remote-control-endpoint"):
            RemoteControlServer(model, data, server.endpoint)
        server.close()
    import socket

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.path.join(os.path.relpath(tmp_path), "stale"))
    server = RemoteControlServer(model, data, f"ipc://{os.path.relpath(tmp_path)}/stale")
    server.close()


# ---- clients that mean no good

FLOOD = """
import sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.setsockopt(zmq.SNDHWM, 0)
socket.connect(sys.argv[1])
print("ready", flush=True)
while True:
    socket.send_multipart([b"", sys.argv[2].encode()])  # and never reads a reply
"""


@pytest.mark.parametrize("text", ['{"command": "status"}', "{", '{"command": "list", "kind": "geoms"}'])
def test_a_flood_that_reads_no_reply_neither_stops_the_simulation_nor_others(running, text):
    simulator = running()
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, simulator.endpoint, text], stdout=subprocess.PIPE)
    try:
        assert flood.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        at = simulator.client.call("status")["time"]
        for _ in range(20):
            assert simulator.client.call("status")
        assert simulator.client.call("status")["time"] > at
    finally:
        flood.kill()
        flood.wait()
        flood.stdout.close()
    assert simulator.client.call("status")


DIE = """
import json, os, sys, zmq
socket = zmq.Context().socket(zmq.REQ)
socket.connect(sys.argv[1])
socket.send(json.dumps({"command": "list", "kind": "geoms"}).encode())
socket.poll(2000)  # the reply is there
socket = None
os.kill(os.getpid(), 9)
"""


def test_clients_killed_between_request_and_reply_harm_nobody(running):
    simulator = running()
    for _ in range(3):
        process = subprocess.run([sys.executable, "-c", DIE, simulator.endpoint], timeout=30, check=False)
        assert process.returncode == -9
        assert simulator.client.call("status")


def test_a_message_beyond_all_limits_closes_only_its_own_connection(raw):
    simulator, connect = raw
    huge = connect(zmq.DEALER)
    huge.send_multipart([b"", b" " * (1 << 21)])
    assert huge.poll(300) == 0
    assert simulator.client.call("status")


def test_many_clients_at_once(running):
    simulator = running()
    counts = []

    def work(k):
        with RemoteControlClient(simulator.endpoint, timeout=20) as client:
            for i in range(25):
                assert client.request({"id": [k, i], **STATUS})["id"] == [k, i]
            counts.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == list(range(8))


def test_closing_leaves_nothing_behind(model, tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    server = RemoteControlServer(model, mujoco.MjData(model), f"ipc://{os.path.relpath(tmp_path)}/rc")
    worker = server.control.table.names.matcher._worker.pid
    server.close()
    assert set(os.listdir("/proc/self/fd")) == before
    assert not os.path.exists(f"/proc/{worker}")
    assert robots.model().nbody == model.nbody
