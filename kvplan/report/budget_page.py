"""The page of `kvplan fit` with a device: the verdict, where the memory goes, what is left gives.

Every line of the budget has its bounds; where they differ, what follows from them is a range too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.budget.vllm.budget import KV
from kvplan.plan.answer import DOES_NOT_FIT, FITS, Answer
from kvplan.report.console import Column
from kvplan.report.decode_lines import print_decode
from kvplan.report.facts import decode_facts, fit_facts
from kvplan.report.headings import asked
from kvplan.report.prose import hanging, warnings
from kvplan.report.provenance import print_defaults
from kvplan.report.tables import print_table
from kvplan.spec.labels import attention_label
from kvplan.units import GIB, format_bytes, format_count

if TYPE_CHECKING:
    from kvplan.estimate import Estimate
    from kvplan.report.console import Console

_LABELS = {
    "total": "device", "requested": "vllm may use", "weights": "weights",
    "activations": "activations", "non_torch": "libraries", "graphs": "CUDA graphs",
    "reserve": "reserve", "kv": "left for the cache",
}  # fmt: skip
_TERMS = {
    "activations": "activations", "non_torch": "libraries", "graphs": "CUDA graphs",
    "weights": "weights", "kv": "the memory for the cache",
}  # fmt: skip
_BINDING = {
    "available_bytes": "the memory for the cache",
    "weights": "the weights",
    "max_num_seqs": "max_num_seqs",
    "state_blocks": "blocks of recurrent states",
    "max_model_len": "the engine's max_model_len",
    "max_context": "the model's maximum",
    "heads": "the number of heads",
    "engine": "the engine refuses",
}


def page(console: Console, found: Answer, *, explain: bool = False) -> None:
    """Print the whole page."""
    low = found.low
    spec, plan = low.model.spec, low.plan
    device = found.devices.text if found.devices else "the device"
    about = f"{attention_label(spec)}; {asked(spec, low.logical)}, on {device}, {_engine(found)}"
    hanging(console, f"{low.model.title}: ", about)
    console.print()
    style = {FITS: "bold green", DOES_NOT_FIT: "bold red"}.get(found.verdict, "bold yellow")
    hanging(console, "", verdict_text(found), style=style)
    if low.needed_bytes is not None:
        _line(console, "needed", f"{format_bytes(low.needed_bytes)} of cache on the fullest rank")
    _line(console, "left", f"{_span(found.budget.available)} for the cache of one rank")
    _line(console, "limit", _BINDING.get(found.binding_limit or "", found.binding_limit or "none"))
    console.print()
    _budget(console, found)
    refusal = _shown_refusal(found)
    if refusal:
        console.print()
        hanging(console, "vllm refuses: ", refusal, style="red")
    console.print()
    _inverses(console, found)
    if plan.num_blocks is not None:
        _pool(console, found)
    if found.decode is not None:
        console.print()
        print_decode(console, found.decode)
    if found.levers:
        console.print("\nwhat would help", style="bold")
        for lever in found.levers:
            effect = "less needed" if lever.saves else "more for the cache"
            hanging(console, "  ", f"{lever.flag}: {format_bytes(lever.gain_bytes)} {effect}")
    if explain and plan is not None:
        for reason in plan.reasons:
            hanging(console, "  ", reason)
        print_defaults(console, plan)
    warnings(console, (*found.notices, *low.warnings))


def verdict_text(found: Answer) -> str:
    """The verdict in words, with the condition of an open one."""
    if found.verdict == FITS:
        return "fits"
    if found.verdict == DOES_NOT_FIT:
        room = found.budget.line("requested").high
        weights = 0 < room < found.budget.line("weights").low
        return "does not fit: the weights alone are too large" if weights else "does not fit"
    only_if = found.only_if
    if only_if is None:
        return "fits only if"
    names = [_TERMS[name] for name in only_if.terms]
    text = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    if only_if.below_bytes <= 0:
        return f"does not fit unless the weights are smaller than estimated ({text} take the rest)"
    return f"fits only if {text} stay below {format_bytes(only_if.below_bytes)} together"


def answer_facts(found: Answer) -> dict[str, Any]:
    """`kvplan.fit/1` with a budget, by the contract's names."""
    left, ranks, devices = found.budget.available, found.ranks, found.devices
    facts = fit_facts(found.decisive)
    facts["request"] = fit_facts(found.low)["request"]
    total = found.budget.line("total")
    decode = found.decode
    high = found.high
    more: dict[str, Any] = {}
    if not left.exact:
        more = {
            "max_batch_at_ctx_high": found.max_batch_high,
            "max_ctx_at_batch_high": high.max_ctx_at_batch,
        }
    return {
        **facts,
        "device": None if devices is None else {
            "name": devices.smallest.name,
            "count": devices.number,
            "total_bytes": total.mid or None,
            "source": total.origin,
        },
        "budget": [
            {"name": name, "low": line.low, "mid": line.mid, "high": line.high,
             "origin": line.origin}
            for name, line in found.budget.lines
        ],
        "available_bytes": left.low,
        "available_low": left.low,
        "available_high": left.high,
        "peak_bytes": found.budget.peak.mid,
        "verdict": found.verdict,
        "fits": found.fits,
        "only_if": None if found.only_if is None else {
            "terms": list(found.only_if.terms), "below_bytes": found.only_if.below_bytes
        },
        "binding_limit": found.binding_limit,
        "max_batch_at_ctx": found.max_batch,
        **more,
        "max_num_seqs_that_starts": found.max_num_seqs_that_starts,
        "min_devices": None if ranks is None else ranks.number * found.low.request.dp,
        "min_devices_layout": None if ranks is None else {
            "tp": ranks.tp, "pp": ranks.pp, "dcp": ranks.dcp
        },
        "decode_bound": None if decode is None else decode_facts(decode),
        "levers": [
            {"flag": lever.flag, "gain_bytes": lever.gain_bytes, "saves": lever.saves}
            for lever in found.levers
        ],
        "warnings": [
            *facts["warnings"], *({"id": n.id, "message": n.message} for n in found.notices)
        ],
    }  # fmt: skip


