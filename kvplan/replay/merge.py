"""Reports of the parts of one stream, put together.

Sums are added, maxima taken, histograms added and time lines joined on their common clock. The
result is that of the whole stream if nobody was under way at the cuts, and if what the cache held
there is not found again. The hashes of the whole cannot be had from its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.replay.meters import LINE_POINTS, Meters, Point
from kvplan.replay.report import HISTOGRAMS, PEAKS, SUMS, Report


def merge(reports: Sequence[Report]) -> Report:
    """The report of the whole.

    Raises:
        UsageError: parts that are missing, twice there, or of another question.
    """
    ordered = sorted(reports, key=lambda report: report.part or (0, 0))
    first = ordered[0]
    parts = first.part[1] if first.part else 0
    if [report.part for report in ordered] != [(i, parts) for i in range(1, parts + 1)]:
        found = " ".join(f"{i}/{n}" for i, n in (r.part for r in ordered if r.part))
        raise UsageError(f"--merge needs every part once, and there are {found}")
    for report in ordered[1:]:
        if (report.model, report.request, report.pool) != (first.model, first.request, first.pool):
            raise UsageError("--merge needs parts of one question: model, options or pools differ")
    meters = Meters(digest=False)
    points: list[Point] = []
    for report in ordered:
        part = report.meters
        for name in SUMS:
            if name != "decode_tokens":
                setattr(meters, name, getattr(meters, name) + getattr(part, name))
        for name in PEAKS:
            setattr(meters, name, max(getattr(meters, name), getattr(part, name)))
        for name in HISTOGRAMS:
            getattr(meters, name).merge(getattr(part, name))
        meters.hits += part.hits
        meters.queries += part.queries
        meters.preempted_hits += part.preempted_hits
        meters.last_step = max(meters.last_step, part.last_step)
        meters.line.every = max(meters.line.every, part.line.every)
        points += part.line.points
    while len(points) > LINE_POINTS:
        points = points[::2]
        meters.line.every *= 2
    meters.line.points = sorted(points)
    overlap = any(
        before.meters.line.points
        and after.meters.line.points
        and before.meters.last_step >= after.meters.line.points[0][0]
        for before, after in pairwise(ordered)
    )
    notices = (
        (
            Notice(
                "cut-under-way",
                "requests were under way at a cut, so the whole stream differs from its parts",
            ),
        )
        if overlap
        else ()
    )
    return Report(
        model=first.model, request=first.request, pool=first.pool, engine=first.engine,
        meters=meters, stuck=next((r.stuck for r in ordered if r.stuck is not None), None),
        partial=next((r.partial for r in ordered if r.partial), None),
        left_out=sum(report.left_out for report in ordered), notices=notices,
    )  # fmt: skip
