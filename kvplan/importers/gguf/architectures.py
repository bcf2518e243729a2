"""What an architecture's name alone decides: one row per `general.architecture` with an own layout.

A GGUF file holds dimensions; which layers slide, which are recurrent and which own an indexer is
often only written in the code that loads it. Each row states that rule as llama.cpp b11434 has it
(`src/models/*.cpp`, `load_arch_hparams`); an architecture in `PLAIN` has full attention in every
layer. A name in neither is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which layers keep a window only, and how long it is.

    Attributes:
        period: without a pattern in the file, one layer of every `period` is full: the last, or the
            first with `dense_first`. None: the file must hold a pattern. 1 is never meant: `every`.
        every: every attention layer slides.
        size: tokens, where the file does not say.
        size_layers: `size` holds only for a model of so many layers (EXAONE 4: the 32B one).
        optional: a file without a window means full attention.
        chunk: chunks of `size` tokens instead of a window.
        built_in: tokens that llama.cpp takes whatever the file says.
        unused: llama.cpp keeps every token all the same.
        draft: layers of multi-token prediction slide too.
        dropped: the converter writes no window for models of this architecture that have one.
    """

    period: int | None = None
    dense_first: bool = False
    every: bool = False
    size: int | None = None
    size_layers: int | None = None
    optional: bool = False
    chunk: bool = False
    built_in: int | None = None
    unused: bool = False
    draft: bool = False
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """Which layers are recurrent, and what one keeps.

    Attributes:
        kind: the state; `mamba2_x` is Mamba 2 with a convolution over x alone.
        layers: `all`; `beside` attention in every layer; `no_kv_heads`, those with head_count_kv 0;
            `no_kv_heads_no_ffn`, those of them without a feed-forward part; `listed` in
            recurrent_layers, else all but one of every full_attention_interval.
        interval: full_attention_interval where the file has none.
        token_shifts: token_shift_count where the file has none.
    """

    kind: Literal[
        "mamba1", "mamba2", "mamba2_x", "gated_delta_net", "kda", "lightning", "short_conv", "rwkv"
    ]
    layers: Literal["all", "beside", "no_kv_heads", "no_kv_heads_no_ffn", "listed"]
    interval: int = 4
    token_shifts: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One row.

    Attributes:
        window, recurrence: see there.
        latent: MLA; `sliding` if its windowed layers have a smaller latent (dots3note).
        latent_as_heads: llama.cpp caches the decompressed heads all the same.
        indexer: layers with an indexer: every one; `listed` in indexer.types; those after the
            leading dense ones.
        compressed: DeepSeek V4's compressed vectors.
        shared: the last `attention.shared_kv_layers` read earlier layers.
        headless: layers with head_count_kv 0 keep nothing.
        cross: a decoder that attends an encoder's output.
        loops: the stack runs `num_loops` times, each time with a cache of its own.
        keeps: False for a model that attends in both directions: nothing is kept between tokens.
    """

    window: Window | None = None
    recurrence: Recurrence | None = None
    latent: Literal["plain", "sliding"] | None = None
    latent_as_heads: bool = False
    indexer: Literal["every", "listed", "after_dense"] | None = None
    compressed: bool = False
    shared: bool = False
    headless: bool = False
    cross: bool = False
    loops: bool = False
    keeps: bool = True


_NOT_USED = Window(every=True, optional=True, unused=True)
_LISTED = Window()
_NO_KV_HEADS: Literal["no_kv_heads"] = "no_kv_heads"
_DELTA = Architecture(recurrence=Recurrence(kind="gated_delta_net", layers="listed"))
_KDA = Architecture(recurrence=Recurrence(kind="kda", layers=_NO_KV_HEADS), latent="plain")
_CONV = Recurrence(kind="short_conv", layers=_NO_KV_HEADS)
_RWKV = Architecture(recurrence=Recurrence(kind="rwkv", layers="all"))
_MAMBA2_HYBRID = Architecture(recurrence=Recurrence(kind="mamba2", layers=_NO_KV_HEADS))
_NEMOTRON_H = Architecture(
    recurrence=Recurrence(kind="mamba2", layers="no_kv_heads_no_ffn"), headless=True
)
_NOTHING = Architecture(keeps=False)

_LAYOUTS = {
    # windows, one full layer in every so many
    "gemma2": Architecture(window=Window(period=2, size=4096)),
    "gemma3": Architecture(window=Window(period=6, optional=True)),
    "gemma3n": Architecture(window=Window(period=5), shared=True),
    "gemma4": Architecture(window=_LISTED, shared=True),
    "gpt-oss": Architecture(window=Window(period=2)),
    "gptoss": Architecture(window=Window(period=2)),  # the name in Ollama's own conversion
    "cohere2": Architecture(window=Window(period=4)),
    "cohere2moe": Architecture(window=Window(period=4, dense_first=True)),
    "olmo2": Architecture(window=Window(period=4, optional=True)),
    "exaone4": Architecture(window=Window(period=4, size=4096, size_layers=64, optional=True)),
    "exaone-moe": Architecture(window=Window(period=4)),
    "afmoe": Architecture(window=Window(period=4, optional=True)),
    "laguna": Architecture(window=Window(period=4, dense_first=True, optional=True)),
    "mellum": Architecture(window=Window(period=4, optional=True)),
    "muse-glimmer": Architecture(window=Window(period=4)),
    "plamo3": Architecture(window=Window(period=8, optional=True)),
    "smallthinker": Architecture(
        window=Window(period=4, dense_first=True, optional=True, built_in=4096)
    ),
    "llama4": Architecture(window=Window(period=4, size=8192, chunk=True, built_in=8192)),
    # windows on the layers that the file lists
    "granite_swa": Architecture(window=_LISTED),
    "maple": Architecture(window=_LISTED),
    "mimo2": Architecture(window=_LISTED),
    "spark2_5": Architecture(window=_LISTED),
    "step35": Architecture(window=_LISTED),
    # a window on every layer, which llama.cpp does not use
    "llama": Architecture(window=_NOT_USED, headless=True),
    "phi3": Architecture(window=_NOT_USED),
    "phimoe": Architecture(window=_NOT_USED),
    "starcoder2": Architecture(window=replace(_NOT_USED, dropped=True)),
    # latent attention
    "deepseek2": Architecture(latent="plain"),
    "mistral4": Architecture(latent="plain"),
    "minicpm3": Architecture(latent="plain", latent_as_heads=True),
    "plm": Architecture(latent="plain", latent_as_heads=True),
    "deepseek32": Architecture(latent="plain", indexer="every"),
    "glm-dsa": Architecture(latent="plain", indexer="listed"),
    "hy_v4": Architecture(latent="plain", indexer="listed"),
    "dots3note": Architecture(latent="sliding", indexer="listed", window=Window(draft=True)),
    "deepseek4": Architecture(compressed=True, window=Window(every=True)),
    "minimax-m3": Architecture(indexer="after_dense"),
    # recurrent
    "mamba": Architecture(recurrence=Recurrence(kind="mamba1", layers="all")),
    "mamba2": Architecture(recurrence=Recurrence(kind="mamba2", layers="all")),
    "jamba": Architecture(recurrence=Recurrence(kind="mamba1", layers=_NO_KV_HEADS)),
    "plamo2": Architecture(recurrence=Recurrence(kind="mamba2_x", layers=_NO_KV_HEADS)),
    "granitehybrid": _MAMBA2_HYBRID,
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": _NEMOTRON_H,
    "falcon-h1": Architecture(recurrence=Recurrence(kind="mamba2", layers="beside")),
    "qwen3next": _DELTA,
    "qwen35": _DELTA,
    "qwen35moe": _DELTA,
    "kimi-linear": _KDA,
    "kimi-k3": _KDA,
    "bailingmoe3": _KDA,
    "minimax-01": Architecture(
        recurrence=Recurrence(kind="lightning", layers="listed", interval=8)
    ),
    "lfm2": Architecture(recurrence=_CONV, window=Window(every=True, optional=True)),
    "lfm2moe": Architecture(recurrence=_CONV),
    "rwkv6": _RWKV,
    "rwkv6qwen2": _RWKV,
    "rwkv7": _RWKV,
    "arwkv7": _RWKV,
    # others
    "deci": Architecture(headless=True),
    "t5": Architecture(cross=True),
    "nanbeige": Architecture(loops=True),
    "hrm_text": Architecture(loops=True),
}

# Every layer keeps K and V of every token.
PLAIN = (
    "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom",
    "chameleon", "chatglm", "codeshell", "cogvlm", "command-r", "dbrx", "deepseek",
    "deepseek2-ocr", "dots1", "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4",
    "glm4moe", "gpt2", "gptj", "gptneox", "granite", "granitemoe", "grok", "grovemoe",
    "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais", "jais2",
    "llama-embed", "maincoder", "minicpm", "minimax-m2", "mistral3", "mpt", "nemotron", "olmo",
    "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "plamo", "pockettts",
    "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3tts", "qwen3vl",
    "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm", "starcoder", "talkie", "xverse",
)  # fmt: skip

# Encoders, and diffusion models that attend to the whole text at every step.
BIDIRECTIONAL = (
    "bert", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada",
    "llada-moe", "modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe",
    "rnd1", "t5encoder",
)  # fmt: skip

# Files of models that do not run on their own.
NO_MODELS = {
    "clip": "the vision or audio projector of a multimodal model (mmproj), which keeps no cache",
    "wavtokenizer-dec": "an audio decoder, which keeps no cache",
    "dflash": "a draft model that runs beside its target",
    "eagle3": "a draft head that runs beside its target",
    "gemma4-assistant": "a draft model that reads the cache of its target",
    "controlvector": "a control vector, not a model",
    "imatrix": "an importance matrix for quantisation, not a model",
}

ARCHITECTURES: dict[str, Architecture] = (
    dict.fromkeys(PLAIN, Architecture()) | dict.fromkeys(BIDIRECTIONAL, _NOTHING) | _LAYOUTS
)
