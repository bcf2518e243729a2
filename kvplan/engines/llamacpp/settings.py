"""What a request and llama.cpp's flags say together, settled before a model is looked at.

    --ctx N    -c N, the whole context    --batch N   -np N, slots   --dtype q8_0   -ctk and -ctv
    -np -1     what llama-server does on its own: 4 slots over one shared cache

Source: llama.cpp b11434, common/arg.cpp, tools/server/server.cpp.
"""

from __future__ import annotations

from typing import Any

from kvplan.dtypes import DType, find_dtype, parse_dtype
from kvplan.engines.layout import Provenance
from kvplan.engines.llamacpp.flags import ALL_LAYERS, AUTO, TABLE, read_options
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.record import Record

FORMATS = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_NAMES = {name for text in FORMATS if (found := find_dtype(text)) for name in (found.name,)}
AUTO_SLOTS = 4
_DRAFTS = ("draft-mtp", "mtp")
_WITHOUT_CACHE = (
    "none",
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
)


class Settings(Record):
    """Everything of a context but its length and its slots.

    Attributes:
        k, v: formats of the cells.
        flash: flash attention, None where the engine decides.
        unified: one cache for all slots; None: only with one slot.
        n_batch, n_ubatch: tokens of a call and of a graph; None settles by the length (Ollama).
        n_gpu_layers: layers on devices, the output among them.
        shares: what each device gets of the layers; one device has them all.
        kv_offload: caches lie beside their layers, not all on the host.
        draft: draft tokens of multi-token prediction; 0 without.
        checkpoints: states or windows that the server keeps of each slot, on the host.
        cache_ram: MiB of host memory for prompts of the past; -1 for any.
        provenance: defaults that were applied.
    """

    k: DType
    v: DType
    flash: bool | None = None
    unified: bool | None = None
    n_batch: int | None = 2048
    n_ubatch: int | None = 512
    swa_full: bool = False
    n_gpu_layers: int = ALL_LAYERS
    shares: tuple[float, ...] = (1.0,)
    kv_offload: bool = True
    draft: int = 0
    checkpoints: int = 32
    cache_ram: int = 8192
    provenance: tuple[Provenance, ...] = ()


def settled(request: Request) -> Request:
    """The request with -c, -np, -ctk and -ctv in its own fields, and no longer among its options.

    Raises:
        UsageError: flags that contradict the request, or that llama.cpp does not have.
    """
    values = read_options(request.options)
    fields: dict[str, Any] = {}
    options = {
        name: text
        for name, text in request.options.items()
        if _name(name)
        not in ("ctx_size", "parallel", "cache_type_k", "cache_type_v", "kv_unified_per_slot")
    }
    slots = values.get("parallel")
    if slots is not None:
        if slots == AUTO:
            slots = AUTO_SLOTS
            options = {n: t for n, t in options.items() if _name(n) != "kv_unified"}
            options["kv_unified"] = "true"
        fields["batch"] = _same("parallel", slots, request.batch, 1)
    length = values.get("ctx_size")
    each = values.get("kv_unified_per_slot")
    if each and length is None and request.ctx is None:
        length = each * fields.get("batch", request.batch)
    if length:
        fields["ctx"] = _same("ctx-size", length, request.ctx, None)
    for side in ("k", "v"):
        text = values.get(f"cache_type_{side}")
        if text is not None:
            _format(text, f"--cache-type-{side}")
            asked = getattr(request, f"dtype_{side}")
            if asked is None and request.dtype.strip().lower() != "auto":
                asked = request.dtype
            if asked is not None and find_dtype(asked) != find_dtype(text):
                raise UsageError(f"cache-type-{side} is {text} among the flags, {asked} beside it")
            fields[f"dtype_{side}"] = text
    if fields.get("dtype_k") is not None and fields.get("dtype_k") == fields.get("dtype_v"):
        fields |= {"dtype": fields["dtype_k"], "dtype_k": None, "dtype_v": None}
    return request.replaced(**fields, options=options)


