"""Hostile and clumsy command lines: a clear error, exit code 2, never a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan.cli import main

ROOT = Path(__file__).parents[2]
SPEC = """\
name: tiny
dtype: bfloat16
max_context: 100
layers: 2
attention: {kv_heads: 2, head_dim: 64}
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A small spec in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SPEC)
    return "tiny.yaml"


def refused(capsys, *args: str) -> str:
    """The error of a command line that cannot be run: short, on stderr alone."""
    code = main(list(args))
    out, err = capsys.readouterr()

    assert code == 2
    assert out == ""
    assert 1 <= len(err.splitlines()) <= 3
    assert len(err) < 1200
    assert "Traceback" not in err
    return err


def shell(line: str, **options):
    """A whole shell line, with `kvplan` standing for the real command."""
    line = line.replace("kvplan ", f"{sys.executable} -m kvplan ")
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=ROOT, **options
    )


@pytest.mark.parametrize(
    "value",
    ["0", "-1", "1e30", "12x", "", " ", "9" * 5000, "1.5", "0.3k", "128 KiB", "١٢٨", "1,5", "nan",
     "0x10", "1099511627777", "\x1b[2J", "a\nb\nc\nd"],
)  # fmt: skip
def test_a_context_that_is_no_number_of_tokens(capsys, tiny, value):
    """Named with the option it was given for."""
    assert "--ctx" in refused(capsys, "size", tiny, "--ctx", value)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "1k", "", "many", "9" * 5000])
@pytest.mark.parametrize("option", ["--batch", "--tp", "--pp", "--dp", "--dcp"])
def test_counts_that_are_none(capsys, tiny, option, value):
    """A batch and a number of ranks are positive whole numbers."""
    assert option in refused(capsys, "size", tiny, option, value)


@pytest.mark.parametrize("engine", ["logical", "vllm", "transformers"])
@pytest.mark.parametrize(
    "ranks",
    [["--tp", "65537"], ["--pp", "1000000"], ["--dp", "1099511627776"], ["--dcp", "65537"],
     ["--tp", "4096", "--dp", "32"]],
)  # fmt: skip
def test_more_ranks_than_any_deployment(capsys, engine, ranks):
    """2^16 in all; every one of them would be listed."""
    err = refused(capsys, "size", "llama3-8b", "--engine", engine, *ranks)

    assert "ranks are more than 65,536" in err


def test_a_stage_for_every_rank_is_answered_at_once(capsys):
    """65,536 stages of a model of 32 layers: one without a layer has no cache."""
    assert main(["size", "llama3-8b", "--engine", "vllm", "--pp", "65536"]) == 1
    assert "refuses to start: pipeline stage 0 has no layer" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--speculative-config", "--kv-cache-dtype-skip-layers"])
def test_json_nested_without_end(capsys, tiny, flag):
    """An error that does not repeat a hundred thousand brackets."""
    err = refused(
        capsys, "size", tiny, "--engine", "vllm", "--engine-args", f"{flag} {'[' * 10**5}"
    )

    assert f"vllm {flag} cannot be '[[[" in err


@pytest.mark.parametrize("gpu", ["nonsense", "", "h100:x", "h100:0", "h100:-1", "h100 x 2!"])
def test_a_device_that_is_none(capsys, tiny, gpu):
    """Nor is a number of them."""
    assert "kvplan size: gpu" in refused(capsys, "size", tiny, "--engine", "vllm", "--gpu", gpu)


@pytest.mark.parametrize("value", ["", ",", "bf16,", ",bf16", "bf16,,fp8", "fp7", "bf16 fp8"])
def test_formats_that_are_none(capsys, tiny, value):
    """Empty entries and unknown names."""
    assert "--dtype" in refused(capsys, "size", tiny, "--dtype", value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--dtype-k", ""], "--dtype-k '' is not a known cache format"),
        (["--dtype-v", "fp7"], "--dtype-v 'fp7' is not a known cache format"),
        (
            ["--dtype-k", "q8_0", "--dtype-v", "q4_0", "--dtype", "bf16"],
            "leave nothing for --dtype",
        ),
        (["--encoder-tokens", "0"], "--encoder-tokens '0' is outside"),
        (["--engine", "warp"], "'warp' is not an engine kvplan knows"),
        (["--engine", ""], "is not an engine kvplan knows"),
        (["--format", "xml"], "--format 'xml' is not a format"),
        (["--format", "csv", "--json"], "--json contradicts --format csv"),
        (["--engine-args", "--foo"], "is an engine's flag"),
        (["--specs", "nowhere"], "nowhere: the spec folder does not exist"),
        (["--ctx"], "option '--ctx' requires an argument"),
        (["--json=yes"], "option '--json' does not take a value"),
        (["--bogus"], "no such option: --bogus"),
        (["-z"], "no such option: -z"),
    ],
)
def test_options_that_cannot_be_used(capsys, tiny, args, message):
    """Each error names its option."""
    given = ["other" if args[0] == "--specs" else tiny, *args]

    assert message in refused(capsys, "size", *given)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["size"], "kvplan size: missing argument"),
        (["explain"], "kvplan explain: missing argument"),
        (["explain", "a", "b"], "kvplan explain: got unexpected extra argument"),
        (["siz"], "kvplan: no such command 'siz'"),
        ([""], "kvplan: no such command"),
        (["--bogus"], "kvplan: no such option"),
        (["schema"], "kvplan schema: missing argument"),
        (["schema", "words"], "there is no schema of 'words'"),
        (["models", "tiny.yaml", "--family", "x"], "--family filters the list"),
        (["models", "tiny.yaml", "--format", "junit"], "'junit' is not a format of this report"),
        (["explain", "tiny.yaml", "--dtype", "bf16,fp8"], "explain takes one --dtype"),
        (["explain", "tiny.yaml", "--tokens", "1,,2"], "--tokens '' is not a number"),
        (["explain", "tiny.yaml", "--tokens", "0"], "--tokens '0' is outside"),
    ],
)
def test_commands_that_cannot_be_run(capsys, tiny, args, message):
    """A wrong command, a missing or a superfluous argument."""
    assert message in refused(capsys, *args)


