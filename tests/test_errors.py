"""What an error says, and how long it gets."""

from __future__ import annotations

from kvplan.errors import KvplanError, SpecError, UnknownModelError, UsageError


def test_an_error_reads_place_message_and_hint():
    """Two lines: where and what, then what would fix it."""
    error = SpecError("unknown key 'windw'", where="a.yaml:3:5", hint="did you mean 'window'?")

    assert str(error) == "a.yaml:3:5: unknown key 'windw'\nhint: did you mean 'window'?"


def test_an_error_without_place_or_hint_is_its_message():
    """Nothing is printed for what is not known."""
    assert str(UsageError("--ctx '0' is outside 1 .. 2^40 tokens")) == (
        "--ctx '0' is outside 1 .. 2^40 tokens"
    )


def test_a_page_of_input_is_cut_where_it_is_quoted():
    """The beginning and the end of a message remain: 200 characters each."""
    error = UsageError("--ctx " + "9" * 100_000 + " is outside 1 .. 2^40 tokens")

    assert str(error) == "--ctx " + "9" * 194 + " ... " + "9" * 172 + " is outside 1 .. 2^40 tokens"


def test_every_expected_error_ends_a_command_with_two():
    """Exit code 2 means that a command could not run."""
    assert {KvplanError.exit_code, SpecError.exit_code, UnknownModelError.exit_code} == {2}


def test_an_unknown_model_carries_its_candidates():
    """Callers can offer the closest names."""
    error = UnknownModelError("no model is called 'lama3'", candidates=["llama3-8b"])

    assert error.candidates == ("llama3-8b",)
    assert not error.ambiguous
