"""The command line: parse, call, print. Nothing imports this room."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.cli.options import Command, Values

ABOUT = "How much memory the KV cache of a language model takes, to the byte, without a GPU."

# Command -> module in this room that holds its COMMAND; loaded only when it is asked for.
_MODULES = {
    "size": "size",
    "fit": "fit",
    "explain": "explain",
    "verify": "verify",
    "replay": "replay",
    "check": "check",
    "models": "models",
    "gpus": "gpus",
    "import": "import_",
    "schema": "schema",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run kvplan and return its exit code: 0 done, 1 a negative answer, 2 could not run."""
    args = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without a character still gets the rest
    try:
        code = _dispatch(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader went away (`| head`): not an error. Keep the interpreter's own flush quiet.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # nothing foresaw it: exit code 1 would be a negative answer
        from kvplan.cli.last_resort import unforeseen

        return unforeseen(error)


def _dispatch(args: list[str]) -> int:
    completing = "_KVPLAN_COMPLETE" in os.environ  # a shell asks, without arguments
    if (not args and not completing) or args[:1] in (["-h"], ["--help"]):
        return _help(None) or (0 if args else 2)  # nothing was asked for
    args, behind = _cut(args)
    if args and args[0] in _MODULES and ("-h" in args or "--help" in args):
        return _help(args[0])
    if args and args[0] in _MODULES:
        from kvplan.cli.quick import parse

        command = _load(args[0])
        values = parse(command, args[1:])
        if values is not None and command.rest:
            values[command.rest] = behind
        if values is not None:
            return _run(command, values)
    from kvplan.cli.app import build, run

    chosen: list[tuple[Command, Values]] = []
    app = build([_load(name) for name in _MODULES], ABOUT, lambda *one: chosen.append(one))
    code = run(app, args)
    if chosen:
        command, values = chosen[0]
        return _run(command, values if command.rest is None else {**values, command.rest: behind})
    return code


def _help(name: str | None) -> int:
    """Print the help of a command, or of all."""
    from kvplan.cli import help as pages
    from kvplan.cli.complain import complain
    from kvplan.errors import UsageError
    from kvplan.report.write import deliver

    commands = [_load(name)] if name else [_load(each) for each in _MODULES]
    try:
        return deliver(pages.of_command(*commands) if name else pages.of_all(commands, ABOUT), None)
    except UsageError as error:
        complain(f"kvplan: {error}")
        return error.exit_code


def _cut(args: list[str]) -> tuple[list[str], list[str]]:
    """A command line, and the words behind `--` of a command that takes another's line."""
    if not args or args[0] not in _MODULES or "--" not in args or _load(args[0]).rest is None:
        return args, []
    end = args.index("--")
    return args[:end], args[end + 1 :]


def _load(name: str) -> Command:
    from importlib import import_module

    command: Command = import_module(f"kvplan.cli.{_MODULES[name]}").COMMAND
    return command


def _run(command: Command, values: Values) -> int:
    from kvplan.cli.complain import complain
    from kvplan.errors import KvplanError

    try:
        return command.run(values)
    except KvplanError as error:
        complain(f"kvplan {command.name}: {error}")
        return error.exit_code
