"""Refusals: stable codes that a page lists, and no sentence of any engine's anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvplan.engines.kit.refusal import CODES, Refusal, Refused

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "refusals.md").read_text(encoding="utf-8")

# Telling pieces of what engines print when they refuse, cut so that this file holds none of them.
FRAGMENTS = tuple(
    " ".join(halves)
    for halves in (
        ("is needed, which", "is larger than"),
        ("greater than the model's", "total number"),
        ("Please use a", "different"),
        ("are not supported", "for now"),
        ("To serve at least", "one request"),
        ("is not supported", "anymore"),
        ("was supported in vLLM", "until"),
        ("is greater than the", "derived"),
        ("must be used with", "extreme caution"),
        ("No valid attention", "backend"),
        ("is not valid for", "this configuration. Reason"),
        ("Total number of", "attention heads"),
        ("must be divisible", "by tensor"),
        ("effectively limits the", "maximum sequence length"),
        ("must be greater than", "or equal to max_num_seqs"),
        ("can only be set", "with --enable-prefix-caching"),
        ("Supported models", "implement the"),
        ("exceeds the maximum", "supported value"),
        ("is not a valid", "Attention layer"),
        ("only supports fp8", "kv-cache"),
        ("should have the same", "vocabulary size"),
        ("out-of-bounds errors", "during"),
        ("Try increasing", "`gpu_memory_utilization`"),
        ("estimated maximum", "model length is"),
        ("number of tokens that", "can be stored"),
        ("Cannot unify by", "adjusting"),
        ("to one", "unified type"),
        ("does not satisfy every", "supported set"),
        ("cannot express this", "model's"),
        ("must not be smaller", "than the quantized"),
        ("tensor parallel world", "size"),
        ("integer modulo", "by zero"),
        ("integer division", "or modulo by zero"),
        ("requires", "FlashAttention v4"),
        ("Re-run with", "--kv-cache-dtype"),
        ("only supported for models", "with only full attention"),
        ("quantizes per-tensor and", "does not support"),
        ("should be divisble", "by the total"),
        ("must be a divisor", "of"),
        ("Unknown quantization", "backend"),
        ("has to be", "one of ["),
        ("which is a", "DynamicLayer"),
        ("object has no", "attribute '"),
        ("Memory footprint", "{footprint}"),
    )
)
_JOINT = re.compile(r'["\']?\s*\n\s*(?:#\s*)?f?["\']?')


def _texts() -> Iterator[tuple[str, str]]:
    for folder in ("kvplan", "tests", "docs", "examples", "model_specs"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".json", ".yaml", ".tsv", ".log", ".txt"):
                text = path.read_text(encoding="utf-8")
                yield path.relative_to(ROOT).as_posix(), " ".join(_JOINT.sub(" ", text).split())


def test_no_sentence_of_an_engine_stands_in_the_repository() -> None:
    """Neither in code, nor in tests and their data, nor in the pages."""
    pattern = re.compile("|".join(map(re.escape, FRAGMENTS)), re.IGNORECASE)
    found = {name: match[0] for name, text in _texts() if (match := pattern.search(text))}
    assert found == {}


def test_the_page_lists_every_code() -> None:
    """docs/refusals.md has the codes and when each is given, in the same words."""
    table = PAGE.partition("## Codes")[2].partition("## What an attention")[0]
    assert dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)) == CODES


def test_codes_are_kebab_case() -> None:
    """Lower case words with hyphens."""
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in CODES)


def test_every_reason_against_a_backend_is_on_the_page() -> None:
    """The codes that the backend tables return are the ones listed."""
    table = PAGE.partition("## What an attention")[2]
    listed = set(re.findall(r"`([a-z0-9-]+)`", table)) - {"--block-size"}
    kebab = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
    given: set[str] = set()
    for name in ("backend", "plain", "latent"):
        path = ROOT / "kvplan" / "engines" / "vllm" / "backends" / f"{name}.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                given |= {node.value} if kebab.fullmatch(node.value) else set()
    assert given <= listed
    words = {"dtype", "device", "latent", "sparse"}
    assert listed - given <= words


def test_a_code_must_be_listed() -> None:
    """A code that no page explains cannot be given."""
    with pytest.raises(ValueError, match="not listed"):
        Refusal(code="no-such-code", exception="ValueError", message="x")
    assert Refused("no-memory", "ValueError", "none", longest=0).refusal.figures == {"longest": 0}


def test_every_code_is_given_somewhere_and_no_other() -> None:
    """The list has no code that no rule gives, and no rule gives one that is not listed."""
    given: set[str] = set()
    for path in (ROOT / "kvplan" / "engines").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", "")
            codes = node.args[:1] if name == "Refused" else []
            codes += [item.value for item in node.keywords if item.arg == "code"]
            given |= {code.value for code in codes if isinstance(code, ast.Constant)}
    assert given == set(CODES)
