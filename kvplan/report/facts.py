"""The figures of a result by the contract's names: what every machine-readable format prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.spec.labels import attention_label

if TYPE_CHECKING:
    from kvplan.engines.layout import CacheLayout
    from kvplan.load import LoadedModel
    from kvplan.plan.size import SizeResult


def model_facts(model: LoadedModel) -> dict[str, Any]:
    """The `model` object of the contract."""
    spec = model.spec
    return {
        "name": spec.name,
        "hf_id": spec.hf_ids[0] if spec.hf_ids else None,
        "attention": attention_label(spec),
        "layers": len(spec.layers),
        "max_context": spec.max_context,
        "source": spec.source or model.origin,
    }


def size_facts(result: SizeResult, *, per_layer: bool = False) -> dict[str, Any]:
    """One entry of `results` of `kvplan.size/1`."""
    request, logical = result.request, result.logical
    facts = {
        "model": model_facts(result.model),
        "request": {
            "ctx": logical.ctx,
            "batch": logical.batch,
            "dtype": result.dtype_name,
            "dtype_k": logical.dtypes.k.name,
            "dtype_v": logical.dtypes.v.name,
            "engine": result.allocated.engine if result.allocated else "logical",
            "engine_version": result.allocated.version if result.allocated else None,
            "tp": request.tp,
            "pp": request.pp,
            "dp": request.dp,
            "dcp": request.dcp,
            "with_draft": request.with_draft,
        },
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
    if per_layer:
        facts["layers"] = layer_facts(result)
    return facts


def layout_facts(layout: CacheLayout) -> dict[str, Any]:
    """The `allocated` object of the contract."""
    return {
        "bytes": layout.bytes,
        "per_rank": [
            {
                "rank": rank.rank,
                "bytes": rank.bytes,
                "tensors": [
                    {"name": t.name, "shape": list(t.shape), "dtype": t.dtype, "bytes": t.bytes}
                    for t in rank.tensors
                ],
            }
            for rank in layout.ranks
        ],
        "refusal": layout.refusal,
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