def test_nothing_at_all_prints_the_help_and_has_done_nothing(capsys):
    """Exit code 2, so that a script notices."""
    assert main([]) == 2
    out, _ = capsys.readouterr()

    assert out.startswith("Usage: kvplan")


@pytest.mark.parametrize(
    "name", ["no-such-model-at-all", "", " ", "/", "x" * 5000, "\x00", "--", "é"]
)
def test_an_unknown_model(capsys, name):
    """Whatever the name, it is quoted and nothing is guessed."""
    refused(capsys, "size", name)


def test_a_near_miss_lists_the_closest_names(capsys):
    """llama3-8 is none, llama3-8b is."""
    assert "llama3-8b" in refused(capsys, "size", "llama3-8")


@pytest.mark.parametrize("command", ["size", "explain", "models", "import"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00binary"), "is not text"),
        (lambda path: path.write_bytes(b"\x7fELF\0\0\0"), "is not text"),
        (lambda path: path.write_text("a: &a [*a]\n"), "is not allowed"),
        (lambda path: path.write_text("name: x\nname: y\n"), "stands twice"),
        (lambda path: path.write_text("[" * 5000), "is "),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 50_000_000), "50,000,000"),
        (lambda path: os.mkfifo(path), "is not a regular file"),
        (lambda path: path.symlink_to(path.name), "x.yaml"),
        (lambda path: None, "does not exist"),
        (
            lambda path: path.write_text(
                "name: x\nkinds:\n  a: {kind: shared, reads: a}\nlayers: [a]\n"
            ),
            "x.yaml:3:28: shared layers read each other: a -> a",
        ),
    ],
    ids=["empty", "utf16", "elf", "bomb", "duplicate", "deep", "50MB", "fifo", "loop", "missing",
         "cycle"],
)  # fmt: skip
def test_files_that_are_no_specs(capsys, tmp_path, monkeypatch, command, make, message):
    """The file is named, nothing hangs, nothing is read without limit."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "x.yaml")
    err = refused(capsys, command, "x.yaml")

    assert "x.yaml" in err
    assert command == "import" or message in err


def test_one_bad_model_of_several_prints_no_half_a_table(capsys, tiny):
    """All or nothing: a script never takes one row for the answer."""
    assert "nope.yaml: does not exist" in refused(capsys, "size", tiny, "nope.yaml")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "<stdin>: is empty"),
        (b"  \n", "<stdin>: is empty"),
        (b"\xff", "<stdin>: is not text"),
        (b"name: [\n", "<stdin>:2:1: is not valid YAML"),
        (b"{", "<stdin>"),
        (b"x" * (16 * 2**20 + 1), "<stdin>: is more than 16,777,216 bytes"),
    ],
    ids=["nothing", "blanks", "binary", "broken", "json", "endless"],
)
def test_standard_input_that_is_no_model(capsys, monkeypatch, data, message):
    """`-` reads it, within limits."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert message in refused(capsys, "size", "-")


def test_standard_input_that_is_closed(capsys, monkeypatch):
    """Python has no stream then."""
    monkeypatch.setattr(sys, "stdin", None)

    assert "<stdin>: is closed" in refused(capsys, "size", "-")


