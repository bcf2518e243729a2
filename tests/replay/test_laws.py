"""What holds for every deployment and every stream, and that the two steppers are one scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.replay.arrivals import Arrivals
from kvplan.replay.cache import BlockCache
from kvplan.replay.facts import CHUNKED, FULL, SLIDING, STATE, Facts, Group
from kvplan.replay.generated import Generated
from kvplan.replay.meters import Meters
from kvplan.replay.request import Request, Row
from kvplan.replay.run import Load, Outcome, Source, ample, replay
from kvplan.replay.walk import Walk

LONGEST = 600
FULL_16 = Group(kind=FULL, block_size=16)
WINDOW = Group(kind=SLIDING, block_size=16, window=40)
KINDS = {
    "full": (FULL_16,),
    "two sizes": (FULL_16, Group(kind=FULL, block_size=32)),
    "sliding": (WINDOW,),
    "window and full": (WINDOW, WINDOW, FULL_16),
    "unequal blocks": (WINDOW, Group(kind=FULL, block_size=32)),
    "chunks": (Group(kind=CHUNKED, block_size=16, chunk=64), FULL_16),
    "states": (Group(kind=STATE, block_size=32), Group(kind=FULL, block_size=32)),
    "exported states": (
        Group(kind=STATE, block_size=32, checkpoints=True), Group(kind=FULL, block_size=32),
    ),
}  # fmt: skip


@st.composite
def deployments(draw: st.DrawFn) -> Facts:
    """Any kind of model in a pool that holds its longest request, if barely."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    caching = draw(st.booleans())
    groups = KINDS[kind]
    if not caching:
        groups = tuple(
            replace(group, block_size=LONGEST, checkpoints=False) if group.kind == STATE else group
            for group in groups
        )
    return Facts(
        groups=groups,
        num_blocks=draw(st.integers(42 * len(groups), 160)),
        max_model_len=LONGEST,
        max_num_seqs=draw(st.sampled_from((2, 5, 40))),
        max_num_batched_tokens=draw(st.sampled_from((40, 64, 500))),
        prefix_caching=caching,
        async_scheduling=draw(st.booleans()),
        long_prefill_token_threshold=draw(st.sampled_from((0, 0, 50))),
        watermark=draw(st.sampled_from((0.0, 0.0, 0.05))),
        retention=draw(st.sampled_from((0, None))),
        reserve_full=draw(st.sampled_from((True, True, False))),
    )


@st.composite
def streams(draw: st.DrawFn) -> Generated:
    """A few requests of any kind."""
    return Generated(
        kind=draw(st.sampled_from(("uniform", "shared", "chat"))),
        seed=draw(st.integers(0, 10_000)),
        requests=draw(st.integers(1, 25)),
        prompt=(1, draw(st.integers(1, 100))),
        output=(1, draw(st.integers(1, 60))),
        gap_ms=draw(st.sampled_from((0.0, 30.0, 400.0))),
        groups=3, common=96, sessions=8, turns=3, spread_ms=500.0, think_ms=300.0,
    )  # fmt: skip


LOADS = st.sampled_from((Load(step_ms=20.0), Load(), Load(clients=3)))


def source_of(stream: Generated, *, plain: bool = False) -> Source:
    """A stream as a source; `plain` hides what its texts are."""
    rows = [row for row in stream.rows() if row.prompt + row.output <= LONGEST]
    if plain:
        rows = [Row(row.t_ms, row.prompt, row.output) for row in rows]
    shares = stream.shares_text and not plain
    return Source(rows=lambda: rows, unit=stream.unit, shares_text=shares)


def counted(meters: Meters) -> dict[str, object]:
    """Everything that a run counts."""
    return {
        name: value
        for name, value in vars(meters).items()
        if isinstance(value, int) and name not in ("digest", "_next")
    } | {"steps sha": meters.step_sha, "finish sha": meters.finish_sha}


def walked(facts: Facts, source: Source, load: Load) -> tuple[Meters, Request | None]:
    """The same by the stepper that visits everybody."""
    meters = Meters()
    arrivals = Arrivals(source.rows(), step_ms=load.step_ms, clients=load.clients)
    stuck = Walk(facts, BlockCache(facts, source.unit), arrivals, meters).run()
    if stuck is not None:
        meters.unfinished(arrivals.unserved())
    return meters, stuck


@given(deployments(), streams(), LOADS)
@settings(max_examples=150, deadline=None)
def test_both_steppers_are_one_scheduler(facts: Facts, stream: Generated, load: Load) -> None:
    """Whatever engine is chosen, every step is that of the stepper that visits everybody."""
    source = source_of(stream)
    meters, stuck = walked(facts, source, load)

    outcome = replay(facts, source, load)

    assert counted(outcome.meters) == counted(meters)
    assert outcome.stuck == (None if stuck is None else stuck.index)


@given(deployments(), streams(), LOADS)
@settings(max_examples=80, deadline=None)
def test_tokens_are_conserved(facts: Facts, stream: Generated, load: Load) -> None:
    """Every token but the last of each answer is computed once, found, or computed again."""
    source = source_of(stream)
    rows = list(source.rows())

    outcome = replay(facts, source, load)

    meters = outcome.meters
    assert meters.peak_blocks <= facts.usable_blocks
    if outcome.stuck is None:
        assert meters.requests == len(rows)
        assert meters.decode_tokens == sum(row.output - 1 for row in rows)
        assert meters.prompt_tokens + meters.hits == sum(row.prompt for row in rows)
        assert meters.finish_step.count == len(rows)


