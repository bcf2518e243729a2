"""What is asked beside the run itself: smallest pools, other pools, other options, an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kvplan.errors import UsageError
from kvplan.load import LoadedModel
from kvplan.notice import Notice
from kvplan.replay.estimate import mean_blocks
from kvplan.replay.facts import Facts
from kvplan.replay.generated import Generated
from kvplan.replay.planned import Planned
from kvplan.replay.report import Report
from kvplan.replay.request import Request, Row
from kvplan.replay.run import Load, Outcome, Source, ample, replay
from kvplan.replay.traces import Trace

_EVERY = 1024  # requests from one sign of progress to the next
Told = Callable[[Request, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What `kvplan replay` was asked.

    Attributes:
        model, planned: the model, and its deployment.
        source, trace, load: the requests, and how they come.
        request: the options, for the report.
        shard: the part of the trace that is run, None for all.
        processes: runs at the same time.
        partial: see `run.replay`.
        scan: pools to run too, in blocks.
        plan_again: the plan of the same bytes under more options of the engine.
        what_if, estimate: whether those are asked for.
    """

    model: LoadedModel
    planned: Planned
    source: Source
    trace: Trace | Generated
    load: Load
    request: dict[str, Any]
    plan_again: Callable[[dict[str, str]], Planned]
    shard: tuple[int, int] | None = None
    processes: int = 1
    partial: bool = False
    scan: tuple[int, ...] = ()
    what_if: bool = False
    estimate: bool = False


def answer(
    question: Question, told: Told | None = None, moved: Callable[[int], None] | None = None
) -> Report:
    """Run what is asked.

    Args:
        told: of every request that has ended, and the step.
        moved: now and then told how many requests were read.

    Raises:
        KvplanError: the trace cannot be read, or the question contradicts itself.
    """
    facts, source, load = question.planned.facts, question.source, question.load
    _check(question)
    if moved is not None:
        source = _counted(source, moved)
    if question.shard is not None:
        source = part_of(source, *question.shard)
    notices = list(question.planned.notices)
    if not facts.switches.driven:
        message = f"the scheduler's rules of vllm {question.planned.version} were read, not run"
        notices.append(Notice("rules-read", message))
    outcome = replay(facts, source, load, ended=told, partial=question.partial)
    left_out = question.trace.left_out if isinstance(question.trace, Trace) else 0
    if left_out:
        message = (
            f"{left_out:,} requests have more tokens than max_model_len {facts.max_model_len:,},"
            " so the engine refuses them: left out"
        )
        notices.append(Notice("requests-left-out", message))
    if outcome.stuck is not None:
        message = (
            f"request {outcome.stuck + 1:,} needs more blocks than the pool has: it waits for ever,"
            " and all behind it"
        )
        notices.append(Notice("request-above-pool", message))
    spec = question.model.spec
    scan = tuple(_scan(question)) if question.scan else ()
    return Report(
        model={
            "name": spec.name,
            "hf_id": question.model.hf_id or (spec.hf_ids[0] if spec.hf_ids else None),
            "source": spec.source or question.model.origin,
        },
        request=question.request,
        pool={
            "num_blocks": facts.num_blocks,
            "usable_blocks": facts.usable_blocks,
            "bytes_per_block": facts.bytes_per_block,
        },
        engine=outcome.engine,
        meters=outcome.meters,
        stuck=outcome.stuck,
        partial=outcome.partial,
        left_out=left_out,
        part=question.shard,
        smallest_pool=_smallest(question, source, outcome),
        scan=scan,
        no_preemption_from=_no_preemption_from(scan),
        what_if=tuple(_what_if(question)) if question.what_if else (),
        estimate=mean_blocks(facts, source.rows(), load) if question.estimate else None,
        notices=tuple(notices),
    )


def _check(question: Question) -> None:
    again = question.scan or question.what_if or question.estimate or question.shard
    if again and isinstance(question.trace, Trace) and not question.trace.rereadable:
        raise UsageError("standard input can be read once only", hint="write the trace to a file")
    if question.shard is not None and not question.load.step_ms:
        raise UsageError(
            "--shard cuts a stream in time: give --step-ms",
            hint="a closed loop, and requests that are all there at once, have no cuts",
        )


def _counted(source: Source, moved: Callable[[int], None]) -> Source:
    def rows() -> Iterator[Row]:
        for number, row in enumerate(source.rows()):
            if not number % _EVERY:
                moved(number)
            yield row

    return replace(source, rows=rows)


