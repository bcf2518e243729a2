"""Records: frozen, keyword-only, compared by value, cheap to define."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import pytest

from kvplan.record import MISSING, Record, doc


class Window(Record):
    kind: ClassVar[str] = "window"
    size: int = doc("tokens in the window")
    stride: int | None = doc("tokens it moves by", default=None)


class Named(Window):
    name: str = "plain"


def test_fields_come_from_annotations_the_base_first() -> None:
    """A class variable is no field; a plain default needs no description."""
    assert [(item.name, item.type, item.doc) for item in Named.fields()] == [
        ("size", "int", "tokens in the window"),
        ("stride", "int | None", "tokens it moves by"),
        ("name", "str", ""),
    ]
    assert [item.default for item in Named.fields()] == [MISSING, None, "plain"]


def test_defaults_and_values() -> None:
    """What is not given takes its default."""
    window = Named(size=4, name="a")

    assert (window.size, window.stride, window.name) == (4, None, "a")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "size missing"),
        ({"size": 1, "width": 2}, "no field width"),
        ({"stride": 1}, "size missing"),
    ],
)
def test_fields_are_checked(values: dict[str, int], said: str) -> None:
    """A missing or unknown field is an error that names it."""
    with pytest.raises(TypeError, match=said):
        Window(**values)


def test_a_record_cannot_be_changed() -> None:
    """Neither set nor deleted."""
    window = Window(size=4)

    with pytest.raises(AttributeError, match="cannot be changed"):
        window.size = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot be changed"):
        del window.size


def test_records_are_compared_by_type_and_value() -> None:
    """Equal records hash alike, whatever the order their values were given in."""
    assert Window(size=4, stride=2) == Window(stride=2, size=4)
    assert hash(Window(size=4, stride=2)) == hash(Window(stride=2, size=4))
    assert Window(size=4) != Named(size=4)
    assert Window(size=4) != 4


def test_replaced_checks_again() -> None:
    """A copy with changes is a record like any other."""
    assert Window(size=4).replaced(stride=2) == Window(size=4, stride=2)
    with pytest.raises(TypeError, match="no field width"):
        Window(size=4).replaced(width=2)


def test_repr_names_what_is_not_default() -> None:
    """The text that a failing test shows."""
    assert repr(Named(size=4)) == "Named(size=4)"
    assert repr(Named(size=4, stride=1)) == "Named(size=4, stride=1)"


def test_copies_and_pickles() -> None:
    """A record survives both."""
    window = Window(size=4, stride=2)

    assert copy.deepcopy(window) == pickle.loads(pickle.dumps(window)) == window
