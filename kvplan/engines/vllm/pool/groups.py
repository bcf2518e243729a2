"""Grouping: layers that share a block table, so that a block of the pool serves any group.

    1. all specs equal (full layers may differ in their window): one group
    2. all of one type and block size, pages may differ: one group that keeps each layer's page
    3. block-outermost layouts with unequal pages: packed groups (see `packed`)
    4. else equal pages (see `pages`), one bucket per spec; group size g = smallest bucket, or the
       largest when it is below 1.5 x the smallest; a bucket of n layers makes ceil(n / g) groups,
       layer i goes to group i mod that many

Source: vllm 0.33.0, v1/core/kv_cache_planning.py get_kv_cache_groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvplan.arithmetic import ceil_div
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.facts.versions import Rules
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import (
    CacheSpec,
    ChunkedSpec,
    LatentSpec,
    SlidingLatentSpec,
    SlidingSpec,
)
from kvplan.engines.vllm.pool.group import Group, deal
from kvplan.engines.vllm.pool.packed import packed_groups
from kvplan.engines.vllm.pool.pages import CannotUnify, unify


def form_groups(
    runs: list[Run], rules: Rules, *, hybrid: bool, block_outermost: bool
) -> list[Group]:
    """Group all layers of a model.

    Args:
        hybrid: False with --disable-hybrid-kv-cache-manager.
        block_outermost: the layout packs the layers of a block side by side.

    Raises:
        Refused: vLLM finds no grouping.
    """
    if not hybrid:
        runs = _like_full(runs)
    if not runs:
        return []
    if is_uniform(runs):
        return [Group(tuple(runs))]
    if _one_type(runs):
        if not rules.mixed_pages:
            raise _not_yet("layers of unequal pages in one group")
        return [Group(tuple(runs), mixed=True)]
    if not hybrid and not rules.unifies_pages:
        raise _not_yet("caches of several kinds")
    if block_outermost and len({run.spec.page for run in runs}) > 1:
        return packed_groups(runs)
    try:
        runs = unify(runs, rules)
    except CannotUnify:
        return _without_windows(runs)
    return _split(_buckets(runs), rules)


def _not_yet(what: str) -> Refused:
    return Refused(
        "page-sizes-differ", "NotImplementedError", f"this release does not keep {what}; a newer"
        " one does"
    )  # fmt: skip


def _mergeable(first: CacheSpec, other: CacheSpec) -> bool:
    """Whether two specs can be one: they are equal in every field."""
    return first == other


def is_uniform(runs: Sequence[Run]) -> bool:
    """Whether all layers have the same spec."""
    return all(_mergeable(runs[0].spec, run.spec) for run in runs[1:])


def _one_type(runs: Sequence[Run]) -> bool:
    return runs[0].spec.is_uniform_with(tuple(run.spec for run in runs))


def _like_full(runs: list[Run]) -> list[Run]:
    """Windows and chunks stored like full attention, where there is some."""
    if not runs or is_uniform(runs) or _one_type(runs):
        return runs
    full_sizes = {run.spec.block_size for run in runs if run.spec.keeps_every_token}
    local = any(isinstance(run.spec, SlidingSpec | ChunkedSpec) for run in runs)
    if full_sizes and local:
        size = full_sizes.pop() if len(full_sizes) == 1 else None
        runs = merge_equal(_promoted(run, size) for run in runs)
    if not (is_uniform(runs) or _one_type(runs)):
        kinds = list(dict.fromkeys(run.spec.kind for run in runs))
        raise Refused(
            "mixed-local-layers",
            "ValueError",
            "without the hybrid cache manager every layer must be stored alike, and these cannot "
            f"be: {', '.join(kinds)}; leave out --disable-hybrid-kv-cache-manager",
            kinds=kinds,
        )
    return runs


def _promoted(run: Run, size: int | None) -> Run:
    if isinstance(run.spec, SlidingLatentSpec):
        raise Refused(
            "latent-window-as-full",
            "TypeError",
            "vllm cannot store windows over latents like full attention; leave out "
            "--disable-hybrid-kv-cache-manager",
        )
    if isinstance(run.spec, SlidingSpec | ChunkedSpec):
        return Run(run.spec.as_full(size or run.spec.block_size), run.counts)
    return run


def merge_equal(runs: Iterable[Run]) -> list[Run]:
    """Runs whose specs became equal counted together, in order of first appearance."""
    counts: dict[CacheSpec, tuple[int, ...]] = {}
    for run in runs:
        known = counts.get(run.spec)
        counts[run.spec] = (
            run.counts
            if known is None
            else tuple(a + b for a, b in zip(known, run.counts, strict=True))
        )
    return [Run(spec, found) for spec, found in counts.items()]


def _without_windows(runs: list[Run]) -> list[Group]:
    """The way out when a latent's page cannot be brought in line: windows like full attention."""
    kinds = {type(run.spec) for run in runs}
    possible = {LatentSpec, SlidingSpec} <= kinds and not kinds & {SlidingLatentSpec, ChunkedSpec}
    if possible:
        try:
            promoted = _like_full(runs)
        except Refused:
            promoted = []
        if promoted and _one_type(promoted):
            return [Group(tuple(promoted), mixed=True)]
    pages = sorted({run.spec.page for run in runs})
    raise Refused(
        "page-sizes-differ",
        "NotImplementedError",
        "a latent's page neither divides the largest page nor can be padded: "
        f"{', '.join(f'{page:,}' for page in pages)} bytes",
        page_bytes=pages,
    )


