"""llama-server's flags: those that kvplan reads, and the whole table.

    -c 131072  -np 4  -ctk q8_0  -ngl 99  --no-kv-offload  -nkvo  --override-tensor exps=CPU

Short spellings have one dash and several letters, so nothing is abbreviated or joined. A flag that
turns another off (`-nkvo`) is that flag, negated. Defaults are those of the program, b11434.
Source: common/arg.cpp, common/common.h, tools/server/server.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from kvplan.engines.kit import argline
from kvplan.engines.kit.flags import BOOLEAN, ONE, SWITCH, Flag, Meaning
from kvplan.engines.kit.table import Table
from kvplan.engines.kit.values import FALSE, TRUE, natural
from kvplan.engines.kit.words import Word, split_words
from kvplan.engines.llamacpp.other_flags import other_flags

AUTO, ALL_LAYERS = -1, 2**20  # `auto`, and more layers than any model has


def _slots(text: str) -> int:
    """A number of slots, or -1: four that share one cache."""
    count = int(text)
    if count == 0 or count < -1:
        raise ValueError(text)
    return count


def _layers(text: str) -> int:
    """A number of layers, `auto` (-1) or `all` (-2)."""
    word = text.strip().lower()
    if word in ("auto", "all"):
        return AUTO if word == "auto" else ALL_LAYERS
    count = int(word)
    return ALL_LAYERS if count < AUTO else count


def flash(text: str) -> bool | None:
    """`on`, `off`, or None for `auto`; older builds have a switch without a value."""
    word = text.strip().lower()
    if word in ("auto", "-1"):
        return None
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError(text)


def shares(text: str) -> tuple[float, ...]:
    """`3,1`: what each device gets, in proportion."""
    found = tuple(float(part) for part in text.replace("/", ",").split(",") if part.strip())
    if any(not 0 <= part < float("inf") for part in found):
        raise ValueError(text)
    return found


def sizes(text: str) -> tuple[int, ...]:
    """MiB of each device."""
    return tuple(natural(part) for part in text.split(","))


def _on(text: str) -> bool:
    word = text.strip().lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError(text)


def split_mode(text: str) -> str:
    """none, layer, row or tensor."""
    word = text.strip().lower()
    if word not in ("none", "layer", "row", "tensor"):
        raise ValueError(text)
    return word


def _word(text: str) -> str:
    return text.strip()


def _row(
    name: str,
    spellings: str,
    read: Callable[[str], Any],
    default: Any = None,
    *,
    takes: str = ONE,
    repeats: str = "last",
) -> Flag:
    return Flag(
        name=name, spellings=tuple(spellings.split()), read=read, default=default, takes=takes,
        repeats=repeats, origin="llama-server",
    )  # fmt: skip


_FLAGS = (
    _row("ctx_size", "--ctx-size -c", natural),
    _row("parallel", "--parallel -np", _slots),
    _row("batch_size", "--batch-size -b", natural, 2048),
    _row("ubatch_size", "--ubatch-size -ub", natural, 512),
    _row("kv_unified", "--kv-unified -kvu --kvu", _on, takes=BOOLEAN),
    _row("kv_unified_per_slot", "--kv-unified-per-slot", natural),
    _row("swa_full", "--swa-full", _on, False, takes=BOOLEAN),
    _row("flash_attn", "--flash-attn -fa", flash),
    _row("cache_type_k", "--cache-type-k -ctk", _word),
    _row("cache_type_v", "--cache-type-v -ctv", _word),
    _row("kv_offload", "--kv-offload -kvo --kvo", _on, True, takes=BOOLEAN),
    _row("n_gpu_layers", "--n-gpu-layers --gpu-layers -ngl", _layers, AUTO),
    _row("split_mode", "--split-mode -sm", split_mode, "layer"),
    _row("tensor_split", "--tensor-split -ts", shares, ()),
    _row("main_gpu", "--main-gpu -mg", natural, 0),
    _row("override_tensor", "--override-tensor -ot", _word, "", repeats="all"),
    _row("n_cpu_moe", "--n-cpu-moe -ncmoe", natural, 0),
    _row("cpu_moe", "--cpu-moe -cmoe", _on, False, takes=SWITCH),
    _row("op_offload", "--op-offload", _on, True, takes=BOOLEAN),
    _row("ctx_checkpoints", "--ctx-checkpoints -ctxcp --swa-checkpoints", natural, 32),
    _row("cache_ram", "--cache-ram -cram", int, 8192),
    _row("spec_type", "--spec-type", _word, "", repeats="all"),
    _row("spec_draft_n_max", "--spec-draft-n-max --draft --draft-n --draft-max", natural, 3),
    _row("mmproj", "--mmproj -mm", _word),
    _row("fit", "--fit -fit", _on, True),
    _row("fit_target", "--fit-target -fitt", sizes, (1024,)),
    _row("fit_ctx", "--fit-ctx -fitc", natural, 4096),
)  # fmt: skip

# Spellings of a negation that are not the flag's own with `--no-` in front.
_NEGATIONS = {
    "-nkvo": "kv_offload",
    "-no-kvu": "kv_unified",
    "-noop": "op_offload",
}
_BY_NAME = {flag.name: flag for flag in _FLAGS}


def _negated(word: str) -> Meaning | None:
    name = _NEGATIONS.get(word)
    return None if name is None else Meaning(_BY_NAME[name], positive=False)


TABLE = Table(
    engine="llamacpp",
    flags=_FLAGS,
    rest=other_flags,
    abbreviates=False,
    opposites=False,
    special=_negated,
    ignores=lambda name: not name.startswith("LLAMA_ARG_"),
    help="`llama-server --help` lists llama.cpp's own",
)


def split_args(text: str) -> dict[str, str]:
    """A line of llama-server's flags as options.

    Raises:
        UsageError: a flag that it lacks or that is not modelled, a missing value, a stray word.
    """
    return argline.options(TABLE, argline.parse(TABLE, with_values(split_words(text))))


def with_values(words: Sequence[Word]) -> list[Word]:
    """The words of a line, a bare `-fa` of older builds with the value that it stands for."""
    found: list[Word] = []
    for word, after in zip_longest(words, words[1:]):
        found.append(word)
        if word.text in ("-fa", "--flash-attn") and (after is None or after.text.startswith("-")):
            found.append(word._replace(text="on"))
    return found


def read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Values of `Request.options`.

    Raises:
        UsageError: a name that is not in the table, or a text that its flag cannot take.
    """
    return TABLE.values(options)
