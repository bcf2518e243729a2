"""`kvplan import`: a foreign file as a spec, each line with its origin behind it."""

from __future__ import annotations

from kvplan.cli.complain import complain
from kvplan.cli.options import NETWORK, OUTPUT, Argument, Command, Option, Values


def run(values: Values) -> int:
    """Write the spec of a config.json, params.json or GGUF file, or of a folder with one."""
    from kvplan.importers.folder import config_of
    from kvplan.load import import_model
    from kvplan.report.write import deliver
    from kvplan.spec.labels import attention_label
    from kvplan.spec.writer import write_spec

    found, place = import_model(
        values["path"], allow_network=values["allow_network"], ignored=values["ignore_key"]
    )
    place = config_of(place)  # which the lines' origins then need not repeat
    header = [f"{attention_label(found.spec)}, imported by kvplan from {place}"]
    header += [f"{warning.id}: {warning.message}" for warning in found.warnings]
    for warning in found.warnings:
        complain(f"warning: {warning.message} [{warning.id}]")
    return deliver(
        write_spec(found.spec, comments=found.comments(place), header=header), values["output"]
    )


COMMAND = Command(
    "import",
    "Write the spec of a config.json or GGUF file, with origins.",
    run,
    Argument("path", "a file, a folder, a Hugging Face id in the local cache, or -", "PATH"),
    (
        Option("ignore_key", "a key of the config that has no say in the cache", "KEY", many=True),
        NETWORK,
        OUTPUT,
    ),
    example="kvplan import ./my-model/config.json -o my-model.yaml",
)
