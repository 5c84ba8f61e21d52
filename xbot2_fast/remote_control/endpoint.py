"""Where a server may listen: this machine, unless the caller says otherwise."""

import ipaddress
import logging
import os
import socket

from xbot2_fast.socket_file import SocketFile

logger = logging.getLogger(__name__)


def check_endpoint(endpoint: str, allow_remote: bool) -> None:
    """Refuse an endpoint that others could reach, and one that a live server listens on.

    Args:
        allow_remote: whether addresses beyond this machine are wanted; they are warned of.
    Raises:
        ValueError: neither tcp:// nor ipc://; or reachable from other machines without `allow_remote`.
        OSError: a live server listens on the ipc path.
    """
    transport, separator, address = endpoint.partition("://")
    if not separator or not address or transport not in ("tcp", "ipc"):
        raise ValueError(f"endpoint: expected tcp://HOST:PORT or ipc://PATH, got {endpoint!r}")
    host = address.rpartition(":")[0]
    if transport == "ipc":
        _refuse_live(endpoint, address)
    elif not host or address.endswith("]"):
        raise ValueError(f"endpoint: expected tcp://HOST:PORT, got no port or no host in {endpoint!r}")
    elif not _is_loopback(host):
        if not allow_remote:
            raise ValueError(
                f"endpoint: {endpoint!r} can be reached from other machines, and remote control has neither "
                "authentication nor encryption; use tcp://127.0.0.1:PORT or ipc://PATH, or allow it with "
                "--remote-control-allow-remote (allow_remote=True) on a trusted network"
            )
        logger.warning(
            "remote control listens on %s without authentication or encryption: whoever reaches it controls the robot",
            endpoint,
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_live(endpoint: str, path: str) -> None:
    """ZeroMQ takes over the socket file of whoever listens there, without a word."""
    if path.startswith("@") or not os.path.exists(path):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return  # left behind by a dead server
    raise OSError(f"endpoint: a live server listens on {endpoint}; choose another --remote-control-endpoint")


def socket_file(endpoint: str) -> SocketFile | None:
    """The file of an endpoint that was bound, which ZeroMQ leaves behind; None where it has none."""
    transport, _, path = endpoint.partition("://")
    return SocketFile(path) if transport == "ipc" and not path.startswith("@") else None