def _buckets(runs: list[Run]) -> list[list[Run]]:
    buckets: list[list[Run]] = []
    for run in merge_equal(runs):
        for bucket in buckets:
            if _mergeable(bucket[0].spec, run.spec):
                bucket.append(run)
                break
        else:
            buckets.append([run])
    return buckets


def _split(buckets: list[list[Run]], rules: Rules) -> list[Group]:
    sizes = [sum(run.count for run in bucket) for bucket in buckets]
    width = min(sizes)
    ratio = rules.close_bucket_ratio
    if ratio is not None and max(sizes) < width * ratio:
        width = max(sizes)
    groups = []
    for bucket, size in zip(buckets, sizes, strict=True):
        number = ceil_div(size, width)
        parts = deal(bucket, number) if rules.deals_layers else cut(bucket, width)
        groups += [Group(tuple(part)) for part in parts]
    return groups


def cut(bucket: Sequence[Run], width: int) -> list[list[Run]]:
    """A bucket's layers cut in order into parts of `width` layers, the last one narrower.

    Only where each stage groups its own layers, so a run has layers in one stage.
    """
    parts: list[list[Run]] = []
    room = 0
    for run in bucket:
        stage = next((at for at, count in enumerate(run.counts) if count), 0)
        left = run.count
        while left:
            if not room:
                parts.append([])
                room = width
            taken = min(left, room)
            counts = tuple(taken if at == stage else 0 for at in range(len(run.counts)))
            parts[-1].append(Run(run.spec, counts))
            left, room = left - taken, room - taken
    return parts


def groups_by_stage(runs: list[Run], stages: int, rules: Rules, *, hybrid: bool) -> list[Group]:
    """Groups of releases in which each stage groups its own layers; stages must agree.

    Raises:
        Refused: they do not, or one of them finds no grouping.
    """
    each = []
    for stage in range(stages):
        own = [
            Run(run.spec, tuple(n if at == stage else 0 for at, n in enumerate(run.counts)))
            for run in runs
            if run.counts[stage]
        ]
        each.append(form_groups(own, rules, hybrid=hybrid, block_outermost=False))
    first = each[0]
    for other in each[1:]:
        alike = [group.members[0].spec for group in other]
        if alike != [group.members[0].spec for group in first]:
            why = "the pipeline stages do not form the same groups, which this release asks of them"
            raise Refused("release-bug-assert", "AssertionError", why)
    return [
        Group(tuple(merge_equal(run for group in alike for run in group.members)), first[at].mixed)
        for at, alike in enumerate(zip(*each, strict=True))
    ]
