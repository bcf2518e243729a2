"""What a command takes, as data: one table that both parsers read.

A well-formed command line is read straight off the table (`kvplan.cli.quick`), because importing a
command-line library takes longer than answering. Help, completion and every error come from typer,
which is built from the same table (`kvplan.cli.app`). All values are text, flags or lists of text;
what they mean is decided once, by the command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Values = dict[str, Any]


class Option(NamedTuple):
    """One option.

    Attributes:
        name: its key in the values; `--ctx` unless `flags` says otherwise.
        help: one line for `--help`.
        metavar: what stands for the value; None makes it a flag without one.
        default: the text used when it is absent.
        flags: spellings, when they are more than `--name`.
        many: may be given several times; the value is a list.
    """

    name: str
    help: str
    metavar: str | None = None
    default: str | None = None
    flags: tuple[str, ...] = ()
    many: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """How the option is written."""
        return self.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def empty(self) -> Any:
        """Its value when it is absent."""
        if self.many:
            return []
        return False if self.metavar is None else self.default


class Argument(NamedTuple):
    """The positional arguments of a command."""

    name: str
    help: str
    metavar: str
    required: bool = True
    many: bool = False


class Command(NamedTuple):
    """One command: its words and what runs it."""

    name: str
    help: str
    run: Callable[[Values], int]
    argument: Argument | None
    options: tuple[Option, ...]


MODEL_HELP = "a name, a Hugging Face id, a spec, or - for standard input"

FORMAT = Option(
    "format", "table, json, csv or md  [default: as --output ends, else table]", "FORMAT"
)
JSON = Option("json", "the same as --format json")
OUTPUT = Option("output", "write the report to a file instead", "FILE", flags=("--output", "-o"))
SPECS = Option("specs", "folder of your own specs (or KVPLAN_SPECS)", "DIR", many=True)

NETWORK = Option("allow_network", "ask the Hugging Face Hub for a model that is not here")

REPORT = (FORMAT, JSON, OUTPUT)

REQUEST = (
    Option("ctx", "tokens per sequence (128k = 131,072)  [default: the model's maximum]", "TOKENS"),
    Option("batch", "sequences held at once", "N", "1"),
    Option("dtype", "cache formats, side by side: bf16,fp8,int8", "D[,D]", "auto"),
    Option("dtype_k", "format of K where it differs", "D"),
    Option("dtype_v", "format of V where it differs", "D"),
    Option("encoder_tokens", "tokens cross attention keeps", "TOKENS"),
    Option("with_draft", "count the layers of multi-token prediction too"),
)

ENGINE = (
    Option("engine", "whose rules: logical, or an engine, with @VERSION", "ENGINE", "logical"),
    Option("tp", "tensor parallel ranks", "N", "1"),
    Option("pp", "pipeline parallel ranks", "N", "1"),
    Option("dp", "data parallel replicas", "N", "1"),
    Option("dcp", "decode context parallel ranks", "N", "1"),
    Option("engine_args", "more engine flags, in the engine's spelling", "FLAGS"),
)
