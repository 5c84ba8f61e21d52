"""Bytes, sequences and acceptance rules of the segment, against a controller in C that knows only the wire format."""

import grp
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests.bridge.conftest import Peer
from xbot2_fast.bridge import BridgeClient, BridgeServer, RobotState
from xbot2_fast.bridge.layout import Layout
from xbot2_fast.bridge.messages import ImuState, JointState
from xbot2_fast.bridge.segment import remove_dead_segments

JOINTS = [f"j{i}" for i in range(8)]
WORDS = 16


@pytest.fixture(scope="session")
def controller(tmp_path_factory):
    """The compiled C controller."""
    program = tmp_path_factory.mktemp("bin") / "controller"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    source = Path(__file__).with_name("controller.c")
    subprocess.run(
        [
            shutil.which(compiler) or "cc",
            "-std=c11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            str(source),
            "-o",
            str(program),
        ],
        check=True,
    )
    return str(program)


@pytest.fixture
def server(tmp_path):
    with BridgeServer("unit", str(tmp_path / "s"), JOINTS, ["imu"], "shm") as server:
        yield server


def start(controller, server, *arguments):
    return subprocess.Popen([controller, server.endpoint.path, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def finish(process, server, act=lambda: time.sleep(0.0005)):
    """Serve until the process ends; its output."""
    while process.poll() is None:
        server.receive()
        act()
    server.receive()
    output = process.stdout.read()
    process.stdout.close()
    assert process.returncode == 0
    return output


def header(server):
    return list(struct.unpack_from("<16Q", server.segment.memory))


def put(server, word, value):
    struct.pack_into("<Q", server.segment.memory, 8 * word, value)


def publish(server, seq=2, session=7, valid=1, age=0.0, values=None, stamp_rx=5):
    """A command as a controller would leave it in the segment."""
    at = header(server)[12]
    values = np.arange(40.0) if values is None else values
    struct.pack_into(f"<Q{len(values)}d", server.segment.memory, at, stamp_rx, *values)
    for word, value in (
        (9, session),
        (10, valid),
        (13, time.monotonic_ns() - int(age * 1e9) if age is not None else 0),
    ):
        put(server, word, value)
    put(server, 7, seq)


@pytest.fixture
def discover(tmp_path):
    """Discover as a controller would, by a datagram."""
    with Peer(tmp_path / "peer") as peer:

        def ask(server):
            peer.ask(server)
            server.receive()
            assert peer.read()["type"] == "discovery"

        yield ask


# ---- layout


def test_sizes_are_those_of_the_wire_format():
    assert (Layout.of(8, 1).command_offset, Layout.of(8, 1).total_size) == (768, 1152)
    assert (Layout.of(1, 1).command_offset, Layout.of(1, 1).total_size) == (320, 384)


def test_header_words(server):
    layout = Layout.of(8, 1)
    session = server._session
    expected = [0x5842504253484D31, 1, 128, 1152, 8, 1, 0, 0, session, 0, 0, 128, 768, 0, 0, 0]
    assert header(server) == expected == list(layout.header(session))
    assert session != 0
    assert os.stat(server.segment.path).st_size == 1152
    name, pid, random = server.segment.name.rsplit("-", 2)
    assert (name, int(pid), len(random)) == ("xbot2-pybridge-unit", os.getpid(), 16)


def test_state_is_where_the_c_controller_reads_it(server, controller):
    rows = [np.arange(8.0) + 10 * f for f in range(8)]
    imu = ImuState([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    server.send_state(RobotState(1.25, JointState(*rows), {"imu": imu}))
    output = finish(start(controller, server, "dump"), server)
    got = [float(line) for line in output.split()]
    assert got == [1.25, *np.concatenate(rows), *imu.quat_w, *imu.lin_acc_b, *imu.ang_vel_b]


def test_command_of_the_c_controller_arrives(server, controller):
    finish(start(controller, server, "command", 0.5), server)
    command = server.command.joint_command
    assert command.stamp_rx_feedback == 1234
    for field, name in enumerate(("q", "dq", "tau", "k", "d")):
        np.testing.assert_array_equal(getattr(command, name), 0.5 + 100 * field + np.arange(8))


# ---- sequences


def test_sequence_goes_up_by_two_per_state_with_nobody_connected(server):
    for count in range(1, 4):
        server.commit_state(0.001 * count)
        assert header(server)[6] == 2 * count


def test_discovery_clears_the_clients_words_and_asks_for_a_fresh_command(server, discover):
    discover(server)
    publish(server, seq=8)
    assert server.receive()
    discover(server)
    assert [header(server)[w] for w in (7, 9, 10, 13)] == [0, 0, 0, 0]
    assert not server.receive()
    publish(server, seq=2, session=99)
    assert server.receive()


# ---- which commands count


def test_before_any_discovery_no_command_counts(server, discover):
    publish(server)
    assert not server.receive()
    discover(server)
    publish(server)
    assert server.receive()


@pytest.mark.parametrize(
    ("change", "counter"),
    [
        ({"seq": 3}, "torn"),
        ({"seq": 0}, None),
        ({"session": 0}, "refused"),
        ({"valid": 0}, "refused"),
        ({"age": None}, "refused"),
        ({"age": 0.15}, "stale"),
        ({"values": np.full(40, np.nan)}, "malformed"),
        ({"values": np.append(np.zeros(39), np.inf)}, "malformed"),
    ],
)
def test_a_command_that_breaks_a_rule_does_not_count(server, discover, change, counter):
    discover(server)
    server.command.joint_command.q[:] = -1
    publish(server, **change)
    assert not server.receive()
    assert not server.receive()
    np.testing.assert_array_equal(server.command.joint_command.q, -1)
    counters = server.clients[0].log.counters
    assert {name: count for name, count in counters.items() if count} == ({counter: 1} if counter else {})
    publish(server, seq=10)
    assert server.receive()


@pytest.mark.parametrize("word", [0, 1, 8])
def test_a_scribbled_header_stops_commands_until_the_next_discovery(server, discover, word):
    discover(server)
    put(server, word, 12345)
    publish(server)
    assert not server.receive()
    discover(server)
    publish(server)
    assert server.receive()


@pytest.mark.parametrize(("age", "counts"), [(0.05, True), (-5.0, True), (0.12, False)])
def test_freshness(server, discover, age, counts):
    discover(server)
    publish(server, age=age)
    assert server.receive() == counts


def test_only_the_first_session_of_a_discovery_counts_and_only_newer_sequences(server, discover):
    discover(server)
    publish(server, seq=4, session=7)
    assert server.receive()
    publish(server, seq=6, session=8)
    assert not server.receive()
    publish(server, seq=4, session=7)
    assert not server.receive()
    publish(server, seq=2, session=7)
    assert not server.receive()
    publish(server, seq=12, session=7)
    assert server.receive()
    assert server.clients[0].log.counters["dropped"] == 3


def test_a_command_taken_is_a_copy(server, discover):
    discover(server)
    publish(server)
    assert server.receive()
    struct.pack_into("<40d", server.segment.memory, header(server)[12] + 8, *[9.0] * 40)
    np.testing.assert_array_equal(server.command.joint_command.q, np.arange(8.0))


def test_a_writer_that_died_inside_its_frame_is_waited_for_once(server, controller):
    server.commit_state(0)
    finish(start(controller, server, "stall"), server)
    started = server.clients[0].log.counters["torn"]
    for _ in range(100):
        assert not server.receive()
    assert server.clients[0].log.counters["torn"] <= started + 1


# ---- nothing torn


def _read_torn(server, controller, reads, cpu):
    process = start(controller, server, "read", reads, cpu)
    numbers = server._numbers
    count = 0.0

    def publish_many():
        nonlocal count
        for _ in range(200):
            count += 1
            numbers[:] = count
            server.port.commit(count)

    whole, begun_anew, torn = map(int, finish(process, server, publish_many).split())
    assert whole >= reads
    return begun_anew, torn


@pytest.fixture
def two_cores():
    """This process on the first core; the number of the last one, for the controller."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield max(cpus)
    os.sched_setaffinity(0, cpus)


@pytest.mark.parametrize("reads", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.soak)])
def test_no_state_is_torn(server, controller, two_cores, reads):
    begun_anew, torn = _read_torn(server, controller, reads, two_cores)
    assert torn == 0
    assert begun_anew > 0  # the reader did meet the writer inside frames


PUBLISHER = """
import os, sys
from xbot2_fast.bridge import BridgeServer
os.sched_setaffinity(0, {int(sys.argv[2])})
with BridgeServer("unit", sys.argv[1], [f"j{i}" for i in range(8)], ["imu"], "shm") as server:
    while not server.clients:
        server.receive()
    count = 0.0
    while os.getppid() == int(sys.argv[3]):
        for _ in range(1000):
            count += 1
            server._numbers[:] = count
            server.port.commit(count)
"""


def test_no_state_that_our_own_client_reads_is_torn(tmp_path, two_cores):
    path = str(tmp_path / "s")
    process = subprocess.Popen([sys.executable, "-c", PUBLISHER, path, str(two_cores), str(os.getpid())])
    try:
        with BridgeClient(path, timeout=60) as client:
            numbers = np.frombuffer(client._numbers)
            read = torn = 0
            while read < 50_000 or (read < 500_000 and not client._port.torn):
                if client._port.read(client._numbers):
                    read += 1
                    torn += numbers.min() != numbers.max()
            begun_anew = client._port.torn
            del numbers
    finally:
        process.kill()
        process.wait()
        remove_dead_segments()
    assert torn == 0
    assert begun_anew > 0  # it did meet the publisher inside frames


WRITER = """
import os, sys, time
from array import array
from xbot2_fast.bridge import BridgeClient
os.sched_setaffinity(0, {int(sys.argv[2])})
path = sys.argv[1]
with BridgeClient(path, protocol="shm", client_path=f"{path}.client.{os.getpid()}", timeout=60) as client:
    frames = [(i, array("d", [i]) * len(client._command)) for i in range(1, 1000)]
    publish = client._port.publish
    while os.getppid() == int(sys.argv[3]):
        now = time.monotonic_ns()
        for i, frame in frames:  # hardly a pause between two, so that most looks meet one
            publish(i, frame, now)
"""


@pytest.mark.parametrize(
    ("writer", "wanted"), [("C", 10_000), pytest.param("C", 2_000_000, marks=pytest.mark.soak), ("our own", 20_000)]
)
def test_no_command_is_torn(server, controller, two_cores, writer, wanted):
    if writer == "C":
        process = start(controller, server, "write", 600, two_cores)
    else:
        arguments = [sys.executable, "-c", WRITER, server.endpoint.path, str(two_cores), str(os.getpid())]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    values = server._command_numbers
    taken = torn = 0
    last = 0.0
    while taken < wanted and process.poll() is None:
        server.receive()
        for _ in range(500):
            if server.port.take(time.monotonic_ns(), 0.0):
                taken += 1
                torn += bool(
                    (values != values[0]).any()
                    or (writer == "C" and values[0] <= last)
                    or server.port.stamp != values[0]
                )
                last = values[0]
    process.kill()
    process.wait()
    process.stdout.close()
    os.unlink(f"{server.endpoint.path}.client.{process.pid}")
    assert torn == 0
    assert taken >= wanted
    assert server.clients[0].log.counters["torn"] > 0  # the server did meet the writer inside frames


# ---- other users

STRANGER = 65534  # a user and group of its own on every Linux


@pytest.fixture
def open_folder(controller):
    """A folder that every user may enter and write to, with the C controller in it."""
    folder = tempfile.mkdtemp(prefix="xbot2-users-", dir="/tmp")  # that of pytest is the owner's alone
    os.chmod(folder, 0o777)
    shutil.copy(controller, folder)
    os.chmod(os.path.join(folder, "controller"), 0o755)
    yield folder
    shutil.rmtree(folder)


def _as_stranger(server, folder, *arguments):
    """Run the C controller as a user that is neither ours nor of our group; its exit code and output."""
    program = os.path.join(folder, "controller")
    user = ["--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups"]
    process = subprocess.Popen(
        ["setpriv", *user, program, server.endpoint.path, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while process.poll() is None:
        server.receive()
        time.sleep(0.0005)
    server.receive()
    return process.returncode, *process.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [None, "0600", "0660", "root"])
def test_another_user_is_kept_out(open_folder, mode):
    with BridgeServer("unit", os.path.join(open_folder, "s"), JOINTS, ["imu"], "shm", mode=mode) as server:
        code, _, error = _as_stranger(server, open_folder, "command", 0.5)
        assert (code, error) == (1, "controller: sendto\n")
        assert server.discoveries == 0
        denied = subprocess.run(
            ["setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups", "cat",
             server.segment.path], capture_output=True,
        )  # fmt: skip
        assert denied.returncode == 1
        assert denied.stdout == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", ["0666", "its group"])
def test_another_user_controls_where_the_mode_says_so(open_folder, mode):
    mode = grp.getgrgid(STRANGER).gr_name if mode == "its group" else mode
    with BridgeServer("unit", os.path.join(open_folder, "s"), JOINTS, ["imu"], "shm", mode=mode) as server:
        server.state.joints.q[:] = 0.25
        server.commit_state(1.5)
        code, output, error = _as_stranger(server, open_folder, "dump")
        assert (code, error) == (0, "")
        assert [float(line) for line in output.split()][:2] == [1.5, 0.25]
        code, _, error = _as_stranger(server, open_folder, "command", 0.5)
        assert (code, error) == (0, "")
        np.testing.assert_array_equal(server.command.joint_command.q, 0.5 + np.arange(8))
