"""Draws an engine's pool: which layers share a block, how wide it is, and where padding goes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvplan.report.console import Column
from kvplan.report.provenance import print_defaults
from kvplan.report.tables import print_table
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.engines.layout import CacheLayout
    from kvplan.report.console import Console

_WIDTH = 40
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")  # of a layer, in a tensor's name


def draw(console: Console, layout: CacheLayout) -> None:
    """Draw the groups of a pool, or list the tensors of a cache without; then the defaults."""
    if layout.groups:
        _groups(console, layout)
    elif layout.runs:
        _tensors(console, layout)
    print_defaults(console, layout)


def _groups(console: Console, layout: CacheLayout) -> None:
    widest = max(layout.bytes_per_block)
    console.print(
        f"\n{layout.engine} {layout.version}: every group's blocks are {widest:,} bytes"
        f" ({format_bytes(widest)}) wide\n",
        style="bold",
    )
    columns = (
        Column("group", "right"), Column("keeps"), Column("layers", "right", rank=2),
        Column("tokens per block", "right", rank=1), Column("blocks per request", "right", rank=4),
        Column("used", "right", rank=3), Column("one block"),
    )  # fmt: skip
    rows = []
    for number, group in enumerate(layout.groups):
        content = sum(m.content_bytes * m.layers for m in group.members)
        pages = sum(m.page_bytes * m.layers for m in group.members)
        kinds = " + ".join(dict.fromkeys(m.kind for m in group.members))
        rows.append([
            str(number), kinds, str(group.layers), f"{group.block_size:,}",
            f"{group.request_blocks:,}", f"{content / widest:.1%}",
            _picture(content, pages, widest),
        ])  # fmt: skip
    print_table(console, columns, rows)
    console.print("\n#: entries   -: padding of a page   .: no layer of this group")


def _picture(content: int, pages: int, widest: int) -> str:
    """One block as a line: what holds entries, what pads pages, what no layer uses."""
    used = round(content / widest * _WIDTH)
    padded = round(pages / widest * _WIDTH) - used
    return "#" * used + "-" * padded + "." * (_WIDTH - used - padded)


def _tensors(console: Console, layout: CacheLayout) -> None:
    """The tensors, equal ones of a rank together."""
    console.print(f"\n{layout.engine} {layout.version}: its tensors\n", style="bold")
    columns = [
        Column("tensor"), Column("count", "right"), Column("shape"), Column("type", rank=1),
        Column("bytes of one", "right", rank=2), Column("bytes", "right"),
    ]  # fmt: skip
    alike: dict[tuple[int, str, tuple[int, ...], str, int], int] = {}
    for rank in layout.ranks:
        for tensor in rank.tensors:
            name = _NUMBER.sub("*", tensor.name)
            key = (rank.rank, name, tensor.shape, tensor.dtype, tensor.bytes)
            alike[key] = alike.get(key, 0) + 1
    rows = [
        [
            name, f"{count:,}", " x ".join(f"{size:,}" for size in shape), dtype,
            f"{size:,}", f"{count * size:,}",
        ]
        for (_, name, shape, dtype, size), count in alike.items()
    ]  # fmt: skip
    if layout.rank_count > 1:
        columns.insert(0, Column("rank", "right"))
        rows = [[str(key[0]), *row] for key, row in zip(alike, rows, strict=True)]
    print_table(console, columns, rows)
