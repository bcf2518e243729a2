"""A model under one set of llama.cpp's options: contexts of any length and number of slots.

    lengths(ctx, batch) -> context -> caches (and those of a draft context) -> devices -> tensors

`ctx` is the whole context and `batch` the slots that share or divide it; Ollama's `ctx` is of one
slot. A rank is a device; what lies on the host is a rank of its own, the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.engines.base import Prepared
from kvplan.engines.kit.refusal import Refusal, Refused
from kvplan.engines.layout import (
    CacheLayout,
    Plan,
    Provenance,
    RankLayout,
    Tensor,
    version_notices,
    with_tensors,
)
from kvplan.engines.llamacpp import families
from kvplan.engines.llamacpp.caches import Cache, Formats, caches_of
from kvplan.engines.llamacpp.checks import check_draft, check_formats, check_streams
from kvplan.engines.llamacpp.context import MAX_SEQUENCES, Context, settle_context
from kvplan.engines.llamacpp.host import HostMemory, host_memory
from kvplan.engines.llamacpp.placement import HOST, placed
from kvplan.engines.llamacpp.reasons import checkpoint_notice, reasons
from kvplan.engines.llamacpp.settings import Settings
from kvplan.engines.llamacpp.versions import Rules
from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.search import largest
from kvplan.spec.model import ModelSpec
from kvplan.units import MAX_COUNT

if TYPE_CHECKING:
    from kvplan.engines.base import P

# What a request's ctx and batch make of a context: its length, and tokens of a call and a graph.
Lengths = Callable[[int, int], tuple[int, int, int]]
_ELEMENTS = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
_STATES = ("rs", "state_csa", "state_hca", "state_indexer")


class CacheFigures(NamedTuple):
    """One cache as it is reported; bytes over all layers and streams."""

    name: str
    cells: int
    streams: int
    layers: int
    k_bytes: int
    v_bytes: int
    bytes: int


class Figures(NamedTuple):
    """Figures of a context, by llama.cpp's own names.

    Attributes:
        n_ctx_seq: cells of one stream, the longest sequence.
        caches: in the order of their allocation, those of a draft context last.
        devices: bytes on each device.
        host_cache_bytes: of caches that lie on the host.
        host: other memory of the host.
        held: the caches, `context` and options behind the figures, for sentences about them.
    """

    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    n_batch: int
    n_ubatch: int
    kv_unified: bool
    streams: int
    flash_attention: bool
    type_k: str
    type_v: str
    caches: tuple[CacheFigures, ...]
    devices: tuple[int, ...]
    host_cache_bytes: int
    host: HostMemory
    held: tuple[Cache, ...]
    context: Context


PRINTED = (
    "n_ctx", "n_ctx_seq", "n_seq_max", "n_batch", "n_ubatch", "kv_unified", "streams",
    "flash_attention", "type_k", "type_v", "caches", "devices", "host_cache_bytes", "host",
    "peak_bytes", "needed_bytes_one_request",
)  # fmt: skip
_INVERSES = ("available_bytes", "fits", "max_batch_at_ctx", "max_ctx_at_batch")


class PreparedLlamacpp(Prepared):
    """Contexts of one model.

    Args:
        engine: the name that answers carry.
        lengths: what a request's ctx and batch mean.
        notices: about the request.
    """

    def __init__(
        self,
        engine: str,
        spec: ModelSpec,
        settings: Settings,
        rules: Rules,
        lengths: Lengths,
        notices: tuple[Notice, ...] = (),
    ) -> None:
        self.engine = engine
        self.spec = spec
        self.settings = settings
        self.rules = rules
        self.lengths = lengths
        self.notices = notices
        self.layers = families.as_read(spec, draft=False)
        self.draft_layers = families.as_read(spec, draft=True) if settings.draft else []
        flash = settings.flash is not False and families.flash_possible(spec)
        self.formats = Formats(
            k=settings.k, v=settings.v, flash=flash, latent_values=rules.latent_values
        )
        self.devices = placed(
            len(spec.layers) + len(spec.draft_layers), settings.n_gpu_layers, settings.shares
        )
        self.refusal = self._checked()

    def _checked(self) -> Refusal | None:
        """What is refused whatever the length."""
        try:
            check_formats(self.spec, self.layers, self.formats)
            if self.draft_layers:
                check_draft(self.spec)
        except Refused as refused:
            return refused.refusal
        return None

    def context(self, ctx: int | None, batch: int) -> Context:
        """The lengths of a request.

        Raises:
            Refused: the engine would not make such a context.
        """
        n_ctx, n_batch, n_ubatch = self.lengths(self._tokens(ctx), batch)
        settings, padding = self.settings, 256 if self.formats.flash else self.rules.padding
        found = settle_context(
            n_ctx=n_ctx,
            n_seq_max=batch,
            n_batch=n_batch,
            n_ubatch=n_ubatch,
            unified=bool(settings.unified),
            swa_full=settings.swa_full or not self.rules.windows,
            always_split=families.always_split(self.spec),
            padding=padding,
        )
        check_streams(self.spec, found)
        return found

    def _tokens(self, ctx: int | None) -> int:
        tokens = ctx or self.spec.max_context
        if tokens is None:
            raise UsageError(
                f"{self.spec.name} does not say how long its context is",
                hint="give --ctx, or write max_context in the spec",
            )
        return tokens

    def caches(self, context: Context) -> tuple[Cache, ...]:
        """The caches of the model and, with drafting, those of its draft context."""
        rollback = self.settings.draft if families.rolls_back(self.spec) else 0
        found = caches_of(self.layers, context, self.formats, rollback=rollback)
        if not self.draft_layers:
            return found
        first = len(self.layers)
        return found + tuple(
            _moved(cache, first)
            for cache in caches_of(self.draft_layers, context, self.formats, rollback=0)
        )

    def device_of(self, layer: int) -> int:
        """Where the caches of a layer lie."""
        return self.devices[layer] if self.settings.kv_offload else HOST

    def held(self, caches: tuple[Cache, ...]) -> tuple[tuple[int, ...], int]:
        """Bytes of the caches on each device, and on the host."""
        sums = [0] * (len(self.settings.shares) + 1)
        for cache in caches:
            copies = cache.cells * cache.streams
            for layer, k, v in zip(cache.layers, cache.k_rows, cache.v_rows, strict=True):
                sums[self.device_of(layer)] += (k + v) * copies
        return tuple(sums[:-1]), sums[HOST]

    def peak(self, ctx: int | None, batch: int) -> int | None:
        """Bytes of the fullest device (of the host, if no device has any); None if refused."""
        try:
            devices, host = self.held(self.caches(self.context(ctx, batch)))
        except Refused:
            return None
        return max(devices) or host

    def plan(self, ctx: int | None, batch: int) -> Plan:
        if self.refusal is not None:
            return self._answer(refusal=self.refusal, fits=False)
        try:
            context = self.context(ctx, batch)
        except Refused as refused:
            return self._answer(refusal=refused.refusal, fits=False)
        caches = self.caches(context)
        devices, on_host = self.held(caches)
        settings = self.settings
        host = host_memory(
            caches,
            context,
            vocabulary=self.spec.vocab_size,
            checkpoints=settings.checkpoints,
            cache_ram=settings.cache_ram,
        )
        figures = Figures(
            n_ctx=context.n_ctx,
            n_ctx_seq=context.n_ctx_seq,
            n_seq_max=context.n_seq_max,
            n_batch=context.n_batch,
            n_ubatch=context.n_ubatch,
            kv_unified=bool(settings.unified),
            streams=context.streams,
            flash_attention=self.formats.flash,
            type_k=self.formats.k.name,
            type_v=self.formats.v.name,
            caches=tuple(
                CacheFigures(
                    c.name, c.cells, c.streams, len(c.layers), c.k_bytes, c.v_bytes, c.bytes
                )
                for c in caches
            ),
            devices=devices,
            host_cache_bytes=on_host,
            host=host,
            held=caches,
            context=context,
        )
        return self._answer(
            peak_bytes=max(devices) or on_host,
            needed_bytes_one_request=self.peak(ctx, 1),
            extra=figures,
            printed=PRINTED,
            notices=(*version_notices(self.rules.provenance), *self.notices,
                     *checkpoint_notice(host)),
        )  # fmt: skip

    def layout(self, ctx: int | None, batch: int) -> CacheLayout:
        plan = self.explained(self.plan(ctx, batch))
        if not isinstance(plan.extra, Figures):
            return with_tensors(plan, ())
        return with_tensors(plan, tuple(self._runs(plan.extra.held)))

    def _runs(self, caches: tuple[Cache, ...]) -> Iterator[RankLayout]:
        places: dict[int, list[Tensor]] = {at: [] for at in range(len(self.settings.shares))}
        for cache in caches:
            for index, layer in enumerate(cache.layers):
                places.setdefault(self.device_of(layer), []).extend(
                    _tensors(cache, index, self.formats)
                )
        host = places.pop(HOST, [])
        ranks = [tensors for tensors in places.values() if tensors or not host]
        for rank, tensors in enumerate((*ranks, *([host] if host else []))):
            yield RankLayout(rank=rank, tensors=tuple(tensors))

    def capacity(self, available_bytes: int, ctx: int | None = None, batch: int = 1) -> Plan:
        """The plan of the request, and how far `available_bytes` a device would reach."""
        plan = self.plan(ctx, batch)
        if self.refusal is not None:
            return plan.replaced(
                inverted=True, max_batch_at_ctx=0, max_ctx_at_batch=0, printed=_INVERSES[1:]
            )

        def within(ctx: int | None, batch: int) -> bool:
            needed = self.peak(ctx, batch)
            return needed is not None and needed <= available_bytes

        # Streams are padded, so slots more may take less: the most is looked for from above.
        most = next((n for n in range(MAX_SEQUENCES, 0, -1) if within(ctx, n)), 0)
        # Nothing that grows with the length: any length fits, or none.
        longest: int | None = None
        if not within(MAX_COUNT, batch):
            first = batch  # fewer tokens than slots are refused, whatever the memory
            longest = largest(lambda more: within(first - 1 + more, batch), MAX_COUNT - first + 1)
            longest = first - 1 + longest if longest else 0
        return plan.replaced(
            available_bytes=available_bytes,
            fits=plan.refusal is None and plan.peak_bytes <= available_bytes,
            inverted=True,
            max_batch_at_ctx=most,
            max_ctx_at_batch=longest,
            printed=(*plan.printed, *_INVERSES),
        )

    def explained(self, plan: P) -> P:
        figures = plan.extra
        if not isinstance(figures, Figures) or plan.reasons:
            return plan
        found = reasons(figures.held, figures.context, self.formats, figures.host)
        return plan.replaced(reasons=found)

    def _answer(self, **figures: Any) -> Plan:
        provenance: tuple[Provenance, ...] = (*self.rules.provenance, *self.settings.provenance)
        figures.setdefault("notices", (*version_notices(provenance), *self.notices))
        return Plan(
            engine=self.engine, version=self.rules.version, provenance=provenance, **figures
        )


def _moved(cache: Cache, first: int) -> Cache:
    """A cache of the draft context, its layers counted behind the model's."""
    return Cache(
        name=f"draft_{cache.name}",
        cells=cache.cells,
        streams=cache.streams,
        layers=tuple(first + layer for layer in cache.layers),
        k_rows=cache.k_rows,
        v_rows=cache.v_rows,
    )


def _tensors(cache: Cache, index: int, formats: Formats) -> Iterator[Tensor]:
    """K and V of one layer (columns and matrices of states), each one allocation."""
    stem = f"layers.{cache.layers[index]}.{cache.name}"
    states = cache.name in _STATES
    for side, row, dtype in (
        ("r" if cache.name == "rs" else "kv" if states else "k", cache.k_rows[index], formats.k),
        ("s" if cache.name == "rs" else "score" if states else "v", cache.v_rows[index], formats.v),
    ):
        if not row:
            continue
        element = "float32" if states else _ELEMENTS.get(dtype.name)
        width = 4 if states else dtype.block_bytes
        shape = (cache.streams, cache.cells, row // width if element else row)
        yield Tensor(f"{stem}.{side}", shape, element or "uint8", row * cache.cells * cache.streams)
