"""`--help`: an example first, then the arguments and the options under their headings.

It is written from a command's table, without a command-line library, so it costs no more than an
answer, and it is as wide as the terminal, at most 100 columns. Unit: columns.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from kvplan.cli.options import Command, Option

_WIDEST = 100
_COLUMN = 30  # where descriptions begin, at most
_SELF = ("-h, --help", "show this message and exit")
_ROOT = (
    ("--version", "print the version and exit"),
    ("--install-completion", "complete commands, options and names in this shell"),
    ("--show-completion", "print the script for that"),
    _SELF,
)


def of_command(command: Command) -> str:
    """The help of one command."""
    argument = command.argument
    usage = f"Usage: kvplan {command.name} [OPTIONS]"
    if argument is not None:
        metavar = argument.metavar
        usage += f" {metavar}" if argument.required else f" [{metavar}]"
    parts = [usage, *_wrapped(command.help, "  ")]
    if command.example:
        parts += ["", "Example:", f"  {command.example}"]
    if argument is not None:
        required = "  [required]" if argument.required else ""
        parts += ["", "Arguments:", *_rows([(argument.metavar, argument.help + required)])]
    groups: dict[str, list[tuple[str, str]]] = {}
    for option in command.options:
        groups.setdefault(option.group, []).append((_spelt(option), _said(option)))
    for title in sorted(groups, key=lambda name: name == "The report"):
        parts += ["", f"{title}:", *_rows(groups[title])]
    parts += ["", *_rows([_SELF])]
    return "\n".join(parts) + "\n"


def of_all(commands: Iterable[Command], about: str) -> str:
    """The help of kvplan itself."""
    rows = [(command.name, command.help) for command in commands]
    parts = ["Usage: kvplan [OPTIONS] COMMAND [ARGS]...", *_wrapped(about, "  ")]
    parts += ["", "Example:", "  kvplan size llama3-8b --ctx 128k --batch 32"]
    parts += ["", "Commands:", *_rows(rows), "", "Options:", *_rows(_ROOT)]
    parts += ["", "`kvplan COMMAND --help` tells more."]
    return "\n".join(parts) + "\n"


def _spelt(option: Option) -> str:
    spellings = ", ".join(sorted(option.spellings, key=len))
    return spellings if option.metavar is None else f"{spellings} {option.metavar}"


def _said(option: Option) -> str:
    text = option.help
    if option.name == "engine":
        from kvplan.engines import ENGINE_NAMES

        text += f": {', '.join(ENGINE_NAMES)}"
    if option.metavar and option.default:
        text += f"  [default: {option.default}]"
    return text


def _width() -> int:
    return min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, max(_width(), 40), initial_indent=indent, subsequent_indent=indent)


def _rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names and descriptions in two columns; a name too long for its column has its own line."""
    column = min(max(len(name) for name, _ in rows) + 4, _COLUMN)
    lines: list[str] = []
    for name, text in rows:
        room = max(_width() - column, 20)
        said = textwrap.wrap(text, room, break_on_hyphens=False)
        if len(name) + 4 > column:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name:<{column - 2}}{said[0]}")
            said = said[1:]
        lines += [" " * column + line for line in said]
    return lines
