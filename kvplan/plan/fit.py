"""Does it fit, how many sequences, how long a context, how many devices, and what binds.

`available_bytes` is what one rank has for its cache. The three inversions hold everything else
still: sequences at the asked context, tokens at the asked batch, tensor parallel ranks for both.
Costs never fall when batch or context grow, so each inverse is exact: one more does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kvplan.engines import LOGICAL, find_engine
from kvplan.engines.layout import Plan
from kvplan.engines.logical import LogicalCache, logical_cache
from kvplan.engines.request import Request
from kvplan.load import LoadedModel, loader
from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.plan.cost import Cost, Need
from kvplan.plan.given import bytes_of, loaded
from kvplan.plan.notices import notices_of
from kvplan.search import largest_near
from kvplan.spec.model import ModelSpec
from kvplan.units import MIB

# What keeps the context from growing.
MEMORY = "available_bytes"
CONTEXT = "max_context"  # the model's own
FLAG = "max_model_len"  # the engine's own flag for it
STATES = "state_blocks"  # fewer blocks than sequences that the engine is told to run
ENGINE = "engine"  # it refuses, for another reason than memory

# Refusals that another flag lifts, whatever the context: the inverses are those of memory.
_BY_SEQUENCES = "mamba-blocks-below-max-num-seqs"


class Fit(NamedTuple):
    """The answer of `kvplan fit`.

    Attributes:
        available_bytes: what one rank has for its cache; an engine's own flag for that replaces
            what was given, and a warning says so.
        needed_bytes: the most that the request ever takes on the fullest rank; None when the engine
            refuses it.
        fits: that is not more than there is, and the engine would start.
        binding_limit: what keeps the context from growing: `available_bytes`, `max_context`,
            `max_model_len` or `engine`; what keeps the engine from starting at all: `state_blocks`;
            None when nothing does.
        max_batch_at_ctx, max_ctx_at_batch: the largest that fit, 0 for none, None without a bound.
        min_devices: fewest devices of that memory, by tensor parallel ranks, the other ranks as
            asked; None when no number that the engine can split the model over is enough.
        plan: the engine's own plan for one request.
        warnings: what the user should know, as in `size`.
        explain: the page shows defaults and their sources.
    """

    model: LoadedModel
    request: Request
    logical: LogicalCache
    available_bytes: int
    needed_bytes: int | None
    fits: bool
    binding_limit: str | None
    max_batch_at_ctx: int | None
    max_ctx_at_batch: int | None
    min_devices: int | None
    plan: Plan
    warnings: tuple[Notice, ...] = ()
    explain: bool = False

    def __repr__(self) -> str:
        verdict = "fits" if self.fits else "does not fit"
        return f"Fit({self.model.spec.name!r}, {verdict}, {self.available_bytes} bytes available)"

    def to_dict(self) -> dict[str, Any]:
        """What `kvplan fit --json` prints of it: plain data, ready for JSON."""
        from kvplan import to_dict

        return to_dict(self)

    @property
    def spare_bytes(self) -> int | None:
        """Bytes left over on the fullest rank, negative when that many are missing."""
        return None if self.needed_bytes is None else self.available_bytes - self.needed_bytes


def fit(
    model: str | os.PathLike[str] | LoadedModel | ModelSpec,
    request: Request,
    available_bytes: int | str,
    engine: str = LOGICAL,
    specs: Sequence[str] | None = None,
    *,
    allow_network: bool = False,
) -> Fit:
    """Hold a request against the memory of one rank.

    Args:
        model: a name or path as `load_model` takes it, a loaded model, or a spec.
        request: what is asked.
        available_bytes: what one rank has for its cache, in bytes or as "40GiB".
        engine: `logical`, or an engine's name, `vllm` or `vllm@0.33.0`.
        specs: folders of the user's own specs.
        allow_network: ask the Hugging Face Hub for what is not here.

    Raises:
        KvplanError: an unknown engine, or a request it cannot answer.
    """
    return _fit(
        loaded(model, specs=specs, allow_network=allow_network),
        request,
        bytes_of(available_bytes, "available_bytes"),
        engine,
        specs,
        allow_network=allow_network,
    )


def _fit(
    model: LoadedModel,
    request: Request,
    available_bytes: int,
    engine: str,
    specs: Sequence[str] | None,
    *,
    allow_network: bool,
) -> Fit:
    spec = model.spec
    found_engine, version = find_engine(engine, loader(specs, allow_network=allow_network))
    cost = Cost(spec, found_engine, version)
    request = found_engine.settled(request)
    plan = cost.capacity(request, available_bytes)
    if request.ctx is None and plan.max_model_len:
        request = request.replaced(ctx=plan.max_model_len)  # what the engine settled
    logical = logical_cache(found_engine.spec_beside(spec, request), request)
    asked = request.replaced(ctx=logical.ctx)
    needed = cost.need(asked)
    enough_for_it = needed is not None and needed.within(available_bytes)
    starts = plan.fits and plan.refusal is None
    by_sequences = plan.refusal is not None and plan.refusal.code == _BY_SEQUENCES

    def enough(changed: Request) -> bool:
        amount = cost.need(changed)
        if amount is None or not amount.within(available_bytes):
            return False
        # Where memory would do and the engine still refuses, it is asked each time.
        return starts or by_sequences or not enough_for_it or cost.starts(changed, available_bytes)

    # An engine whose cost is more than its layout at one moment brings its own inverses.
    limit = spec.max_context
    if limit is not None:
        limit = max(limit, logical.ctx)  # who asks for more knows that the model can have more
    if plan.inverted:
        max_batch, max_ctx = plan.max_batch_at_ctx, plan.max_ctx_at_batch
    else:
        batch_guess, ctx_guess = _guesses(cost, asked, needed, available_bytes, limit)
        max_batch = largest_near(batch_guess, lambda batch: enough(asked.replaced(batch=batch)))
        max_ctx = largest_near(ctx_guess, lambda tokens: enough(asked.replaced(ctx=tokens)), limit)
    if limit is not None:
        max_ctx = limit if max_ctx is None else min(max_ctx, limit)
    given, available_bytes = (
        available_bytes,
        needed.room(available_bytes) if needed else available_bytes,
    )
    found = Fit(
        model=model,
        request=asked,
        logical=logical,
        available_bytes=available_bytes,
        needed_bytes=needed.bytes if needed else None,
        fits=enough_for_it and starts,
        binding_limit=None,
        max_batch_at_ctx=max_batch,
        max_ctx_at_batch=max_ctx,
        min_devices=cost.devices(asked, given, enough),
        plan=cost.prepared(request).explained(plan),
        warnings=(
            *notices_of(model, asked, logical, plan, specs),
            *_replaced(plan, given, available_bytes),
            *_tiny(available_bytes),
        ),
    )
    return found._replace(binding_limit=_binding(found, cost))


def _guesses(
    cost: Cost, asked: Request, needed: Need | None, available_bytes: int, limit: int | None
) -> tuple[int | None, int | None]:
    """Batch and length by the cost's staircase, which the search then only has to confirm."""
    stairs = cost.prepared(asked).staircase
    if stairs is None or needed is None or asked.ctx is None or not stairs.holds(asked.ctx):
        return None, None
    room = needed.room(available_bytes)
    return stairs.most(room, asked.ctx), stairs.longest(room, asked.batch, limit)


