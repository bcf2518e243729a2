"""The fewest devices that hold a request, and how the model is split over them.

Candidates ascend by devices; for each number the splits are tried in this order: tensor ranks
alone, with decode context parallelism where KV heads repeat, pipeline stages. A split that the
engine refuses for its heads is passed over. What cannot hold the weights costs no plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.budget.vllm.ask import Asked, vllm_budget
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.hardware.device import Device
from kvplan.load import LoadedModel
from kvplan.plan.need import holds_request

_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_MOST_PLANS = 12


class Ranks(NamedTuple):
    """A split: devices of one replica, and how."""

    number: int
    tp: int
    pp: int
    dcp: int


def fewest(
    model: LoadedModel,
    request: Request,
    device: Device,
    version: str,
    asked: Asked,
    specs: Sequence[str] | None = None,
) -> Ranks | None:
    """The fewest devices of this kind; None when no split tried is enough.

    What the user or a log states of one rank holds for that split alone, so it is left out for
    others.
    """
    tried = 0
    for ranks in _splits(model):
        options = {key: value for key, value in request.options.items() if key not in _PARALLEL}
        changed = request.replaced(tp=ranks.tp, pp=ranks.pp, dcp=ranks.dcp, dp=1, options=options)
        same = (ranks.tp, ranks.pp) == (request.tp, request.pp)
        known = asked if same else asked._replace(known={}, file_bytes=asked.file_bytes)
        if not same and "weights" in asked.known:
            # A weight stated for one split says what the whole model weighs, roughly.
            continue
        try:
            left = vllm_budget(model.spec, changed, version, device, known).available
            if left.low <= 0:
                continue
            tried += 1
            if holds_request(model, changed, version, left.low, specs):
                return ranks
        except UsageError:
            continue
        if tried >= _MOST_PLANS:
            return None
    return None


_PARALLEL = frozenset(
    ("tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size",
     "data_parallel_size")
)  # fmt: skip


def _splits(model: LoadedModel) -> Iterator[Ranks]:
    heads = model.spec.heads or 1
    layers = len(model.spec.layers)
    for number in _NUMBERS:
        if heads % number == 0:
            yield Ranks(number, number, 1, 1)
            for dcp in _contexts(model, number):
                yield Ranks(number, number, 1, dcp)
        for pp in (2, 3, 4, 6, 8):
            tp, rest = divmod(number, pp)
            if not rest and tp and heads % tp == 0 and pp <= layers:
                yield Ranks(number, tp, pp, 1)


def _contexts(model: LoadedModel, tp: int) -> tuple[int, ...]:
    """Decode context ranks for which repeated KV heads leave room."""
    kv = {getattr(state, "kv_heads", 1) or 1 for state in model.spec.states()}
    most = min((tp // count for count in kv if tp > count), default=1)
    return (most,) if most > 1 and tp % most == 0 else ()
