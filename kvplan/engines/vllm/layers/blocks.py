"""The block size: chosen by the backends, raised for states and for skipped layers.

    1. --block-size, else 16 if every backend takes it, else their smallest common size
    2. hybrids: a = max(smallest kernel block, B); MLA at least 128; with prefix caching a multiple
       of the state kernel's checkpoint alignment; B = a x ceil(state page / (a x page of a token)),
       then a multiple of every backend's smallest block. Only ever raised. State pages are padded
       to the attention page.
       States kept for every block ("all"): B is a multiple of the kernel's chunk instead.
    3. skipped layers: raised until a quantised page covers an unquantised one of the smallest block

Source: vllm 0.33.0, platforms/interface.py update_block_size_for_backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm

from kvplan.arithmetic import ceil_div
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.backends.backend import Backend
from kvplan.engines.vllm.backends.forced import forced_block
from kvplan.engines.vllm.backends.query import AttentionQuery
from kvplan.engines.vllm.layers.model import ALIGN, ALL, Model
from kvplan.engines.vllm.layers.slots import STATE, Slot

DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """What was settled.

    Attributes:
        size: tokens of one block of the primary attention.
        state_page: page that every state is padded to, None without states or padding.
        skip_page: page that windows share when layers are skipped, else None.
        why: the rule that settled the size, None when the user did.
    """

    size: int
    state_page: int | None
    skip_page: int | None
    why: str | None


def choose_block_size(model: Model, slots: Sequence[Slot], *, states: str) -> BlockChoice:
    """Settle the block size for all slots of a model.

    Args:
        states: how recurrent states are kept: none, align or all.

    Raises:
        Refused: no common block size, or one that a backend rejects.
    """
    if model.settings.rules.block_choice == "forced":
        return _forced(model, slots, states)
    readers = _readers(model, slots)
    if not readers:
        return BlockChoice(DEFAULT_BLOCK_SIZE, None, None, None)
    settings = model.settings
    if settings.block_size is not None:
        size, why = settings.block_size, None
    else:
        size = _preferred(readers)
        why = "backends " + ", ".join(backend.name for backend, _ in readers)
    chosen = size
    state_page = None
    kept_states = [slot for slot in slots if slot.role == STATE]
    if kept_states:
        size, state_page = _for_states(model, readers, kept_states, size, states)
        if size != chosen:
            why = "raised until an attention page holds a layer's state"
    skip_page = None
    if model.skips_layers:
        raised, skip_page = _for_skipped(model, readers, size, state_page)
        if raised != size:
            why = "raised until a quantised page holds an unquantised one"
        if skip_page is not None and state_page is not None:
            state_page = skip_page
        size = raised
    if size != chosen:
        _check_accepted(readers, size)
    return BlockChoice(size, state_page, skip_page, why)


_Readers = list[tuple[Backend, AttentionQuery]]


def _readers(model: Model, slots: Sequence[Slot]) -> _Readers:
    """Distinct backends in layer order, each asked about the model's own head size."""
    found: dict[str, tuple[Backend, AttentionQuery]] = {}
    for slot in slots:
        if slot.backend is None or slot.query is None or slot.backend.name in found:
            continue
        query = slot.query
        if slot.backend.name in ("FLASH_ATTN", "TRITON_FLASH_ATTN"):
            query = replace(
                query, head_size=model.head_size, head_size_v=model.head_size,
                cache_dtype=model.cache.name,
            )  # fmt: skip
        found[slot.backend.name] = (slot.backend, query)
    return list(found.values())


def _smallest(backend: Backend, query: AttentionQuery) -> int:
    return min(backend.kernel_blocks(query)[0])


def _preferred(readers: _Readers) -> int:
    if len(readers) == 1:
        backend, query = readers[0]
        if backend.name == "DEEPSEEK_SPARSE_SWA":
            return 256
        if backend.accepts_block(DEFAULT_BLOCK_SIZE, query):
            return DEFAULT_BLOCK_SIZE
        return _smallest(backend, query)
    if all(backend.accepts_block(DEFAULT_BLOCK_SIZE, query) for backend, query in readers):
        return DEFAULT_BLOCK_SIZE
    sizes = (backend.kernel_blocks(query)[0] for backend, query in readers)
    for size in sorted({lcm(*combination) for combination in product(*sizes)}):
        if all(backend.accepts_block(size, query) for backend, query in readers):
            return size
    takes = {backend.name: list(backend.kernel_blocks(query)[0]) for backend, query in readers}
    listed = "; ".join(f"{name} {', '.join(map(str, sizes))}" for name, sizes in takes.items())
    raise Refused(
        "block-size-unsupported",
        "ValueError",
        f"no block size suits all attention backends of this model: {listed}",
        backends=takes,
    )


