"""Datagrams as the standard library's socket gives them."""

import os
import socket
import tempfile

import pytest
from xbot2_fast._kernels._datagram import DatagramReader

LONGEST = 100


@pytest.fixture
def receiver(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(str(tmp_path / "s"))
        ours.setblocking(False)
        yield ours


def _send(receiver, data, address=None):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        if address is not None:
            sender.bind(address)
        sender.sendto(data, receiver.getsockname())


@pytest.fixture(params=["none", "short", "not ASCII", "abstract", "longest"])
def address(request, tmp_path):
    if request.param == "longest":  # 107 bytes and the zero behind them
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            yield f"{folder}/{'x' * (106 - len(folder))}"
        return
    yield {
        "none": None,
        "short": str(tmp_path / "peer"),
        "not ASCII": str(tmp_path / "a café"),
        "abstract": b"\0abstract %d" % os.getpid(),
    }[request.param]


@pytest.mark.parametrize("size", [0, 1, LONGEST - 1, LONGEST, LONGEST + 1, 3000])
def test_equals_the_standard_socket(receiver, address, size):
    reader = DatagramReader(receiver.fileno(), LONGEST)
    data = bytes(i % 256 for i in range(size))
    for _ in range(2):
        _send(receiver, data, address)
        buffer = bytearray(LONGEST)
        count, _, flags, sender = receiver.recvmsg_into([buffer])
        expected = None if flags & socket.MSG_TRUNC else bytes(buffer[:count])
        if isinstance(address, str):
            os.unlink(address)
        _send(receiver, data, address)
        assert reader.receive() == (expected, sender or None)
        if isinstance(address, str):
            os.unlink(address)
    assert reader.receive() is None


def test_senders_that_take_turns_are_told_apart(receiver, tmp_path):
    reader = DatagramReader(receiver.fileno(), LONGEST)
    for i in range(6):
        address = [str(tmp_path / "a"), str(tmp_path / "b"), None][i % 3]
        _send(receiver, b"%d" % i, address)
        assert reader.receive() == (b"%d" % i, address)
        if address:
            os.unlink(address)


def test_a_closed_socket_is_an_error(receiver):
    reader = DatagramReader(receiver.fileno(), LONGEST)
    receiver.close()
    with pytest.raises(OSError, match="cannot receive"):
        reader.receive()