@given(deployments(), streams(), LOADS)
@settings(max_examples=60, deadline=None)
def test_an_ample_pool_keeps_nobody_waiting_for_blocks(
    facts: Facts, stream: Generated, load: Load
) -> None:
    """No preemption, and nobody waits but for a place or for tokens of a step."""
    roomy = replace(ample(facts), max_num_seqs=100, max_num_batched_tokens=100_000)

    outcome = replay(roomy, source_of(stream), load)

    assert outcome.stuck is None
    assert outcome.meters.preemptions == 0
    if not roomy.aligned_states and not roomy.long_prefill_token_threshold:
        assert outcome.meters.peak_waiting == 0


@given(deployments(), streams(), LOADS)
@settings(max_examples=60, deadline=None)
def test_without_shared_text_caching_changes_nothing_until_somebody_is_preempted(
    facts: Facts, stream: Generated, load: Load
) -> None:
    """The steps of a run without preemption are the same with caching and without."""
    if any(group.kind == STATE for group in facts.groups):
        return  # their blocks are others with caching
    source = source_of(stream, plain=True)

    off = replay(replace(facts, prefix_caching=False), source, load)
    on = replay(replace(facts, prefix_caching=True), source, load)

    if not off.meters.preemptions:
        assert on.meters.step_sha == off.meters.step_sha


def test_a_long_queue_is_held_back_in_order() -> None:
    """5,000 requests at once, of which 256 are whole: every step as with a queue of whole ones."""
    facts = Facts(
        groups=KINDS["full"], num_blocks=60, max_model_len=LONGEST, max_num_seqs=20,
        max_num_batched_tokens=500, prefix_caching=False, async_scheduling=True,
    )  # fmt: skip
    stream = Generated(kind="uniform", seed=5, requests=5000, prompt=(1, 60), output=(1, 12),
                       gap_ms=0.0)  # fmt: skip
    source = source_of(stream)

    outcome = replay(facts, source, Load())

    meters, _ = walked(facts, source, Load())
    assert counted(outcome.meters) == counted(meters)
    assert meters.peak_waiting > 4900
    assert meters.preemptions > 0


@pytest.mark.parametrize("load", [Load(step_ms=20.0), Load(), Load(clients=4)])
@pytest.mark.parametrize("case", ["a chunk ends with a block", "a step without anybody"])
def test_two_steps_that_were_once_wrong(case: str, load: Load) -> None:
    """A block that is filled and left in one step is hashed all the same.

    Who preempts itself alone is back in the same step, since an empty one takes no time.
    """
    if case == "a chunk ends with a block":
        chunks = (Group(kind=CHUNKED, block_size=16, chunk=64),)
        facts = Facts(
            groups=chunks, num_blocks=50, max_model_len=400, max_num_seqs=40,
            max_num_batched_tokens=64, prefix_caching=True, async_scheduling=False,
            reserve_full=False,
        )  # fmt: skip
        stream = Generated(
            kind="shared", seed=507, requests=50, prompt=(1, 30), output=(1, 80), gap_ms=200.0,
            groups=3, common=96,
        )  # fmt: skip
    else:
        facts = Facts(
            groups=(Group(kind=FULL, block_size=8),) * 2, num_blocks=167, max_model_len=400,
            max_num_seqs=3, max_num_batched_tokens=40, prefix_caching=True, async_scheduling=True,
        )  # fmt: skip
        stream = Generated(
            kind="chat", seed=688, requests=34, prompt=(1, 250), output=(1, 40), sessions=10,
            turns=5, spread_ms=500.0, think_ms=400.0, unit=8,
        )  # fmt: skip
    rows = [row for row in stream.rows() if row.prompt + row.output <= facts.max_model_len]
    source = Source(rows=lambda: rows, unit=stream.unit, shares_text=True)

    outcome = replay(facts, source, load)

    meters, _ = walked(facts, source, load)
    assert counted(outcome.meters) == counted(meters)


def same(first: Outcome, second: Outcome) -> bool:
    """Whether two runs are equal."""
    return (first.meters.step_sha, first.meters.finish_sha) == (
        second.meters.step_sha, second.meters.finish_sha,
    )  # fmt: skip


@given(deployments(), streams(), LOADS)
@settings(max_examples=80, deadline=None)
def test_the_smallest_pool_changes_nothing_and_one_block_less_does(
    facts: Facts, stream: Generated, load: Load
) -> None:
    """Where no text is shared; the ample run says how deep it went."""
    source = source_of(stream, plain=True)
    roomy = replace(facts, num_blocks=100_000)
    widest = replay(roomy, source, load)
    smallest = widest.smallest_pool
    if smallest is None:
        assert facts.aligned_states or facts.watermark
        return

    assert same(replay(replace(facts, num_blocks=smallest), source, load), widest)
    assert not same(replay(replace(facts, num_blocks=smallest - 1), source, load), widest)


@pytest.mark.parametrize("unhashed_first", [True, False])
def test_older_orders_of_the_free_queue_run_too(unhashed_first: bool) -> None:
    """Both orders of eviction end, and use no more than there is."""
    facts = Facts(
        groups=KINDS["window and full"], num_blocks=130, max_model_len=LONGEST, max_num_seqs=10,
        max_num_batched_tokens=100, prefix_caching=True, async_scheduling=True,
    )  # fmt: skip
    facts = replace(facts, switches=replace(facts.switches, unhashed_first=unhashed_first))
    stream = Generated(kind="chat", seed=3, requests=40, prompt=(20, 60), output=(10, 40),
                       sessions=12, turns=4, spread_ms=500.0, think_ms=300.0)  # fmt: skip

    outcome = replay(facts, source_of(stream), Load(step_ms=20.0))

    assert outcome.stuck is None
    assert outcome.meters.peak_blocks <= facts.usable_blocks
