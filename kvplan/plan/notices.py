"""What the user should know about a request: warnings that `size` and `fit` share.

A notice never changes a figure; its id is stable, so that scripts can look for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvplan.dtypes import find_dtype
from kvplan.engines.logical import LogicalCache
from kvplan.engines.request import Request
from kvplan.load import LoadedModel
from kvplan.notice import Notice
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import CrossAttention, HeadState

if TYPE_CHECKING:
    from kvplan.engines.layout import Plan


def notices_of(
    model: LoadedModel,
    request: Request,
    logical: LogicalCache,
    plan: Plan,
    specs: Sequence[str] | None,
) -> tuple[Notice, ...]:
    """Every warning about a request: the model's, the request's, the engine's, once each.

    Args:
        model: the model, with what was assumed to read it.
        request: what was asked, its context settled.
        logical: what the model must keep.
        plan: the engine's answer.
        specs: folders of the user's own specs, for a sibling of longer context.
    """
    found = [*model.warnings, *_about_request(model.spec, request, logical, specs)]
    found += plan.notices
    if plan.whole_model:
        found += _single_precision(model.spec, request, logical)
    return tuple(dict.fromkeys(found))


def _single_precision(spec: ModelSpec, request: Request, logical: LogicalCache) -> list[Notice]:
    """A checkpoint in float32 is served in 16 bits by every engine, unless told otherwise."""
    followed = request.dtype == "auto" and spec.kv_dtype is None and not request.dtype_k
    if spec.dtype != "float32" or not followed or not logical.bytes:
        return []
    message = (
        f"the config of {spec.name} says float32, which this figure follows; engines run such a "
        "model in 16 bits: --dtype bf16"
    )
    return [Notice("single-precision", message)]


def _about_request(
    spec: ModelSpec, request: Request, logical: LogicalCache, specs: Sequence[str] | None
) -> list[Notice]:
    found = []
    if spec.max_context is not None and logical.ctx > spec.max_context:
        message = (
            f"{logical.ctx:,} tokens is above the {spec.max_context:,} that {spec.name} supports"
        )
        from kvplan.spec.siblings import longer_sibling

        sibling = longer_sibling(spec, logical.ctx, specs)
        if sibling is not None:
            message += f"; {sibling.name} ({sibling.max_context:,}) has the same cache"
        found.append(Notice("ctx-above-maximum", message))
    reasons = {find_dtype(name): reason for name, reason in spec.unsupported_dtypes.items()}
    for dtype in dict.fromkeys((logical.dtypes.k, logical.dtypes.v)):
        reason = reasons.get(dtype)
        if reason:
            found.append(Notice("unsupported-dtype", f"{spec.name} in {dtype.name}: {reason}"))
    found += _uneven_blocks(spec, logical)
    if request.with_draft and not spec.draft_layers:
        message = f"the spec of {spec.name} has no layers of multi-token prediction to count"
        found.append(Notice("no-draft-layers", message))
    assumed = request.encoder_tokens is None and spec.encoder_tokens is None
    if assumed and any(isinstance(state, CrossAttention) for state in spec.states()):
        found.append(
            Notice(
                "encoder-tokens-assumed",
                f"{spec.name} does not fix its encoder's length: counted as {logical.ctx:,} tokens,"
                " the context; --encoder-tokens says otherwise",
            )
        )
    return found


def _uneven_blocks(spec: ModelSpec, logical: LogicalCache) -> list[Notice]:
    """Block formats that do not divide a head: engines refuse to store those."""
    found = {}
    for state in spec.states():
        if not isinstance(state, HeadState):
            continue
        dims = ((logical.dtypes.k, state.head_dim), (logical.dtypes.v, state.value_dim))
        for dtype, dim in dims:
            if dim % dtype.block_elements and dtype.block_elements > 2:
                found[dtype.name] = (dtype.block_elements, dim)
    return [
        Notice(
            "uneven-blocks",
            f"{name} stores blocks of {block} elements, which do not divide a head of {dim};"
            " engines refuse this format for this model",
        )
        for name, (block, dim) in found.items()
    ]
