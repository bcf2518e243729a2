"""DeepSeek V4's pool before vllm 0.29: latents and windows of several page sizes in one block.

    0.20 - 0.22   tuples: one layer of each of the latents' page sizes; a block holds as many as
                  the group with the most layers of one size has
    0.23 - 0.26   slots: a block holds, of each page size, as many pages as any group has layers
    0.27 - 0.28   as wide as the widest group, but the start-up check still counts tuples

Up to 0.26 a window's page was padded to the next latent's, and a request was counted in bytes: what
its groups fill, over the width of the latents' group. Source: vllm 0.20.0 to 0.28.0,
v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.arithmetic import ceil_div
from kvplan.engines.vllm.layers.specs import Load, SlidingLatentSpec
from kvplan.engines.vllm.pool.group import Group

TUPLES, SLOTS, WIDEST, PACKED = "tuples", "slots", "widest", "packed"


def has_latent_windows(groups: Sequence[Group]) -> bool:
    """Whether these are the groups of latents with windows of their own."""
    return any(isinstance(run.spec, SlidingLatentSpec) for group in groups for run in group.members)


def bytes_per_block(groups: Sequence[Group], stage: int, how: str) -> int:
    """Bytes of one block on a rank of this stage, counted in tuples or in slots."""
    if how == TUPLES:
        return sum(_latent_pages(groups)) * _most_of_one_size(groups, stage)
    slots: dict[int, int] = {}
    for group in groups:
        for page, count in _by_page(groups, group, stage).items():
            slots[page] = max(slots.get(page, 0), count)
    return sum(page * count for page, count in slots.items())


def request_blocks(groups: Sequence[Group], load: Load) -> int:
    """Blocks of one request up to 0.26: the bytes its groups fill over the latents' width."""
    filled_by, width = widths(groups)
    blocks = (group.blocks(load) for group in groups)
    return ceil_div(sum(n * own for n, own in zip(blocks, filled_by, strict=True)), width)


def widths(groups: Sequence[Group]) -> tuple[tuple[int, ...], int]:
    """(bytes that a block of each group fills, the width of the latents' group)."""
    latents = next(group for group in groups if _is_latent(group))
    # a block smaller than a row holds no bytes
    return tuple(_width(groups, group) for group in groups), max(1, _width(groups, latents))


def charged_bytes(groups: Sequence[Group], load: Load, stage: int) -> int:
    """What the start-up check charges one request: tuples of all its blocks."""
    per_block = sum(_latent_pages(groups)) * _most_of_one_size(groups, stage)
    return per_block * sum(group.blocks_on(stage, load) for group in groups)


def _is_latent(group: Group) -> bool:
    return not isinstance(group.members[0].spec, SlidingLatentSpec)


def _latent_pages(groups: Sequence[Group]) -> list[int]:
    """The page sizes of the latents' group, each once."""
    return sorted({run.spec.page for group in groups if _is_latent(group) for run in group.members})


def _padded(groups: Sequence[Group], page: int) -> int:
    return next((size for size in _latent_pages(groups) if size >= page), page)


def _by_page(groups: Sequence[Group], group: Group, stage: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for run in group.members:
        page = _padded(groups, run.spec.page)
        counts[page] = counts.get(page, 0) + run.counts[stage]
    return counts


def _most_of_one_size(groups: Sequence[Group], stage: int) -> int:
    return max(max(_by_page(groups, group, stage).values()) for group in groups)


def _width(groups: Sequence[Group], group: Group) -> int:
    return sum(_padded(groups, run.spec.page) * run.count for run in group.members)
