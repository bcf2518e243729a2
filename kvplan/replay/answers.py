"""What is asked beside the run itself: smallest pools, other pools, other options, an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kvplan.errors import UsageError
from kvplan.load import LoadedModel
from kvplan.replay.estimate import mean_blocks
from kvplan.replay.facts import Facts
from kvplan.replay.generated import Generated
from kvplan.replay.planned import Planned
from kvplan.replay.report import Report
from kvplan.replay.request import Request, Row
from kvplan.replay.run import Load, Outcome, Source, ample, replay
from kvplan.replay.traces import Trace

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
        what_if, estimate: whether those are asked for.
    """

    model: LoadedModel
    planned: Planned
    source: Source
    trace: Trace | Generated
    load: Load
    request: dict[str, Any]
    shard: tuple[int, int] | None = None
    processes: int = 1
    partial: bool = False
    scan: tuple[int, ...] = ()
    what_if: bool = False
    estimate: bool = False


def answer(question: Question, told: Told | None = None) -> Report:
    """Run what is asked.

    Raises:
        KvplanError: the trace cannot be read, or the question contradicts itself.
    """
    facts, source, load = question.planned.facts, question.source, question.load
    _check(question)
    if question.shard is not None:
        source = part_of(source, *question.shard)
    notices = list(question.planned.notices)
    if not facts.switches.driven:
        notices.append(
            f"the scheduler's rules of vllm {question.planned.version} were read, not run"
        )
    outcome = replay(facts, source, load, ended=told, partial=question.partial)
    left_out = question.trace.left_out if isinstance(question.trace, Trace) else 0
    if left_out:
        notices.append(
            f"{left_out:,} requests have more tokens than max_model_len {facts.max_model_len:,},"
            " so the engine refuses them: left out"
        )
    if outcome.stuck is not None:
        notices.append(
            f"request {outcome.stuck + 1:,} needs more blocks than the pool has: it waits for ever,"
            " and all behind it"
        )
    spec = question.model.spec
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
        scan=tuple(_scan(question)) if question.scan else (),
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


def _what_if(question: Question) -> list[dict[str, Any]]:
    facts = question.planned.facts
    tokens, sequences = facts.max_num_batched_tokens, facts.max_num_seqs
    others: list[tuple[str, Facts]] = [
        ("as asked", facts),
        ("--watermark 0.02", replace(facts, watermark=0.02)),
        (f"--max-num-batched-tokens {2 * tokens}",
         replace(facts, max_num_batched_tokens=2 * tokens)),
        (f"--max-num-seqs {max(1, sequences // 2)}",
         replace(facts, max_num_seqs=max(1, sequences // 2))),
    ]  # fmt: skip
    if not any(group.kind == "state" for group in facts.groups):
        # With states the blocks themselves would be others.
        flag = "--no-enable-prefix-caching" if facts.prefix_caching else "--enable-prefix-caching"
        others.append((flag, replace(facts, prefix_caching=not facts.prefix_caching)))
        # Half the bytes of a block are twice the blocks, null block included.
        others.append(("half the bytes (fp8)", replace(facts, num_blocks=2 * facts.num_blocks)))
    rows = _run_all(question, [other for _, other in others])
    return [{"option": name, **row} for (name, _), row in zip(others, rows, strict=True)]


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
