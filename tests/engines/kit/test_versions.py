"""Versions as engines write them, and a table of changes folded into the rules of any of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kvplan.engines.kit.versions import Change, History, as_version, parse_version
from kvplan.errors import UsageError


@pytest.mark.parametrize(
    ("text", "release", "post"),
    [
        ("0.33.0", (0, 33, 0, 0), 0),
        ("v0.33", (0, 33, 0, 0), 0),
        (" 0.6.6.post1 ", (0, 6, 6, 0), 1),
        ("0.8.5.post1+cu121", (0, 8, 5, 0), 1),
        ("0.10.1.1", (0, 10, 1, 1), 0),
        ("0.11.0rc2", (0, 11, 0, 0), 0),
        ("0.11.1rc2.dev139+gb1361c725.d20251105", (0, 11, 1, 0), 0),
        ("5.24.0.dev0", (5, 24, 0, 0), 0),
        ("b11434", (11434, 0, 0, 0), 0),
        ("b6123-79c1160b", (6123, 0, 0, 0), 0),
    ],
)
def test_versions_are_read_as_they_are_written(
    text: str, release: tuple[int, ...], post: int
) -> None:
    """A v in front, PEP 440 tails, local builds, llama.cpp's builds."""
    assert as_version(text) == (release, post)


@pytest.mark.parametrize(
    "text", ["", "latest", "0.33.x", "1.2.3.4.5", "0.33.0 ", "b", "b12x", "\u0660.\u0661", "9" * 40]
)
def test_what_is_no_version(text: str) -> None:
    """Blanks around it do not matter, everything else does."""
    found = as_version(text)
    assert (found is None) == (text != "0.33.0 ")
    if found is None:
        with pytest.raises(UsageError, match=r"engine version .* is not a version"):
            parse_version(text, engine="engine", like="1.2.3")


def test_a_post_release_lies_behind_its_release() -> None:
    """0.6.6 < 0.6.6.post1 < 0.6.7; a pre-release counts as its release."""
    texts = ("0.6.6", "0.6.6.post1", "0.6.7", "0.10.0", "0.10.1", "0.10.1.1")
    numbers = [as_version(text) for text in texts]
    assert numbers == sorted(number for number in numbers if number is not None)
    assert as_version("0.7.0rc1") == as_version("0.7.0")


@dataclass(frozen=True, kw_only=True)
class _Rules:
    version: str = "1.0"
    share: float = 0.9
    groups: bool = False


_HISTORY = History(
    engine="warp",
    oldest=_Rules(),
    changes=(
        Change(since="1.2", sentence="layers get groups", source="a.py", how="driven",
               rules={"groups": True}),
        Change(since="2.0", sentence="takes 0.92 of the GPU", source="b.py", how="read",
               rules={"share": 0.92}),
    ),
    driven=("1.0", "1.2"),
    read=("2.0",),
    same={"1.2.1": "1.2", "2.0.1": "2.0"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "how", "rules"),
    [
        ("1.0", "driven", _Rules(version="1.0")),
        ("1.1", "nearest", _Rules(version="1.0")),
        ("1.2", "driven", _Rules(version="1.2", groups=True)),
        ("1.2.1", "driven", _Rules(version="1.2.1", groups=True)),
        ("2.0rc1", "read", _Rules(version="2.0", groups=True, share=0.92)),
        ("2.0.1", "read", _Rules(version="2.0.1", groups=True, share=0.92)),
        ("9", "nearest", _Rules(version="2.0.1", groups=True, share=0.92)),
        ("0.1", "nearest", _Rules(version="1.0")),
    ],
)
def test_rules_are_folded_and_say_what_they_rest_on(version: str, how: str, rules: _Rules) -> None:
    """Every change up to the version, and whether that release was run, read or neither."""
    assert _HISTORY.rules_of(version) == rules
    claim = _HISTORY.claim(version)
    assert (claim.how, claim.known, claim.release) == (how, how != "nearest", rules.version)


def test_what_may_differ_between_two_releases_is_said() -> None:
    """The sentences of the rows that lie between."""
    assert _HISTORY.claim("1.1").sentence == (
        "warp 1.1 was not looked at; its rules lie between 1.0 and 1.2; what may differ: layers "
        "get groups"
    )
    assert _HISTORY.claim("3").sentence == "warp 3 is not known to kvplan; rules of 2.0.1 were used"
    assert [row.since for row in _HISTORY.changes_between("2.0", "1.0")] == ["1.2", "2.0"]
    assert _HISTORY.versions == ("2.0.1", "2.0", "1.2.1", "1.2", "1.0")


def test_rows_out_of_order_are_an_error() -> None:
    """A fold needs them oldest first."""
    with pytest.raises(ValueError, match="not oldest first"):
        History(engine="warp", oldest=_Rules(), changes=_HISTORY.changes[::-1], driven=("1.0",))
