"""What `kvplan fit` was given, settled: model, request, engine, and where the memory comes from.

--available-memory          the bytes of a rank; several, separated by commas: the smallest
--gpu, --gpu-memory         a device; its budget says what is left
--from-log                  a budget that an engine printed
-- vllm serve ..., --line   model, release and flags of a launch command; kvplan's own options
                            beside it win
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvplan.budget.vllm.ask import Asked
from kvplan.cli.engine_options import options_from
from kvplan.cli.options import Values
from kvplan.cli.request import dtype_from, request_from
from kvplan.engines import LOGICAL, find_engine
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.estimate import Estimate, exactly
from kvplan.hardware.device import Device, plain_device
from kvplan.hardware.sets import Devices, find_devices
from kvplan.load import LoadedModel, load_model
from kvplan.notice import Notice
from kvplan.units import MAX_COUNT, parse_bytes

if TYPE_CHECKING:
    from kvplan.running.logged import Logged

_STATED = {"weights_bytes": "weights", "activations": "activations", "non_torch": "non_torch",
           "graphs": "graphs"}  # fmt: skip
# An engine's own flags that say how much memory its cache has.
_OWN_MEMORY = ("kv_cache_memory_bytes", "num_gpu_blocks_override")
_UNBOUNDED = 2**50  # where the engine's own flag replaces the memory, any will do


class FitInput(NamedTuple):
    """Everything that `fit` needs.

    Attributes:
        budgeted: the memory comes from a budget; else from `available`.
        own_memory: the engine's own flags say it, and nothing else does.
        newest: no release was named.
    """

    model: LoadedModel
    request: Request
    engine: str
    version: str
    newest: bool
    budgeted: bool
    own_memory: bool
    available: int
    devices: Devices | None
    asked: Asked
    specs: list[str] | None
    notices: tuple[Notice, ...]


def read_input(values: Values) -> FitInput:
    """Settle the command line.

    Raises:
        KvplanError: something is missing, contradicts itself or is not known.
    """
    notices: list[Notice] = []
    launch = _launch(values, notices)
    logged = _logged(values)
    name = values["model"] or launch.model or (logged.model if logged else None)
    if name is None:
        raise UsageError("which model? name it, or give a launch command behind --")
    device_given = values["gpu"] is not None or values["gpu_memory"] is not None or logged
    budgeted = values["available_memory"] is None and bool(device_given)
    engine = _engine(values, launch, logged, budgeted)
    if engine.partition("@")[0].lower() == LOGICAL and values["gpu"] is not None:
        if budgeted:
            raise UsageError(
                "the logical figure has no budget of a device",
                hint="give --available-memory, or an engine: --engine vllm",
            )
        values = {**values, "gpu": None}
    dtype = dtype_from({**values, "engine": engine}, "fit")
    specs = values["specs"] or None
    devices = _devices(values, logged) if budgeted or values["gpu"] is not None else None
    options = {**launch.options, **_from_log(logged), **options_from(values, engine)}
    if budgeted:
        _assume_ranks(values, options, devices, launch.given, notices)
        options.pop("gpu", None)
    model = load_model(name, specs=specs, allow_network=values["allow_network"])
    request = request_from(
        {**values, "tp": values["tp"] or "1", "engine": engine}, dtype=dtype, options=options
    )
    found, version = find_engine(engine) if engine != LOGICAL else (None, "")
    if budgeted and (found is None or found.name != "vllm"):
        raise UsageError(
            f"no rules are known of what {engine.partition('@')[0]} leaves for its cache",
            hint="give --available-memory, such as 40GiB",
        )
    # What was typed says how a copy is quantised, where the spec is that of the original.
    named = name if model.hf_id in (None, name) else f"{name} {model.hf_id}"
    return FitInput(
        model=model,
        request=request,
        engine=engine,
        version=version,
        newest="@" not in engine,
        budgeted=budgeted,
        own_memory=values["available_memory"] is None,
        available=0 if budgeted else _available(values, options),
        devices=devices,
        asked=_asked(values, named, logged, model),
        specs=specs,
        notices=tuple(notices),
    )


class _Launched(NamedTuple):
    given: bool
    model: str | None
    options: dict[str, str]
    version: str | None


def _launch(values: Values, notices: list[Notice]) -> _Launched:
    """The launch command, read; nothing where there is none."""
    words, line = values["launch"], values["line"]
    if not words and line is None:
        return _Launched(False, None, {}, None)
    from kvplan.engines.kit.words import Word, split_words
    from kvplan.engines.vllm.launch import read_launch

    if words and line is not None:
        raise UsageError("a launch command stands behind -- and in --line, give one of them")
    found = read_launch(split_words(line) if line is not None else [Word(w) for w in words])
    if found.unknown:
        message = (
            f"flags that vllm does not have, as far as kvplan knows: {', '.join(found.unknown)}"
        )
        notices.append(Notice("unknown-flags", message))
    if found.unfollowed:
        message = (
            f"what {', '.join(found.unfollowed)} does to the cache is not followed; the figures are"
            " those without"
        )
        notices.append(Notice("flags-not-followed", message))
    return _Launched(True, found.model, found.options, found.version)


def _logged(values: Values) -> Logged | None:
    path = values["from_log"]
    if path is None:
        return None
    from kvplan.errors import InputError
    from kvplan.running.logged import read_logged

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return read_logged(file, path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None


def _engine(values: Values, launch: _Launched, logged: Logged | None, budgeted: bool) -> str:
    if values["engine"] is not None:
        return str(values["engine"])
    version = launch.version or (logged.version if logged else None)
    if launch.given or logged:
        return f"vllm@{version}" if version else "vllm"
    return "vllm" if budgeted else LOGICAL


def _from_log(logged: Logged | None) -> dict[str, str]:
    """Settings that a log names and the cache or the budget depends on."""
    from kvplan.engines.vllm.options.flags import FLAGS

    if logged is None:
        return {}
    skipped = ("gpu_memory_utilization", "gpu")
    return {
        name: fact.value
        for name, fact in logged.facts.items()
        if name in FLAGS and name not in skipped
    }


def _devices(values: Values, logged: Logged | None) -> Devices:
    """The devices; one of which only the memory is known, where none is named."""
    total = values["gpu_memory"]
    if values["gpu"] is not None:
        found = find_devices(values["gpu"])
        if total is None:
            return found
        size = parse_bytes(total, "--gpu-memory")
        return found._replace(
            kinds=tuple((_resized(device, size), count) for device, count in found.kinds)
        )
    size = parse_bytes(total, "--gpu-memory") if total is not None else 0
    if not size and logged is not None and "total" in logged.lines:
        size = logged.lines["total"].mid
    if not size and logged is not None and logged.fraction and "requested" in logged.lines:
        size = round(logged.lines["requested"].mid / logged.fraction)
    if not size and logged is not None and "kv" in logged.lines:
        # The log says what was left, whatever the device.
        nameless = plain_device(0, "the log")._replace(torch_gib=None, product="the logged device")
        return Devices(((nameless, 1),), False)
    if not size:
        raise UsageError("which device? give --gpu or --gpu-memory")
    origin = "--gpu-memory" if total is not None else "the log"
    return Devices(((plain_device(size, origin), 1),), False)


def _resized(device: Device, size: int) -> Device:
    gib = size / 2**30
    return device._replace(torch_gib=(gib, gib, gib), driver_mib=None)


def _assume_ranks(
    values: Values,
    options: dict[str, str],
    devices: Devices | None,
    launched: bool,
    notices: list[Notice],
) -> None:
    """Where several devices are named and no ranks, every device is a tensor rank."""
    if devices is None or devices.number < 2 or launched or values["tp"] is not None:
        return
    own = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    if values["pp"] != "1" or values["dp"] != "1" or any(name in options for name in own):
        return
    values["tp"] = str(devices.number)
    message = f"--tp {devices.number} is assumed: one tensor rank per device"
    notices.append(Notice("ranks-assumed", message))


def _asked(values: Values, named: str, logged: Logged | None, model: LoadedModel) -> Asked:
    known: dict[str, Estimate] = {}
    if logged is not None:
        known = {name: line for name, line in logged.lines.items() if name != "total"}
    for option, line in _STATED.items():
        if values[option] is not None:
            flag = f"--{option.replace('_', '-')}"
            known[line] = exactly(parse_bytes(values[option], flag, least=0), flag)
            known.pop("kv", None)
    reserve = values["reserve"]
    return Asked(
        named=named,
        file_bytes=_file_bytes(model),
        known=known,
        total=logged.lines.get("total")
        if logged is not None and not values["gpu_memory"]
        else None,
        fraction=logged.fraction if logged is not None else None,
        reserve=parse_bytes(reserve, "--reserve", least=0) if reserve is not None else 0,
    )


def _file_bytes(model: LoadedModel) -> int | None:
    """Bytes of the checkpoint's files, where they are at hand."""
    from kvplan.importers.weights import weights_of

    found = weights_of(model.spec, model.origin, hf_id=model.hf_id)
    if found is None or "parameters" in found.source:
        return None
    return found.bytes


def _available(values: Values, options: dict[str, str]) -> int:
    text = values["available_memory"]
    if text is None:
        if any(name in options for name in _OWN_MEMORY):
            return _UNBOUNDED
        raise UsageError(
            "how much memory has one rank for its cache?",
            hint="give --gpu h100, or --available-memory, such as 40GiB or an engine's own figure",
        )
    # An engine may well report less than nothing: its weights and activations do not fit either.
    parts = [part for part in text.split(",") if part.strip()]
    if len(parts) < 2 or all(part.strip().replace("_", "").isdigit() for part in parts):
        return parse_bytes(text, "--available-memory", least=-MAX_COUNT)
    return min(parse_bytes(part, "--available-memory", least=-MAX_COUNT) for part in parts)