def _name(key: str) -> str:
    found = TABLE.find(key)
    return found.flag.name if found else key


def _same(flag: str, value: int, asked: int | None, default: int | None) -> int:
    if asked not in (default, value):
        raise UsageError(f"{flag} is {value} among llamacpp's options and {asked} in the request")
    return value


def _format(text: str, what: str) -> DType:
    dtype = parse_dtype(text, what)
    if dtype.name not in _NAMES:
        raise UsageError(
            f"{what} {text!r} is not a format of llama.cpp's cache",
            hint=f"one of {', '.join(FORMATS)}",
        )
    return dtype


def formats_of(request: Request, default: str = "f16") -> tuple[DType, DType, bool]:
    """The formats of K and V, and whether they are the default.

    Raises:
        UsageError: not a format that a cache can have.
    """
    texts = []
    for side in ("k", "v"):
        text = getattr(request, f"dtype_{side}") or request.dtype
        texts.append(default if text.strip().lower() == "auto" else text)
    k, v = (_format(text, "--dtype") for text in texts)
    asked = (request.dtype, request.dtype_k, request.dtype_v)
    return k, v, all(text is None or text.strip().lower() == "auto" for text in asked)


def one_rank(request: Request, engine: str) -> None:
    """Refuse ranks: llama.cpp spreads layers over devices.

    Raises:
        UsageError: ranks were asked for.
    """
    for flag in ("tp", "pp", "dp", "dcp"):
        if getattr(request, flag) != 1:
            raise UsageError(
                f"--{flag} is not {engine}'s: it spreads layers over devices",
                hint="--engine-args '--tensor-split 1,1' is two devices with equal shares",
            )


def read_settings(request: Request) -> Settings:
    """The settings of a llama-server.

    Raises:
        UsageError: an option that it does not have, or a value that is not modelled.
    """
    one_rank(request, "llama.cpp")
    values = read_options(request.options)
    k, v, by_default = formats_of(request)
    provenance = [Provenance("cache-type", k.name, "llama.cpp's default")] if by_default else []
    for name in ("batch_size", "ubatch_size"):
        if name not in values:
            default = TABLE.by_name[name].default
            provenance.append(Provenance(name, str(default), "llama.cpp's default"))
    mode = values.get("split_mode", "layer")
    if mode in ("row", "tensor"):
        raise UsageError(f"--split-mode {mode} is not modelled", hint="layer and none are")
    shares = values.get("tensor_split") or (1.0,)
    if not any(shares):
        raise UsageError("--tensor-split gives no device a share")
    if mode == "none":
        shares = (1.0,)
    layers = values.get("n_gpu_layers", AUTO)
    batch = values.get("batch_size", 2048)
    ubatch = values.get("ubatch_size", 512)
    if not batch and not ubatch:
        raise UsageError("--batch-size and --ubatch-size cannot both be 0")
    return Settings(
        k=k,
        v=v,
        flash=values.get("flash_attn"),
        unified=values.get("kv_unified"),
        n_batch=batch,
        n_ubatch=ubatch,
        swa_full=values.get("swa_full", False),
        n_gpu_layers=ALL_LAYERS if layers == AUTO else layers,
        shares=shares,
        kv_offload=values.get("kv_offload", True),
        draft=_draft(values, with_draft=request.with_draft),
        checkpoints=values.get("ctx_checkpoints", 32),
        cache_ram=values.get("cache_ram", 8192),
        provenance=tuple(provenance),
    )


def _draft(values: dict[str, Any], *, with_draft: bool) -> int:
    kinds = [kind.strip() for kind in values.get("spec_type", "").split(",") if kind.strip()]
    for kind in kinds:
        if kind not in (*_DRAFTS, *_WITHOUT_CACHE):
            raise UsageError(
                f"--spec-type {kind} has a model of its own, whose cache is not counted",
                hint="size that model by itself; draft-mtp is counted here",
            )
    drafts = with_draft or any(kind in _DRAFTS for kind in kinds)
    return int(values.get("spec_draft_n_max", 3)) if drafts else 0
