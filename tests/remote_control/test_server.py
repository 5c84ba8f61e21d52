"""The server over real sockets: ordinary clients, pauses, patterns, and clients that mean no good."""

import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from socket import socketpair

import mujoco
import pytest
import zmq
from xbot2_fast._kernels._loop import StepLoop
from xbot2_fast._kernels._timers import RequestWatch

from tests.remote_control import robots
from xbot2_fast.remote_control import CommandError, RemoteControlClient, RemoteControlServer
from xbot2_fast.remote_control import server as server_module
from xbot2_fast.remote_control.inbox import MAX_PARTS
from xbot2_fast.remote_control.patterns import MAX_PATTERNS
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
        (b'{"id": [NaN], "command": "restore"}', None, "invalid_request"),
        (b'{"id": "' + b"a" * 1023 + b'", "command": "restore"}', None, "invalid_request"),
        (b'{"id": "' + b"a" * 60000 + b'", "command": "restore"}', None, "invalid_request"),
        (b'{"id": ' + b"9" * 1025 + b', "command": "restore"}', None, "invalid_request"),
        (b'{"id": [' + b"1," * 30000 + b'1], "command": "restore"}', None, "invalid_request"),
        (b'{"id": {"' + b"a" * 600 + b'": "' + b"b" * 600 + b'"}, "command": "restore"}', None, "invalid_request"),
        (b"{}", None, "unknown_command"),
        (b'{"id": [1, {"a": null}], "command": 3}', [1, {"a": None}], "unknown_command"),
        (b'{"id": "\\ud800", "command": "\\ud800"}', "\ud800", "unknown_command"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, NaN]}', 7, "invalid_parameter"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, -Infinity]}', 7, "invalid_parameter"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, ' + b"9" * 400 + b"]}", 7, "invalid_parameter"),
        (b'{"id": 7, "command": "set_gravity", "gravity": [0, 0, 1e400]}', 7, "invalid_parameter"),
    ],
    ids=range(26),
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


@pytest.mark.parametrize("identifier", [None, 0, -1.5, "x", [], {}, True, 10**300, [[{"a": [1]}]], "a" * 1022])
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
    all_the_time_of_the_world(monkeypatch)
    assert [server.process_requests() for _ in range(4)] == [3, 3, 2, 0]
    assert answered_ids(dealer) == list(range(8))


def test_slow_requests_are_answered_one_a_turn_and_nothing_is_lost(asked, monkeypatch):
    server, dealer = asked
    monkeypatch.setattr(server_module, "_TURN", -1.0)  # the time is over after any request
    monkeypatch.setattr(server_module, "_LONG_TURN", math.inf)
    assert [server.process_requests() for _ in range(9)] == [1] * 8 + [0]
    assert answered_ids(dealer) == list(range(8))


def test_after_a_long_request_the_loop_has_a_rest_from_requests(asked, monkeypatch):
    server, dealer = asked
    any_request_is_long(monkeypatch, rest=1.0)
    assert server.process_requests() == 1
    assert [server.process_requests() for _ in range(3)] == [0] * 3
    assert server.serve_while_waiting() == 0
    assert not readable(server)  # the requests that wait wake nobody ...
    assert readable(server, 60)  # ... until the rest is over, however far away the next step is
    monkeypatch.setattr(server_module, "_LONG_TURN", math.inf)
    assert server.serve_while_waiting() == 1
    assert readable(server)
    assert [server.process_requests() for _ in range(8)] == [1] * 6 + [0] * 2
    assert not readable(server)
    assert answered_ids(dealer) == list(range(8))


def all_the_time_of_the_world(monkeypatch):
    monkeypatch.setattr(server_module, "_TURN", math.inf)
    monkeypatch.setattr(server_module, "_LONG_TURN", math.inf)


def any_request_is_long(monkeypatch, rest):
    monkeypatch.setattr(server_module, "_TURN", -1.0)
    monkeypatch.setattr(server_module, "_LONG_TURN", 0.0)
    monkeypatch.setattr(server_module, "_LONGEST_REST", rest)
    monkeypatch.setattr(server_module, "_REST", 1e9)


def readable(server, timeout=0.0):
    return bool(select.select([server.fileno()], [], [], timeout)[0])


def test_a_pattern_that_is_answered_in_a_rest_is_served_behind_it(asked, monkeypatch):
    server, dealer = asked
    all_the_time_of_the_world(monkeypatch)
    assert sum(server.process_requests() for _ in range(4)) == 8
    dealer.send_multipart([b"", b'{"id": "pattern", "command": "get_state", "joints": [".*"]}'])
    dealer.send_multipart([b"", b'{"id": "behind", "command": "status"}'])
    time.sleep(0.3)
    any_request_is_long(monkeypatch, rest=120.0)
    assert server.serve_while_waiting() == 0
    assert readable(server, 60)  # by the answer to the pattern
    assert server.serve_while_waiting() == 0
    assert not readable(server)
    server._rests_until = 0.0
    all_the_time_of_the_world(monkeypatch)
    assert server.serve_while_waiting() == 2
    replies = [json.loads(dealer.recv_multipart()[1]) for _ in range(10)]
    assert [reply["id"] for reply in replies[8:]] == ["pattern", "behind"]


