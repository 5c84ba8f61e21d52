"""The XBot2 side: the server that controllers connect to, and a controller of our own."""

from importlib import import_module

# Public name -> module that defines it; resolved when first used, so that a controller imports no simulator.
_HOMES = {
    "BridgeClient": "client",
    "BridgeServer": "server",
    "ImuState": "messages",
    "JointCommand": "messages",
    "JointState": "messages",
    "MjXbot2Bridge": "mujoco_bridge",
    "RobotCommand": "messages",
    "RobotState": "messages",
}

__all__ = [
    "BridgeClient",
    "BridgeServer",
    "ImuState",
    "JointCommand",
    "JointState",
    "MjXbot2Bridge",
    "RobotCommand",
    "RobotState",
]


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
