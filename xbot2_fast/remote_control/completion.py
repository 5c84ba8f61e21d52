"""What the shell offers for an argument: names and ids from the running server, or files."""

import argparse
from collections.abc import Callable, Iterable

import argcomplete

from xbot2_fast.remote_control.client import InvalidReply, RemoteControlClient
from xbot2_fast.remote_control.protocol import DEFAULT_ENDPOINT, CommandError

_PATIENCE = 0.5  # s; a shell waits for us


def completer(completes: str) -> Callable[..., Iterable[str]]:
    """A completer of argcomplete, which offers nothing when no server answers.

    Args:
        completes: a kind of name of the server's `list`; one with "=" behind it, for NAME=VALUE; "wrenches" for the ids
            of the active ones; "files".
    """
    if completes == "files":
        return argcomplete.FilesCompleter()

    def complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        endpoint = getattr(parsed_args, "endpoint", None) or DEFAULT_ENDPOINT
        try:
            with RemoteControlClient(endpoint, _PATIENCE) as client:
                offered = _offered(client, completes)
        except (ValueError, TimeoutError, CommandError, InvalidReply):
            return []
        return [text for text in offered if text.startswith(prefix)]

    return complete


def _offered(client: RemoteControlClient, completes: str) -> list[str]:
    if completes == "wrenches":
        return [str(wrench["id"]) for wrench in client.call("list_wrenches")["wrenches"]]
    kind = completes.removesuffix("=")
    return [entry["name"] + completes[len(kind) :] for entry in client.call("list", kind=kind)[kind]]
