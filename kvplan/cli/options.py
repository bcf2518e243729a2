"""What a command takes, as data: one table that both parsers read.

A well-formed command line is read straight off the table (`kvplan.cli.quick`), because importing a
command-line library takes longer than answering. Help, completion and every error come from typer,
which is built from the same table (`kvplan.cli.app`). All values are text, flags or lists of text;
what they mean is decided once, by the command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.named_tuple import NamedTuple

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
        group: the heading it stands under in the help.
    """

    name: str
    help: str
    metavar: str | None = None
    default: str | None = None
    flags: tuple[str, ...] = ()
    many: bool = False
    group: str = "Options"

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
    """One command: its words and what runs it.

    Attributes:
        name: the word on the command line.
        help: one line that fits a list of commands.
        run: what it does; returns the exit code.
        argument: what stands there without a flag.
        options: its flags, those of one group together.
        example: a command line that shows what it is for.
        rest: the key of the words behind `--`, of a command that takes any.
    """

    name: str
    help: str
    run: Callable[[Values], int]
    argument: Argument | None
    options: tuple[Option, ...]
    example: str = ""
    rest: str | None = None


def grouped(group: str, *options: Option) -> tuple[Option, ...]:
    """The same options under a heading of the help."""
    return tuple(option._replace(group=group) for option in options)


MODEL_HELP = "a name, a Hugging Face id, a file or folder, or - for standard input"

MODELS_GROUP = "Where models come from"
REPORT_GROUP = "The report"

FORMAT = Option(
    "format", "table, json, csv or md  [default: as --output ends, else table]", "FORMAT"
)
JSON = Option("json", "the same as --format json")
OUTPUT = Option("output", "write the report to a file instead", "FILE", flags=("--output", "-o"))
SPECS = Option(
    "specs", "folder of your own specs (or KVPLAN_SPECS)", "DIR", many=True, group=MODELS_GROUP
)

NETWORK = Option(
    "allow_network",
    "ask the Hugging Face Hub for a model that is not here",
    group=MODELS_GROUP,
)

REPORT = grouped(REPORT_GROUP, FORMAT, JSON, OUTPUT)

REQUEST = grouped(
    "What is asked",
    Option("ctx", "tokens per sequence (128k = 131,072)  [default: the model's maximum]", "TOKENS"),
    Option("batch", "sequences held at once", "N", "1"),
    Option("dtype", "cache formats, side by side: bf16,fp8,int8", "D[,D]", "auto"),
    Option("dtype_k", "format of K where it differs", "D"),
    Option("dtype_v", "format of V where it differs", "D"),
    Option("encoder_tokens", "tokens cross attention keeps", "TOKENS"),
    Option("with_draft", "count the layers of multi-token prediction too"),
)

# The same for commands that answer for one format.
ONE_REQUEST = tuple(
    option._replace(help="cache format: bf16, fp8, int8, q8_0", metavar="D")
    if option.name == "dtype"
    else option
    for option in REQUEST
)

ENGINE = grouped(
    "The engine",
    Option("engine", "whose rules, with @VERSION where it matters", "ENGINE", "logical"),
    Option("tp", "tensor parallel ranks", "N", "1"),
    Option("pp", "pipeline parallel ranks", "N", "1"),
    Option("dp", "data parallel replicas", "N", "1"),
    Option("dcp", "decode context parallel ranks", "N", "1"),
    Option("engine_args", "more engine flags, in the engine's spelling", "FLAGS"),
)