def _forced(model: Model, slots: Sequence[Slot], states: str) -> BlockChoice:
    """Releases whose platform settles the size before any backend is asked."""
    settings = model.settings
    asked = settings.block_size or DEFAULT_BLOCK_SIZE
    size = asked
    if model.mla:
        size = forced_block(
            settings.rules.latent_blocks, settings.gpu, asked, sparse=model.sparse,
            nope=model.nope, backend=settings.attention_backend,
        )  # fmt: skip
    why = None
    if size != asked:
        why = f"latents take blocks of {size}"
    elif settings.block_size is None:
        why = "the default"
    kept_states = [slot for slot in slots if slot.role == STATE]
    attention = any(slot.role != STATE for slot in slots)
    if not kept_states or not attention or settings.rules.is_v0:
        return BlockChoice(size, None, None, why)
    state_page = max(slot.shapes.bytes for slot in kept_states if slot.shapes is not None)
    token_page = _token_page(model, [])
    aligned = settings.rules.hybrid_latent_alignment if model.mla else DEFAULT_BLOCK_SIZE
    needed = _holding(model, state_page, token_page, aligned, states)
    raised = max(size, needed)
    if raised != size:
        why = "raised until an attention page holds a layer's state"
    page = raised * token_page
    return BlockChoice(raised, page if page != state_page else None, None, why)


def _holding(model: Model, state_page: int, token_page: int, aligned: int, states: str) -> int:
    """Fewest tokens of an attention block whose page holds a state.

    Where a state is kept for every block, blocks are whole chunks of the state's kernel.
    """
    if states == ALL:
        chunk = lcm(model.settings.state_block_size or model.family.chunk_size, aligned)
        return chunk * ceil_div(ceil_div(state_page, token_page), chunk)
    return aligned * ceil_div(state_page, aligned * token_page)


def _for_states(
    model: Model, readers: _Readers, kept_states: Sequence[Slot], size: int, states: str
) -> tuple[int, int | None]:
    """(block size, page that states are padded to)."""
    state_page = max(slot.shapes.bytes for slot in kept_states if slot.shapes is not None)
    token_page = _token_page(model, readers)
    aligned = max(_smallest(*readers[0]), size)
    if model.mla:
        aligned = max(aligned, model.settings.rules.hybrid_latent_alignment)
    if states == ALIGN and all(slot.checkpoint[1] is not None for slot in kept_states):
        aligned = lcm(aligned, *(slot.checkpoint[1] or 1 for slot in kept_states))
    needed = _holding(model, state_page, token_page, aligned, states)
    multiple = lcm(*(_smallest(backend, query) for backend, query in readers))
    size = max(size, multiple * ceil_div(needed, multiple))
    page = size * token_page
    return size, page if page != state_page else None


def _token_page(model: Model, readers: _Readers) -> int:
    """Bytes of one token in one attention layer, by the model-level head count and size."""
    if model.mla:
        return model.head_size * model.cache.element_bytes
    page = _row(model, model.cache.name, readers)
    if model.skips_layers and model.cache.name.startswith("turboquant_"):
        return lcm(page, _row(model, "auto", readers))
    return page


def _row(model: Model, name: str, readers: _Readers) -> int:
    dtype = model.cache if name == model.cache.name else model.cache.for_model(model.dtype)
    slots, content = dtype.head_bytes(model.head_size, model.head_size)
    return model.kv_heads_per_rank * slots * content


def _for_skipped(
    model: Model, readers: _Readers, size: int, state_page: int | None
) -> tuple[int, int | None]:
    """(block size, shared page) when unquantised layers sit in a quantised pool."""
    backend, query = readers[0]
    plain = 2 * model.head_size * model.kv_heads_per_rank
    native = plain * model.cache.for_model(model.dtype).element_bytes
    if backend.name == "TURBOQUANT" or not model.cache.name.startswith("turboquant_"):
        primary = _row(model, model.cache.name, readers)
    else:
        # The first layers are skipped, so the packing is asked of a backend that does not pack.
        primary = plain * model.cache.element_bytes
    if native == primary:
        return size, None
    if native < primary:
        raise Refused(
            "padded-page-below-page",
            "AssertionError",
            f"a token takes {native:,} bytes in a layer kept unquantised and {primary:,} in a "
            "quantised one, and vllm pads the former up only",
            unquantized_bytes=native,
            quantized_bytes=primary,
        )
    smallest = _smallest(backend, query)
    aligned = max(smallest, size)
    required = max(native * smallest, state_page or 0)
    size = max(size, aligned * ceil_div(required, aligned * primary))
    return size, size * primary


def _check_accepted(readers: _Readers, size: int) -> None:
    rejecting = [b.name for b, query in readers if not b.accepts_block(size, query)]
    if rejecting:
        raise Refused(
            "block-size-unsupported",
            "ValueError",
            f"the block size had to be raised to {size} tokens, which {', '.join(rejecting)} "
            "cannot read; choose another --attention-backend or --kv-cache-dtype",
            block_size=size,
            backends=rejecting,
        )
