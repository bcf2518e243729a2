"""`kvplan size`: what a cache costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.cli.engine_options import ENGINE_OPTIONS, needs_engine, options_from
from kvplan.cli.options import (
    ENGINE,
    MODEL_HELP,
    NETWORK,
    REPORT,
    REQUEST,
    SPECS,
    Argument,
    Command,
    Option,
    Values,
)
from kvplan.cli.request import dtypes_from, request_from
from kvplan.engines import find_engine
from kvplan.errors import UsageError
from kvplan.report.write import emit

if TYPE_CHECKING:
    from kvplan.plan.size import SizeResult


def run(values: Values) -> int:
    """Size every model in every format asked for; exit code 1 when an engine would not start."""
    from kvplan.load import load_model
    from kvplan.plan.size import size

    specs = values["specs"] or None
    options = options_from(values, values["engine"])
    if values["explain_layout"] and find_engine(values["engine"])[0].whole_model:
        raise needs_engine("explain-layout")
    results = []
    for name in values["models"]:
        model = load_model(name, specs=specs, allow_network=values["allow_network"])
        for dtype in dtypes_from(values):
            request = request_from(values, dtype=dtype, options=options)
            result = size(
                model,
                request=request,
                engine=values["engine"],
                weights=values["weights"],
                allow_network=values["allow_network"],
                specs=specs,
            )
            results.append(_charged(result, values))
    emit("size", results, values, per_layer=values["per_layer"], layout=values["explain_layout"])
    return 1 if any(found.allocated and found.allocated.refusal for found in results) else 0


def _charged(result: SizeResult, values: Values) -> SizeResult:
    """The result with what torch's allocator makes of it, if `--allocator` asks for that."""
    options = values["alloc_conf"]
    if not values["allocator"]:
        if options is not None:
            raise UsageError("--alloc-conf sets options of --allocator", hint="add --allocator")
        return result
    from kvplan.allocator.charges import charges

    return result._replace(charges=charges(result.layout(), options or ""))


COMMAND = Command(
    "size",
    "How many bytes the cache of a model takes, and why.",
    run,
    Argument("models", MODEL_HELP, "MODEL...", many=True),
    (
        *REQUEST,
        *ENGINE,
        *ENGINE_OPTIONS,
        Option("explain_layout", "draw the engine's groups and pages"),
        Option("per_layer", "one line per layer"),
        Option("allocator", "what torch's CUDA allocator charges and reserves, per rank"),
        Option("alloc_conf", "its options, as in PYTORCH_CUDA_ALLOC_CONF", "OPTIONS"),
        Option("weights", "show the bytes of the model's weights too"),
        SPECS,
        NETWORK,
        *REPORT,
    ),
    example="kvplan size llama3-8b --ctx 128k --batch 32 --engine vllm",
)
