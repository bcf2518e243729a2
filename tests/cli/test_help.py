"""Help in groups with an example, completion of names, and engines' names of kvplan's options."""

from __future__ import annotations

import importlib

import pytest

from kvplan.cli import _MODULES, main
from kvplan.cli.complete import completer
from kvplan.cli.engine_names import own_name


@pytest.mark.parametrize("width", ["60", "80", "100", "200"])
@pytest.mark.parametrize("name", ["", *sorted(_MODULES)])
def test_help_fits_the_terminal(
    name: str, width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """No line is wider than the terminal or 100 columns, but the example, which is whole."""
    monkeypatch.setenv("COLUMNS", width)
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if not line.startswith("  kvplan ")]
    assert max(map(len, lines)) <= min(int(width), 100)


@pytest.mark.parametrize("name", sorted(_MODULES))
def test_every_option_is_in_the_help_with_its_words(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """One table makes the parsers and the help."""
    monkeypatch.setenv("COLUMNS", "100")
    command = importlib.import_module(f"kvplan.cli.{_MODULES[name]}").COMMAND
    assert main([name, "-h"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for option in command.options:
        assert all(spelling in out for spelling in option.spellings), option.name
        assert " ".join(option.help.split()) in out, option.name
    assert command.help in out
    assert command.example in out


def test_nothing_asked_prints_the_help_and_is_an_error(capsys: pytest.CaptureFixture) -> None:
    """As before: exit code 2."""
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().out


def test_models_engines_and_formats_are_completed() -> None:
    """By what the value is called; a free value has no completion."""
    models = completer("MODEL...", "models")
    assert models is not None
    assert {"llama3-8b", "llama3.1-8b"} <= set(models("llama3"))
    assert models("meta-llama/Meta-Llama-3-8B-I") == ["meta-llama/Meta-Llama-3-8B-Instruct"]
    engines = completer("ENGINE", "engine")
    assert engines is not None
    assert "vllm" in engines("v")
    assert "vllm@0.33.0" in engines("vllm@0.3")
    formats = completer("FORMAT", "format")
    assert formats is not None
    assert formats("c") == ["csv"]
    gpus = completer("NAME", "gpu")
    assert gpus is not None
    assert gpus("h100")
    assert completer("TOKENS", "ctx") is None


@pytest.mark.parametrize(
    ("flag", "own"),
    [
        ("--max-model-len", "--ctx"),
        ("--tensor-parallel-size", "--tp"),
        ("--kv-cache-dtype", "--dtype"),
        ("--ctx-size", "--ctx"),
        ("--context-length", "--ctx"),
    ],
)
def test_an_engines_flag_is_answered_with_kvplans(
    flag: str, own: str, capsys: pytest.CaptureFixture
) -> None:
    """A flag copied from a launch line is no riddle."""
    assert main(["size", "llama3-8b", flag, "8"]) == 2
    err = capsys.readouterr().err
    assert err.endswith(f"hint: {flag} is an engine's name for it; write {own}\n")
    assert "ossible" not in err


def test_another_slip_is_left_to_the_parser() -> None:
    """Only names of the table are translated."""
    assert own_name("No such option: --contxt") is None
    assert own_name("Missing argument 'MODEL'") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kvplan size llama3-8b-", "llama3-8b-instruct"),
        ("kvplan fit llama3-8b --engine vllm@0.33", "vllm@0.33.0"),
        ("kvplan size llama3-8b --format c", "csv"),
        ("kvplan expl", "explain"),
    ],
)
def test_a_shell_asks_and_is_answered(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """As the script of `--show-completion` asks in bash: by environment, without arguments."""
    monkeypatch.setenv("_KVPLAN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert main([]) == 0
    assert expected in capsys.readouterr().out.split()
