"""`mjctl`: one command to a running simulator, its JSON reply on standard output.

Exit codes: 0 success, 1 refused by the server, no server, no reply or an invalid reply, 2 wrong usage, 130 interrupted.
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence

from xbot2_fast.remote_control import command_line
from xbot2_fast.remote_control.protocol import DEFAULT_ENDPOINT

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
    commands = parser.add_subparsers(dest="command_name", metavar="COMMAND", required=True, title="commands")
    for command in command_line.COMMANDS:
        _add_command(commands, command)
    return parser


def _add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: command_line.Command
) -> None:
    parser = commands.add_parser(
        command.name,
        help=command.summary,
        description=textwrap.fill(command.details, 100),
        epilog=f"example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument in command.arguments:
        parser.add_argument(*argument.flags, **argument.options)
    parser.set_defaults(command=command, command_parser=parser)


def _run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    args = parser.parse_args(command_line.keep_negative_numbers(argv))
    try:
        request = args.command.request(args)
    except argparse.ArgumentTypeError as error:
        args.command_parser.error(str(error))
    return send(args.endpoint, args.timeout, request)


def send(endpoint: str, timeout: float, request: command_line.Request) -> int:
    """Send one request, print its reply, and return the exit code."""
    from xbot2_fast.remote_control.client import InvalidReply, RemoteControlClient

    try:
        with RemoteControlClient(endpoint, timeout) as client:
            reply = client.request(request)
    except (ValueError, TimeoutError, InvalidReply) as error:
        print(f"mjctl: {error}", file=sys.stderr)
        return 1
    print(json.dumps(reply), flush=True)
    return 0 if reply["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
