"""The tables that a person reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvplan.report.console import bar, new_table, open_console, text_of
from kvplan.report.facts import layer_facts
from kvplan.report.formula import formula
from kvplan.spec.labels import attention_label
from kvplan.units import format_bytes, format_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from kvplan.load import LoadedModel
    from kvplan.plan.explain import Explanation
    from kvplan.plan.fit import Fit
    from kvplan.plan.size import SizeResult
    from kvplan.spec.model import ModelSpec


def size(
    results: Sequence[SizeResult], *, to_file: bool, per_layer: bool = False, layout: bool = False
) -> str:
    """`kvplan size`: one result in full, several side by side."""
    console = open_console(to_file=to_file)
    if len(results) == 1:
        _one(console, results[0])
    else:
        _side_by_side(console, results)
    for result in results:
        if layout and result.allocated is not None:
            from kvplan.report.layout_page import draw

            draw(console, result.allocated)
        if per_layer:
            _layers(console, result)
    for result in results:
        for warning in result.warnings:
            console.print(f"\nwarning: {warning.message} [{warning.id}]", style="yellow")
    return text_of(console)


def fit(found: Fit, *, to_file: bool) -> str:
    """`kvplan fit`: the verdict, the inversions, and the engine's plan."""
    from kvplan.report.fit_page import page

    console = open_console(to_file=to_file)
    page(console, found)
    return text_of(console)


def explain(found: Explanation, *, to_file: bool) -> str:
    """`kvplan explain`: its own room, because it is a page, not a table."""
    from kvplan.report.explain_page import page

    console = open_console(to_file=to_file)
    page(console, found)
    return text_of(console)


def models(results: Sequence[ModelSpec], *, to_file: bool) -> str:
    """`kvplan models`: one line per model."""
    console = open_console(to_file=to_file)
    if not results:
        return "no model matches\n"
    columns = [("model", "left"), ("attention", "left"), ("layers", "right"), ("context", "right")]
    wide = console.width >= 100
    if wide:
        columns.append(("Hugging Face id", "left"))
    table = new_table(*columns, padding=(0, 2, 0, 0))
    for spec in results:
        context = format_tokens(spec.max_context) if spec.max_context else "?"
        row = [spec.name, attention_label(spec), str(len(spec.layers)), context]
        table.add_row(*row, *(spec.hf_ids[:1] if wide else ()))
    console.print(table)
    console.print(f"\n{len(results)} models")
    return text_of(console)


def model(result: LoadedModel, *, to_file: bool) -> str:
    """`kvplan models NAME`: the spec itself, as YAML."""
    from kvplan.spec.writer import write_spec

    spec = result.spec
    return write_spec(spec, header=[attention_label(spec)])


def _one(console: Console, result: SizeResult) -> None:
    spec, logical = result.model.spec, result.logical
    sequences = "1 sequence" if logical.batch == 1 else f"{logical.batch:,} sequences"
    console.print(
        f"{spec.name}: {attention_label(spec)}, {len(spec.layers)} layers;"
        f" {format_tokens(logical.ctx)} tokens x {sequences}, {result.dtype_name}\n"
    )
    basis = "logical: what the model must keep"
    console.print(
        f"{format_bytes(logical.bytes):>12}  {basis} ({logical.bytes:,} bytes)", style="bold"
    )
    _allocated(console, result)
    if result.weights is not None:
        known = result.weights
        parts = [f"{name} {format_bytes(part)}" for name, part in (known.by_dtype or {}).items()]
        detail = f": {', '.join(parts)}" if len(parts) > 1 else ""
        console.print(
            f"{format_bytes(known.bytes):>12}  weights ({known.bytes:,} bytes, {known.source}{detail})"
        )
    console.print()
    columns = [
        ("kind", "left"), ("layers", "right"), ("entries", "right"), ("one more token", "right"),
        ("per sequence", "right"), ("share", "right"),
    ]  # fmt: skip
    if console.is_terminal:
        columns.append(("", "left"))
    table = new_table(*columns, padding=(0, 2, 0, 0))
    for share in logical.shares:
        part = share.bytes_per_sequence / logical.bytes_per_sequence if logical.bytes else 0
        row = [
            share.state.kind, f"{share.layers:,}", format_tokens(share.entries),
            format_bytes(share.bytes_per_token), format_bytes(share.bytes_per_sequence),
            f"{part:.1%}",
        ]  # fmt: skip
        table.add_row(*row, *([bar(part, console)] if console.is_terminal else []))
    console.print(table)
    console.print(f"\n{'per sequence':<16}{format_bytes(logical.bytes_per_sequence)}")
    console.print(f"{'one more token':<16}{format_bytes(logical.bytes_per_token)} per sequence")
    fixed = format_bytes(logical.fixed_bytes_per_sequence)
    console.print(f"{'fixed state':<16}{fixed} per sequence, whatever the context")
    console.print(f"{'formula':<16}{formula(logical)}")