def test_a_spec_on_standard_input(capsys, monkeypatch):
    """The good case: 2 layers x 100 tokens x 2 x 2 x 64 x 2 B."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SPEC.encode())))

    assert main(["size", "-", "--format", "csv"]) == 0
    assert ",102400," in capsys.readouterr().out


def test_an_output_file_is_written_whole(capsys, tiny, tmp_path):
    """And nothing goes to standard output."""
    assert main(["size", tiny, "--json", "-o", "out.json"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out.json").read_text().endswith("}\n")
    assert sorted(os.listdir(tmp_path)) == ["out.json", "tiny.yaml"]


@pytest.mark.parametrize("path", ["missing/out.json", "folder", "", "tiny.yaml/out.json"])
def test_an_output_that_cannot_be_written_leaves_nothing_behind(capsys, tiny, tmp_path, path):
    """A missing folder, a folder, no name, a file taken for a folder."""
    (tmp_path / "folder").mkdir()

    assert "cannot be written" in refused(capsys, "size", tiny, "-o", path)
    assert sorted(os.listdir(tmp_path)) == ["folder", "tiny.yaml"]


def test_an_output_is_never_half_written(capsys, tiny, tmp_path, monkeypatch):
    """When the disk is full, the old report stays and the temporary file goes."""
    (tmp_path / "out.json").write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)

    assert "No space left on device" in refused(capsys, "size", tiny, "-o", "out.json")
    assert (tmp_path / "out.json").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["out.json", "tiny.yaml"]


def test_an_output_through_a_link_keeps_the_link(tiny, tmp_path):
    """What it points at gets the report."""
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")

    assert main(["size", tiny, "--json", "-o", "link.json"]) == 0
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")


def test_an_output_that_is_a_device_stays_one(tiny):
    """Writing to /dev/null does not replace it."""
    assert main(["size", tiny, "-o", "/dev/null"]) == 0
    assert not os.path.isfile("/dev/null")


def test_a_dash_as_output_is_standard_output(capsys, tiny, tmp_path):
    """Not a file of that name."""
    assert main(["size", tiny, "--json", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("{")
    assert os.listdir(tmp_path) == ["tiny.yaml"]


@pytest.mark.parametrize(
    "line",
    [
        "kvplan size llama3-8b | true",
        "kvplan models | head -1",
        "kvplan models --json | head -c 10",
        "kvplan schema spec | head -1",
        "kvplan explain llama3-8b | head -1",
        "kvplan --help | true",
        "kvplan size --help | true",
        "kvplan --version | true",
    ],
)
def test_a_reader_that_goes_away_is_no_error(line):
    """`| head` ends early; nothing is complained about."""
    done = shell(f"{line}; exit ${{PIPESTATUS[0]}}")

    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize(
    "command",
    ["size llama3-8b", "size llama3-8b --json", "models", "schema spec", "--help", "size --help",
     "--version", "--show-completion bash"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "standard output is closed"),
        (">/dev/full", "standard output cannot be written: No space left on device"),
    ],
)
def test_a_report_that_cannot_be_printed_is_an_error(command, redirection, message):
    """A script must not take silence for success."""
    done = shell(f"kvplan {command} {redirection}")

    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2> >(true)"])
@pytest.mark.parametrize("command", ["size no-such-model", "size", "size llama3-8b --nothing"])
def test_an_error_that_cannot_be_said_stays_one(command, redirection):
    """Nor does it stray into the output, where a script would read it as the answer."""
    done = shell(f"kvplan {command} {redirection}")

    assert (done.returncode, done.stdout) == (2, "")


def test_an_output_in_a_folder_that_is_gone(tmp_path):
    """The working folder of a job that was cleaned up."""
    gone = tmp_path / "gone"
    gone.mkdir()
    done = shell(
        f"cd {gone}; rmdir {gone}; kvplan size llama3-8b -o x.txt",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "kvplan size: --output x.txt: cannot be written: No such file or directory"
    ]


def test_an_output_file_needs_no_standard_output(tmp_path):
    """As under a service manager."""
    done = shell(f"kvplan size llama3-8b --json -o {tmp_path}/out.json >&-")

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.json").read_text().startswith("{")


def test_bytes_that_are_no_text_in_a_file_name(tmp_path):
    """They are written out where they are printed."""
    (tmp_path / os.fsdecode(b"\xff.yaml")).write_text(SPEC)
    done = shell(f"kvplan size {tmp_path}/$'\\xff'.yaml --json; kvplan size $'\\xfe'.yaml")

    assert '"bytes": 102400' in done.stdout
    assert r"\udcfe.yaml: does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_that_knows_only_ascii(tmp_path):
    """A name in another script becomes question marks, not an error."""
    (tmp_path / "m.yaml").write_text(SPEC.replace("tiny", "模型"), encoding="utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = shell(f"kvplan size {tmp_path}/m.yaml", env=env)

    assert done.returncode == 0
    assert done.stdout.startswith("??: ")


def test_an_interrupt_ends_quietly(capsys, tiny, monkeypatch):
    """Exit code 130, as the shell has it."""

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("kvplan.load.load_model", interrupt)

    assert main(["size", tiny]) == 130
    assert capsys.readouterr().err == ""
