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

from kvplan.checks import Check, RankReport, Verification, over_ranks
from kvplan.engines.layout import CacheLayout, RankLayout
from kvplan.engines.logical_engine import UNSHARDED
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import LoadedModel
from kvplan.plan.size import SizeResult, size
from kvplan.units import format_bytes, format_tokens
from kvplan.verify.devices import find_device
from kvplan.verify.devices.device import Advance, Device
from kvplan.verify.laid_out import layout_checks
from kvplan.verify.quick import one_of_each
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


#: Opens a line for the proof: a context with the function that is told (what runs, done, in all).
OpenSteps = Callable[[], AbstractContextManager[Callable[[str, int, int], None]]]


def _silent_steps() -> AbstractContextManager[Callable[[str, int, int], None]]:
    return nullcontext(lambda what, done, total: None)


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
    quick: bool = False,
    specs: Sequence[str] | None = None,
    allow_network: bool = False,
    progress: OpenProgress = _silent,
    steps: OpenSteps = _silent_steps,
) -> Verification:
    """Hold the predicted cache of a request against a device's memory.

    Args:
        model: the model.
        request: what to lay out.
        engine: whose layout.
        device: `cpu`, `cuda`, `cuda:1`, `xpu`, `mps`, or `auto` for the first that torch sees.
        limits: how much may be allocated.
        decode: also prove that the layout works as a cache.
        quick: one layer of each kind instead of the whole model.
        specs: folders of the user's own specs.
        allow_network: as for `load_model`, of a draft model.
        progress: opens a progress bar of the allocation.
        steps: opens a line that says what the proof does.

    Raises:
        MissingDependencyError: torch is not there.
        UsageError: the engine refuses the request, the device is not there or has no room.
    """
    limits = limits or Limits()
    notes = []
    if quick:
        model, note = one_of_each(model, request.pp)
        notes.append(note)

    def plan(asked: Request) -> SizeResult:
        return _planned(model, asked, engine, specs, allow_network=allow_network)

    planned = plan(request)
    layout = _layout(planned)
    world = world_of(os.environ)
    torch = need_torch()
    if world is not None and world.size != len(layout.ranks):
        raise UsageError(
            f"{world.size} processes were started, but the layout has {len(layout.ranks)} ranks",
            hint="torchrun's processes = tp x pp x dp",
        )
    found = find_device(torch, device, world.local_rank if world else None)
    smaller = _smaller(planned, found, layout, limits)
    if smaller is not None:
        full = layout.bytes
        planned = plan(smaller)
        layout = _layout(planned)
        notes.append(
            f"a smaller cache of the same layout: {format_tokens(planned.logical.ctx)} tokens x"
            f" {planned.logical.batch:,}, {format_bytes(layout.bytes)} instead of"
            f" {format_bytes(full)}"
        )
    if world is None:
        reports, checks = _one_by_one(found, layout, limits, progress)
    else:
        reports, checks = _together(torch, world, found, layout, limits, progress)
    if decode and (world is None or world.rank == 0):
        with steps() as told:
            checks = [*checks, *_decode(planned, found.name, told)]
    return Verification(
        size=planned,
        layout=layout,
        device=reports[0].device if reports else found.facts(),
        checks=(*layout_checks(planned, layout, reports), *over_ranks(reports), *checks),
        ranks=tuple(reports),
        notes=(*notes, *dict.fromkeys(note for report in reports for note in report.notes)),
    )


def _planned(
    model: LoadedModel,
    request: Request,
    engine: str,
    specs: Sequence[str] | None,
    *,
    allow_network: bool,
) -> SizeResult:
    """What `size` says; here even the logical cache is divided among the ranks."""
    planned = size(model, request=request, engine=engine, specs=specs, allow_network=allow_network)
    kept = tuple(warning for warning in planned.warnings if warning.id != UNSHARDED)
    return planned._replace(warnings=kept)


def _layout(planned: SizeResult) -> CacheLayout:
    """What `size` printed; for `logical`, its tensors."""
    layout = planned.layout()
    if layout.refusal is not None:
        raise UsageError(
            f"{layout.engine} {layout.version} refuses this request, so there is nothing to"
            f" allocate: {layout.refusal.message}"
        )
    return layout


def _smaller(
    planned: SizeResult, device: Device, layout: CacheLayout, limits: Limits
) -> Request | None:
    """The request that keeps within the limits; None when all of it does."""
    if limits.fraction is None and limits.max_bytes is None:
        return None
    share = None if limits.fraction is None else int(_largest(layout) * limits.fraction)

    def fits(layout: CacheLayout) -> bool:
        taken = max((device.cost(rank.tensors) for rank in layout.runs), default=0)
        within = limits.max_bytes is None or taken <= limits.max_bytes
        return within and (share is None or _largest(layout) <= share)

    if fits(layout):
        return None
    found = scaled(
        planned.request, lambda asked: fits(planned.prepared.layout(asked.ctx, asked.batch))
    )
    if found is None:
        raise UsageError(
            "no cache of this layout is that small: one token of one sequence takes more",
            hint="states, blocks and segments of fixed size do not shrink; allow more bytes",
        )
    return found


def _largest(layout: CacheLayout) -> int:
    """Bytes of the rank that holds most."""
    return layout.largest_rank


def _measure(device: Device, rank: RankLayout, progress: OpenProgress, what: str) -> RankReport:
    try:
        facts = device.facts()
        with progress(rank.bytes, what) as advance:
            found = device.measure(rank.tensors, advance)
    except RuntimeError as error:  # torch's own, running out of memory aside
        first = str(error).partition("\n")[0]
        raise UsageError(f"{device.name} does not work as it should: {first}") from None
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


def _decode(
    planned: SizeResult, device: str, told: Callable[[str, int, int], None]
) -> Sequence[Check]:
    from kvplan.verify.decode import prove

    return prove(planned.model.spec, planned.request, device=device, progress=told)
