"""The tables that a person reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvplan.report.console import Column
from kvplan.report.formula import average_per_token, formula, kind_name
from kvplan.report.headings import asked
from kvplan.report.page import render
from kvplan.report.prose import hanging, warnings
from kvplan.report.tables import print_table
from kvplan.spec.labels import attention_label
from kvplan.units import format_bytes, format_count, format_tokens

if TYPE_CHECKING:
    from kvplan.check.facts import FileFacts
    from kvplan.checks import Verification
    from kvplan.engines.logical import LogicalCache
    from kvplan.load import LoadedModel
    from kvplan.plan.answer import Answer
    from kvplan.plan.devices import Listed
    from kvplan.plan.explain import Explanation
    from kvplan.plan.fit import Fit
    from kvplan.plan.size import SizeResult
    from kvplan.replay.report import Report
    from kvplan.report.console import Console
    from kvplan.spec.model import ModelSpec


def size(
    results: Sequence[SizeResult], *, to_file: bool, per_layer: bool = False, layout: bool = False
) -> str:
    """`kvplan size`: one result in full, several side by side."""

    def page(console: Console) -> None:
        if len(results) == 1:
            _one(console, results[0], layout=layout)
        else:
            _side_by_side(console, results)
        for result in results:
            if layout and result.allocated is not None:
                from kvplan.report.layout_page import draw

                draw(console, result.allocated)
            if result.charges is not None:
                _charges(console, result, named=len(results) > 1)
            if per_layer:
                _layers(console, result)
        warnings(console, (warning for result in results for warning in result.warnings))

    return render(page, to_file=to_file)


def replay(found: Report, *, to_file: bool) -> str:
    """`kvplan replay`: what ran, how full the pool was, and the time line."""
    from kvplan.report.replay_page import page

    return render(lambda console: page(console, found), to_file=to_file)


def fit(found: Fit | Answer, *, to_file: bool) -> str:
    """`kvplan fit`: the verdict, the budget, the inversions, and the engine's plan."""
    from kvplan.plan.fit import Fit

    if isinstance(found, Fit):
        from kvplan.report.fit_page import page

        return render(lambda console: page(console, found), to_file=to_file)
    from kvplan.report.budget_page import page as budget_page

    return render(
        lambda console: budget_page(console, found, explain=found.explain), to_file=to_file
    )


def verify(found: Verification, *, to_file: bool) -> str:
    """`kvplan verify`: one line per check, and the verdict."""
    from kvplan.report.verify_page import page

    return render(lambda console: page(console, found), to_file=to_file)


def explain(found: Explanation, *, to_file: bool) -> str:
    """`kvplan explain`: its own room, because it is a page, not a table."""
    from kvplan.report.explain_page import page

    return render(lambda console: page(console, found), to_file=to_file)


def models(results: Sequence[ModelSpec], *, to_file: bool) -> str:
    """`kvplan models`: one line per model."""
    if not results:
        return "no model matches\n"
    columns = [
        Column("model"), Column("attention", rank=1), Column("layers", "right", rank=4),
        Column("context", "right", rank=2), Column("Hugging Face id", rank=3),
    ]  # fmt: skip
    rows = []
    for spec in results:
        context = format_tokens(spec.max_context) if spec.max_context else "?"
        hf_id = spec.hf_ids[0] if spec.hf_ids else ""
        rows.append([spec.name, attention_label(spec), str(len(spec.layers)), context, hf_id])

    def page(console: Console) -> None:
        print_table(console, columns, rows)
        console.print(f"\n{format_count(len(results), 'model')}")

    return render(page, to_file=to_file)


def model(result: LoadedModel, *, to_file: bool) -> str:
    """`kvplan models NAME`: the spec itself, as YAML."""
    from kvplan.spec.writer import write_spec

    spec = result.spec
    return write_spec(spec, header=[attention_label(spec)])


def gpus(results: Sequence[Listed], *, to_file: bool) -> str:
    """`kvplan gpus`: one line per device."""
    from kvplan.report.gpus_page import table

    return render(lambda console: table(console, results), to_file=to_file)


def check(results: Sequence[FileFacts], *, to_file: bool) -> str:
    """`kvplan check --facts`: each engine and its facts."""
    from kvplan.report.check_page import facts_text

    return facts_text(results)


def gpu(results: Sequence[Listed], *, to_file: bool) -> str:
    """`kvplan gpus NAME`: everything known about a device."""
    from kvplan.report.gpus_page import page

    return render(lambda console: page(console, results), to_file=to_file)


