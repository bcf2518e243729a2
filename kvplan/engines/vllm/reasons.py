"""Why vLLM's figure is not the logical one, in plain words: one sentence per cause that holds.

The numbers in a sentence are the plan's own, so that each can be checked by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kvplan.engines.vllm.layers.specs import (
    CacheSpec,
    ChunkedSpec,
    CrossSpec,
    FullSpec,
    LatentSpec,
    Load,
    SlidingLatentSpec,
    SlidingSpec,
    StateSpec,
)
from kvplan.engines.vllm.planning import Planned
from kvplan.engines.vllm.pool.group import Group
from kvplan.engines.vllm.reasons_layers import layer_reasons

_NAMES: dict[type[CacheSpec], str] = {
    FullSpec: "full-attention layers",
    LatentSpec: "latent (MLA) layers",
    SlidingSpec: "sliding layers",
    SlidingLatentSpec: "window and compressor caches",
    ChunkedSpec: "chunked layers",
    StateSpec: "recurrent layers",
    CrossSpec: "cross-attention layers",
}


def reasons_of(made: Planned, load: Load, *, null_block: bool) -> tuple[str, ...]:
    """Sentences that are true for this plan.

    Args:
        load: the request that is planned for.
        null_block: the figure is a pool with its null block.
    """
    if not made.pool.groups:
        return ("the model keeps no cache between steps, so vLLM sets none aside",)
    return (
        *layer_reasons(made),
        *_charges(made, load),
        *_narrow_groups(made),
        *_block_size(made),
        *(_null_block(made) if null_block else ()),
    )


def _charges(made: Planned, load: Load) -> Iterator[str]:
    """What one request is charged in each kind of group, where it is not just its tokens."""
    batches = f"{load.in_flight // load.batched} x {load.batched:,}"
    alike = groupby(made.pool.groups, key=lambda group: _charge_key(group, load))
    for (spec, blocks), members in alike:
        groups = list(members)
        sentence = _charge(spec, load, batches)
        if sentence is None:
            continue
        name = _NAMES[type(spec)]
        subject = (
            f"each of {len(groups)} groups of {name}" if len(groups) > 1 else f"the group of {name}"
        )
        count = f"{blocks:,} block{'s' if blocks > 1 else ''}"
        yield f"{subject} is charged {sentence}: {count}{_width(made, groups[0])}"


def _charge_key(group: Group, load: Load) -> tuple[CacheSpec, int]:
    return max(
        ((run.spec, run.spec.blocks(load)) for run in group.members), key=lambda pair: pair[1]
    )


def _charge(spec: CacheSpec, load: Load, batches: str) -> str | None:
    if isinstance(spec, SlidingSpec):
        return (
            _capped(f"window {spec.window:,} - 1", spec.kept, load, batches)
            + ", and one block more because a window may start inside one"
        )
    if isinstance(spec, ChunkedSpec):
        return _capped(f"chunk {spec.chunk:,}", spec.chunk, load, batches)
    if isinstance(spec, CrossSpec):
        return f"max_num_batched_tokens {load.batched:,} encoder tokens, whatever the encoder emits"
    if isinstance(spec, StateSpec):
        return _state_charge(spec, load)
    return None


def _capped(base: str, kept: int, load: Load, batches: str) -> str:
    if kept + load.in_flight < load.length:
        return f"{base} + {batches} in-flight tokens"
    return f"all {load.length:,} tokens ({base} + {batches} in flight is no less)"


def _state_charge(spec: StateSpec, load: Load) -> str:
    if load.states == "all":
        return "a state for every block of its tokens"
    parts = ["two states (prefix caching keeps one at a block boundary)"]
    if load.states == "none":
        parts = ["one state"]
    if spec.draft_blocks:
        parts.append(f"{spec.draft_blocks} for draft tokens")
    if spec.checkpoint_blocks and load.states == "align":
        parts.append("one for a checkpoint inside a prefill")
    return " + ".join(parts)


def _width(made: Planned, group: Group) -> str:
    per_block, page = made.pool.bytes_per_block(0), group.members[0].spec.page
    if group.mixed or per_block % page:
        return f" of {per_block:,} bytes"
    pages = per_block // page
    return f", {pages} page{'s' if pages > 1 else ''} of {page:,} bytes wide"


def _narrow_groups(made: Planned) -> Iterator[str]:
    """Groups that leave part of every block unused."""
    per_block = made.pool.bytes_per_block(0)
    wasted = [per_block - group.strides(0) for group in made.pool.groups]
    narrow = [waste for waste in wasted if waste > 0]
    if narrow:
        most = max(narrow)
        yield (
            f"a block has {per_block:,} bytes for whichever group takes it, and {len(narrow)} of "
            f"{len(wasted)} groups leave up to {most:,} of them unused"
        )


def _block_size(made: Planned) -> Iterator[str]:
    load = made.load
    sizes = sorted(
        {group.tokens_per_block(load.length) for group in made.pool.groups if group.by_tokens}
    )
    if any(load.length % size for size in sizes):
        shown = ", ".join(f"{size:,}" for size in sizes)
        yield f"caches come in whole blocks (of {shown} tokens), the last one of a request included"
    runs = [run.spec for group in made.pool.groups for run in group.members]
    rounded = {spec.row_alignment for spec in runs if spec.row_alignment is not None}
    for alignment in rounded:
        yield f"every page is rounded up to a multiple of {alignment} bytes"
    padded = (spec for spec in runs if spec.padded is not None and not isinstance(spec, StateSpec))
    for spec in dict.fromkeys(padded):
        if spec.page == spec.natural_page:
            continue
        yield (
            f"pages of {_NAMES[type(spec)]} are padded from {spec.natural_page:,} to "
            f"{spec.page:,} bytes"
        )


def _null_block(made: Planned) -> Iterator[str]:
    yield f"one block of {made.pool.bytes_per_block(0):,} bytes is the pool's null block"
