"""`--quick`: the model with one layer of each kind, every tensor in its own width.

What differs between the layers of a kind is only how often it is there, so one of each shows the
shapes, formats and pools of all; a model of 126 layers is then checked in the time of one or two.
"""

from __future__ import annotations

from kvplan.load import LoadedModel
from kvplan.spec.model import ModelSpec
from kvplan.spec.states import SharedCache


def one_of_each(model: LoadedModel, stages: int) -> tuple[LoadedModel, str]:
    """The model cut down, and the sentence that says so.

    Args:
        model: the whole model.
        stages: pipeline stages, each of which needs a layer.
    """
    spec = model.spec
    sources = spec.shared_sources()
    first: dict[str, int] = {}
    for index, kind in enumerate(spec.layers):
        first.setdefault(kind, index)
    chosen = {*first.values(), *(sources[index] for index in first.values() if index in sources)}
    spare = [index for index in range(len(spec.layers)) if index not in chosen]
    chosen.update(spare[: max(0, stages - len(chosen))])
    kept = sorted(chosen)
    note = f"quick: {len(kept)} of {len(spec.layers)} layers, at least one of each kind"
    return model._replace(spec=_cut(spec, kept, sources)), note


def _cut(spec: ModelSpec, kept: list[int], sources: dict[int, int]) -> ModelSpec:
    """The spec with these layers alone; layers that are read keep their readers."""
    names = [spec.layers[index] for index in kept]
    kinds = {name: spec.kinds[name] for name in dict.fromkeys(names)}
    for index, name in zip(kept, names, strict=True):
        if sources.get(index) in kept:
            kinds[name] = (SharedCache(reads=kept.index(sources[index])),)
    return spec.replaced(kinds=kinds, layers=tuple(names), draft_layers=())