def test_a_rest_does_not_keep_a_pause_from_being_served(asked, monkeypatch):
    server, dealer = asked
    any_request_is_long(monkeypatch, rest=60.0)
    assert server.process_requests() == 1
    assert server.serve_while_paused() == 1
    all_the_time_of_the_world(monkeypatch)
    assert server.serve_while_paused() == 3
    assert readable(server)
    assert server.serve_while_paused() == 3
    assert server.serve_while_paused() == 0
    assert not readable(server)
    assert answered_ids(dealer) == list(range(8))


def test_no_client_has_the_room_for_requests_in_a_pause_to_itself(served):
    server, connect = served
    greedy, other = connect(), connect()
    push = json.dumps({"command": "push", "body": "base_link", "linear": [0, 0, 1]}).encode()
    for _ in range(65):
        greedy.send_multipart([b"", push])
    deadline = time.monotonic() + 60
    while not greedy.poll(0):
        assert time.monotonic() < deadline
        server.serve_while_paused()
    reply = json.loads(greedy.recv_multipart()[1])
    assert reply["error"]["code"] == "invalid_request"
    assert "wait" in reply["error"]["message"]
    other.send_multipart([b"", push])
    while server.control.wrenches.count() < 65:
        assert time.monotonic() < deadline
        server.serve_while_paused()
        if not other.poll(50):
            server.process_requests()
    assert json.loads(other.recv_multipart()[1])["ok"]


def test_no_request_is_begun_when_the_step_is_due(asked, monkeypatch):
    server, dealer = asked
    all_the_time_of_the_world(monkeypatch)
    assert server.serve_while_waiting(until=time.monotonic()) == 1  # one is always begun, or the wait would spin
    assert server.serve_while_waiting(until=time.monotonic() + 60) == 2  # the budget
    assert not readable(server)
    assert [server.process_requests() for _ in range(3)] == [3, 2, 0]
    assert answered_ids(dealer) == list(range(8))


def test_the_budget_of_requests_begins_anew_in_each_step(model, data):
    ours, theirs = socketpair()
    with ours, theirs:
        watch = RequestWatch(ours.fileno(), 3, 0.0)
        loop = StepLoop(model, data)
        loop.before(watch, 0)
        assert loop.pre_step() == 0
        assert [watch.take() for _ in range(5)] == [True] * 3 + [False] * 2
        assert watch.left == 0
        assert watch.step_began()
        assert not watch.step_began()
        theirs.send(b"x")
        assert loop.pre_step() != 0
        assert watch.left == 3
        assert watch.step_began()


@pytest.fixture
def served(model, data):
    """A server in no loop, and a maker of clients."""
    server = RemoteControlServer(model, data, "tcp://127.0.0.1:*")
    context = zmq.Context()
    sockets = []

    def connect(**options):
        socket = context.socket(zmq.DEALER)
        sockets.append(socket)
        for name, value in {"LINGER": 0, "RCVTIMEO": 20000, **options}.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.connect(server.endpoint)
        return socket

    yield server, connect
    for socket in sockets:
        socket.close()
    context.term()
    server.close()


def serve_until(server, done):
    deadline = time.monotonic() + 60
    calls = 0
    while not done():
        assert time.monotonic() < deadline
        server._rests_until = 0.0
        server.process_requests()
        calls += 1
    return calls


def test_a_message_of_many_parts_is_read_in_pieces(served, monkeypatch):
    server, connect = served
    many, other = connect(), connect()
    many.send_multipart([b"", *[b"{}"] * 5000])
    monkeypatch.setattr(server_module, "_TURN", -1.0)  # the time is always over: a part a turn
    monkeypatch.setattr(server_module, "_LONG_TURN", math.inf)
    serve_until(server, lambda: server._inbox.unfinished)
    assert server._inbox.parts == MAX_PARTS + 1
    server._rests_until = 0.0
    assert server.process_requests() == 0
    assert server._inbox.parts == MAX_PARTS + 2
    assert readable(server)  # else the parts that are left would wait for the next message
    other.send_multipart([b"", json.dumps(STATUS).encode()])
    assert serve_until(server, lambda: other.poll(0)) > 4900
    assert json.loads(other.recv_multipart()[1])["ok"]
    error = json.loads(many.recv_multipart()[1])["error"]
    assert error == {"code": "invalid_request", "message": "expected one message part, got 5000"}
    assert not server._inbox.unfinished


