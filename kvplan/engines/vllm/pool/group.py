"""A group: layers that share a block table, and how a bucket of layers is dealt out to several.

Bytes and blocks are per rank. Source: vllm 0.33.0, v1/core/kv_cache_planning.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import Load
from kvplan.steps import Steps


@dataclass(frozen=True)
class Group:
    """Layers that share a block table; what is asked of it again and again is worked out once.

    Attributes:
        members: (spec, layers per stage), equal specs once.
        mixed: pages differ inside the group.
    """

    members: tuple[Run, ...]
    mixed: bool = False

    @cached_property
    def layers(self) -> int:
        """Layers over all stages."""
        return sum(run.count for run in self.members)

    @property
    def by_tokens(self) -> bool:
        """Whether its blocks are kept for every token."""
        return self.members[0].spec.keeps_every_token

    def tokens_per_block(self, length: int) -> int:
        """Tokens of one block, where the longest request has `length`."""
        return self.members[0].spec.tokens_per_block(length)

    def members_on(self, stage: int) -> int:
        """Layers on one stage."""
        return sum(run.counts[stage] for run in self.members)

    def blocks(self, load: Load) -> int:
        """Blocks one request needs."""
        return self._most(self.members, load, None)

    def blocks_on(self, stage: int, load: Load) -> int:
        """Blocks one request needs as a rank of this stage sees it.

        A rank that holds only some of a mixed group's layers counts those; one that holds none
        counts the whole group, because the block table is the same on all ranks.
        """
        if len(self.members) == 1:
            return self._most(self.members, load, None)
        here = tuple(run for run in self.members if run.counts[stage]) or self.members
        return self._most(here, load, stage)

    def _most(self, runs: tuple[Run, ...], load: Load, stage: int | None) -> int:
        """The largest of some members' blocks; most members take blocks by the same steps."""
        key = (load.law, stage)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = tuple({run.spec.steps(load) for run in runs})
        if len(found) == 1:
            return found[0].at(load.length)
        return max(steps.at(load.length) for steps in found)

    @cached_property
    def _steps(self) -> dict[tuple[tuple[object, ...], int | None], tuple[Steps, ...]]:
        return {}

    def pages(self, stage: int) -> int:
        """Bytes of one block over this stage's layers, without stride alignment."""
        return sum(run.spec.page * run.counts[stage] for run in self.members)

    def strides(self, stage: int) -> int:
        """Bytes of one block over this stage's layers, where layers are outermost."""
        return sum(run.spec.stride * run.counts[stage] for run in self.members)


def deal(bucket: Sequence[Run], number: int) -> list[list[Run]]:
    """A bucket's layers dealt out like cards: layer i goes to part i mod `number`."""
    parts: list[list[Run]] = [[] for _ in range(number)]
    position = 0
    for run in bucket:
        ends = [position]
        for count in run.counts:
            ends.append(ends[-1] + count)
        for index, part in enumerate(parts):
            counts = tuple(
                _upto(ends[stage + 1], index, number) - _upto(ends[stage], index, number)
                for stage in range(len(run.counts))
            )
            if any(counts):
                part.append(Run(run.spec, counts))
        position = ends[-1]
    return parts


def _upto(end: int, index: int, number: int) -> int:
    """How many of 0 .. end - 1 are `index` modulo `number`."""
    return (end - index + number - 1) // number if end > index else 0
