"""A running engine held against the rules, from its log or its metrics; nothing is sent to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.checks import Check, Verification
from kvplan.dtypes import find_dtype
from kvplan.engines.request import Request
from kvplan.errors import KvplanError, UnknownModelError, UsageError
from kvplan.load import LoadedModel, load_model
from kvplan.plan.size import SizeResult, size
from kvplan.running.fetch import metrics_lines
from kvplan.running.logical import hold_against_logical
from kvplan.running.readers import ENGINES, read_log
from kvplan.running.seen import AVAILABLE, Seen
from kvplan.running.text import read_lines
from kvplan.running.vllm.agreement import Findings, hold_against_vllm
from kvplan.running.vllm.metrics import read_metrics
from kvplan.spec.model import ModelSpec


def verify_running(
    model: str | None,
    *,
    engine_log: str | None = None,
    metrics: str | None = None,
    request: Request,
    engine: str = "logical",
    specs: Sequence[str] | None = None,
    allow_network: bool = False,
) -> Verification:
    """Hold what an engine printed or exports against its rules.

    Args:
        model: as `load_model` takes it; None: the model that the log names.
        engine_log: a log file, or `-`.
        metrics: an http(s) URL or a file of Prometheus text; fetched only because it is given.
        request: the command line's settings; they win over the log's.
        engine: `vllm@0.11.0` states the version where the log does not; `logical` states nothing.
        specs: folders of the user's own specs.
        allow_network: as for `load_model`.

    Raises:
        UsageError: neither or both of log and metrics, or an engine that has no reader.
        InputError: a file that cannot be read or tells of no cache.
        UnknownModelError: MODEL was given and nothing answers to it.
    """
    if (engine_log is None) == (metrics is None):
        raise UsageError("give one of --engine-log and --metrics")
    wanted, _, version = engine.partition("@")
    if wanted not in ("logical", *ENGINES):
        raise UsageError(
            f"--engine {engine!r} has no log reader", hint="one of " + ", ".join(ENGINES)
        )
    notes: list[str] = []
    if engine_log is not None:
        source = engine_log
        reader, starts = read_log(
            read_lines(engine_log), engine_log, None if wanted == "logical" else wanted
        )
        seen = starts.chosen
        assert seen is not None
        if starts.note:
            notes.append(starts.note)
        if not seen.complete:
            notes.append("the log ends before it says how the cache turned out")
        name = reader.engine
    else:
        assert metrics is not None
        source, name = metrics, "vllm"
        seen = read_metrics(metrics_lines(metrics), metrics)

    def find(asked: str) -> LoadedModel:
        return load_model(asked, specs=specs, allow_network=allow_network)

    def find_spec(asked: str) -> ModelSpec:
        # A log may name any file of this host: only what the command line names is opened.
        if is_path(asked) and asked not in str(request.options.get("speculative_config", "")):
            raise UnknownModelError(f"{asked!r} is a path that only the log names")
        return find(asked).spec

    loaded = _model(model, seen, find, notes)
    if name == "vllm":
        found = hold_against_vllm(loaded, seen, request, version or None, find_spec)
    elif loaded is None:
        raise UsageError(f"this {name} log does not name its model", hint="give MODEL")
    else:
        checks = hold_against_logical(loaded.spec, seen, request)
        found = Findings(checks=checks, notes=(), request=request, engine=None)
    checks = found.checks
    if loaded is not None and model is not None:
        checks = (*_named_alike(loaded, seen, find), *checks)
    notes += found.notes
    if not any(check.ok is not None for check in checks):
        notes.append(_missing(loaded, seen))
    predicted = _size(loaded, found, specs)
    if predicted is not None and predicted.allocated is not None:
        notes += predicted.allocated.reasons
    return Verification(
        size=predicted,
        layout=None,
        device=_device(name, source, seen, found),
        checks=checks,
        notes=tuple(dict.fromkeys(notes)),
    )


def _model(given: str | None, seen: Seen, find: Any, notes: list[str]) -> LoadedModel | None:
    """The model: MODEL, else the log's; None when the log's name is unknown or missing."""
    fact = seen.facts.get("model")
    if given is not None:
        loaded: LoadedModel = find(given)
        return loaded
    if fact is None:
        notes.append(
            "neither MODEL nor the log names the model: only the log's own arithmetic is checked"
        )
        return None
    name = hub_id(fact.value)
    if is_path(name):
        notes.append(
            f"the log names its model by a path, {fact.value!r}: give MODEL; only the log's own "
            "arithmetic is checked"
        )
        return None
    try:
        found: LoadedModel = find(name)
    except UnknownModelError as error:
        notes.append(
            f"the log's model {fact.value!r} is not in the catalogue: give MODEL (a spec or a "
            "config.json); only the log's own arithmetic is checked"
        )
        if error.candidates:
            notes.append(f"closest names: {', '.join(error.candidates[:5])}")
        return None
    notes.append(
        f"MODEL is {found.spec.name}, which the log names as {fact.value} (line {fact.line:,})"
    )
    return found


def _named_alike(loaded: LoadedModel, seen: Seen, find: Any) -> tuple[Check, ...]:
    """The check that MODEL keeps what the engine's own model keeps; () where that is not known."""
    fact = seen.facts.get("model")
    if fact is None or is_path(name := hub_id(fact.value)):
        return ()
    try:
        own = find(name).spec
    except KvplanError:
        return ()
    alike = (own.kinds, own.layers) == (loaded.spec.kinds, loaded.spec.layers)
    if alike or own.name == loaded.spec.name:
        return ()
    return (
        Check(
            name="model", predicted=loaded.spec.name, measured=own.name, difference=None,
            tolerance=None, ok=False, unit="",
            why=f"the engine names its model as {fact.value} (line {fact.line:,}), whose cache is"
            f" another than that of {loaded.spec.name}",
        ),
    )  # fmt: skip


