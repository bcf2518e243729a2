"""`kvplan fit`: does it fit, and how far the memory reaches."""

from __future__ import annotations

from kvplan.cli.engine_options import ENGINE_OPTIONS, options_from
from kvplan.cli.options import (
    ENGINE,
    MODEL_HELP,
    NETWORK,
    ONE_REQUEST,
    REPORT,
    SPECS,
    Argument,
    Command,
    Option,
    Values,
)


def run(values: Values) -> int:
    """Hold a request against memory; exit code 1 when it does not fit."""
    from kvplan.cli.request import dtype_from, request_from
    from kvplan.errors import UsageError
    from kvplan.load import load_model
    from kvplan.plan.fit import fit
    from kvplan.report.write import emit
    from kvplan.units import MAX_COUNT, parse_bytes

    dtype = dtype_from(values, "fit")
    if values["available_memory"] is None:
        raise UsageError(
            "how much memory has one rank for its cache?",
            hint="give --available-memory, such as 40GiB or an engine's own figure in bytes",
        )
    # An engine may well report less than nothing: its weights and activations do not fit either.
    available = parse_bytes(values["available_memory"], "--available-memory", least=-MAX_COUNT)
    specs = values["specs"] or None
    options = options_from(values, values["engine"])
    model = load_model(values["model"], specs=specs, allow_network=values["allow_network"])
    request = request_from(values, dtype=dtype, options=options)
    found = fit(
        model,
        request,
        available,
        values["engine"],
        specs,
        allow_network=values["allow_network"],
    )
    emit("fit", found, values)
    return 0 if found.fits else 1


COMMAND = Command(
    "fit",
    "Whether a cache fits: sequences, context, devices.",
    run,
    Argument("model", MODEL_HELP, "MODEL"),
    (
        Option("available_memory", "memory of one rank for its cache: 40GiB, 42949672960", "BYTES"),
        *ONE_REQUEST,
        *ENGINE,
        *ENGINE_OPTIONS,
        SPECS,
        NETWORK,
        *REPORT,
    ),
    example="kvplan fit qwen3-32b --ctx 32k --engine vllm --tp 2 --available-memory 40GiB",
)
