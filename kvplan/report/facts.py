"""The figures of a result by the contract's names: what every machine-readable format prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.spec.labels import attention_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvplan.engines.kit.refusal import Refusal
    from kvplan.engines.layout import CacheLayout, Plan
    from kvplan.engines.logical import LogicalCache
    from kvplan.engines.request import Request
    from kvplan.load import LoadedModel
    from kvplan.plan.decode import Decode
    from kvplan.plan.explain import Explanation
    from kvplan.plan.fit import Fit
    from kvplan.plan.size import SizeResult
    from kvplan.spec.model import ModelSpec


def to_dict(result: SizeResult | Fit | LoadedModel) -> dict[str, Any]:
    """The JSON of a result as plain data: what its command prints with `--json`.

    Raises:
        UsageError: it is none of kvplan's results.
    """
    from kvplan.errors import UsageError
    from kvplan.load import LoadedModel
    from kvplan.plan.fit import Fit
    from kvplan.plan.size import SizeResult

    if isinstance(result, SizeResult):
        return size_facts(result)
    if isinstance(result, Fit):
        return fit_facts(result)
    if isinstance(result, LoadedModel):
        return spec_facts(result)
    raise UsageError(f"{type(result).__name__} is no result that kvplan can write as JSON")


def model_facts(model: LoadedModel) -> dict[str, Any]:
    """The `model` object of the contract."""
    spec = model.spec
    return {
        "name": spec.name,
        "asked": model.asked or spec.name,
        "hf_id": model.hf_id or (spec.hf_ids[0] if spec.hf_ids else None),
        "attention": attention_label(spec),
        "layers": len(spec.layers),
        "max_context": spec.max_context,
        "source": spec.source or model.origin,
    }


def request_facts(request: Request, logical: LogicalCache, plan: Plan | None) -> dict[str, Any]:
    """The `request` object of the contract: what was asked, with every default written out."""
    return {
        "ctx": logical.ctx,
        "batch": logical.batch,
        "dtype": logical.dtypes.name,
        "dtype_k": logical.dtypes.k.name,
        "dtype_v": logical.dtypes.v.name,
        "engine": plan.engine if plan else "logical",
        "engine_version": plan.version if plan else None,
        "tp": request.tp,
        "pp": request.pp,
        "dp": request.dp,
        "dcp": request.dcp,
        "with_draft": request.with_draft,
        "options": dict(request.options),
    }


def size_facts(result: SizeResult, *, per_layer: bool = False) -> dict[str, Any]:
    """One entry of `results` of `kvplan.size/1`."""
    logical = result.logical
    facts = {
        "model": model_facts(result.model),
        "request": request_facts(result.request, logical, result.allocated),
        "logical": {
            "bytes": logical.bytes,
            "bytes_per_sequence": logical.bytes_per_sequence,
            "bytes_per_token": logical.bytes_per_token,
            "fixed_bytes_per_sequence": logical.fixed_bytes_per_sequence,
            "kinds": [
                {
                    "kind": share.state.kind,
                    "layer_kind": share.layer_kind,
                    "layers": share.layers,
                    "entry_bytes": share.entry_bytes,
                    "entries": share.entries,
                    "bytes_per_token": share.bytes_per_token,
                    "bytes_per_sequence": share.bytes_per_sequence,
                }
                for share in logical.shares
            ],
        },
        "allocated": layout_facts(result.allocated) if result.allocated else None,
        "warnings": [{"id": w.id, "message": w.message} for w in result.warnings],
    }
    if result.weights is not None:
        facts["weights"] = {
            "bytes": result.weights.bytes,
            "by_dtype": dict(result.weights.by_dtype) if result.weights.by_dtype else None,
            "source": result.weights.source,
        }
    elif any(warning.id == "weights-unknown" for warning in result.warnings):
        facts["weights"] = None  # asked for
    if result.charges is not None:
        from kvplan.report.charges import charges_facts

        facts["allocator"] = charges_facts(result.charges)
    if per_layer:
        facts["layers"] = layer_facts(result)
    return facts


def refusal_facts(refusal: Refusal | None) -> dict[str, Any] | None:
    """The `refusal` object of the contract."""
    if refusal is None:
        return None
    return {
        "code": refusal.code,
        "exception": refusal.exception,
        "message": refusal.message,
        "figures": dict(refusal.figures),
    }


def layout_facts(layout: CacheLayout) -> dict[str, Any]:
    """The `allocated` object of the contract."""
    return {
        "bytes": layout.bytes if layout.refusal is None else None,
        "per_rank": [
            {
                "rank": rank.rank,
                "count": rank.count,
                "bytes": rank.bytes,
                "tensors": [
                    {"name": t.name, "shape": list(t.shape), "dtype": t.dtype, "bytes": t.bytes}
                    for t in rank.tensors
                ],
            }
            for rank in layout.runs
        ],
        "refusal": refusal_facts(layout.refusal),
        "reasons": list(layout.reasons),
        "defaults": [
            {"option": p.option, "value": p.value, "origin": p.origin} for p in layout.provenance
        ],
        **layout.figures,
    }


def layer_facts(result: SizeResult) -> list[dict[str, Any]]:
    """Each layer: its index, kind, and the bytes of one sequence in it."""
    spec = result.model.spec
    per_layer: dict[str, int] = {}
    for share in result.logical.shares:
        once = share.entry_bytes * share.entries
        per_layer[share.layer_kind] = per_layer.get(share.layer_kind, 0) + once
    names = (*spec.layers, *spec.draft_layers) if result.request.with_draft else spec.layers
    return [
        {
            "layer": index,
            "layer_kind": name,
            "states": [state.kind for state in spec.kinds[name]],
            "bytes_per_sequence": per_layer.get(name, 0),
        }
        for index, name in enumerate(names)
    ]


def model_rows(specs: Iterable[ModelSpec]) -> list[dict[str, Any]]:
    """One row per model of `kvplan models`."""
    return [
        {
            "name": spec.name,
            "family": spec.family,
            "attention": attention_label(spec),
            "layers": len(spec.layers),
            "max_context": spec.max_context,
            "dtype": spec.dtype,
            "parameters": spec.parameters,
            "aliases": list(spec.aliases),
            "hf_ids": list(spec.hf_ids),
        }
        for spec in specs
    ]


def spec_facts(model: LoadedModel) -> dict[str, Any]:
    """Everything a spec says, layers written out by kind."""
    from kvplan.spec.runs import compress
    from kvplan.spec.vocabulary import model_words
    from kvplan.spec.writer import given_fields

    spec = model.spec
    facts: dict[str, Any] = {name: getattr(spec, name) for name in model_words()}
    facts["unsupported_dtypes"] = dict(spec.unsupported_dtypes)
    facts["variants"] = {name: dict(changed) for name, changed in spec.variants.items()}
    return {
        **facts,
        "attention": attention_label(spec),
        "rope": given_fields(spec.rope) if spec.rope else None,
        "sizes": given_fields(spec.sizes) if spec.sizes else None,
        "layers": len(spec.layers),
        "kinds": {
            name: {
                "layers": spec.layers.count(name),
                "states": [{"kind": state.kind, **given_fields(state)} for state in states],
            }
            for name, states in spec.kinds.items()
        },
        "layer_order": compress(spec.layers),
        "draft_layers": compress(spec.draft_layers),
        "file": model.origin,
    }


def explain_facts(found: Explanation) -> dict[str, Any]:
    """The arithmetic of `kvplan.explain/1`; ratios are rounded to two decimals."""
    from kvplan.plan.explain import CAVEAT

    own = found.size.logical.bytes_per_sequence
    return {
        **size_facts(found.size),
        "products": [
            {
                "kind": share.state.kind,
                "layers": share.layers,
                "entries": share.entries,
                "factors": [factor._asdict() for factor in share.state.factors],
                "entry_bytes": share.entry_bytes,
                "bytes_per_sequence": share.bytes_per_sequence,
            }
            for share in found.size.logical.shares
        ],
        "variants": [
            {**variant._asdict(), "times": _ratio(variant.bytes_per_sequence, own)}
            for variant in found.variants
        ],
        "generation": [
            {
                **item._asdict(),
                "ratio": round(float(item.ratio), 2),
                "approximation": round(float(item.approximation), 2),
            }
            for item in found.generations
        ],
        "closed_form": {"ratio": "(2n + 1)/3", "approximation": "2n/3"},
        "caveat": CAVEAT,
        **({} if found.decode is None else {"decode_bound": decode_facts(found.decode)}),
    }


def decode_facts(decode: Decode) -> dict[str, Any]:
    """The least time of a decode step."""
    return {
        "weights_bytes": decode.weights_bytes,
        "kv_bytes": decode.kv_bytes,
        "milliseconds": round(decode.milliseconds, 3),
        "tokens_per_second": round(decode.tokens_per_second, 1),
        "kv_share": round(decode.kv_share, 4),
        "kv_outweighs_weights_at": decode.outweighs_at,
    }


def _ratio(bytes_: int | None, own: int) -> float | None:
    return None if bytes_ is None or not own else round(bytes_ / own, 2)


# The engine's figures that the contract names; every other one follows them.
_PLAN_FIGURES = (
    "num_blocks", "block_size", "page_bytes", "capacity_tokens", "max_concurrency",
    "needed_bytes_one_request",
)  # fmt: skip


def fit_facts(found: Fit) -> dict[str, Any]:
    """`kvplan.fit/1`."""
    plan = None if found.plan.whole_model else found.plan
    return {
        "model": model_facts(found.model),
        "request": request_facts(found.request, found.logical, plan),
        "device": None,
        "budget": [
            {
                "name": "kv",
                "low": found.available_bytes,
                "mid": found.available_bytes,
                "high": found.available_bytes,
                "origin": "--available-memory",
            }
        ],
        "available_bytes": found.available_bytes,
        "available_low": found.available_bytes,
        "available_high": found.available_bytes,
        "verdict": "fits" if found.fits else "does-not-fit",
        "only_if": None,
        "needed_bytes": found.needed_bytes,
        "logical_bytes": found.logical.bytes,
        "fits": found.fits,
        "refusal": None if plan is None else refusal_facts(plan.refusal),
        "binding_limit": found.binding_limit,
        "max_batch_at_ctx": found.max_batch_at_ctx,
        "max_ctx_at_batch": found.max_ctx_at_batch,
        "max_num_seqs_that_starts": found.plan.max_num_seqs_that_starts,
        "min_devices": found.min_devices,
        "min_devices_layout": None
        if found.min_devices is None
        else {
            "tp": found.min_devices // (found.request.pp * found.request.dp),
            "pp": found.request.pp,
            "dcp": found.request.dcp,
        },
        "engine": None if plan is None else plan_facts(plan),
        "warnings": [{"id": w.id, "message": w.message} for w in found.warnings],
    }


def plan_facts(plan: Plan) -> dict[str, Any]:
    """The `engine` object of the contract."""
    return {
        "name": plan.engine,
        "version": plan.version,
        "rules": plan.rules,
        **dict.fromkeys(_PLAN_FIGURES),
        **plan.figures,
        "reasons": list(plan.reasons),
        "defaults": [
            {"option": p.option, "value": p.value, "origin": p.origin} for p in plan.provenance
        ],
    }