def part_of(source: Source, part: int, parts: int) -> Source:
    """One of `parts` equal parts of a trace, at its own time."""

    def rows() -> Iterator[Row]:
        count = sum(1 for _ in source.rows())
        yield from islice(source.rows(), count * (part - 1) // parts, count * part // parts)

    return replace(source, rows=rows)


def _smallest(question: Question, source: Source, outcome: Outcome) -> int | None:
    """The smallest pool that changes nothing, by an ample run where this one was not."""
    facts = question.planned.facts
    trace = question.trace
    known = outcome.smallest_pool is not None or outcome.meters.requests == 0
    if known or (facts.prefix_caching and source.shares_text) or facts.aligned_states:
        return outcome.smallest_pool
    if outcome.partial or (isinstance(trace, Trace) and not trace.rereadable):
        return None
    return replay(ample(facts), source, question.load, digest=False).smallest_pool


_COLUMNS = (
    "num_blocks", "preemptions", "recomputed_tokens", "steps", "peak_running", "peak_blocks",
    "mean_blocks", "wait_p99", "hits", "stuck",
)  # fmt: skip


def _row(facts: Facts, outcome: Outcome) -> dict[str, Any]:
    meters = outcome.meters
    return {
        "num_blocks": facts.num_blocks,
        "preemptions": meters.preemptions,
        "recomputed_tokens": meters.recomputed_tokens,
        "steps": meters.steps,
        "peak_running": meters.peak_running,
        "peak_blocks": meters.peak_blocks,
        "mean_blocks": meters.block_steps / meters.steps if meters.steps else None,
        "wait_p99": meters.wait_steps.quantile(0.99) if meters.wait_steps.count else None,
        "hits": meters.hits,
        "stuck": outcome.stuck,
    }


def _scan(question: Question) -> list[dict[str, Any]]:
    facts = question.planned.facts
    return _run_all(question, [replace(facts, num_blocks=pool) for pool in question.scan])


def _no_preemption_from(scan: Sequence[dict[str, Any]]) -> int | None:
    """The smallest pool of the grid from which on nobody is preempted in any larger one."""
    found = None
    for row in reversed(scan):
        if row["preemptions"] or row["stuck"] is not None:
            break
        found = row["num_blocks"]
    return found


def _what_if(question: Question) -> list[dict[str, Any]]:
    """The same bytes under other options, planned again where the blocks are others."""
    facts = question.planned.facts
    asked: list[tuple[str, dict[str, str]]] = [
        (f"--max-num-batched-tokens {2 * facts.max_num_batched_tokens}",
         {"max_num_batched_tokens": str(2 * facts.max_num_batched_tokens)}),
        (f"--max-num-seqs {max(1, facts.max_num_seqs // 2)}",
         {"max_num_seqs": str(max(1, facts.max_num_seqs // 2))}),
        ("--no-enable-prefix-caching" if facts.prefix_caching else "--enable-prefix-caching",
         {"enable_prefix_caching": str(not facts.prefix_caching).lower()}),
        ("--kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}),
    ]  # fmt: skip
    others = [("as asked", facts)]
    if facts.watermark == 0.0 and facts.switches.has_watermark:
        others.append(("--watermark 0.02", replace(facts, watermark=0.02)))
    rows = []
    for name, options in asked:
        planned = _plan_again(question, options)
        if isinstance(planned, UsageError):
            refused = planned.message
            rows.append({"option": name, **dict.fromkeys(_COLUMNS), "refused": refused})
        else:
            others.append((name, planned.facts))
    found = _run_all(question, [other for _, other in others])
    ran = [{"option": name, **row} for (name, _), row in zip(others, found, strict=True)]
    return [{**row, "refused": None} for row in ran] + rows


def _plan_again(question: Question, options: dict[str, str]) -> Planned | UsageError:
    try:
        return question.plan_again(options)
    except UsageError as error:
        return error


def _run_all(question: Question, deployments: Sequence[Facts]) -> list[dict[str, Any]]:
    """One run for each deployment, in as many processes as asked; the order is theirs."""
    source, load = question.source, question.load
    if question.processes == 1 or len(deployments) == 1:
        return [_row(facts, replay(facts, source, load, digest=False)) for facts in deployments]
    with ProcessPoolExecutor(question.processes) as pool:
        found = [pool.submit(_run_one, question.trace, facts, load) for facts in deployments]
        return [result.result() for result in found]


def _run_one(trace: Trace | Generated, facts: Facts, load: Load) -> dict[str, Any]:
    shares = trace.shares_text if isinstance(trace, Generated) else trace.shares_text()
    source = Source(rows=trace.rows, unit=trace.unit, shares_text=shares)
    return _row(facts, replay(facts, source, load, digest=False))
