"""`kvplan fit`: does it fit, and how far the memory reaches.

The memory for the cache comes from a device's budget (`--gpu`, `--gpu-memory`, a log), or is stated
with `--available-memory`. What runs comes from MODEL and its options, or from a launch command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.cli.engine_options import ENGINE_OPTIONS
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
    grouped,
)

if TYPE_CHECKING:
    from kvplan.cli.fit_input import FitInput
    from kvplan.notice import Notice
    from kvplan.plan.fit import Fit

# These depend on whether they were given: devices may settle the ranks, a device the engine.
_OPEN = ("engine", "tp")


def run(values: Values) -> int:
    """Hold a request against memory; exit code 1 when it does not fit."""
    from kvplan.cli.fit_input import read_input

    given = read_input(values)
    if given.budgeted:
        return _budgeted(values, given)
    from kvplan.plan.fit import fit
    from kvplan.report.write import emit

    found = fit(
        given.model,
        given.request,
        given.available,
        given.engine,
        given.specs,
        allow_network=values["allow_network"],
    )
    found = found._replace(warnings=_warned(found, given), explain=bool(values["explain_layout"]))
    emit("fit", found, values)
    return 0 if found.fits else 1


def _warned(found: Fit, given: FitInput) -> tuple[Notice, ...]:
    """The warnings of an answer on stated memory, with what the device says to it."""
    from kvplan.plan.stated import above_device

    warnings = found.warnings
    if given.own_memory:  # no memory was stated that a flag could replace
        warnings = tuple(notice for notice in warnings if notice.id != "memory-by-flag")
    above = above_device(
        given.model, found.request, given.engine, given.devices, given.asked, given.available
    )
    return (*warnings, *given.notices, *([above] if above else []))


def _budgeted(values: Values, given: FitInput) -> int:
    from kvplan.plan.answer import answer
    from kvplan.report.write import emit

    assert given.devices is not None
    found = answer(
        given.model, given.request, given.devices, given.version, given.asked, given.specs
    )
    found = found._replace(
        notices=(*given.notices, *found.notices),
        newest=values["engine"] is None and given.newest,
        explain=bool(values["explain_layout"]),
    )
    emit("fit", found, values)
    if found.fits is None:
        return 1 if values["strict"] else 0
    return 0 if found.fits else 1


def _open(option: Option) -> Option:
    """An option whose absence means something."""
    if option.name == "engine":
        text = "whose rules, with @VERSION; vllm where a device is named, else logical"
        return option._replace(default=None, help=text)
    if option.name == "gpu":
        return option._replace(help="the devices, whose memory and kernels count: h100, 4090:2")
    return option._replace(default=None) if option.name in _OPEN else option


COMMAND = Command(
    "fit",
    "Whether a cache fits: sequences, context, devices.",
    run,
    Argument("model", MODEL_HELP, "MODEL", required=False),
    (
        *(_open(option) for option in (*ONE_REQUEST, *ENGINE, *ENGINE_OPTIONS)),
        *grouped(
            "Where the memory goes",
            Option(
                "available_memory", "memory of one rank for its cache: 40GiB, 42949672960", "BYTES"
            ),
            Option("gpu_memory", "total memory of a device that has no name here", "BYTES"),
            Option("from_log", "a start-up log of vllm: its budget, line by line", "FILE"),
            Option("weights_bytes", "weights of one rank", "BYTES"),
            Option("activations", "activation peak of one rank", "BYTES"),
            Option("non_torch", "what libraries take on one rank", "BYTES"),
            Option("graphs", "CUDA graphs of one rank", "BYTES"),
            Option("reserve", "to leave free on every rank", "BYTES"),
        ),
        *grouped(
            "The answer",
            Option("line", "a launch command as one text; or write it behind --", "COMMAND"),
            Option("explain_layout", "why the cache is laid out so, and every default"),
            Option("strict", "exit code 1 where the answer is `only if`"),
        ),
        SPECS,
        NETWORK,
        *REPORT,
    ),
    example="kvplan fit qwen3-32b --ctx 32k --gpu h100:2",
    rest="launch",
)
