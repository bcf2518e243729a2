"""The catalogue as a list that can be filtered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvplan.errors import SpecError
from kvplan.spec.catalogue import Catalogue, Entry
from kvplan.spec.labels import attention_label
from kvplan.spec.model import ModelSpec
from kvplan.spec.names import holds
from kvplan.spec.resolve import search_names


def list_models(
    *,
    family: str | None = None,
    attention: str | None = None,
    search: str | None = None,
    specs: Sequence[str] | None = None,
    left_out: Callable[[str], None] | None = None,
) -> list[ModelSpec]:
    """The specs that match every given filter, by name.

    Args:
        family: how the family's name begins, in any case: `llama`, `llama-3`.
        attention: a part or a word of the attention label: `mla`, `sliding`, `linear`, `kda`.
        search: text in the name, an alias, a Hugging Face id or a server's tag, in any case;
            blanks, `_` and `:` are dashes.
        specs: folders of the user's own specs; None reads KVPLAN_SPECS.
        left_out: told of each file that is no spec; None raises instead.

    Raises:
        SpecError: a file that is no spec.
    """
    meant = search_names(search) if search else frozenset[str]()
    found: dict[str, ModelSpec] = {}
    seen: set[str] = set()
    catalogue = Catalogue(specs)
    for entry in catalogue.entries():
        if entry.name in seen:  # the user's own hides the catalogue's, whether it matches or not
            continue
        seen.add(entry.name)
        if family is not None and not entry.text("family").lower().startswith(family.lower()):
            continue
        if search is not None and not (
            holds(entry.names(), search) or meant.intersection(map(str.lower, entry.names()))
        ):
            continue
        spec = _spec(entry, left_out)
        if spec is None:
            continue
        if attention is None or attention.lower() in _label_parts(spec):
            found[entry.name] = spec
    for notice in catalogue.notices():
        _tell(SpecError(notice.message), left_out)
    return [found[name] for name in sorted(found)]


def _spec(entry: Entry, left_out: Callable[[str], None] | None) -> ModelSpec | None:
    try:
        return entry.spec()
    except SpecError as error:
        _tell(error, left_out)
        return None


def _tell(error: SpecError, left_out: Callable[[str], None] | None) -> None:
    if left_out is None:
        raise error
    left_out(str(error))


def attention_words(specs: Sequence[ModelSpec]) -> list[str]:
    """What --attention can ask for: the parts of the models' labels."""
    parts = {part for spec in specs for part in attention_label(spec).split("+")}
    return sorted(parts, key=str.lower)


def _label_parts(spec: ModelSpec) -> set[str]:
    """The whole label, its parts, the parts without brackets, and the single words of each."""
    label = attention_label(spec).lower()
    parts = label.split("+")
    words = label.replace("(", "-").replace(")", "").replace("+", "-").split("-")
    return {label, *parts, *(part.partition("(")[0] for part in parts), *words}
