"""The size of a cache: one model, one request, the logical figure and an engine's beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvplan.engines import LOGICAL, find_engine
from kvplan.engines.logical import LogicalCache, logical_cache
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.load import LoadedModel, loader
from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.plan.given import loaded, tokens_of
from kvplan.plan.notices import notices_of
from kvplan.spec.model import ModelSpec

if TYPE_CHECKING:
    from kvplan.allocator.charges import Charges
    from kvplan.engines.base import Prepared
    from kvplan.engines.layout import CacheLayout, Plan
    from kvplan.importers.weights import Weights


class SizeResult(NamedTuple):
    """The answer of `kvplan size` for one model and one format.

    Attributes:
        model: the model and where it was found.
        request: what was asked.
        logical: what the model must keep.
        prepared: the model under the engine's rules, for other lengths and batches.
        allocated: what the engine sets aside; None where nothing is (`Plan.whole_model`).
        warnings: what the user should know.
        weights: bytes of the weights, when they were asked for and something says.
        charges: what torch's allocator makes of the tensors, when that was asked for.
    """

    model: LoadedModel
    request: Request
    logical: LogicalCache
    prepared: Prepared
    allocated: CacheLayout | None
    warnings: tuple[Notice, ...]
    weights: Weights | None = None
    charges: Charges | None = None

    def __repr__(self) -> str:
        asked = f"{self.logical.ctx:,} tokens x {self.logical.batch}"
        return f"SizeResult({self.model.spec.name!r}, {asked}, {self.logical.bytes} bytes)"

    def to_dict(self) -> dict[str, Any]:
        """What `kvplan size --json` prints of it: plain data, ready for JSON."""
        from kvplan import to_dict

        return to_dict(self)

    def layout(self) -> CacheLayout:
        """The tensors of every rank, also of the logical cache."""
        if self.allocated is not None:
            return self.allocated
        return self.prepared.layout(self.logical.ctx, self.logical.batch)

    @property
    def dtype_name(self) -> str:
        """The cache format, `K/V` where the two differ; for an engine, as it was asked for."""
        own = self.request.options.get("kv_cache_dtype")
        asked = (self.request.dtype if own is None else own).strip()
        if self.allocated is None or asked.lower() == "auto":
            return self.logical.dtypes.name
        return asked


def size(
    model: str | os.PathLike[str] | LoadedModel | ModelSpec,
    *,
    ctx: int | str | None = None,
    batch: int = 1,
    dtype: str = "auto",
    engine: str = LOGICAL,
    request: Request | None = None,
    weights: bool = False,
    allow_network: bool = False,
    specs: Sequence[str] | None = None,
) -> SizeResult:
    """How many bytes a model's cache takes.

    Args:
        model: a name or path as `load_model` takes it, a loaded model, or a spec.
        ctx: tokens per sequence, also as "128k"; the model's maximum if not given.
        batch: sequences.
        dtype: cache format; `auto` is the model's own.
        engine: `logical`, or an engine's name, `vllm` or `vllm@0.33.0`.
        request: a whole request, instead of ctx, batch and dtype, never beside them.
        weights: look up the bytes of the weights too.
        allow_network: ask the Hugging Face Hub for what is not here.
        specs: folders of the user's own specs.

    Raises:
        KvplanError: the model is not found, or the request cannot be answered.

    >>> size("llama3-8b", ctx=131072, batch=32).logical.bytes
    549755813888
    """
    model = loaded(model, specs=specs, allow_network=allow_network)
    given = Request(ctx=tokens_of(ctx), batch=batch, dtype=dtype)
    if request is not None and given != Request():
        raise UsageError(
            "ctx, batch and dtype contradict request",
            hint="write request=request.replaced(ctx=...)",
        )
    asked = request or given
    found, version = find_engine(engine, loader(specs, allow_network=allow_network))
    asked = found.settled(asked)
    logical = logical_cache(found.spec_beside(model.spec, asked), asked)
    asked = asked.replaced(ctx=logical.ctx)
    prepared = found.prepare(model.spec, asked, version)
    plan: Plan
    allocated = None
    if found.whole_model:
        plan = prepared.plan(logical.ctx, logical.batch)
    else:
        plan = allocated = prepared.layout(logical.ctx, logical.batch)
    warnings = [*notices_of(model, asked, logical, plan, specs)]
    found_weights = None
    if weights:
        from kvplan.importers.weights import weights_of

        found_weights = weights_of(
            model.spec,
            model.origin,
            hf_id=model.upload or model.hf_id,
            allow_network=allow_network,
        )
        if found_weights is None:
            warnings.append(_weights_unknown(model.spec))
    return SizeResult(model, asked, logical, prepared, allocated, tuple(warnings), found_weights)


def _weights_unknown(spec: ModelSpec) -> Notice:
    """Why the bytes of the weights are not known, and what would tell them."""
    files = "name the folder with the safetensors files"
    if spec.parameters is None:
        message = "no safetensors file, index or GGUF beside it, and no parameters in its spec"
        files += ", or write parameters and dtype into the spec"
    else:
        message = f"its {spec.parameters:,} parameters are known, their format is not"
    message = f"how large the weights of {spec.name} are is not known: {message}; {files}"
    return Notice("weights-unknown", message)
