"""The cache block for block: what is found again, what is taken, what is given back.

Source: vllm 0.33.0, v1/core/kv_cache_manager.py allocate_slots.
"""

from __future__ import annotations

from kvplan.replay.depth import Depth
from kvplan.replay.facts import STATE, Facts
from kvplan.replay.lookup import NOTHING, Hit, Lookup
from kvplan.replay.nodes import Table
from kvplan.replay.pool import Pool
from kvplan.replay.request import Request
from kvplan.replay.states import Place, States
from kvplan.replay.tables import Attention
from kvplan.replay.texts import Texts


class BlockCache:
    """Groups over one pool.

    Args:
        unit: tokens of one id of the trace's texts.
    """

    def __init__(self, facts: Facts, unit: int) -> None:
        self.pool = Pool(facts.usable_blocks, unhashed_first=facts.switches.unhashed_first)
        self.refused_all = False  # the last one refused had no room for its whole text
        self.depth = Depth()
        self._facts = facts
        self._texts = Texts(unit)
        self._lookup = Lookup(facts, self._texts)
        self._caching = facts.prefix_caching
        self._fresh: set[Place] = set()
        self._groups: list[Attention | States] = [
            States(index, facts, self.pool, self._texts, self._fresh)
            if group.kind == STATE and facts.prefix_caching
            else Attention(index, facts, self.pool, self._texts)
            for index, group in enumerate(facts.groups)
        ]
        self._nothing = [NOTHING] * len(self._groups)
        self._round = facts.scheduler_block if len(self._groups) > 1 else 1
        self._watermark = facts.watermark_blocks
        self._lagging = facts.switches.processed_basis

    def start_step(self) -> None:
        """A new step: what was hashed in the last one is there now."""
        self._fresh.clear()

    def find(self, request: Request) -> int:
        """Look a waiting request's text up: tokens that need not be computed."""
        if not self._caching:
            return 0
        request.hit, tokens, request.junction = self._lookup.longest(request)
        return tokens

    def admit(self, request: Request, reused: int, new: int, *, alone: bool) -> bool:
        """Take the blocks of a waiting request's first chunk; False when there is no room."""
        hits: list[Hit] = request.hit if reused else self._nothing  # type: ignore[assignment]
        watermark = 0 if alone else self._watermark
        known = request.known
        prefill_end = self._prefill_end(request)
        free = self.pool.free - watermark
        tables: list[Table] = [group.new_table() for group in self._groups]
        pairs = list(zip(self._groups, tables, hits, strict=True))
        needed = 0
        if self._facts.reserve_full:
            for group, table, hit in pairs:
                needed += group.missing_for(table, hit, known, reused, prefill_end, capped=True)
            if needed > free:
                self.refused_all = self.depth.refused = True
                return False
        whole = needed
        end = reused + new
        needed = 0
        for group, table, hit in pairs:
            needed += group.missing_for(table, hit, end, reused, prefill_end, capped=False)
        if needed > free:
            self.depth.refused = True
            return False
        self.depth.admission(self.pool.used + max(whole, needed), alone=alone)
        if reused:
            for group, table, hit in pairs:
                group.adopt(table, hit, reused)
        taken = 0
        for group, table, _ in pairs:
            taken += group.grow(table, end)
        self.pool.take(taken)
        request.tables = tables
        request.hit = None
        if self._caching:
            self.remember(request, min(end, known))
        return True

    def extend(self, request: Request, new: int) -> bool:
        """Take the blocks of a running request's next tokens; False when there is no room."""
        computed = request.computed
        settled = computed - request.in_flight if self._lagging else computed
        tables = request.tables
        assert tables is not None
        end = computed + new
        prefill_end = self._prefill_end(request)
        needed = 0
        pairs = list(zip(self._groups, tables, strict=True))
        for group, table in pairs:
            group.shrink(table, settled)
            needed += group.missing(table, computed, end, prefill_end)
        if needed > self.pool.free:
            return False
        taken = 0
        for group, table in pairs:
            taken += group.grow(table, end)
        if taken:
            self.pool.take(taken)
            self.depth.held(self.pool.used)
        if self._caching:
            self.remember(request, min(end, request.known))
        return True

    def _prefill_end(self, request: Request) -> int:
        if self._facts.retention != 0:
            return 0
        return max(request.prompt, request.known - 1)

    def remember(self, request: Request, tokens: int) -> None:
        """Hash what is full and known of the first `tokens`."""
        if not self._caching:
            return
        tokens -= tokens % self._round
        tables = request.tables
        assert tables is not None
        for group, table in zip(self._groups, tables, strict=True):
            if table.hashed * group.size < tokens:
                group.remember(table, request, tokens)

    def release(self, request: Request) -> None:
        """Give all blocks back."""
        tables = request.tables
        if tables is None:
            return
        for group, table in zip(self._groups, tables, strict=True):
            group.drop(table)
        request.tables = None

    def forget(self, request: Request) -> None:
        """A request that has ended."""
        self._texts.leave(request)