def _engine(found: Answer) -> str:
    name, _, version = found.engine.partition("@")
    return f"{name} {version}{' (the newest that kvplan knows)' if found.newest else ''}"


def _budget(console: Console, found: Answer) -> None:
    columns = [
        Column("GiB of one rank"), Column("least", "right"), Column("likely", "right"),
        Column("most", "right"), Column("from", rank=1, least=24),
    ]  # fmt: skip
    rows = []
    for name, line in found.budget.lines:
        if name == "reserve" and not line.high:
            continue
        sign = "" if name in ("total", "requested", KV) else "- "
        rows.append(
            [f"{sign}{_LABELS[name]}", _gib(line.low), _gib(line.mid), _gib(line.high),
             line.origin]
        )  # fmt: skip
    print_table(console, columns, rows)
    peak, total = found.budget.peak, found.budget.line("total")
    if total.high:
        text = (
            f"about {_gib(peak.mid)} of {_gib(total.mid)} GiB once graphs are captured, with the"
            " context, which no line has"
        )
        console.print()
        _line(console, "in all", text)


def _inverses(console: Console, found: Answer) -> None:
    low, high = found.low, found.high
    tokens = f"{low.logical.ctx:,} tokens"
    _line(console, "sequences", f"{_range(found.max_batch, found.max_batch_high)} of {tokens}")
    longest = _range(low.max_ctx_at_batch, high.max_ctx_at_batch)
    _line(console, "context", f"{longest} tokens for {format_count(low.request.batch, 'sequence')}")
    ranks = found.ranks
    if ranks is None:
        _line(console, "devices", "no split that was tried holds it")
    else:
        how = f"tp {ranks.tp}" + (f", pp {ranks.pp}" if ranks.pp > 1 else "")
        how += f", dcp {ranks.dcp}" if ranks.dcp > 1 else ""
        _line(console, "devices", f"at least {ranks.number} of this kind ({how})")
    if found.max_num_seqs_that_starts is not None:
        most = found.max_num_seqs_that_starts
        _line(console, "would start", f"with --max-num-seqs {most:,} or less")


def _pool(console: Console, found: Answer) -> None:
    low, high = found.low.plan, found.high.plan
    if low is None or high is None:
        return
    console.print("\nwhat vllm will print when it starts", style="bold")
    first, last = low.figures, high.figures
    tokens = _range(first.get("capacity_tokens"), last.get("capacity_tokens"))
    _line(console, "cache size", f"{tokens} tokens")
    least, most = first.get("max_concurrency"), last.get("max_concurrency")
    if least is not None and most is not None:
        span = f"{least:.2f}x" if least == most else f"{least:.2f}x to {most:.2f}x"
        length = first.get("max_model_len") or found.low.logical.ctx
        _line(console, "concurrency", f"{span} for {length:,} tokens per request")
    parts = adds_up(found)
    if parts:
        _line(console, "adds up", parts)


def adds_up(found: Answer) -> str:
    """How the bytes of one request follow: `6 x 1,089 + 2,048 + 1 blocks x 1,310,720 bytes`."""
    plan = found.low.plan
    if plan is None:
        return ""
    figures = plan.figures
    groups, per_block = figures.get("groups") or [], figures.get("bytes_per_block") or []
    if not groups or not per_block:
        return ""
    counts: dict[int, int] = {}
    for group in groups:
        blocks = group["request_blocks"]
        counts[blocks] = counts.get(blocks, 0) + 1
    terms = [f"{n} x {blocks:,}" if n > 1 else f"{blocks:,}" for blocks, n in counts.items()]
    batch = found.low.request.batch
    inner = " + ".join(terms)
    if batch > 1:
        inner = f"{batch:,} x ({inner})" if len(groups) > 1 else f"{batch:,} x {inner}"
    return f"{inner} + 1 blocks x {max(per_block):,} bytes"


def _shown_refusal(found: Answer) -> str | None:
    """Why it would not start: at its best where that is certain, else at its worst."""
    plan = found.decisive.plan
    if plan is None or plan.refusal is None:
        return None
    if found.verdict == DOES_NOT_FIT:
        return plan.refusal.message
    return f"with no more than {_gib(found.budget.available.low)} GiB, {plan.refusal.message}"


def _line(console: Console, label: str, text: str) -> None:
    hanging(console, f"{label:<14}", text)


def _range(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "any number" if low is None and high is None else f"{low or 0:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _span(line: Estimate) -> str:
    if line.exact:
        return f"{_gib(line.mid)} GiB"
    return f"{_gib(line.low)} to {_gib(line.high)} GiB, about {_gib(line.mid)},"


def _gib(count: int) -> str:
    return f"{count / GIB:,.2f}"
