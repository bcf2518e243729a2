"""Long lists of layer kinds, written short."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.spec.runs import compress


def expand(entries):
    """The names that entries stand for."""
    names = []
    for entry in entries:
        if isinstance(entry, str):
            names.append(entry)
        else:
            of = entry["of"] if isinstance(entry["of"], list) else [entry["of"]]
            names += expand(of) * entry["repeat"]
    return names


def cost(entries):
    """One for a name, and one for a repetition on top of what it repeats."""
    total = 0
    for entry in entries:
        if isinstance(entry, str):
            total += 1
        else:
            total += 1 + cost(entry["of"] if isinstance(entry["of"], list) else [entry["of"]])
    return total


@pytest.mark.parametrize(
    ("names", "entries"),
    [
        ("a", ["a"]),
        ("aa", ["a", "a"]),  # a pair is as short written out
        ("aaa", [{"repeat": 3, "of": "a"}]),
        ("abab", [{"repeat": 2, "of": ["a", "b"]}]),
        ("abc", ["a", "b", "c"]),
        ("baaaa", ["b", {"repeat": 4, "of": "a"}]),
        (
            "aaaabaaaabaa",
            [{"repeat": 2, "of": [{"repeat": 4, "of": "a"}, "b"]}, "a", "a"],
        ),
        (
            "aaaabaaaabaaa",
            [{"repeat": 2, "of": [{"repeat": 4, "of": "a"}, "b"]}, {"repeat": 3, "of": "a"}],
        ),
    ],
)
def test_runs_and_patterns_are_written_once(names, entries):
    """The shortest description: a name costs one, a repetition one more than what it repeats."""
    assert compress(names) == entries


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60))
def test_what_is_compressed_expands_back(names):
    """No layer is lost, added or moved."""
    assert expand(compress(names)) == names


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=8), st.integers(2, 20))
def test_a_repeated_pattern_costs_at_most_its_unit_and_one_repeat(unit, count):
    """However often it repeats: its names once, and one repetition."""
    assert cost(compress(unit * count)) <= len(unit) + 1


@pytest.mark.parametrize("names", ["a" * 4096, "ab" * 2048, "aaab" * 1024, "abcdefgh" * 512])
def test_the_longest_model_takes_no_time(names):
    """4,096 layers are the most a spec may have."""
    start = perf_counter()
    compress(names)

    assert perf_counter() - start < 2
