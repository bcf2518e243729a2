"""Named tuples: what `typing.NamedTuple` makes of a class, without compiling its annotations."""

from __future__ import annotations

import pickle

import pytest

from kvplan.named_tuple import NamedTuple


class Span(NamedTuple):
    """From one place to another."""

    start: int
    end: int = 10
    name: str | None = None

    @property
    def length(self) -> int:
        """Places between the two."""
        return self.end - self.start


def test_fields_defaults_and_methods() -> None:
    """A tuple of its fields in order, with names, defaults and the methods of the class."""
    span = Span(4)

    assert span == (4, 10, None)
    assert (span.length, span._replace(end=5)) == (6, Span(4, 5))
    assert Span._fields == ("start", "end", "name")
    assert Span._field_defaults == {"end": 10, "name": None}
    assert repr(span) == "Span(start=4, end=10, name=None)"
    assert (Span.__name__, Span.__module__) == ("Span", __name__)
    assert Span.__doc__ == "From one place to another."


def test_a_missing_or_unknown_field_is_an_error() -> None:
    """As for any function."""
    with pytest.raises(TypeError):
        Span()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Span(1, size=2)  # type: ignore[call-arg]


def test_it_survives_pickling() -> None:
    """Several processes hand them over."""
    assert pickle.loads(pickle.dumps(Span(4))) == Span(4)
