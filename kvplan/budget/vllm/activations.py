"""The activation peak that vLLM's profile run measures: the larger of sampler and forward pass.

    sampler   c x rows x vocabulary x 4 + 1.12 x tokens x width x 2
              rows = min(max_num_seqs, tokens), on the last stage; c = 9.58 where top-k and top-p
              sort, 3.72 where they do not (FlashInfer or Triton: 0.17 to 0.25 by default)
    forward   4.25 x tokens x width x 2 + tokens x the widest layer x 2
    experts   from 0.17 on their workspace stays allocated: on top of the sampler

It depends neither on max_model_len nor on tensor ranks, layers or the weights' format. Constants:
leave-one-model-out over 17 rows that sort (error at most 0.018 GiB) and 31 that do not (0.020 GiB);
from 0.26 on the sampler's factor is not settled, and the interval says so.
"""

from __future__ import annotations

from kvplan.budget.vllm.conditions import Conditions
from kvplan.estimate import Estimate
from kvplan.spec.model import Sizes
from kvplan.spec.states import HeadState
from kvplan.units import GIB

_SORTS = (9.48, 9.58, 9.68)
_NO_SORT = (3.58, 3.72, 3.80)
_UNSETTLED = (0.0, 3.72, 11.7)  # 0.26 and later, the second model runner
_HIDDEN_SAMPLER = (0.9, 1.12, 1.5)
_HIDDEN_FORWARD = (3.4, 4.25, 5.2)
_WORKSPACE = (0.9, 1.0, 1.35)
_QWEN_TOWERS = (0.0, 0.9, 2.4)  # a video item of 16,384 tokens
_TOWERS = (0.0, 0.2, 0.5)
# On AMD and shared memory single logs show several GiB more.
_UNCERTAIN = (0.0, 0.0, 4.5)


def activations(given: Conditions) -> Estimate:
    """Bytes of the peak on the rank that has most of them."""
    low, mid, high = (_peak(given, which) for which in range(3))
    if given.pp > 1:
        low = _forward(given, 0)  # only the last stage samples
    sizes = given.spec.sizes or Sizes()
    width = given.spec.hidden_size
    origin = (
        f"{min(given.sequences, given.tokens):,} rows of {given.spec.vocab_size or 0:,} logits,"
        f" {given.tokens:,} tokens of width {width or 0:,}"
    )
    if sizes.num_experts:
        origin += f", {sizes.num_experts_per_tok or '?'} experts a token"
    if given.multimodal and given.images:
        origin += ", images"
    return Estimate(round(low), round(mid), round(high), origin)


def _peak(given: Conditions, which: int) -> float:
    peak = max(_sampler(given, which), _forward(given, which))
    if given.multimodal and given.images:
        family = given.spec.model_type or ""
        wide = "qwen" in family or "dots" in given.spec.name
        towers = _QWEN_TOWERS if wide else _TOWERS
        peak += towers[which] * GIB
    if given.uncertain:
        peak += _UNCERTAIN[which] * GIB
    return peak


def _sampler(given: Conditions, which: int) -> float:
    vocabulary, width = given.spec.vocab_size or 0, given.spec.hidden_size or 0
    if given.pooling:
        return 0
    rows = min(given.sequences, given.tokens)
    logits = _factor(given, which) * rows * vocabulary * 4
    hidden = _HIDDEN_SAMPLER[which] * given.tokens * width * given.element_bytes
    return logits + hidden + _workspace(given, which)


def _factor(given: Conditions, which: int) -> float:
    """Copies of the logits that live at once."""
    if given.version >= (0, 26):
        return _UNSETTLED[which]
    if given.version >= (0, 17):
        return _NO_SORT[which]
    if given.flashinfer is not None:
        return (_NO_SORT if given.flashinfer else _SORTS)[which]
    # Images of 0.10 to 0.16 bring FlashInfer along or not.
    could = given.version >= (0, 10)
    return (_NO_SORT[0] if could else _SORTS[0], _SORTS[1], _SORTS[2])[which]


def _workspace(given: Conditions, which: int) -> float:
    """Buffers of the experts' kernels that stay allocated."""
    sizes = given.spec.sizes or Sizes()
    if given.version < (0, 17) or not sizes.num_experts or given.spec.model_type == "gpt_oss":
        return 0
    return _WORKSPACE[which] * _experts(given, sizes) * given.tokens * given.element_bytes


def _experts(given: Conditions, sizes: Sizes) -> float:
    """Elements of a token in its experts."""
    chosen, width = sizes.num_experts_per_tok or 1, given.spec.hidden_size or 0
    inner = (sizes.moe_intermediate_size or 0) / given.tp
    return chosen * (max(2 * inner, width) + inner)


def _forward(given: Conditions, which: int) -> float:
    sizes = given.spec.sizes or Sizes()
    width = given.spec.hidden_size or 0
    layers = [3 * (sizes.intermediate_size or 4 * width) / given.tp]
    for state in given.spec.states():
        if isinstance(state, HeadState):
            heads = state.heads or given.spec.heads or state.kv_heads
            layers.append((2 * heads + 2 * state.kv_heads) * state.head_dim / given.tp)
    if sizes.num_experts:
        layers.append(_experts(given, sizes))
    per_token = _HIDDEN_FORWARD[which] * width + (0.8, 1.0, 1.1)[which] * max(layers)
    return per_token * given.tokens * given.element_bytes
