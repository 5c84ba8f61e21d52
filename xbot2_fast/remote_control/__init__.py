"""Remote control: a running simulation is pushed, weighed down, limited and disturbed by JSON requests over ZeroMQ.

`protocol` says what a request is, `commands` what each command does, `server` serves the commands on a socket and
`client` sends them. Names are resolved when first used: a client imports neither MuJoCo nor NumPy.
"""

from importlib import import_module

_HOMES = {
    "CommandError": "xbot2_fast.remote_control.protocol",
    "RemoteControlClient": "xbot2_fast.remote_control.client",
    "RemoteControl": "xbot2_fast.remote_control.control",
    "RemoteControlServer": "xbot2_fast.remote_control.server",
}

__all__ = ["CommandError", "RemoteControl", "RemoteControlClient", "RemoteControlServer"]


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'xbot2_fast.remote_control' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
