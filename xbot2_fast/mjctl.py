# PYTHON_ARGCOMPLETE_OK
"""`mjctl`: one command to a running simulator, its JSON reply on standard output.

Exit codes: 0 success, 1 refused by the server, no server, no reply or an invalid reply, 2 wrong usage, 130 interrupted.
"""

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xbot2_fast.remote_control import command_line
from xbot2_fast.remote_control.protocol import DEFAULT_ENDPOINT, CommandError

if TYPE_CHECKING:
    from xbot2_fast.remote_control.client import RemoteControlClient

_COMPLETING = "_ARGCOMPLETE" in os.environ  # the shell asks for completions

_EPILOG = """\
example:
  mjctl --endpoint tcp://127.0.0.1:5555 --timeout 10 restore

Replies go to standard output as JSON, diagnostics to standard error. A time-out does not cancel a request that was
sent: it may have taken effect, so check the simulation before sending it again.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mjctl` with these arguments (default: those of the process) and return the exit code."""
    try:
        return _run(build_parser(), list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        print("mjctl: interrupted; a request that was sent may have taken effect", file=sys.stderr)
        return 130


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mjctl",
        description="Control a running xbot2_fast simulator.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--endpoint",
        default=DEFAULT_ENDPOINT,
        help="address of the simulator's --remote-control-endpoint (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=command_line.positive_seconds,
        default=5.0,
        metavar="SECONDS",
        help="wall-clock seconds to wait for sending, and for the reply (default: 5)",
    )
    commands = parser.add_subparsers(
        dest="command_name", metavar="COMMAND", required=True, title="commands", parser_class=_CommandParser
    )
    for command in command_line.COMMANDS:
        commands.add_parser(command.name, help=command.summary, command=command)
    if _COMPLETING:
        import argcomplete

        nothing = argcomplete.ChoicesCompleter({})  # by default files are offered, where a number is wanted too
        argcomplete.autocomplete(parser, default_completer=nothing)
    return parser


class _CommandParser(argparse.ArgumentParser):
    """The parser of one command. Its arguments come when it is used: those of all commands take a third of the time
    of `mjctl --help`."""

    def __init__(self, command: command_line.Command, prog: str):
        super().__init__(prog, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False)
        self._command = command
        self._filled = False
        if _COMPLETING:  # argcomplete looks into parsers before they parse
            self._fill()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._fill()
        return super().parse_known_args(args, namespace)

    def _fill(self) -> None:
        if self._filled:
            return
        self._filled = True
        command = self._command
        self.description = textwrap.fill(command.details, 100)
        self.epilog = f"example:\n  {command.example}"
        self.add_argument("-h", "--help", action="help", help="show this help message and exit")
        for argument in command.arguments:
            action = self.add_argument(*argument.flags, **argument.options)
            if _COMPLETING and argument.completes is not None:
                from xbot2_fast.remote_control.completion import completer

                action.completer = completer(argument.completes)  # type: ignore[attr-defined]
        self.set_defaults(command=command, command_parser=self)


def _run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    args = parser.parse_args(command_line.keep_negative_numbers(argv))
    try:
        request = args.command.request(args)
    except argparse.ArgumentTypeError as error:
        args.command_parser.error(str(error))
    if args.command.name == "watch":
        return _exchange(args, lambda client: _watch(client, args))
    return _exchange(args, lambda client: _send(client, request))


def _exchange(args: argparse.Namespace, talk: "Callable[[RemoteControlClient], int]") -> int:
    """Talk to the server; the exit code, 1 with a diagnostic when it does not answer as it should."""
    from xbot2_fast.remote_control.client import InvalidReply, RemoteControlClient

    try:
        with RemoteControlClient(args.endpoint, args.timeout) as client:
            return talk(client)
    except (ValueError, TimeoutError, InvalidReply, CommandError) as error:
        print(f"mjctl: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # of standard output: nothing else is written here
        sys.stdout = None  # the interpreter would try again at its end
        if not isinstance(error, BrokenPipeError):  # who reads the reply may have seen enough (head)
            print(f"mjctl: the reply could not be written: {error}", file=sys.stderr)
        return 1


def _send(client: "RemoteControlClient", request: command_line.Request) -> int:
    reply = client.request(request)
    print(json.dumps(reply), flush=True)
    return 0 if reply["ok"] else 1


def _watch(client: "RemoteControlClient", args: argparse.Namespace) -> int:
    from xbot2_fast.remote_control.watch import watch

    watch(client, args.interval, args.joints)
    return 0


if __name__ == "__main__":
    sys.exit(main())
