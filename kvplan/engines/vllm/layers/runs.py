"""From slots to layer caches: the pages, counted per pipeline stage.

Layers of one kind are alike, so everything is counted: a run is one cache spec and the number of
layers that have it in each stage. Only the order in which kinds first appear is kept, because
groups are formed in that order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from kvplan.engines.vllm.layers.blocks import BlockChoice
from kvplan.engines.vllm.layers.model import Model
from kvplan.engines.vllm.layers.parallel import stage_sizes
from kvplan.engines.vllm.layers.rows import cache_spec
from kvplan.engines.vllm.layers.slots import STATE, Slot
from kvplan.engines.vllm.layers.slots import slots_of as slots_of_kind
from kvplan.engines.vllm.layers.specs import CacheSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of layer: its slots and its layers per stage.

    Attributes:
        name: the spec's name of the kind.
        slots: its caches.
        counts: layers of each pipeline stage.
    """

    name: str
    slots: tuple[Slot, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Layers with equal caches: the spec, and how many in each stage."""

    spec: CacheSpec
    counts: tuple[int, ...]

    @property
    def count(self) -> int:
        """Layers over all stages."""
        return sum(self.counts)


def kinds_of(model: Model, layers: tuple[str, ...], *, on_last_stage: bool) -> tuple[Kind, ...]:
    """Layer kinds in the order of their first layer.

    Args:
        layers: kind names, one per layer.
        on_last_stage: draft layers, which all sit behind the target's last ones.

    Raises:
        Refused: vLLM would not build such layers or such stages.
    """
    stages = model.settings.pp
    if on_last_stage:
        sizes = (*[0] * (stages - 1), len(layers))
    else:
        sizes = stage_sizes(
            len(layers),
            stages,
            model.settings.partition,
            remainder_to_last=model.settings.rules.remainder_to_last,
        )
        if model.skipped:
            layers = tuple(
                name + "\0" if index in model.skipped else name for index, name in enumerate(layers)
            )
    ends = accumulate(sizes, initial=0)
    counted = [Counter(layers[start:end]) for start, end in pairwise(ends)]
    found = []
    for name in dict.fromkeys(layers):
        bare = name.removesuffix("\0")
        slots = slots_of_kind(model, model.spec.kinds[bare], skipped=bare != name)
        if slots:
            found.append(Kind(bare, slots, tuple(counter[name] for counter in counted)))
    if model.family.attention_first:
        found = _attention_first(found)
    return tuple(found)


def _attention_first(kinds: list[Kind]) -> list[Kind]:
    """Families that build all attention before the first state layer."""
    front, back = [], []
    for kind in kinds:
        attention = tuple(slot for slot in kind.slots if slot.role != STATE)
        state = tuple(slot for slot in kind.slots if slot.role == STATE)
        if attention:
            front.append(replace(kind, slots=attention))
        if state:
            back.append(replace(kind, slots=state))
    return front + back


def runs_of(
    model: Model, kinds: tuple[Kind, ...], choice: BlockChoice, *, caches_states: bool
) -> list[Run]:
    """The cache specs of all layers, equal ones counted together."""
    counts: dict[CacheSpec, list[int]] = {}
    for kind in kinds:
        for slot in kind.slots:
            spec = cache_spec(model, slot, choice, caches_states=caches_states)
            into = counts.setdefault(spec, [0] * len(kind.counts))
            for stage, count in enumerate(kind.counts):
                into[stage] += count
    return [Run(spec, tuple(found)) for spec, found in counts.items()]
