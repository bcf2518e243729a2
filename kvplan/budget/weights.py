"""Bytes of the weights on the fullest rank: groups of parameters, each by its own rule and format.

    bytes = sum over groups of parameters / ranks of the group x bytes of a parameter

A pipeline stage has ceil(layers / stages) of the layers; the first also the embedding, the last the
head. Where the checkpoint's files are at hand their total replaces the formula's, and the groups
only divide it. Bounds are what public start-up logs were off the formula (129 rows): 1.3 % for text
models in 16 bit, more where a checkpoint decides for itself which layers it quantises.
"""

from __future__ import annotations

from kvplan.budget.parameters import Groups, groups_of
from kvplan.budget.quantisation import Scheme, bytes_of_format, scheme_of
from kvplan.estimate import Estimate
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec
from kvplan.units import MIB

# Above this share of all parameters what is left over is a part of its own (a tower that sees,
# recurrent layers), not norms and biases.
_PART = 0.02
# Kernels of gpt-oss pad 2,880 to 3,072, and 720 to 768 with four ranks and more.
_PADDED = {1: 1.067, 2: 1.067}
_PADDED_MORE = 1.14
_TABLES = 32 * MIB  # rotary tables and scales, loaded beside the parameters


class Split(NamedTuple):
    """Ranks that share one copy of a model: tensor, pipeline, and replicas that share experts."""

    tp: int = 1
    pp: int = 1
    expert_ranks: int = 1  # 1: experts are divided over the tensor ranks


def weights_of_rank(
    spec: ModelSpec,
    split: Split,
    *,
    named: str | None = None,
    flag: str | None = None,
    dtype: str = "auto",
    file_bytes: int | None = None,
    towers: bool = True,
) -> Estimate | None:
    """The weights of the fullest rank; None where the sizes or the format are not known.

    Args:
        spec: the model.
        split: how it is divided.
        named, flag, dtype: as `scheme_of` has them.
        file_bytes: bytes of all weights in the checkpoint's files, where those are at hand.
        towers: parts that see and hear are loaded.
    """
    groups = groups_of(spec)
    scheme = scheme_of(spec, named=named, flag=flag, dtype=dtype)
    if groups is None or (scheme is None and file_bytes is None):
        return None
    plain = float(bytes_of_format(spec, dtype))
    if scheme is None:
        scheme = Scheme("files", 0.5, 1.0, plain, (0.01, 0.02), False, "files")
    low, mid, high = (_rank(spec, groups, split, scheme, plain, which) for which in range(3))
    below, above = scheme.margin
    part = groups.rest > _PART * groups.total
    if part:
        below, above = max(below, 0.035), max(above, 0.03)
    if not groups.exact:
        below, above = below + 0.01, above + 0.01
    if split.tp > 1 and split.expert_ranks > 1:
        below, above = below + 0.035, above + 0.035
    origin = f"{groups.total:,} parameters, {scheme.origin}"
    if file_bytes is not None and flag is None:
        whole = _rank(spec, groups, Split(), scheme, plain, 1)
        scale = file_bytes / whole
        low = mid = high = mid * scale
        below, above = 0.006, 0.02
        origin = f"{file_bytes:,} bytes in the checkpoint's files"
    if part and not towers:
        low -= groups.rest * plain / split.tp
        origin += ", towers perhaps not loaded"
    return Estimate(
        round(low * (1 - below)),
        round(mid) + _TABLES // 2,
        round(high * (1 + above)) + 2 * _TABLES,
        origin,
    )


def _rank(
    spec: ModelSpec, groups: Groups, split: Split, scheme: Scheme, plain: float, which: int
) -> float:
    """Bytes of one rank; `which` is 0 for the least, 1 for the usual, 2 for the most."""
    quantised = (scheme.low, scheme.mid, scheme.high)[which]
    tp = split.tp
    kv = sum(count / min(tp, heads) for heads, count in groups.kv_heads)
    attention = groups.heads / tp + kv + groups.whole
    over_experts = max(split.expert_ranks, tp) if split.expert_ranks > 1 else tp
    experts = groups.experts / over_experts
    part = groups.rest > _PART * groups.total
    # Norms stand whole on every rank, towers and recurrent layers are mostly divided.
    rest = groups.rest / tp if part and which < 2 else groups.rest / (1 if which else tp)
    if part and which == 2:
        rest = groups.rest / tp + 0.15 * groups.rest * (1 - 1 / tp)
    feed = (groups.mlp + groups.shared) / tp
    if scheme.name == "mxfp4":
        padded = _PADDED.get(tp, _PADDED_MORE)
        body = experts * quantised * (1.0 if which == 0 else padded)
        if which == 0:
            body *= 1.05
        body += (attention + feed + rest) * plain
    else:
        share = _quantised_share(groups, scheme, part, which)
        fixed = attention + rest + groups.shared / tp
        body = (experts + groups.mlp / tp) * quantised
        body += fixed * (share * quantised + (1 - share) * plain)
        if quantised < plain and not scheme.partial and not part:
            body = (experts + feed + attention) * quantised + rest * plain
    layers = len(spec.layers)
    stage = -(-layers // split.pp) / layers
    ends = groups.embedding + (groups.head or (groups.embedding if split.pp > 1 else 0))
    if split.pp > 1:
        ends = max(groups.embedding, groups.head or groups.embedding)
    elif not groups.head:
        ends = groups.embedding
    return body * stage + ends / tp * plain


def _quantised_share(groups: Groups, scheme: Scheme, part: bool, which: int) -> float:
    """Of attention, shared experts and the rest, the share that is quantised."""
    mixed = scheme.partial and (part or groups.experts > 0)
    if mixed or part:
        return (1.0, 0.75, 0.0)[which]
    return (1.0, 1.0, 0.98)[which]
