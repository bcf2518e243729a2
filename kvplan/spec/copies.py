"""Names of copies: what stands behind a model's name in the id of a re-upload.

`unsloth/Qwen3-8B-GGUF`, `RedHatAI/Llama-3.2-3B-Instruct-FP8` and `bartowski/Qwen_Qwen3-8B-GGUF` are
copies whose weights are stored otherwise; the layers, and so the cache, are the base's. A suffix is
taken off only while the rest is no known name, so the longest known name wins: what distils one
model into another (`DeepSeek-R1-Distill-Qwen-32B`) is never taken for the first. Anything that is
not in the table stays unknown, because one name in thirty with a free suffix is another model.

Measured on the 16,849 ids of llmfit 1.1.17, each with its own config: 1,193 copies by these rules,
none with another geometry. Context and declared cache format do differ in some, so a copy's context
is the base's with a notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kvplan.named_tuple import NamedTuple

# Mostly a small draft model for the one it is named after (77 of 89 ids that hold such a word).
_DRAFT = """
    dflash dflash2 dspark eagle eagle2 eagle3 dflare domino draft drafter assistant speculator
    speculators medusa hydra
"""
DRAFT_WORDS = frozenset(_DRAFT.split())

# What a file of a GGUF repository is called by.
QUANTS = r"(?:i?q\d(?:_[0-9a-z]+)*|tq\d_\d|f16|fp16|bf16|f32|mxfp4|ud-[iq0-9a-z_]+)"

# (suffix, quant_method of the weights, what else it changes). None: the weights are unquantised.
_SUFFIXES: tuple[tuple[str, str | None, str], ...] = (
    (rf"[:.-]{QUANTS}", "gguf", ""),
    (r"-(?:i1-|imat-)?gg(?:uf|ml)", "gguf", ""),
    (r"-w8a8kv8|-fp8-?kv|-nvfp4-fp8kv|-kv-fp8", "fp8", "kv8"),
    (r"-(?:unsloth-)?bnb-[48]bit|-bnb", "bitsandbytes", ""),
    (r"-awq(?:-int4|-4bit|-8bit|-w4a16|-marlin)?", "awq", ""),
    (r"-gptq(?:-int[2348]|-[2348]bit(?:-\d+g)?|-marlin|-v2)?|-[48]bit-\d+g", "gptq", ""),
    (r"-auto-?round(?:-int[248])?(?:-(?:gptq|awq))?", "auto-round", ""),
    (r"-int[48]", "compressed-tensors", ""),
    (r"-fp8(?:-dynamic|-block|_dynamic)?", "fp8", ""),
    (r"-nvfp4(?:a16)?|-mxfp[48]|-fp4", "modelopt", "kv?"),
    (r"(?:-quantized)?[.-]w\d+a\d+(?:-fp8)?|-quantized", "compressed-tensors", ""),
    (r"-mlx(?:-\d+(?:\.\d+)?-?bit|-(?:bf16|fp16|mxfp4|q\d))?|-\d-?bit(?:-dwq)?|-dwq", "mlx", ""),
    (r"-(?:\d+\.\d+-?bpw-?)?(?:exl[23]|h\d)(?:-\d+\.\d+-?bpw)?|-\d+\.\d+-?bpw", "exl2", ""),
    (r"-hqq(?:-\dbit)?|-aqlm(?:-[\w.-]*)?|-torchao(?:-[\w.-]*)?", "other", ""),
    (r"-int[48]-ov|-fp16-ov|-openvino|-onnx", "other", ""),
    (r"-bf16|-fp16|-hf|-safetensors", None, ""),
    (r"-(?:uncensored|abliterated|heretic|sft|dpo|qat|mtp|merged?)(?:-v\d+)?", None, "tuned"),
    (r"-(?:1m|256k|128k|64k|32k|16k|8k|yarn)", None, "context"),
)
_NAMES = "".join(
    f"(?P<s{index}>{pattern})|" for index, (pattern, _, _) in enumerate(_SUFFIXES)
).rstrip("|")
_WORDS = re.compile(r"[-_.: /]+")


class Copy(NamedTuple):
    """A name taken for a copy of a known model.

    Attributes:
        base: the known name.
        quant_method: how the copy's weights are quantised; None: as the base's.
        effects: what else its name says: kv8 (the cache is declared FP8), kv? (it may be), tuned,
            context.
    """

    base: str
    quant_method: str | None
    effects: frozenset[str]


def draft_word(name: str) -> str | None:
    """The word that makes a name that of a draft model, None without one."""
    found = DRAFT_WORDS.intersection(_WORDS.split(name.lower()))
    return min(found) if found else None


def copy_of(name: str, known: Callable[[str], bool]) -> Copy | None:
    """The known model that a name is a copy of, by its suffixes; None if it is of none.

    Args:
        name: an id or a bare name that is not known itself.
        known: whether a model is called that.
    """
    namesake: Copy | None = None  # the same quantised copy by another uploader
    for rest, method, effects, ends in _stripped(name):
        base = next((form for form in _forms(rest) if known(form)), None)
        if base is None:
            continue
        found = Copy(base, method, effects)
        if base == rest or not ends:
            return found
        namesake = namesake or found  # what it declares for its cache is not this one's
    return namesake


def bare_base(name: str) -> str | None:
    """What a name is a copy of by its suffixes, as it is written; None for a name without any."""
    steps = list(_stripped(name))
    rest = next((step[0] for step in steps if not step[3]), name)
    found = rest.rpartition("/")[2]
    written = name.strip().rpartition("/")[2]
    return written[: len(found)] if 0 < len(found) < len(written) else None


def _stripped(name: str) -> Iterator[tuple[str, str | None, frozenset[str], bool]]:
    """A name with ever fewer suffixes, what they said, and whether a quantisation ends it."""
    suffix = re.compile(f"(?:{_NAMES})$")
    rest, method, effects = name.strip().lower(), None, frozenset[str]()
    for host in ("https://", "hf.co/", "huggingface.co/", "hf://"):
        rest = rest.removeprefix(host)
    while True:
        found = suffix.search(rest)
        which = int((found.lastgroup or "s0")[1:]) if found and found.start() else None
        weights, effect = _SUFFIXES[which][1:] if which is not None else (None, "")
        yield rest, method, effects, weights is not None
        if found is None or which is None:
            return
        method = method or weights
        effects |= {effect} - {""}
        rest = rest[: found.start()]


def _forms(name: str) -> list[str]:
    """The ways a copy's name may write its base's: whole, without the uploader, `ORG_NAME`."""
    bare = name.rpartition("/")[2]
    forms = [name, bare]
    if "_" in bare:
        forms.append(bare.partition("_")[2])  # bartowski/Qwen_Qwen3-8B-GGUF
    forms += [f"{form}-hf" for form in forms[1:]]  # TheBloke/CodeLlama-13B-Instruct-GGUF
    if bare.startswith("meta-llama-3."):
        forms.append(bare.removeprefix("meta-"))
    elif bare.startswith("llama-3."):
        forms.append(f"meta-{bare}")
    return forms
