"""`kvplan check`: what deployment files say about the engines they start."""

from __future__ import annotations

from kvplan.cli.options import FORMAT, JSON, OUTPUT, Argument, Command, Option, Values


def run(values: Values) -> int:
    """Read the files and print what they say."""
    from kvplan.check.facts import read_files
    from kvplan.check.paths import find_files
    from kvplan.errors import UsageError
    from kvplan.report.progress import file_progress
    from kvplan.report.write import emit, renderer

    if not values["facts"]:
        raise UsageError(
            "files are read, and not yet judged", hint="kvplan check --facts prints what they say"
        )
    renderer("check", values)
    paths = find_files(values["paths"])
    name = values["stdin_filename"] or "stdin.yaml"
    with file_progress(len(paths)) as moved:
        found = read_files(paths, stdin_name=name, progress=moved)
    return emit("check", found, values)


COMMAND = Command(
    "check",
    "What deployment files say about the engines they start.",
    run,
    Argument("paths", "files and folders; - is a rendered stream", "PATH", many=True),
    (
        Option("facts", "print what was read and from where"),
        Option("stdin_filename", "what standard input is called, and read as", "NAME"),
        FORMAT._replace(help="table or json  [default: as --output ends, else table]"),
        JSON,
        OUTPUT,
    ),
    example="kvplan check deploy/ --facts",
)
