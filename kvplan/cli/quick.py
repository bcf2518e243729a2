"""Reads a well-formed command line off a command's table, without a command-line library.

It never complains: a line it does not fully understand gives None, and typer then parses the same
line again, says what is wrong and prints the help.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.cli.options import Command, Option, Values


def parse(command: Command, args: Sequence[str]) -> Values | None:
    """The values of a well-formed command line, or None."""
    by_spelling = {spelling: option for option in command.options for spelling in option.spellings}
    values: Values = {option.name: option.empty for option in command.options}
    positional: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "-" or not arg.startswith("-"):
            positional.append(arg)
            continue
        spelling, given, text = arg.partition("=")
        if given and not arg.startswith("--"):  # `-o=x` means another thing to typer
            return None
        option = by_spelling.get(spelling)
        if option is None:
            return None
        if option.metavar is None:
            if given:
                return None
            values[option.name] = True
            continue
        if not given:
            following = next(rest, None)
            if following is None or (following.startswith("-") and following != "-"):
                return None
            text = following
        _store(values, option, text)
    return _with_argument(command, values, positional)


def _store(values: Values, option: Option, text: str) -> None:
    if option.many:
        values[option.name] = [*values[option.name], text]
    else:
        values[option.name] = text


def _with_argument(command: Command, values: Values, positional: list[str]) -> Values | None:
    argument = command.argument
    if argument is None:
        return values if not positional else None
    if (argument.required and not positional) or (len(positional) > 1 and not argument.many):
        return None
    values[argument.name] = positional if argument.many else next(iter(positional), None)
    return values
