"""`kvplan schema`: the published JSON Schema of a file format."""

from __future__ import annotations

from kvplan.cli.options import OUTPUT, Argument, Command, Values
from kvplan.errors import UsageError


def run(values: Values) -> int:
    """Print the schema of `spec`."""
    from kvplan.report.as_json import dump
    from kvplan.report.write import deliver
    from kvplan.spec.schema import spec_schema

    if values["what"] != "spec":
        raise UsageError(f"there is no schema of {values['what']!r}", hint="one of spec")
    return deliver(dump(spec_schema()), values["output"])


COMMAND = Command(
    "schema",
    "The JSON Schema of a model spec, for editors: kvplan schema spec.",
    run,
    Argument("what", "spec", "WHAT"),
    (OUTPUT,),
    example="kvplan schema spec -o spec.schema.json",
)