def _missing(loaded: LoadedModel | None, seen: Seen) -> str:
    """What would let something be compared."""
    wanted = [] if loaded is not None else ["MODEL"]
    if "version" not in seen.facts:
        wanted.append("the engine's version (--engine NAME@VERSION)")
    if "max_model_len" not in seen.facts:
        wanted.append("the length of a request (--ctx)")
    if AVAILABLE not in seen.figures:
        wanted.append("the line that says how much memory is left for the cache")
    return f"nothing could be compared; what would help: {', '.join(wanted) or 'more of the log'}"


def is_path(name: str) -> bool:
    """Whether a name would be opened as a file, or read from standard input."""
    return name.startswith(("/", ".", "~", "-", "\\")) or name.lower().endswith(
        (".json", ".yaml", ".yml", ".gguf")
    )


def hub_id(name: str) -> str:
    """The Hugging Face id behind a folder of its cache; any other name as it is."""
    found = re.search(r"models--([\w.-]{1,200}?)--([\w.-]{1,200})/snapshots/", name)
    return f"{found[1]}/{found[2]}" if found else name


def _size(
    loaded: LoadedModel | None, found: Findings, specs: Sequence[str] | None
) -> SizeResult | None:
    """The prediction for one request of the engine's own setup."""
    if loaded is None or found.request is None:
        return None
    request = found.request
    options = dict(request.options)
    dtype = options.get("kv_cache_dtype", request.dtype)
    if find_dtype(dtype) is not None:
        options.pop("kv_cache_dtype", None)
    else:
        dtype = "auto"
    asked = request.replaced(dtype=dtype, options=options)
    try:
        return size(loaded, request=asked, engine=found.engine or "logical", specs=specs)
    except KvplanError:
        return None


def _device(name: str, source: str, seen: Seen, found: Findings) -> Mapping[str, Any]:
    version = seen.facts.get("version")
    return {
        "kind": "running engine",
        "engine": name,
        "version": version.value if version else None,
        "rules": found.engine,
        "source": source,
        "first_line": seen.first_line,
    }
