"""From the command line of `kvplan replay` to a question."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvplan.cli.options import Values
from kvplan.errors import InputError, UsageError
from kvplan.notice import Notice
from kvplan.units import MAX_COUNT, format_bytes, parse_bytes, parse_count, parse_tokens

if TYPE_CHECKING:
    from kvplan.engines.request import Request
    from kvplan.load import LoadedModel
    from kvplan.replay.answers import Question
    from kvplan.replay.generated import Generated
    from kvplan.replay.planned import Planned, SchedulerOptions
    from kvplan.replay.report import Report
    from kvplan.replay.run import Load, Source
    from kvplan.replay.traces import Trace

_RENAMED = {"n": "requests"}
MADE_UP = ("uniform", "poisson", "shared", "chat")
_GIVEN = ("block_size", "max_num_seqs", "max_num_batched_tokens", "gpu")
_FRACTIONS = 1e9


def merged(values: Values) -> Report:
    """The reports of `--merge`, put together.

    Raises:
        InputError: a file that is no report of this command.
    """
    from kvplan.replay.merge import merge
    from kvplan.replay.report import Report

    return merge([Report.read(_json(path), path) for path in values["merge"]])


def _json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}", where=path) from None


def question(values: Values) -> Question:
    """What is asked.

    Raises:
        UsageError: an option that is missing, or that contradicts another.
    """
    from kvplan.engines.vllm.facts.versions import VERSIONS
    from kvplan.load import load_model
    from kvplan.replay.answers import Question
    from kvplan.replay.planned import planned

    if values["trace"] is None:
        raise UsageError("which trace?", hint=f"a file, -, or one of {', '.join(MADE_UP)}")
    if values["model"] is None:
        raise UsageError("which model's cache?", hint="give --model")
    name, at, version = values["engine"].strip().lower().partition("@")
    if name != "vllm" or (at and not version):
        raise UsageError(
            f"replay knows the scheduler of vllm, not of {values['engine']!r}",
            hint="--engine vllm, or vllm@VERSION",
        )
    load = _load(values)
    request, scheduler = _request(values)
    specs = values["specs"] or None
    model = load_model(values["model"], specs=specs, allow_network=values["allow_network"])
    newest = version or VERSIONS[0]
    available, notices = _available(values, model, request, newest)
    made = planned(
        model.spec, request, newest, scheduler,
        available_bytes=available, num_blocks=_count(values, "num_blocks"),
    )  # fmt: skip
    made = replace(made, notices=(*made.notices, *notices))

    def plan_again(options: dict[str, str]) -> Planned:
        same_bytes = made.facts.num_blocks * made.facts.bytes_per_block
        others = request.replaced(options={**request.options, **options})
        return planned(
            model.spec, others, newest, scheduler, available_bytes=same_bytes, num_blocks=None
        )

    source, trace = _source(values, made.facts.max_model_len, load)
    return Question(
        model=model, planned=made, source=source, load=load, trace=trace,
        request=_asked(values, made), plan_again=plan_again, shard=_shard(values),
        processes=_count(values, "processes") or 1, partial=values["partial"],
        scan=_scan(values), what_if=values["what_if"], estimate=values["estimate"],
    )  # fmt: skip


def _count(values: Values, name: str) -> int | None:
    text = values[name]
    return None if text is None else parse_count(text, f"--{name.replace('_', '-')}")


def _number(values: Values, name: str) -> float | None:
    text = values[name]
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < _FRACTIONS:
        raise UsageError(f"--{name.replace('_', '-')} {text!r} is not a number above 0")
    return number


def _load(values: Values) -> Load:
    from kvplan.replay.run import Load

    given = [
        name for name in ("step_ms", "clients", "all_at_once") if values[name] not in (None, False)
    ]
    if len(given) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in given[:2])
        raise UsageError(f"{first} contradicts {second}")
    if not given:
        raise UsageError(
            "how do requests come?",
            hint="--step-ms MS (the time of one step is yours to say), --clients N, --all-at-once",
        )
    step_ms, speed = _number(values, "step_ms"), _number(values, "speed") or 1.0
    if step_ms is not None:
        return Load(step_ms=speed * step_ms)
    return Load(clients=_count(values, "clients") or 0)


def _available(
    values: Values, model: LoadedModel, request: Request, version: str
) -> tuple[int | None, tuple[Notice, ...]]:
    """The bytes of a rank's pool, and what they rest on where a device's budget gives them."""
    text, blocks = values["available_memory"], values["num_blocks"]
    if text is not None and blocks is not None:
        raise UsageError("--available-memory contradicts --num-blocks")
    if text is not None:
        return parse_bytes(text, "--available-memory", least=-MAX_COUNT), ()
    if blocks is not None:
        return None, ()
    if values["gpu"] is None:
        raise UsageError(
            "how large is the pool?",
            hint="give --gpu, --available-memory (what one rank has for its cache) or --num-blocks",
        )
    return _left_by_device(values["gpu"], model, request, version)


def _left_by_device(
    name: str, model: LoadedModel, request: Request, version: str
) -> tuple[int, tuple[Notice, ...]]:
    """What a device leaves at least: the pool that the answers of `fit` stand on too."""
    from kvplan.budget.vllm.ask import Asked, vllm_budget
    from kvplan.hardware.sets import find_devices

    devices = find_devices(name)
    named = model.hf_id or model.spec.name
    budget = vllm_budget(model.spec, request, version, devices.smallest, Asked(named=named))
    left = budget.available
    message = (
        f"the pool is what {devices.smallest.product} leaves at least, {format_bytes(left.low)};"
        f" it may leave up to {format_bytes(left.high)}"
    )
    told = [Notice("ambiguous-device", text) for text in devices.notices]
    return left.low, (*told, Notice("pool-from-budget", message))


def _request(values: Values) -> tuple[Request, SchedulerOptions]:
    from kvplan.engines.request import Request
    from kvplan.replay.scheduler_args import split_scheduler_args

    options = {name: values[name] for name in _GIVEN if values[name] is not None}
    more, scheduler = split_scheduler_args(values["engine_args"] or "")
    if values["ctx"] is not None:
        options["max_model_len"] = str(parse_tokens(values["ctx"]))
    request = Request(
        dtype=values["dtype"], tp=parse_count(values["tp"], "--tp"), options=options | more
    )
    return request, scheduler


def _asked(values: Values, made: Planned) -> dict[str, object]:
    facts = made.facts
    return {
        "trace": values["trace"], "engine": "vllm", "engine_version": made.version,
        "rules": "driven" if facts.switches.driven else "read",
        "max_model_len": facts.max_model_len, "max_num_seqs": facts.max_num_seqs,
        "max_num_batched_tokens": facts.max_num_batched_tokens,
        "prefix_caching": facts.prefix_caching, "async_scheduling": facts.async_scheduling,
        "kv_cache_dtype": made.kv_cache_dtype, "block_size": made.block_size,
        "tp": int(values["tp"]),
        "step_ms": values["step_ms"] and float(values["step_ms"]), "speed": float(values["speed"]),
        "clients": values["clients"] and int(values["clients"]),
        "all_at_once": values["all_at_once"],
    }  # fmt: skip


def _source(values: Values, longest: int, load: Load) -> tuple[Source, Trace | Generated]:
    from kvplan.replay.run import Source
    from kvplan.replay.traces import Trace

    if values["trace"] in MADE_UP:
        made = _generated(values)
        if values["where"] or values["sort"]:
            raise UsageError("--where and --sort are for a trace in a file")
        return Source(rows=made.rows, unit=made.unit, shares_text=made.shares_text), made
    if values["generate"] is not None:
        raise UsageError("--generate goes with uniform, shared or chat in place of a file")
    path = values["trace"]
    if values["where"] or values["sort"]:
        from kvplan.replay.relational import arranged

        named = _pairs(values, "columns")
        path = arranged(path, where=values["where"], by_time=values["sort"], columns=named)
    trace = Trace(
        path, columns=_pairs(values, "columns"), rows=_rows(values), longest=longest,
        most=_count(values, "limit"), unit=_count(values, "unit"), timed=load.step_ms > 0,
    )  # fmt: skip
    shares = trace.shares_text() if trace.rereadable else True
    return Source(rows=trace.rows, unit=trace.unit, shares_text=shares), trace


def _pairs(values: Values, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in (values[name] or "").split(","):
        key, equals, value = part.partition("=")
        if part and not (equals and key.strip() and value.strip()):
            raise UsageError(f"--{name} {part!r} is not NAME=VALUE")
        if part:
            found[key.strip()] = value.strip()
    return found


def _rows(values: Values) -> tuple[int, int | None]:
    text = values["rows"]
    if text is None:
        return 0, None
    first, dash, end = text.partition("-")
    if not dash or not first.isdigit() or (end and not end.isdigit()):
        raise UsageError(f"--rows {text!r} is not A-B", hint="0-4000 is the first 4,000 rows")
    return int(first), int(end) if end else None


def _generated(values: Values) -> Generated:
    from kvplan.replay.generated import UNIT, Generated

    made: dict[str, Any] = {"requests": 1000, "seed": 0}
    for key, text in _pairs(values, "generate").items():
        made[_RENAMED.get(key, key)] = _setting(key, text)
    if values["limit"] is not None:
        made["requests"] = _count(values, "limit")
    return Generated(kind=values["trace"], unit=_count(values, "unit") or UNIT, **made)


def _setting(key: str, text: str) -> Any:
    """The value of one KEY=VALUE of --generate."""
    low, _, high = text.partition("-")
    try:
        if key in ("prompt", "output"):
            bounds = (int(low), int(high or low))
            if not 1 <= bounds[0] <= bounds[1]:
                raise ValueError(text)
            return bounds
        if key in ("gap_ms", "spread_ms", "think_ms"):
            if not 0 <= float(text) < _FRACTIONS:
                raise ValueError(text)
            return float(text)
        if key == "seed":
            return int(text)
        if key in ("n", "groups", "common", "sessions", "turns"):
            return parse_count(text, f"--generate {key}")
    except ValueError:
        raise UsageError(f"--generate {key}={text} is not a number") from None
    raise UsageError(
        f"--generate has no {key!r}",
        hint="n seed prompt output gap_ms groups common sessions turns spread_ms think_ms",
    )


def _shard(values: Values) -> tuple[int, int] | None:
    text = values["shard"]
    if text is None:
        return None
    part, slash, parts = text.partition("/")
    if not (slash and part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise UsageError(f"--shard {text!r} is not I/N", hint="1/4 is the first of four parts")
    return int(part), int(parts)


def _scan(values: Values) -> tuple[int, ...]:
    text = values["scan"]
    if text is None:
        return ()
    pools = sorted({parse_count(part.strip(), "--scan") for part in text.split(",")})
    if pools[0] < 2:
        raise UsageError(f"a pool of {pools[0]} blocks serves nobody: one is the null block")
    return tuple(pools)
