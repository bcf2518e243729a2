"""Names that no spec bears itself: a server's tag, a cloud's id, a copy of a model.

    mistral:7b                         a tag of the table: what it means, and since when
    us.meta.llama3-3-70b-instruct-v1:0 a cloud's id
    unsloth/Qwen3-8B-GGUF              a copy: the base's layers, its own weights
    z-lab/Qwen3.6-27B-DFlash           a draft model: refused, its base is another model

Never a wrong base in silence: what was taken is said, and what may be one of several is refused
with what tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.errors import UnknownModelError
from kvplan.named_tuple import NamedTuple
from kvplan.notice import Notice
from kvplan.spec.catalogue import Catalogue, Entry
from kvplan.spec.copies import Copy, copy_of, draft_word
from kvplan.spec.differences import told_apart
from kvplan.spec.model import ModelSpec
from kvplan.spec.names import loosened
from kvplan.spec.tags import DATE, Tag, find_tag, is_remote, plain_tag, spelt_out, tags

_OWN_FILE = "name its own config.json, GGUF file or folder"


class Resolved(NamedTuple):
    """A model that another name was taken for.

    Attributes:
        entry: its spec.
        id: its own id, or its name.
        changes: facts that the name says otherwise.
        notice: what was taken.
        is_copy: the name is that of a checkpoint of its own.
    """

    entry: Entry
    id: str
    changes: dict[str, Any]
    notice: Notice
    is_copy: bool = False

    def spec(self) -> ModelSpec:
        """The model."""
        spec = self.entry.spec().called(self.id)
        return spec.replaced(**self.changes) if self.changes else spec


def resolve(catalogue: Catalogue, name: str) -> Resolved | None:
    """The model that a name which no spec bears stands for, None if that is not known.

    Raises:
        UnknownModelError: it stands for one of several, for a draft, for a model without facts here
            or without a cache here.
    """
    known = _Known(catalogue)
    if is_remote(name):
        raise UnknownModelError(
            f"{name!r} runs on Ollama's servers: it keeps no cache on this machine"
        )
    tag = find_tag(name)
    if tag is not None:
        return _of_tag(known, name, tag)
    found = copy_of(name, known.has)
    word = draft_word(name)
    if word is not None:
        raise UnknownModelError(
            f"{name!r} is named like a draft model ({word}), which has other layers than the model "
            "it drafts for",
            hint=_OWN_FILE,
        )
    if found is not None:
        return _of_copy(known, name, found)
    for form in spelt_out(name):
        entry_id = known.loosely(form)
        if entry_id is not None:
            entry, hf_id = entry_id
            text = f"{name} is taken for {hf_id}; servers mean the instruct model by a bare size"
            return Resolved(entry, hf_id, {}, Notice("taken-as", text))
    return None


def search_names(text: str) -> frozenset[str]:
    """Ids, in lower case, of the models that a server's name which holds this text stands for."""
    plain = plain_tag(text)
    return frozenset(
        hf_id.lower() for name, tag in tags().items() if plain in name for hf_id in tag.ids
    )


class _Known:
    """Every full name and id of the catalogue, the user's own specs first."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.full: dict[str, tuple[Entry, str]] = {}
        self.tails: dict[str, dict[str, tuple[Entry, str]]] = {}
        for entry in catalogue.entries():
            for name in entry.names():
                lower = name.lower()
                self.full.setdefault(lower, (entry, name))
                if "/" in lower:
                    same = self.tails.setdefault(lower.rpartition("/")[2], {})
                    same.setdefault(entry.name, (entry, name))

    def find(self, name: str) -> tuple[Entry, str] | None:
        """The one model of a lower-case id, an id without its organisation, or a name."""
        same = self.tails.get(name, {})
        own = self.full.get(name)
        if own is not None:
            named = same.get(own[0].name)
            return own if named is None else named  # with its id, where it has one like its name
        return next(iter(same.values())) if len(same) == 1 else None

    def has(self, name: str) -> bool:
        """Whether it is known, or renamed, or known to be several."""
        tag = tags().get(name)
        return self.find(name) is not None or (
            tag is not None and ("/" in name or len(tag.ids) > 1)
        )

    def loosely(self, name: str) -> tuple[Entry, str] | None:
        """The one model of a name written another way."""
        wanted = loosened(name)
        found = {
            entry.name: (entry, hf_id)
            for tail, hf_id, entry in self._written()
            if loosened(tail) == wanted
        }
        return next(iter(found.values())) if len(found) == 1 else None

    def _written(self) -> Iterator[tuple[str, str, Entry]]:
        for tail, same in self.tails.items():
            yield from ((tail, hf_id, entry) for entry, hf_id in same.values())
        yield from ((name, name, entry) for name, (entry, _) in self.full.items())


def _of_tag(known: _Known, name: str, tag: Tag) -> Resolved:
    whose = f"{tag.server} calls" if tag.server else "may be"
    if not tag.ids:
        raise UnknownModelError(f"{name!r} is a closed model: nobody can know its cache")
    if len(tag.ids) > 1:
        raise _several(known, name, tag.ids)
    hf_id = tag.ids[0]
    found = known.find(hf_id.lower()) or _base(known, hf_id)
    if found is None:
        meant = hf_id.removeprefix("?")
        raise UnknownModelError(
            f"{name!r} is what {whose} {meant} (table of {DATE}), whose facts are not known here",
            candidates=() if hf_id.startswith("?") else (meant,),
            hint=_OWN_FILE,
        )
    text = f"{name} is taken for {hf_id}, as {tag.server or 'uploaders'} had it on {DATE}"
    notice = Notice("taken-as", f"{text}; {tag.note}" if tag.note else text)
    return Resolved(found[0], found[1], {}, notice)


def _base(known: _Known, hf_id: str) -> tuple[Entry, str] | None:
    """A table's id that is itself a copy of a known model."""
    found = copy_of(hf_id, lambda name: known.find(name) is not None)
    return known.find(found.base) if found else None


def _several(known: _Known, name: str, ids: tuple[str, ...]) -> UnknownModelError:
    found = [(hf_id, known.find(hf_id.lower())) for hf_id in ids]
    specs = [pair[0].spec().called(pair[1]) for _, pair in found if pair is not None]
    lines = told_apart(specs)
    lines += [f"{hf_id} (its facts are not known here)" for hf_id, pair in found if pair is None]
    return UnknownModelError(
        f"{name!r} may be one of {len(ids)} models",
        candidates=tuple(spec.name for spec in specs),
        ambiguous=True,
        hint="one of " + ", ".join(lines),
    )


def _of_copy(known: _Known, name: str, copy: Copy) -> Resolved:
    renamed = tags().get(copy.base)
    found = known.find(copy.base)
    if found is None and renamed is not None:
        return _of_tag(known, copy.base, renamed)._replace(is_copy=True)
    assert found is not None  # `has` said so
    entry, hf_id = found
    changes: dict[str, Any] = {}
    if copy.quant_method is not None:
        changes["quant_method"] = copy.quant_method
    if "kv8" in copy.effects:
        changes["kv_dtype"] = "fp8_e4m3"
    kind = "a fine-tune" if "tuned" in copy.effects else "a re-upload"
    text = f"{name} is taken for {kind} of {hf_id}; its own config may set another context"
    if "kv?" in copy.effects:
        text += "; whether its cache is declared FP8 cannot be told from the name"
    elif "kv8" in copy.effects:
        text += "; its cache is FP8 by its name"
    else:
        text += " or cache format"
    return Resolved(entry, hf_id, changes, Notice("taken-as", text), is_copy=True)
