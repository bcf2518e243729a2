"""The typer application, built from the commands' tables: help, completion and usage errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from kvplan.cli.options import Argument, Command, Option

_SETTINGS = {"help_option_names": ["-h", "--help"]}


def build(
    commands: Iterable[Command], about: str, run: Callable[[Command, Any], int]
) -> typer.Typer:
    """An application with one subcommand per entry; `run` gets the command and its values."""
    app = typer.Typer(
        name="kvplan",
        help=about,
        no_args_is_help=True,
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
            _callback(command, run)
        )
    return app


def _callback(command: Command, run: Callable[[Command, Any], int]) -> Callable[..., None]:
    def callback(**values: Any) -> None:
        raise typer.Exit(run(command, values))

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
    info = typer.Argument(help=argument.help, metavar=argument.metavar, show_default=False)
    return _parameter(argument.name, Annotated[kind, info], default)


def _option(option: Option) -> Parameter:
    kind: Any = bool
    if option.metavar is not None:
        kind = list[str] if option.many else (str | None)
    shown = bool(option.metavar and option.default)
    info = typer.Option(
        *option.spellings, help=option.help, metavar=option.metavar, show_default=shown
    )
    return _parameter(option.name, Annotated[kind, info], option.empty)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
