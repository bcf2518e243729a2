"""`kvplan verify`: the cache allocated, measured and compared."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kvplan.cli.complain import complain
from kvplan.cli.engine_options import ENGINE_OPTIONS, options_from
from kvplan.cli.options import (
    ENGINE,
    FORMAT,
    JSON,
    MODEL_HELP,
    NETWORK,
    ONE_REQUEST,
    OUTPUT,
    SPECS,
    Argument,
    Command,
    Option,
    Values,
)

if TYPE_CHECKING:
    from kvplan.engines.request import Request
    from kvplan.verify.run import Limits


def run(values: Values) -> int:
    """Verify one model; 0 agrees, 1 does not, 2 could not run."""
    from kvplan.verify.world import world_of

    world = world_of(os.environ)
    # What runs out or goes away is reported below; torch would add warnings and stack traces.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR" if world is None else "FATAL")
    if world is None:
        try:
            return _verify(values, rank=0)
        except KeyboardInterrupt:
            complain("kvplan verify: interrupted; everything allocated was freed")
            raise
    from kvplan.errors import KvplanError
    from kvplan.verify.ranks import Stopped, stoppable

    try:
        with stoppable():
            code = _verify(values, rank=world.rank)
    except Stopped:
        complain(f"kvplan verify: rank {world.rank}: ended, because another rank is gone")
        code = 1
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # the launcher would show a traceback per rank
        from kvplan.cli.last_resort import unforeseen

        code = unforeseen(error)
    except KvplanError as error:
        # each rank may have a reason of its own
        complain(f"kvplan verify: rank {world.rank}: {error}")
        code = error.exit_code
    if code:
        # a thread may still wait for a rank that is gone: leave without asking it
        if sys.stdout is not None:
            sys.stdout.flush()
        os._exit(code)
    return code


def _verify(values: Values, *, rank: int) -> int:
    from kvplan.cli.request import dtype_from, request_from
    from kvplan.errors import UsageError
    from kvplan.load import load_model
    from kvplan.report.progress import byte_progress, step_progress
    from kvplan.report.write import emit, renderer
    from kvplan.verify.run import verify

    renderer("verify", values)  # a slip there must not cost the whole measurement
    dtype = dtype_from(values, "verify")
    specs = values["specs"] or None
    engine = values["engine"]
    running = values["engine_log"] is not None or values["metrics"] is not None
    # The log says whose it is; flags without an engine's name are vLLM's.
    options = options_from(values, "vllm" if running and engine == "logical" else engine)
    request = request_from(values, dtype=dtype, options=options)
    if running:
        return _running(values, request)
    if values["model"] is None:
        raise UsageError("which MODEL?", hint="only --engine-log and --metrics can do without")
    model = load_model(values["model"], specs=specs, allow_network=values["allow_network"])
    found = verify(
        model,
        request=request,
        engine=engine,
        device=values["device"],
        limits=_limits(values),
        decode=values["decode"],
        quick=values["quick"],
        specs=specs,
        allow_network=values["allow_network"],
        progress=byte_progress,
        steps=step_progress,
    )
    if rank == 0:
        emit("verify", found, values)
    elif not found.ok:
        # rank 0 has the report, unless it is the one that is gone
        for check in found.checks:
            if check.ok is False:
                complain(f"kvplan verify: rank {rank}: {check.name}: {check.why}")
    return found.exit_code


def _running(values: Values, request: Request) -> int:
    """Hold a running engine's own figures against the rules; nothing is allocated."""
    from kvplan.errors import UsageError
    from kvplan.report.write import emit
    from kvplan.running.verify import verify_running

    for name in ("decode", "quick", "fraction", "max_bytes", "margin", "allow_oom"):
        if values[name]:
            spelled = name.replace("_", "-")
            raise UsageError(f"--{spelled} is about allocating, and a running engine is only read")
    found = verify_running(
        values["model"],
        engine_log=values["engine_log"],
        metrics=values["metrics"],
        request=request,
        engine=values["engine"],
        specs=values["specs"] or None,
        allow_network=values["allow_network"],
    )
    emit("verify", found, values)
    return found.exit_code


def _limits(values: Values) -> Limits:
    from kvplan.units import parse_bytes
    from kvplan.verify.run import Limits

    margin, most = values["margin"], values["max_bytes"]
    return Limits(
        margin=None if margin is None else 0 if margin == "0" else parse_bytes(margin, "--margin"),
        fraction=None if values["fraction"] is None else _fraction(values["fraction"]),
        max_bytes=None if most is None else parse_bytes(most, "--max-bytes"),
        allow_oom=values["allow_oom"],
    )


def _fraction(text: str) -> float:
    from kvplan.errors import UsageError

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise UsageError(f"--fraction {text!r} is not a number above 0 and up to 1")
    return value


COMMAND = Command(
    "verify",
    "Allocate the cache of MODEL, measure it, and compare to the byte.",
    run,
    Argument("model", MODEL_HELP, "MODEL", required=False),
    (
        Option("device", "cpu, cuda, cuda:1, xpu, mps, or auto", "DEVICE", "auto"),
        *ONE_REQUEST,
        *ENGINE,
        *ENGINE_OPTIONS,
        Option("margin", "memory to leave free  [default: 5 %, at most 1GiB]", "BYTES"),
        Option("fraction", "allocate only this share: 0.01", "F"),
        Option("max_bytes", "take at most this much of the device, per rank", "BYTES"),
        Option("allow_oom", "try even what will not fit (not on cpu); out of memory is a result"),
        Option("engine_log", "hold a running engine's log against the rules instead", "FILE|-"),
        Option("metrics", "the same from its metrics; a URL is fetched once", "URL|FILE"),
        Option("quick", "one layer of each kind instead of the whole model"),
        Option("decode", "prove that the layout works as a cache"),
        SPECS,
        NETWORK,
        FORMAT._replace(help=FORMAT.help.replace("csv or md", "csv, md or junit")),
        JSON,
        OUTPUT,
    ),
    example="kvplan verify smollm-135m-instruct --device cpu --decode",
)
