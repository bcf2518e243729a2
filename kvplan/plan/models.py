"""The catalogue as a list that can be filtered."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.spec.catalogue import Catalogue
from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.names import holds


def list_models(
    *,
    family: str | None = None,
    attention: str | None = None,
    search: str | None = None,
    specs: Sequence[str] | None = None,
) -> list[ModelSpec]:
    """The specs that match every given filter, by name.

    Args:
        family: how the family's name begins, in any case: `llama`, `llama-3`.
        attention: a part of the attention label: `mla`, `sliding`, `hybrid-mamba`.
        search: text in the name, an alias or a Hugging Face id, in any case; blanks, `_` and `:`
            are dashes.
        specs: folders of the user's own specs; None reads KVPLAN_SPECS.

    Raises:
        SpecError: a spec that breaks the vocabulary.
    """
    found: dict[str, ModelSpec] = {}
    seen: set[str] = set()
    for entry in Catalogue(specs).entries():
        if entry.name in seen:  # the user's own hides the catalogue's, whether it matches or not
            continue
        seen.add(entry.name)
        if family is not None and not entry.text("family").lower().startswith(family.lower()):
            continue
        if search is not None and not holds(entry.names(), search):
            continue
        spec = entry.spec()
        if attention is None or attention.lower() in _label_parts(spec):
            found[entry.name] = spec
    return [found[name] for name in sorted(found)]


def _label_parts(spec: ModelSpec) -> set[str]:
    """The whole label, its parts, and the parts without what stands in brackets."""
    label = attention_label(spec).lower()
    parts = label.split("+")
    return {label, *parts, *(part.partition("(")[0] for part in parts)}
