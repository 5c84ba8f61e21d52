"""Names for the shell's completion, from the running server."""

import argparse
from collections.abc import Callable

from xbot2_fast.remote_control.client import InvalidReply, RemoteControlClient
from xbot2_fast.remote_control.protocol import DEFAULT_ENDPOINT, CommandError

_PATIENCE = 0.5  # s; a shell waits for us


def names(kind: str) -> Callable[..., list[str]]:
    """A completer of argcomplete for one kind of name: nothing when no server answers."""

    def complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        endpoint = getattr(parsed_args, "endpoint", None) or DEFAULT_ENDPOINT
        try:
            with RemoteControlClient(endpoint, _PATIENCE) as client:
                entries = client.call("list", kind=kind)[kind]
        except (ValueError, TimeoutError, CommandError, InvalidReply):
            return []
        return [entry["name"] for entry in entries if entry["name"].startswith(prefix)]

    return complete
