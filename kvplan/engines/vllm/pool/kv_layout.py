"""The order of the pool's dimensions: which layouts the backends can read, and which one is used.

L layers, B blocks, H heads, N tokens, C content. LBNHC (its old name NHD) is the default; layouts
with B outermost hold all layers of a block side by side, which changes the grouping of unequal
pages. Source: vllm 0.33.0, v1/kv_cache_layout.py, v1/attention/backends/utils.py
resolve_kv_cache_layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.slots import Slot
from kvplan.engines.vllm.pool.group import Group

# In vLLM's own order, which breaks ties.
LAYOUTS = ("LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
_PREFERRED = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
_OLD_NAMES = {"NHD": "LBNHC", "HND": "LBHNC"}


def is_block_outermost(layout: str) -> bool:
    """Blocks are the outermost dimension."""
    return layout[0] == "B"


def is_block_compact(layout: str) -> bool:
    """Each page is one run of bytes: L and B are the two outermost dimensions."""
    return set(layout[:2]) == {"L", "B"}


def resolve(slots: Sequence[Slot], runs: Sequence[Run], requested: str | None) -> str:
    """The layout vLLM settles on.

    Raises:
        Refused: no layout serves all backends, or the requested one does not.
    """
    candidates = _supported(slots)
    pages = {(run.spec.shape, run.spec.block_size, run.spec.page) for run in runs}
    if len(pages) > 1:
        candidates = [layout for layout in candidates if is_block_compact(layout)]
        if not candidates:
            raise Refused(
                "layout-unsupported",
                "ValueError",
                "layers of unequal pages need a layout with whole pages in one piece, and no such "
                "layout suits every attention backend here",
            )
    if requested is None:
        return candidates[0]
    layout = _OLD_NAMES.get(requested, requested)
    if layout not in LAYOUTS:
        raise Refused(
            "layout-unknown",
            "ValueError",
            f"VLLM_KV_CACHE_LAYOUT={requested} is not a layout; there are {', '.join(LAYOUTS)}",
            layouts=list(LAYOUTS),
        )
    if layout not in candidates:
        raise Refused(
            "layout-unsupported",
            "ValueError",
            f"VLLM_KV_CACHE_LAYOUT={requested} does not suit every attention backend here; these "
            f"do: {', '.join(candidates)}",
            layouts=candidates,
        )
    return layout


def _supported(slots: Sequence[Slot]) -> list[str]:
    declared: dict[str, tuple[str, ...]] = {}
    for slot in slots:
        if slot.backend is not None and slot.query is not None:
            layouts = slot.backend.layouts(slot.query)
            if layouts is not None:
                declared.setdefault(slot.backend.name, layouts)
    lists = list(declared.values()) or [_PREFERRED]
    if all(layouts == lists[0] for layouts in lists[1:]):
        return list(lists[0])
    common = set(lists[0]).intersection(*lists[1:])
    votes = {layout: sum(layouts[0] == layout for layouts in lists) for layout in common}
    found = sorted(
        (layout for layout in LAYOUTS if layout in common), key=lambda name: -votes[name]
    )
    if not found:
        listed = [list(layouts) for layouts in lists]
        raise Refused(
            "layout-unsupported",
            "ValueError",
            f"no layout suits all attention backends: {'; '.join(', '.join(x) for x in listed)}",
            layouts=listed,
        )
    return found


def check_expressible(layout: str, groups: Sequence[Group]) -> None:
    """Unequal pages need blocks with all layers side by side, once there is more than one group.

    Raises:
        Refused: the layout cannot hold these groups.
    """
    pages = sorted({run.spec.page for group in groups for run in group.members})
    if len(pages) <= 1:
        return
    if not is_block_compact(layout) or (len(groups) > 1 and layout[0] == "L"):
        raise Refused(
            "layout-unsupported",
            "ValueError",
            f"layout {layout} cannot hold pages of {', '.join(f'{page:,}' for page in pages)} "
            "bytes side by side; set VLLM_KV_CACHE_LAYOUT=BLHNC",
            layout=layout,
            page_bytes=pages,
        )
