"""Any command's result as flat rows of plain values: what CSV and Markdown print.

A name that one command uses means the same in every other one, so rows can be joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvplan.report.facts import fit_facts, layer_facts, model_rows, size_facts

if TYPE_CHECKING:
    from kvplan.checks import Verification
    from kvplan.load import LoadedModel
    from kvplan.plan.answer import Answer
    from kvplan.plan.devices import Listed
    from kvplan.plan.explain import Explanation
    from kvplan.plan.fit import Fit
    from kvplan.plan.size import SizeResult
    from kvplan.replay.report import Report
    from kvplan.spec.model import ModelSpec

Row = dict[str, Any]

# Of an engine's figures the plain ones, as the contract names them.
_ENGINE_FIGURES = (
    "num_blocks", "block_size", "page_bytes", "capacity_tokens", "max_concurrency",
    "needed_bytes_one_request",
)  # fmt: skip


def rows(command: str, result: Any, **options: Any) -> list[Row]:
    """The rows of a command's result; all have the same keys.

    Args:
        command: whose result.
        result: what the command found.
        options: as the command passes them on to its report.
    """
    found = _ROWS[command](result, **options)
    return [{key: _plain(value) for key, value in row.items()} for row in found]


def _size(
    results: Sequence[SizeResult], *, per_layer: bool = False, layout: bool = False
) -> list[Row]:
    """One row per result, or one per layer of each result."""
    if per_layer:
        return [
            {**_head(size_facts(result)), **layer, "states": "+".join(layer["states"])}
            for result in results
            for layer in layer_facts(result)
        ]
    return [_size_row(result) for result in results]


def _size_row(result: SizeResult) -> Row:
    facts = size_facts(result)
    logical = {f"logical_{key}": value for key, value in facts["logical"].items() if key != "kinds"}
    charged = {}
    if result.charges is not None:
        held = result.charges.ranks
        charged = {
            "allocator_allocated_bytes": sum(charge.allocated for charge in held),
            "allocator_reserved_bytes": sum(charge.reserved for charge in held),
        }
    return {
        **_head(facts),
        "attention": facts["model"]["attention"],
        **logical,
        "engine": facts["request"]["engine"],
        "engine_version": facts["request"]["engine_version"],
        "allocated_bytes": facts["allocated"]["bytes"] if facts["allocated"] else None,
        "refusal": _code(facts["allocated"]["refusal"] if facts["allocated"] else None),
        **charged,
        "weights_bytes": result.weights.bytes if result.weights else None,
        "warnings": [warning["id"] for warning in facts["warnings"]],
    }


def _explain(found: Explanation) -> list[Row]:
    """One row per kind of state: the factors of its bytes."""
    facts = size_facts(found.size)
    head = {**_head(facts), "attention": facts["model"]["attention"]}
    return [{**head, **kind} for kind in facts["logical"]["kinds"]]


def _fit(found: Fit | Answer) -> list[Row]:
    """One row: the verdict, the inverses, and the engine's plain figures."""
    from kvplan.plan.fit import Fit

    if isinstance(found, Fit):
        facts = fit_facts(found)
    else:
        from kvplan.report.budget_page import answer_facts

        facts = answer_facts(found)
    plan = facts.pop("engine") or {}
    facts.pop("device")
    return [
        {
            **_head(facts),
            "engine": facts["request"]["engine"],
            "engine_version": facts["request"]["engine_version"],
            **{key: value for key, value in facts.items() if not isinstance(value, (dict, list))},
            **{key: plan.get(key) for key in _ENGINE_FIGURES},
            "refusal": _code(facts["refusal"]),
            "warnings": [warning["id"] for warning in facts["warnings"]],
        }
    ]


def _code(refusal: dict[str, Any] | None) -> str | None:
    return refusal["code"] if refusal else None


def _models(specs: Sequence[ModelSpec]) -> list[Row]:
    return model_rows(specs)


def _model(found: LoadedModel) -> list[Row]:
    """The row that the list has of this model."""
    return model_rows([found.spec])


def _gpus(found: Sequence[Listed]) -> list[Row]:
    from kvplan.report.gpus_page import gpu_facts

    return gpu_facts(found)


def _verify(found: Verification) -> list[Row]:
    from kvplan.report.verification import verification_rows

    return verification_rows(found)


def _head(facts: Row) -> Row:
    """Which model and request a row is about."""
    return {
        "model": facts["model"]["name"],
        "dtype": facts["request"]["dtype"],
        "ctx": facts["request"]["ctx"],
        "batch": facts["request"]["batch"],
    }


def _plain(value: Any) -> Any:
    """A cell: empty for what is missing, a word for a truth, a list's parts with blanks between."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _replay(found: Report) -> list[Row]:
    """The time line: a row per point."""
    names = ("clock", "running", "waiting", "used_blocks", "scheduled_tokens")
    return [dict(zip(names, point, strict=True)) for point in found.meters.line.points]


_ROWS: dict[str, Callable[..., list[Row]]] = {
    "size": _size,
    "explain": _explain,
    "fit": _fit,
    "verify": _verify,
    "replay": _replay,
    "models": _models,
    "model": _model,
    "gpus": _gpus,
    "gpu": _gpus,
}
