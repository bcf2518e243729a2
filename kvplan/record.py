"""Frozen keyword-only records that cost nothing to define.

The types of the spec vocabulary are defined each time a command starts. Frozen dataclasses would be
the usual choice, but the standard library builds each one by compiling source text: with what
`dataclasses` itself imports, that is a fifth of the time of `kvplan size`. A record reads its
annotations instead:

    class Window(Record):
        size: int = doc("tokens in the window")
        stride: int | None = doc("tokens it moves by", default=None)

    Window(size=1024)

Type checkers see it as a frozen keyword-only dataclass (PEP 681). Modules that define records need
`from __future__ import annotations`, because a field's type is read as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.named_tuple import NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):  # only type checkers need it
        return lambda cls: cls


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()  # the default of a field that must be given


class Field(NamedTuple):
    """One field: its name, its type as written, its default or MISSING, and its description."""

    name: str
    type: str
    default: Any
    doc: str


def doc(text: str, *, default: Any = MISSING) -> Any:
    """A field with the description that the JSON Schema and the documentation show."""
    return Field("", "", default, text)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(doc,))
class Record:
    """Base of frozen keyword-only records; fields come from annotations, the base's first.

    A subclass may check itself in `__post_init__`.

    Raises:
        TypeError: a field that does not exist, or one missing that has no default.
        AttributeError: an attempt to change a record.
    """

    __fields: tuple[Field, ...] = ()
    __defaults: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed

    def __init_subclass__(cls) -> None:
        found = {item.name: item for item in cls.__fields}
        for name, type_ in cls.__annotations__.items():
            if type_.startswith("ClassVar"):
                continue
            declared = cls.__dict__.get(name, MISSING)
            if isinstance(declared, Field):
                found[name] = Field(name, type_, declared.default, declared.doc)
            else:
                found[name] = Field(name, type_, declared, "")
            if declared is not MISSING:
                delattr(cls, name)
        cls.__fields = tuple(found.values())
        cls.__defaults = {item.name: item.default for item in cls.__fields}

    def __init__(self, **values: Any) -> None:
        held = self.__dict__
        held.update(self.__defaults)
        held.update(values)
        if len(held) != len(self.__fields) or MISSING in held.values():
            raise TypeError(f"{type(self).__name__}: {self._complaint(values)}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields; a subclass may raise."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[item.name] for item in self.__fields)))

    def __repr__(self) -> str:
        given = (
            f"{item.name}={self.__dict__[item.name]!r}"
            for item in self.__fields
            if self.__dict__[item.name] != item.default
        )
        return f"{type(self).__name__}({', '.join(given)})"

    def _complaint(self, values: dict[str, Any]) -> str:
        known = self.__defaults
        unknown = [name for name in values if name not in known]
        missing = [name for name in known if self.__dict__[name] is MISSING]
        return f"no field {', '.join(unknown)}" if unknown else f"{', '.join(missing)} missing"

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The fields, in order of definition."""
        return cls.__fields

    def replaced(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like any other."""
        return type(self)(**{**self.__dict__, **changes})
