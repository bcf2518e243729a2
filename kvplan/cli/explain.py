"""`kvplan explain`: the arithmetic with this model's numbers in it."""

from __future__ import annotations

from kvplan.cli.options import (
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
    """Explain the cache of one model."""
    from kvplan.cli.request import dtype_from, request_from
    from kvplan.load import load_model
    from kvplan.plan.explain import explain
    from kvplan.plan.size import size
    from kvplan.report.write import emit
    from kvplan.units import parse_tokens

    dtype = dtype_from(values, "explain")
    specs = values["specs"] or None
    tokens = [parse_tokens(text, "--tokens") for text in values["tokens"].split(",")]
    model = load_model(values["model"], specs=specs, allow_network=values["allow_network"])
    result = size(model, request=request_from(values, dtype=dtype), specs=specs)
    found = explain(result, tokens)
    if values["gpu"] is not None:
        from kvplan.errors import UsageError
        from kvplan.hardware.sets import find_devices
        from kvplan.plan.decode import decode_of

        devices = find_devices(values["gpu"])
        bound = decode_of(model, result.logical, devices, values["model"])
        if bound is None:
            raise UsageError(
                f"no bound for {model.title} on {devices.text}: the bandwidth, or the weights, are"
                " not known"
            )
        found = found._replace(decode=bound, devices=devices.text)
    return emit("explain", found, values)


COMMAND = Command(
    "explain",
    "The formula of MODEL's cache factor by factor, and what its design saves.",
    run,
    Argument("model", MODEL_HELP, "MODEL"),
    (
        *ONE_REQUEST,
        Option(
            "tokens", "lengths to generate with and without a cache", "N[,N]", "128,512,1024,2048"
        ),
        Option("gpu", "the devices of the bound at decode: h100, 4090:2", "NAME"),
        SPECS,
        NETWORK,
        *REPORT,
    ),
    example="kvplan explain gemma-3-27b --ctx 128k",
)
