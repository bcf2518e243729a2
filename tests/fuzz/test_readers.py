"""Every reader on damaged files and command lines: exit code 0, 1 or 2, soon, and no traceback.

A corpus of well-formed files (corpus/, written for these tests) is cut, doubled, and mixed with
numbers, signs and bytes that readers trip over. In the suite a few of each; `make fuzz` runs many:
KVPLAN_FUZZ is the number of inputs per reader.
"""

from __future__ import annotations

import os
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.cli import main
from kvplan.errors import KvplanError
from kvplan.units import parse_bytes, parse_count
from tests.importers.gguf_writer import F16, write_gguf

CORPUS = Path(__file__).parent / "corpus"
MANY = int(os.environ.get("KVPLAN_FUZZ", "15"))
SECONDS = 2.0
fuzzed = settings(
    max_examples=MANY,
    deadline=None,
    derandomize=MANY <= 100,  # the suite says the same every time
    database=None,
    suppress_health_check=list(HealthCheck),
)

_ODD = [
    b"", b"0", b"-1", b"1e400", b"9" * 400, b"9" * 5000, b"NaN", b"null", b"[" * 200, b"{" * 200,
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r" * 50, b"\n" * 50, b"\x1b[2J", b'"', b"'", b"\\",
    b": ", b"- ", b"&a *a", b"!!python/object:os.system", b"<<: *a", b"%YAML 1.2\n---\n", b"#",
    b"\xe2\x80\xae", b"1.5", b"0x10", b"true", b"18446744073709551616", b"GiB", b"=", b",", b"  ",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with a few places cut out, doubled or replaced."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 40)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            del data[at:end]
        elif kind == 1:
            data[at:at] = data[at:end]
        elif kind == 2:
            data[at:end] = draw(st.sampled_from(_ODD))
        else:
            data[at:end] = draw(st.binary(max_size=8))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def run(*words: str) -> None:
    """A command line: it ends soon, with a code of the contract, and nobody's mistake."""
    out, err = StringIO(), StringIO()
    began = time.monotonic()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(words))
    took = time.monotonic() - began
    said = err.getvalue()

    assert code in (0, 1, 2), words
    assert "mistake in kvplan" not in said, (words, said)
    assert "Traceback" not in said, (words, said)
    assert took < SECONDS, (words, took)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


READERS = {
    "config.json": ("size", "{}", "--ctx", "100"),
    "spec.yaml": ("size", "{}", "--ctx", "100", "--engine", "vllm"),
    "vllm.log": ("verify", "llama3-8b", "--engine-log", "{}"),
    "llamacpp.log": ("verify", "Qwen/Qwen3-8B", "--engine-log", "{}"),
    "metrics.txt": ("verify", "--metrics", "{}"),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name: str, folder: Path) -> None:
    """Configs, specs, logs and metrics."""
    whole = (CORPUS / name).read_bytes()

    @fuzzed
    @given(damaged(whole))
    def check(data: bytes) -> None:
        path = folder / name
        path.write_bytes(data)
        run(*(word.format(path) for word in READERS[name]))

    check()


def test_damaged_gguf(folder: Path) -> None:
    """A small Llama's header."""
    path = folder / "model.gguf"
    facts = {
        "general.architecture": "llama", "general.name": "tiny", "llama.block_count": 2,
        "llama.context_length": 4096, "llama.embedding_length": 256,
        "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
    }  # fmt: skip
    write_gguf(path, facts, tensors=[("token_embd.weight", (256, 8), F16)])
    whole = path.read_bytes()

    @fuzzed
    @given(damaged(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        run("size", str(path), "--ctx", "100")

    check()


def test_damaged_safetensors(folder: Path) -> None:
    """The header beside a config, whose weights `size` sums."""
    (folder / "st").mkdir(exist_ok=True)
    (folder / "st" / "config.json").write_bytes((CORPUS / "config.json").read_bytes())
    header = b'{"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}'
    whole = len(header).to_bytes(8, "little") + header + bytes(12)

    @fuzzed
    @given(damaged(whole))
    def check(data: bytes) -> None:
        (folder / "st" / "model.safetensors").write_bytes(data)
        run("size", str(folder / "st"), "--ctx", "100", "--weights")

    check()


_WORDS = st.sampled_from([
    "size", "fit", "explain", "models", "verify", "llama3-8b", "deepseek-v3", "--ctx", "--batch",
    "1k", "100", "0",
     "-1", "9" * 400, "1e9", "--dtype", "fp8", "q9", "--engine", "vllm", "vllm@0.6.3",
    "transformers", "logical@1", "--tp", "2", "7", "--json", "--format", "csv", "md", "--gpu",
    "h100", "--available-memory",
     "40GiB", "1XiB", "--engine-args", "--block-size 16", "--block-size",
    "--quick", "--", "-", "", "=", "--ctx=5", "\x1b[2J", "\u202e", "--engine-log", "--metrics",
    "http://", "--device", "cuda", "--help",
])  # fmt: skip


@fuzzed
@given(st.lists(_WORDS, max_size=8))
def test_any_command_line(words: list[str]) -> None:
    """Words of the command line in any order; `-` reads an empty standard input."""
    if "verify" in words and "--engine-log" not in words and "--metrics" not in words:
        words = [word for word in words if word != "verify"]  # it would allocate
    run(*(word for word in words if word != "-"))


@fuzzed
@given(st.text(alphabet="0123456789.,eE+-_kKmMgGiIbBtT \u0661\x00", max_size=24))
def test_any_unit(text: str) -> None:
    """A number of bytes or tokens, or a sentence."""
    for read in (parse_bytes, parse_count):
        with suppress(KvplanError):
            assert read(text, "--x") >= 0
