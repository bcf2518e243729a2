"""`verify`: the layout that `size` prints, allocated, measured, compared and freed.

One process takes the layout's ranks one after the other on its device; processes that torchrun
started take one each. `decode` adds the proof that the layout works as a cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from kvplan.engines import find_engine
from kvplan.engines.layout import CacheLayout, RankLayout
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import LoadedModel
from kvplan.plan.size import size
from kvplan.units import format_bytes, format_tokens
from kvplan.verify.checks import Check, RankReport, Verification, over_ranks
from kvplan.verify.devices import find_device
from kvplan.verify.devices.device import Advance, Device
from kvplan.verify.safety import require_room
from kvplan.verify.scale import scaled
from kvplan.verify.torch_module import need_torch
from kvplan.verify.world import World, world_of

#: Opens a progress bar: (bytes in all, what is done) -> a context with the function to advance it.
OpenProgress = Callable[[int, str], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be allocated.

    Attributes:
        margin: bytes of the device to leave free; None: `safety.default_margin`.
        fraction: share of the whole cache to allocate; None: all of it.
        max_bytes: most bytes to take from a device, per rank; None: not limited.
        allow_oom: do not look at free memory first, where running out is survived.
    """

    margin: int | None = None
    fraction: float | None = None
    max_bytes: int | None = None
    allow_oom: bool = False


def _silent(total: int, what: str) -> AbstractContextManager[Advance]:
    return nullcontext(lambda _: None)


def verify(
    model: LoadedModel,
    *,
    request: Request,
    engine: str = "logical",
    device: str = "auto",
    limits: Limits | None = None,
    decode: bool = False,
    specs: Sequence[str] | None = None,
    progress: OpenProgress = _silent,
) -> Verification:
    """Hold the predicted cache of a request against a device's memory.

    Args:
        model: the model.
        request: what to lay out.
        engine: whose layout.
        device: `cpu`, `cuda`, `cuda:1`, `xpu`, `mps`, or `auto` for the first that torch sees.
        limits: how much may be allocated.
        decode: also prove that the layout works as a cache.
        specs: folders of the user's own specs.
        progress: opens a progress bar.

    Raises:
        MissingDependencyError: torch is not there.
        UsageError: the engine refuses the request, the device is not there or has no room.
    """
    limits = limits or Limits()
    layout = _layout(model, request, engine)
    world = world_of(os.environ)
    if world is not None:
        # a rank that is gone is reported below; torch would add a stack trace of its own
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    torch = need_torch()
    if world is not None and world.size != len(layout.ranks):
        raise UsageError(
            f"{world.size} processes were started, but the layout has {len(layout.ranks)} ranks",
            hint="torchrun's processes = tp x pp x dp",
        )
    found = find_device(torch, device, world.local_rank if world else None)
    smaller = _smaller(model, request, engine, found, layout, limits)
    notes = []
    if smaller is not None:
        full, (request, layout) = layout.bytes, smaller
        notes.append(
            f"a smaller cache of the same layout: {format_tokens(request.ctx or 0)} tokens x"
            f" {request.batch:,}, {format_bytes(layout.bytes)} instead of {format_bytes(full)}"
        )
    if world is None:
        reports, checks = _one_by_one(found, layout, limits, progress)
    else:
        reports, checks = _together(torch, world, found, layout, limits, progress)
    if decode and (world is None or world.rank == 0):
        checks = [*checks, *_decode(model, request, found.name)]
    return Verification(
        size=size(model, request=request, engine=engine, specs=specs),
        layout=layout,
        device=reports[0].device if reports else found.facts(),
        checks=(*over_ranks(reports), *checks),
        ranks=tuple(reports),
        notes=(*notes, *dict.fromkeys(note for report in reports for note in report.notes)),
    )


def _layout(model: LoadedModel, request: Request, engine: str) -> CacheLayout:
    found, version = find_engine(engine)
    layout = found.layout(model.spec, request, version)
    if layout.refusal is not None:
        raise UsageError(
            f"{layout.engine} {layout.version} refuses this request, so there is nothing to"
            f" allocate: {layout.refusal}"
        )
    return layout


def _smaller(
    model: LoadedModel,
    request: Request,
    engine: str,
    device: Device,
    layout: CacheLayout,
    limits: Limits,
) -> tuple[Request, CacheLayout] | None:
    """The request that keeps within the limits and its layout; None when all of it does."""
    if limits.fraction is None and limits.max_bytes is None:
        return None

    def cost(layout: CacheLayout) -> int:
        return max((device.cost(rank.tensors) for rank in layout.ranks), default=0)

    full = cost(layout)
    most = full if limits.fraction is None else int(full * limits.fraction)
    most = most if limits.max_bytes is None else min(most, limits.max_bytes)
    if full <= most:
        return None
    whole = size(model, request=request).request  # its context settled
    found = scaled(whole, lambda asked: cost(_layout(model, asked, engine)), most)
    return found, _layout(model, found, engine)


def _measure(device: Device, rank: RankLayout, progress: OpenProgress, what: str) -> RankReport:
    facts = device.facts()
    with progress(rank.bytes, what) as advance:
        found = device.measure(rank.tensors, advance)
    return RankReport(rank=rank.rank, device=facts, checks=found.checks, notes=found.notes)


def _one_by_one(
    device: Device, layout: CacheLayout, limits: Limits, progress: OpenProgress
) -> tuple[list[RankReport], list[Check]]:
    """Every rank of the layout on one device, each freed before the next."""
    for rank in layout.ranks:
        _require_room(device, [rank], limits)
    many = len(layout.ranks) > 1
    reports = [
        _measure(device, rank, progress, f"rank {rank.rank}" if many else device.name)
        for rank in layout.ranks
    ]
    return reports, []


def _together(
    torch: Any,
    world: World,
    device: Device,
    layout: CacheLayout,
    limits: Limits,
    progress: OpenProgress,
) -> tuple[list[RankReport], list[Check]]:
    from kvplan.verify.ranks import together

    # on a CPU host all ranks of the host share one memory
    shared = world.local_ranks if device.name == "cpu" else [world.rank]
    own = layout.ranks[world.rank]
    shown = progress if world.rank == 0 else _silent
    reports, check = together(
        torch,
        world,
        device,
        lambda: _require_room(device, [layout.ranks[rank] for rank in shared], limits),
        lambda: _measure(device, own, shown, f"rank {own.rank}"),
    )
    return reports, [check]


def _require_room(device: Device, ranks: Sequence[RankLayout], limits: Limits) -> None:
    needed = sum(device.cost(rank.tensors) for rank in ranks)
    require_room(device, needed, margin=limits.margin, allow_oom=limits.allow_oom)


def _decode(model: LoadedModel, request: Request, device: str) -> Sequence[Check]:
    from kvplan.verify.decode import prove

    return prove(model.spec, request, device=device)
