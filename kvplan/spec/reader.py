"""Plain data (from YAML or from the compiled catalogue) into a `ModelSpec`, or an exact complaint.

Two forms of the layer part:

    layers: 32                              # plain: every layer keeps the same
    attention: {kv_heads: 8, head_dim: 128}

    kinds:                                  # several kinds: name each, then lay them out
      local: {kind: sliding, window: 1024, kv_heads: 16, head_dim: 128}
      global: {kind: full, kv_heads: 16, head_dim: 128}
    layers:
      - {repeat: 10, of: [{repeat: 5, of: local}, global]}
      - {repeat: 2, of: local}

A kind is one state, a list of states, or `{kind: none}`. Unknown keys are errors, because a
misspelt key would otherwise change a figure in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.documents.document import Document, Path
from kvplan.dtypes import find_dtype, near_dtypes
from kvplan.errors import SpecError
from kvplan.spec.model import MAX_LAYERS, VARIANT_FACTS, ModelSpec, Rope, Sizes
from kvplan.spec.states import FieldError, State
from kvplan.spec.vocabulary import (
    KIND_NAMES,
    NOTHING,
    PLAIN_KIND,
    Word,
    kind_class,
    model_words,
    state_words,
    words,
)

_LAYER_KEYS = ("kinds", "attention", "layers", "draft_layers", "rope", "sizes", "variants")


def read_spec(document: Document) -> ModelSpec:
    """Build the model that a spec document describes.

    Raises:
        SpecError: anything the vocabulary does not allow, with file:line:column.
    """
    return _Reader(document).model()


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document

    def error(
        self, path: Path, message: str, hint: str | None = None, *, key: bool = False
    ) -> SpecError:
        return SpecError(message, where=self.document.locate(path, key=key), hint=hint)

    def model(self) -> ModelSpec:
        data = self.mapping(self.document.data, ())
        vocabulary = model_words()
        self.only(data, (*vocabulary, *_LAYER_KEYS), ())
        values = {
            key: self.value(data[key], vocabulary[key], (key,)) for key in data if key in vocabulary
        }
        self.required(data, [word for word in vocabulary.values() if word.required], ())
        if "layers" not in data:
            raise self.error(
                (),
                "the spec has no layers",
                "write `layers: 32` with `attention:`, or a list of kinds",
            )
        if "rope" in data:
            values["rope"] = self.rope(data["rope"])
        if "variants" in data:
            values["variants"] = self.variants(data["variants"], vocabulary)
        if "sizes" in data:
            values["sizes"] = self.sizes(data["sizes"])
        values["kinds"] = self.kinds(data)
        values["layers"] = self.layers(data["layers"], ("layers",), values["kinds"])
        if "draft_layers" in data:
            values["draft_layers"] = self.layers(
                data["draft_layers"], ("draft_layers",), values["kinds"]
            )
        try:
            spec = ModelSpec(**values)
        except FieldError as error:
            raise self.error(self.field_path(error.field), error.message, error.hint) from None
        self.all_used(spec)
        return spec

    def all_used(self, spec: ModelSpec) -> None:
        """A kind that no layer is of was misspelt, there or in the layers."""
        used = {*spec.layers, *spec.draft_layers}
        for name in spec.kinds:
            if name not in used:
                raise self.error(
                    ("kinds", name),
                    f"no layer is of kind {name!r}",
                    "list it under layers, or take it out",
                    key=True,
                )

    def field_path(self, name: str) -> Path:
        """The path of a field of the model, `max_context` or `kinds.KIND.FIELD`."""
        top, _, rest = name.partition(".")
        if not rest:
            return (top,)
        if top == "variants":
            return (top, rest, "?")
        kind, _, field = rest.rpartition(".")
        return ("kinds", kind, field) if "kinds" in self.document.data else (PLAIN_KIND, field)

    def rope(self, data: Any) -> Rope:
        path = ("rope",)
        vocabulary = {word.name: word for word in words(Rope)}
        try:
            return Rope(**self.fields(self.mapping(data, path), vocabulary, path))
        except FieldError as error:
            raise self.error((*path, error.field), error.message, error.hint) from None

    def variants(self, data: Any, vocabulary: Mapping[str, Word]) -> dict[str, dict[str, Any]]:
        """What single ids change; each must still make a model, so the formats are checked."""
        allowed = {name: vocabulary[name]._replace(required=False) for name in VARIANT_FACTS}
        found = {}
        for name, facts in self.mapping(data, ("variants",)).items():
            path = ("variants", name)
            found[name] = self.fields(self.mapping(facts, path), allowed, path)
            for key in ("dtype", "kv_dtype"):
                value = found[name].get(key)
                if value is not None and find_dtype(value) is None:
                    message = f"{key} {value!r} is not a known format"
                    raise self.error((*path, key), message, near_dtypes(value))
        return found

    def sizes(self, data: Any) -> Sizes:
        path = ("sizes",)
        vocabulary = {word.name: word for word in words(Sizes)}
        try:
            return Sizes(**self.fields(self.mapping(data, path), vocabulary, path))
        except FieldError as error:
            raise self.error((*path, error.field), error.message, error.hint) from None

    def kinds(self, data: Mapping[str, Any]) -> dict[str, tuple[State, ...]]:
        if ("kinds" in data) == (PLAIN_KIND in data):
            raise self.error(
                (),
                "a spec has either `attention` (all layers alike) or `kinds`, one of the two",
            )
        if PLAIN_KIND in data:
            return {PLAIN_KIND: self.states(data[PLAIN_KIND], (PLAIN_KIND,), default="full")}
        kinds = self.mapping(data["kinds"], ("kinds",))
        return {name: self.states(value, ("kinds", name)) for name, value in kinds.items()}

    def states(self, data: Any, path: Path, default: str | None = None) -> tuple[State, ...]:
        if isinstance(data, list):
            if not data:
                raise self.error(
                    path,
                    "an empty list of states",
                    "write {kind: none} for a layer that keeps nothing",
                )
            found = [self.state(item, (*path, index), default) for index, item in enumerate(data)]
            if None in found:
                raise self.error(path, "`none` cannot stand beside other states")
            return tuple(state for state in found if state is not None)
        state = self.state(data, path, default)
        return () if state is None else (state,)

    def state(self, data: Any, path: Path, default: str | None) -> State | None:
        values = dict(self.mapping(data, path))
        kind = values.pop("kind", default)
        if kind is None:
            raise self.error(
                path, "the state has no kind", "one of " + ", ".join((*KIND_NAMES, NOTHING))
            )
        if kind == NOTHING:
            self.only(values, (), path)
            return None
        if not isinstance(kind, str) or kind not in KIND_NAMES:
            from kvplan.spec.hints import unknown_kind

            raise self.error(
                (*path, "kind"),
                f"{kind!r} is not a kind of state",
                unknown_kind(kind, (*KIND_NAMES, NOTHING)),
            )
        try:
            return kind_class(kind)(**self.fields(values, state_words(kind), path))
        except FieldError as error:
            raise self.error((*path, error.field), error.message, error.hint) from None

    def layers(self, data: Any, path: Path, kinds: Mapping[str, Any]) -> tuple[str, ...]:
        if isinstance(data, bool) or not isinstance(data, (int, list)):
            raise self.error(path, f"{path[0]} is neither a number nor a list of kinds")
        if isinstance(data, list):
            return tuple(self.run(data, path, kinds, MAX_LAYERS))
        if not 1 <= data <= MAX_LAYERS:
            raise self.error(path, f"{path[0]} is {data}, outside 1 .. {MAX_LAYERS:,}")
        if len(kinds) != 1:
            raise self.error(
                path, f"{data} layers of which kind? the spec defines {len(kinds)}", "list them"
            )
        return (*kinds,) * data

    def run(self, data: Any, path: Path, kinds: Mapping[str, Any], room: int) -> list[str]:
        """The kind names of a list of entries, a name, or a `repeat`; at most `room` of them."""
        if isinstance(data, str):
            if data not in kinds:
                from kvplan.spec.hints import suggest

                raise self.error(path, f"layer kind {data!r} is not defined", suggest(data, kinds))
            if room < 1:
                raise self.error(path, f"more than {MAX_LAYERS:,} layers")
            return [data]
        if isinstance(data, list):
            if not data:
                raise self.error(path, "an empty list of layers")
            names: list[str] = []
            for index, item in enumerate(data):
                names += self.run(item, (*path, index), kinds, room - len(names))
            return names
        entry = self.mapping(data, path)
        self.only(entry, ("repeat", "of"), path)
        count = entry.get("repeat")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1 or "of" not in entry:
            raise self.error(
                (*path, "repeat"),
                "a run of layers is neither a kind's name nor {repeat: above 0, of: kinds}",
            )
        once = self.run(entry["of"], (*path, "of"), kinds, room)
        if count * len(once) > room:
            raise self.error(path, f"more than {MAX_LAYERS:,} layers")
        return once * count

    def fields(
        self, data: Mapping[str, Any], vocabulary: Mapping[str, Word], path: Path
    ) -> dict[str, Any]:
        self.only(data, vocabulary, path)
        self.required(data, vocabulary.values(), path)
        return {
            key: self.value(value, vocabulary[key], (*path, key)) for key, value in data.items()
        }

    def value(self, value: Any, word: Word, path: Path) -> Any:
        if not _fits(value, word.type):
            from kvplan.spec.hints import wrong_value

            shown = "nothing" if value is None else repr(value)
            raise self.error(
                path, f"{word.name} is {shown}, it must be {word.called}", wrong_value(value, word)
            )
        return tuple(value) if isinstance(value, list) else value

    def mapping(self, data: Any, path: Path) -> dict[str, Any]:
        if not isinstance(data, dict):
            shown = "a list" if isinstance(data, list) else repr(data)
            raise self.error(path, f"expected a mapping, found {shown}")
        return data

    def only(self, data: Mapping[str, Any], allowed: Iterable[str], path: Path) -> None:
        allowed = tuple(allowed)
        for key in data:
            if key not in allowed:
                from kvplan.spec.hints import unknown_key

                hint = unknown_key(key, allowed)
                raise self.error((*path, key), f"unknown key {key!r}", hint, key=True)

    def required(self, data: Mapping[str, Any], vocabulary: Iterable[Word], path: Path) -> None:
        for word in vocabulary:
            if word.required and word.name not in data:
                raise self.error(
                    path, f"{word.name} is missing", f"write `{word.name}:` ({word.doc})"
                )


def _fits(value: Any, type_: str) -> bool:
    if isinstance(value, bool):
        return False
    if type_ == "int":
        return isinstance(value, int)
    if type_ == "float":
        return isinstance(value, (int, float))
    if type_ == "str":
        return isinstance(value, str)
    if type_ == "str | int":
        return isinstance(value, (str, int))
    if type_ == "Mapping[str, str]":
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    item_type = type_.removeprefix("tuple[").removesuffix(", ...]")
    return isinstance(value, list) and all(_fits(item, item_type) for item in value)