def _one(console: Console, result: SizeResult, *, layout: bool) -> None:
    spec, logical = result.model.spec, result.logical
    layers = format_count(len(spec.layers), "layer")
    if result.request.with_draft and spec.draft_layers:
        layers += f" + {len(spec.draft_layers):,} of drafts"
    hanging(
        console,
        f"{result.model.title}: ",
        f"{attention_label(spec)}, {layers}; {asked(spec, logical)}",
    )
    console.print()
    basis = f"logical: what the model must keep ({logical.bytes:,} bytes)"
    hanging(console, f"{format_bytes(logical.bytes):>12}  ", basis, style="bold")
    if result.allocated is not None:
        from kvplan.report.allocated import print_allocated

        print_allocated(console, result.allocated, sources=layout)
    if result.weights is not None:
        known = result.weights
        parts = [f"{name} {format_bytes(part)}" for name, part in (known.by_dtype or {}).items()]
        detail = f": {', '.join(parts)}" if len(parts) > 1 else ""
        origin = f"{known.bytes:,} bytes, {known.source}{detail}"
        hanging(console, f"{format_bytes(known.bytes):>12}  ", f"weights ({origin})")
    console.print()
    _kinds(console, logical)
    fixed = format_bytes(logical.fixed_bytes_per_sequence)
    _line(console, "per sequence", format_bytes(logical.bytes_per_sequence))
    _line(
        console,
        "one more token",
        f"{format_bytes(logical.bytes_per_token)} per sequence{_mean(logical)}",
    )
    _line(console, "fixed state", f"{fixed} per sequence, whatever the context")
    _line(console, "formula", formula(logical))
    if not logical.shares:
        console.print("\nIt keeps nothing of the past: it reads its whole input at once.")


def _mean(logical: LogicalCache) -> str:
    """The average beside what exactly the next token adds, where the two differ."""
    average = average_per_token(logical)
    if average is None:
        return ""
    periods = sorted({share.state.period for share in logical.shares} - {1})
    every = " and ".join(f"{period:,}" for period in periods)
    return f", on average {format_bytes(round(average))}: entries close every {every} tokens"


def _line(console: Console, label: str, text: str) -> None:
    hanging(console, f"{label:<16}", text)


def _kinds(console: Console, logical: LogicalCache) -> None:
    """One line per kind of state; a model that keeps nothing has no table."""
    if not logical.shares:
        return
    columns = [
        Column("kind"), Column("layers", "right"), Column("entries", "right", rank=2),
        Column("one more token", "right", rank=3), Column("per sequence", "right"),
        Column("share", "right", rank=1),
    ]  # fmt: skip
    whole = logical.bytes_per_sequence
    parts = [share.bytes_per_sequence / whole if whole else 0.0 for share in logical.shares]
    rows = [
        [
            kind_name(share.state), f"{share.layers:,}", format_tokens(share.entries),
            format_bytes(share.bytes_per_token), format_bytes(share.bytes_per_sequence),
            f"{part:.1%}",
        ]
        for share, part in zip(logical.shares, parts, strict=True)
    ]  # fmt: skip
    print_table(console, columns, rows, shares=parts)
    console.print()


def _side_by_side(console: Console, results: Sequence[SizeResult]) -> None:
    columns: list[tuple[Column, Callable[[SizeResult], str]]] = [
        (Column("model"), lambda r: r.model.asked or r.model.spec.name),
        (Column("dtype"), lambda r: r.dtype_name),
        (Column("tokens", "right", rank=1), lambda r: format_tokens(r.logical.ctx)),
        (Column("sequences", "right", rank=2), lambda r: f"{r.logical.batch:,}"),
        (Column("logical", "right"), lambda r: format_bytes(r.logical.bytes)),
        (
            Column("per sequence", "right", rank=4),
            lambda r: format_bytes(r.logical.bytes_per_sequence),
        ),
        (
            Column("one more token", "right", rank=3),
            lambda r: format_bytes(r.logical.bytes_per_token),
        ),
        (
            Column("fixed state", "right", rank=5),
            lambda r: format_bytes(r.logical.fixed_bytes_per_sequence),
        ),
    ]
    if any(result.allocated for result in results):
        columns.insert(5, (Column("allocated", "right"), _allocated_cell))
    if any(result.weights for result in results):
        columns.append((Column("weights", "right"), _weights_cell))
    rows = [[cell(result) for _, cell in columns] for result in results]
    print_table(console, [column for column, _ in columns], rows)


def _weights_cell(result: SizeResult) -> str:
    return format_bytes(result.weights.bytes) if result.weights else "?"


def _allocated_cell(result: SizeResult) -> str:
    layout = result.allocated
    if layout is None:
        return ""
    if layout.refusal:
        return f"refused ({layout.engine} {layout.version})"
    return f"{format_bytes(layout.bytes)} ({layout.engine} {layout.version})"


def _charges(console: Console, result: SizeResult, *, named: bool) -> None:
    from kvplan.report.charges import charges_lines

    assert result.charges is not None
    heading, *lines = charges_lines(result.charges)
    whose = f"{result.model.spec.name}, {result.dtype_name}: " if named else ""
    console.print(f"\n{whose}{heading}")
    for line in lines:
        hanging(console, "  ", line)


def _layers(console: Console, result: SizeResult) -> None:
    from kvplan.report.facts import layer_facts

    console.print(
        f"\n{result.model.spec.name}, {result.dtype_name}: bytes of one sequence per layer"
    )
    columns = [
        Column("layer", "right"), Column("kind"), Column("keeps", rank=1), Column("bytes", "right"),
    ]  # fmt: skip
    rows = [
        [
            str(layer["layer"]), layer["layer_kind"], " + ".join(layer["states"]) or "nothing",
            f"{layer['bytes_per_sequence']:,}",
        ]
        for layer in layer_facts(result)
    ]  # fmt: skip
    print_table(console, columns, rows)
