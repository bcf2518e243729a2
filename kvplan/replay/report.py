"""The result of a replay as it is reported, written down and put together again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.errors import InputError
from kvplan.notice import Notice
from kvplan.replay.meters import Histogram, Meters

SCHEMA = "kvplan.replay/1"

# Sums and maxima by the contract's names.
SUMS = (
    "requests", "steps", "scheduled_tokens", "recomputed_tokens", "prompt_tokens", "decode_tokens",
    "preemptions", "block_steps", "running_steps",
)  # fmt: skip
PEAKS = ("peak_running", "peak_waiting", "peak_blocks")
HISTOGRAMS = ("wait_steps", "first_token_steps", "finish_step", "used_blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `kvplan replay` answers.

    Attributes:
        model: name, hf_id and source of the model.
        request: trace, engine and options.
        pool: num_blocks, usable_blocks and bytes_per_block.
        engine: `counting` or `blocks`: which arithmetic was used; both are exact where they are.
        meters: all counts; None with --estimate.
        stuck: index of a request that can never be admitted.
        partial: why the trace was not read to its end.
        left_out: requests longer than the model.
        part: (i, n) of a shard.
        smallest_pool: the smallest pool that changes nothing.
        scan, what_if: one row for each other pool, or other option.
        no_preemption_from: the smallest of the pools of `scan` from which on nobody is preempted.
        estimate: the closed form of mean occupancy.
        notices: what the user should know.
    """

    model: Mapping[str, Any]
    request: Mapping[str, Any]
    pool: Mapping[str, int]
    engine: str
    meters: Meters
    stuck: int | None = None
    partial: str | None = None
    left_out: int = 0
    part: tuple[int, int] | None = None
    smallest_pool: int | None = None
    scan: tuple[Mapping[str, Any], ...] = ()
    no_preemption_from: int | None = None
    what_if: tuple[Mapping[str, Any], ...] = ()
    estimate: Mapping[str, Any] | None = None
    notices: tuple[Notice, ...] = ()

    def facts(self) -> dict[str, Any]:
        """The JSON object, without its schema's name."""
        meters = self.meters
        found: dict[str, Any] = {
            "model": dict(self.model),
            "request": dict(self.request),
            "pool": dict(self.pool),
            "engine": self.engine,
            "totals": {name: getattr(meters, name) for name in (*SUMS, *PEAKS)},
            "prefix": {"queries": meters.queries, "hits": meters.hits,
                       "preempted_hits": meters.preempted_hits},
            "occupancy": self.occupancy(),
            "wait_steps": meters.wait_steps.summary(),
            "first_token_steps": meters.first_token_steps.summary(),
            "finish_step": meters.finish_step.summary(),
            "last_step": meters.last_step,
            "step_sha": meters.step_sha,
            "finish_sha": meters.finish_sha,
            "stuck": self.stuck,
            "left_out": self.left_out,
            "partial": self.partial,
            "smallest_pool_unchanged": self.smallest_pool,
            "line_every": meters.line.every,
            "line": [list(point) for point in meters.line.points],
            "warnings": [{"id": w.id, "message": w.message} for w in self.notices],
        }  # fmt: skip
        for name in ("scan", "what_if"):
            if rows := getattr(self, name):
                found[name] = [dict(row) for row in rows]
        if self.scan:
            found["no_preemption_from"] = self.no_preemption_from
        if self.estimate is not None:
            found["estimate"] = dict(self.estimate)
        if self.part is not None:
            found["shard"] = {"part": self.part[0], "parts": self.part[1]}
            found["histograms"] = {
                name: sorted(getattr(meters, name).bins.items()) for name in HISTOGRAMS
            }
        return found

    def occupancy(self) -> dict[str, Any]:
        """Mean and 99 % quantile of the used share of the pool, with the bytes."""
        meters, usable = self.meters, self.pool["usable_blocks"]
        if not meters.steps:
            return {"mean": None, "p99": None, "mean_bytes": None, "peak_bytes": 0}
        mean = meters.block_steps / meters.steps
        size = self.pool["bytes_per_block"]
        return {
            "mean": mean / usable,
            "p99": meters.used_blocks.quantile(0.99) / usable,
            "mean_bytes": round(mean * size),
            "peak_bytes": meters.peak_blocks * size,
        }

    @staticmethod
    def read(data: object, where: str) -> Report:
        """A shard's report as it was written.

        Raises:
            InputError: it is none.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or "histograms" not in data:
            raise InputError(
                "is no report of a shard", where=where, hint="kvplan replay ... --shard I/N --json"
            )
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"is no report of a shard: {error!r}", where=where) from None


def _read(data: dict[str, Any]) -> Report:
    meters = Meters(digest=False)
    totals, prefix = data["totals"], data["prefix"]
    for name in (*SUMS, *PEAKS):
        if name != "decode_tokens":
            setattr(meters, name, int(totals[name]))
    for name in ("hits", "queries", "preempted_hits"):
        setattr(meters, name, int(prefix[name]))
    for name in HISTOGRAMS:
        histogram: Histogram = getattr(meters, name)
        for value, times in data["histograms"][name]:
            histogram.add(int(value), int(times))
    for name in ("wait_steps", "first_token_steps", "finish_step"):
        if data[name] is not None:  # beyond 65,536 the bins are rounded, these are not
            getattr(meters, name).total = int(data[name]["sum"])
            getattr(meters, name).largest = int(data[name]["max"])
    meters.last_step = int(data["last_step"])
    meters.line.every = int(data["line_every"])
    meters.line.points = [
        (int(a), int(b), int(c), int(d), int(e)) for a, b, c, d, e in data["line"]
    ]
    return Report(
        model=data["model"], request=data["request"], pool=data["pool"], engine=data["engine"],
        meters=meters, stuck=data["stuck"], partial=data["partial"], left_out=data["left_out"],
        part=(int(data["shard"]["part"]), int(data["shard"]["parts"])),
    )  # fmt: skip
