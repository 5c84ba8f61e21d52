"""Datagrams as the standard library's socket gives them."""

import os
import socket

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


@pytest.mark.parametrize("size", [0, 1, LONGEST - 1, LONGEST, LONGEST + 1, 3000])
@pytest.mark.parametrize("address", [None, "{}/peer", "{}/a café", b"\0abstract %d" % os.getpid(), "{}/" + "x" * 60])
def test_equals_the_standard_socket(receiver, tmp_path, size, address):
    if isinstance(address, str):
        address = address.format(os.path.relpath(tmp_path))[-107:] if "x" in address else address.format(tmp_path)
        os.makedirs(os.path.dirname(address), exist_ok=True)
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