def _replaced(plan: Plan, given: int, available_bytes: int) -> tuple[Notice, ...]:
    """A warning that an engine's own flag says how much memory its cache has."""
    if given == available_bytes:
        return ()
    message = (
        f"{plan.engine}'s own flags give its cache {available_bytes:,} bytes a rank, whatever"
        " --available-memory says"
    )
    return (Notice("memory-by-flag", message),)


def _tiny(available_bytes: int) -> tuple[Notice, ...]:
    """A warning about memory that holds no cache: most often a number that lost its unit."""
    if available_bytes >= MIB:
        return ()
    message = f"{available_bytes:,} bytes hold no cache; a size may have a unit: 40GiB"
    return (Notice("tiny-memory", message),)


def _binding(found: Fit, cost: Cost) -> str | None:
    """Why the context cannot be one token longer than `max_ctx_at_batch`, or nothing starts."""
    if found.plan.max_num_seqs_that_starts is not None:
        return STATES
    longest, maximum = found.max_ctx_at_batch, found.model.spec.max_context
    if longest is None:
        return None
    if maximum is not None and longest == max(maximum, found.logical.ctx):
        return CONTEXT
    if not longest:
        return ENGINE if found.needed_bytes is None else MEMORY
    if cost.need(found.request.replaced(ctx=longest + 1)) is not None:
        return MEMORY
    if longest == maximum:
        return CONTEXT
    return FLAG if found.plan.max_model_len == longest else ENGINE