def _allocated(console: Console, result: SizeResult) -> None:
    layout = result.allocated
    if layout is None:
        return
    basis = f"{layout.engine} {layout.version}: what it sets aside"
    if len(layout.ranks) > 1:
        largest = max(rank.bytes for rank in layout.ranks)
        basis += f" on {len(layout.ranks)} ranks, at most {format_bytes(largest)} each"
    console.print(
        f"{format_bytes(layout.bytes):>12}  {basis} ({layout.bytes:,} bytes)", style="bold"
    )
    if layout.refusal:
        console.print(f"{'':14}refuses to start: {layout.refusal}", style="red")
    for reason in layout.reasons:
        console.print(f"{'':14}{reason}")


def _side_by_side(console: Console, results: Sequence[SizeResult]) -> None:
    engines = any(result.allocated for result in results)
    # (heading, width from which a terminal has room for it, cell)
    columns: list[tuple[str, int, Callable[[SizeResult], str]]] = [
        ("tokens", 60, lambda r: format_tokens(r.logical.ctx)),
        ("sequences", 70, lambda r: f"{r.logical.batch:,}"),
        ("logical", 0, lambda r: format_bytes(r.logical.bytes)),
        ("per sequence", 100, lambda r: format_bytes(r.logical.bytes_per_sequence)),
        ("one more token", 86, lambda r: format_bytes(r.logical.bytes_per_token)),
        ("fixed state", 110, lambda r: format_bytes(r.logical.fixed_bytes_per_sequence)),
    ]
    if engines:
        columns.insert(3, ("allocated", 0, _allocated_cell))
    shown = [column for column in columns if console.width >= column[1]]
    headings = [("model", "left"), ("dtype", "left"), *((name, "right") for name, _, _ in shown)]
    table = new_table(*headings, padding=(0, 2, 0, 0))
    for result in results:
        cells = [cell(result) for _, _, cell in shown]
        table.add_row(result.model.spec.name, result.dtype_name, *cells)
    console.print(table)


def _allocated_cell(result: SizeResult) -> str:
    layout = result.allocated
    if layout is None:
        return ""
    return f"{format_bytes(layout.bytes)} ({layout.engine} {layout.version})"


def _layers(console: Console, result: SizeResult) -> None:
    console.print(
        f"\n{result.model.spec.name}, {result.dtype_name}: bytes of one sequence per layer"
    )
    table = new_table(
        ("layer", "right"),
        ("kind", "left"),
        ("keeps", "left"),
        ("bytes", "right"),
        padding=(0, 2, 0, 0),
    )
    for layer in layer_facts(result):
        keeps = " + ".join(layer["states"]) or "nothing"
        table.add_row(
            str(layer["layer"]), layer["layer_kind"], keeps, f"{layer['bytes_per_sequence']:,}"
        )
    console.print(table)
