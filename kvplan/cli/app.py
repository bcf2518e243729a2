"""The typer application, built from the commands' tables: help, completion and usage errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from inspect import Parameter, Signature
from io import StringIO
from typing import Annotated, Any

import typer

from kvplan.cli.complain import complain
from kvplan.cli.complete import completer
from kvplan.cli.engine_names import own_name
from kvplan.cli.options import Argument, Command, Option

_SETTINGS = {"help_option_names": ["-h", "--help"]}


def build(
    commands: Iterable[Command], about: str, chosen: Callable[[Command, Any], object]
) -> typer.Typer:
    """An application with one subcommand per entry; `chosen` gets the command and its values."""
    app = typer.Typer(
        name="kvplan",
        help=about,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )

    @app.callback(invoke_without_command=True)
    def root(
        version: Annotated[
            bool, typer.Option("--version", is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        if version:
            from kvplan import __version__

            typer.echo(f"kvplan {__version__}")
            raise typer.Exit

    for command in commands:
        app.command(command.name, help=command.help, context_settings=_SETTINGS)(
            _callback(command, chosen)
        )
    return app


def run(app: typer.Typer, args: list[str]) -> int:
    """Parse a command line; a usage error is printed as every other error is.

    Help, version and completions are collected first and printed as a report is, so that a full
    disk or a reader that goes away means the same for all.
    """
    from kvplan.errors import UsageError
    from kvplan.report.write import deliver

    printed = StringIO()
    try:
        with redirect_stdout(printed):
            code = _parse(app, args)
        if printed.getvalue():
            deliver(printed.getvalue(), None)
    except UsageError as error:
        complain(f"kvplan: {error}")
        return error.exit_code
    return code


def _parse(app: typer.Typer, args: list[str]) -> int:
    try:
        return int(app(args, prog_name="kvplan", standalone_mode=False) or 0)
    except SystemExit as done:  # completion
        return done.code if isinstance(done.code, int) else 0
    except Exception as error:
        # The class of usage errors is typer's own or click's, depending on typer's version.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message().strip().removesuffix(".")
        nearest = "kvplan" if args[0].startswith("-") else f"kvplan {args[0]}"
        place = getattr(getattr(error, "ctx", None), "command_path", nearest)
        own = own_name(message)
        if own is not None:
            message = message.partition(" (Possible")[0].partition(" Did you mean")[0]
        hint = own or f"{place} --help"
        complain(f"{place}: {message[:1].lower()}{message[1:]}\nhint: {hint}")
        return 2


def _callback(command: Command, chosen: Callable[[Command, Any], object]) -> Callable[..., None]:
    def callback(**values: Any) -> None:
        chosen(command, values)

    parameters = [_option(option) for option in command.options]
    if command.argument is not None:
        parameters.insert(0, _argument(command.argument))
    callback.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {item.name: item.annotation for item in parameters}
    return callback


def _argument(argument: Argument) -> Parameter:
    kind: Any = list[str] if argument.many else str
    default: Any = Parameter.empty
    if not argument.required:
        kind, default = kind | None, None
    info = typer.Argument(
        help=argument.help,
        metavar=argument.metavar,
        show_default=False,
        autocompletion=completer(argument.metavar, argument.name),
    )
    return _parameter(argument.name, Annotated[kind, info], default)


def _option(option: Option) -> Parameter:
    kind: Any = bool
    if option.metavar is not None:
        kind = list[str] if option.many else (str | None)
    shown = bool(option.metavar and option.default)
    info = typer.Option(
        *option.spellings,
        help=option.help,
        metavar=option.metavar,
        show_default=shown,
        autocompletion=completer(option.metavar, option.name),
    )
    return _parameter(option.name, Annotated[kind, info], option.empty)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