def test_requests_may_come_through_proxies(served):
    server, connect = served
    client = connect()
    hops = [b"hop%d" % i for i in range(MAX_PARTS - 3)]
    for envelope, ok in ((hops, True), ([*hops, b"one more"], False)):
        client.send_multipart([*envelope, b"", json.dumps(STATUS).encode()])
        serve_until(server, lambda: client.poll(0))
        reply = client.recv_multipart()
        assert json.loads(reply[-1])["ok"] is ok
        assert reply[:-1] == ([*hops, b""] if ok else [])


def test_requests_of_clients_that_read_no_replies_are_dropped(served, monkeypatch):
    server, connect = served
    monkeypatch.setattr(server_module, "_DEAF", 600.0)
    carried_out, long = [], {"text": "x" * 50000}
    server.control.table.register("long", lambda request: None, lambda _: carried_out.append(1) or long)
    deaf = [connect(RCVHWM=1, RCVBUF=4096) for _ in range(20)]
    for client in deaf:
        for _ in range(300):
            client.send_multipart([b"", b'{"command": "long"}'])
    other = connect()
    _asks_and_is_answered(server, other)
    _serve_all(server)
    assert len(server._deaf) == 20
    assert len(carried_out) < 20 * 150  # of 20 * 300: what the queues and the kernel hold

    patient = deaf.pop()
    for client in deaf:
        client.close()
    _serve_all(server)
    count = len(carried_out)
    _asks_and_is_answered(server, other)
    while patient.poll(300):  # now it reads
        patient.recv_multipart()
    server._deaf.update(dict.fromkeys(server._deaf, 0.0))  # the time of the drops is over
    _asks_and_is_answered(server, patient)
    assert len(carried_out) == count


def _asks_and_is_answered(server, client):
    client.send_multipart([b"", json.dumps({"id": "now", **STATUS}).encode()])
    serve_until(server, lambda: client.poll(0))
    assert json.loads(client.recv_multipart()[1])["id"] == "now"


def _serve_all(server):
    """Serve until nothing has come for 0.3 s."""
    idle = 0
    while idle < 10:
        server._rests_until = 0.0
        idle = 0 if server.process_requests() else idle + 1
        time.sleep(0.03 * (idle > 0))


def test_a_real_time_factor_of_almost_nothing_can_be_mended(raw):
    """The next step is then weeks away: a flood before it must not lock the server up."""
    simulator, connect = raw
    client, dealer = simulator.client, connect(zmq.DEALER)
    client.call("set_rtf", rtf=1e-9)
    for _ in range(100):
        dealer.send_multipart([b"", json.dumps(STATUS).encode()])
    connect(zmq.DEALER).send_multipart([b"", b"[" + b"1," * 30000 + b"1]"])  # and it takes long
    for _ in range(100):  # many times the budget of a step
        assert json.loads(dealer.recv_multipart()[1])["ok"]
    client.call("set_rtf", rtf=1.0)
    at = client.call("status")["time"]
    deadline = time.monotonic() + 20
    while client.call("status")["time"] < at + 0.05:
        assert time.monotonic() < deadline


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


def test_names_need_no_pattern_worker_and_patterns_are_bounded(served):
    server, connect = served
    client = connect()

    def ask_for(joints):
        client.send_multipart([b"", json.dumps({"command": "get_state", "joints": joints}).encode()])
        serve_until(server, lambda: client.poll(0))
        return json.loads(client.recv_multipart()[1])

    assert ask_for(["left_knee"] * 500)["result"]["joints"].keys() == {"left_knee"}
    assert not server._matcher._answers
    assert ask_for([f"left_kne+e(?#{i})" for i in range(MAX_PATTERNS)])["ok"]
    error = ask_for([f"left_knee(?#{i})" for i in range(MAX_PATTERNS + 200)])["error"]
    assert error == {"code": "invalid_request", "message": f"expected at most {MAX_PATTERNS} patterns, got more"}
    assert ask_for([".*_knee"])["ok"]


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


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1", "tcp://[::1]", "tcp://:5555", "tcp://localhost"])
def test_an_endpoint_without_host_or_port_is_not_taken_for_another_machines(model, data, endpoint):
    with pytest.raises(ValueError, match="expected tcp://HOST:PORT, got no port or no host in"):
        RemoteControlServer(model, data, endpoint)


def test_an_ipc_file_is_removed_at_the_end_but_not_another_servers(model, data, tmp_path):
    path = tmp_path / "rc"
    endpoint = f"ipc://{os.path.relpath(path)}"
    RemoteControlServer(model, data, endpoint).close()
    assert not path.exists()
    server = RemoteControlServer(model, data, endpoint)
    path.unlink()
    path.write_text("somebody else's")
    server.close()
    assert path.read_text() == "somebody else's"


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
