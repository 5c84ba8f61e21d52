"""`mjctl watch`: a live table of what the simulator does."""

import time
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from xbot2_fast.remote_control.client import RemoteControlClient


def watch(client: RemoteControlClient, interval: float, joints: list[str] | None) -> None:
    """Show status and joints, anew once per interval [s of wall time], until interrupted.

    Args:
        joints: patterns for entire joint names; None: all. While paused the joints stay as they were.
    Raises:
        CommandError, TimeoutError, InvalidReply: as the client does.
    """
    state: dict[str, Any] = {}
    with Live(auto_refresh=False) as live:
        while True:
            status = client.call("status")
            if not status.get("paused"):
                state = client.call("get_state", **({"joints": joints} if joints else {}))
            live.update(table(status, state), refresh=True)
            time.sleep(interval)


def table(status: dict[str, Any], state: dict[str, Any]) -> RenderableType:
    """Status and joint states as tables."""
    summary = Table("what", "value", title="simulator")
    for name, value in status.items():
        summary.add_row(name, _text(value))
    rows = Table("joint", "position", "velocity", "effort", title="joints [rad or m, rad/s or m/s, Nm or N]")
    for name, joint in state.get("joints", {}).items():
        rows.add_row(name, *(_text(joint.get(key)) for key in ("position", "velocity", "effort")))
    return Group(summary, rows)


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.4f}"
        case list():
            return " ".join(_text(element) for element in value) or "-"
        case dict():
            return ", ".join(f"{key}: {_text(element)}" for key, element in value.items()) or "-"
        case _:
            return str(value)
