"""Mamba 1 and 2, alone and beside attention, and the other recurrences.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's state shapes for the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.linear import state_dtype
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    full,
    head_dim,
    kv_heads,
    layer_count,
    layer_names,
    sliding,
)
from kvplan.importers.config.plain import uniform
from kvplan.spec.recurrent import LinearRecurrentUnit, Mamba1, Mamba2, Rwkv
from kvplan.spec.states import FullAttention, State

MAMBA = {
    "mamba": "mamba",
    "mamba2": "mamba",
    "linear_attention": "mamba",
    "m": "mamba",
    "attention": "full",
    "full_attention": "full",
    "hybrid": "hybrid",
    "g": "hybrid",
}


def width(facts: Facts, expand: str) -> int:
    """Channels of a Mamba block: expand x hidden_size."""
    factor = facts.count("expand", expand)
    hidden = facts.count("hidden_size")
    return int(facts.derive("intermediate_size", factor * hidden, f"{factor} {expand} x {hidden}"))


def ignore_mamba(facts: Facts) -> None:
    """Pass over what shapes a Mamba block's computation, not its state."""
    facts.ignore(
        "mamba_chunk_size", "chunk_size", "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias",
        "mamba_norm_before_gate", "mamba_rms_norm", "use_mamba_kernels", "use_mambapy",
        "use_associative_scan", "use_conv_bias", "mamba_hidden_act", "hidden_mamba_act",
        "mamba_act", "use_mem_eff_path",
        "use_mem_rope", "num_mem_blocks", "use_falcon_mambapy", "expand", "mamba_expand",
        "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier", "time_step_rank",
        "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor",
    )  # fmt: skip


@family("mamba", "falcon_mamba")
def mamba1(facts: Facts) -> Layout:
    """Mamba and Falcon Mamba: no attention at all."""
    layers = layer_count(facts, "num_hidden_layers", "n_layer")
    channels = facts.optional("intermediate_size", "intermediate_size", "d_inner")
    state = Mamba1(
        conv_kernel=facts.count("conv_kernel", "conv_kernel", "d_conv"),
        intermediate_size=channels or width(facts, "expand"),
        state_size=facts.count("state_size", "state_size", "d_state"),
        dtype=state_dtype(facts),
    )
    ignore_mamba(facts)
    return uniform(facts, layers, state)


@family("mamba2")
def mamba2(facts: Facts) -> Layout:
    """Mamba 2: no attention; its num_heads and head_dim are those of the state."""
    layers = layer_count(facts, "num_hidden_layers", "n_layer")
    state = Mamba2(
        conv_kernel=facts.count("conv_kernel", "conv_kernel", "d_conv"),
        num_heads=facts.count("mamba_heads", "num_heads"),
        head_dim=facts.count("mamba_head_dim", "head_dim"),
        state_size=facts.count("state_size", "state_size", "d_state"),
        n_groups=facts.count("n_groups", "n_groups"),
        dtype=state_dtype(facts),
    )
    channels = width(facts, "expand")
    if channels != state.intermediate_size:
        facts.refuse(
            f"num_heads {state.num_heads} x head_dim {state.head_dim} "
            f"is not expand x hidden_size {channels}",
            key="num_heads",
        )
    ignore_mamba(facts)
    return uniform(facts, layers, state)


def mamba2_block(facts: Facts, channels: int) -> Mamba2:
    """The Mamba 2 block under the mamba_* keys of Bamba, Granite 4 and Falcon H1."""
    heads = facts.count("mamba_heads", "mamba_n_heads")
    dim = None if facts.take("mamba_d_head") == "auto" else facts.whole("mamba_d_head")
    if dim is None and channels % heads == 0:
        dim = int(facts.derive("mamba_head_dim", channels // heads, f"{channels} / {heads} heads"))
    if dim is None or dim * heads != channels:
        facts.refuse(
            f"mamba_n_heads {heads} x mamba_d_head {dim} is not {channels} channels",
            key="mamba_n_heads",
        )
    return Mamba2(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        num_heads=heads,
        head_dim=dim,
        state_size=facts.count("state_size", "mamba_d_state"),
        n_groups=facts.count("n_groups", "mamba_n_groups"),
        dtype=state_dtype(facts),
    )


@family("granitemoehybrid", "bamba")
def bamba(facts: Facts) -> Layout:
    """Granite 4 and Bamba: Mamba 2 layers, and attention where the list says."""
    layers = layer_count(facts)
    names = layer_names(facts, "layer_types", layers, MAMBA) or layer_names(
        facts, "layers_block_type", layers, MAMBA
    )
    if names is None:
        chosen = facts.wholes("attn_layer_indices")
        if chosen is None:
            facts.refuse("neither layer_types nor attn_layer_indices says which layers attend")
        if any(index >= layers for index in chosen):
            facts.refuse(
                "attn_layer_indices names a layer beyond the last", key="attn_layer_indices"
            )
        names = tuple("full" if index in set(chosen) else "mamba" for index in range(layers))
        facts.note("layers by kind", f"{len(set(chosen))} full", facts.origin("attn_layer_indices"))
    facts.ignore("attn_layer_indices")
    kinds: dict[str, tuple[State, ...]] = {}
    if "full" in names:
        kinds["full"] = (full(facts),)
    if "mamba" in names:
        kinds["mamba"] = (mamba2_block(facts, width(facts, "mamba_expand")),)
    else:
        facts.ignore(*(key for key in facts.data if key.startswith("mamba_")))
    ignore_mamba(facts)
    if len(kinds) == 1 and "full" in kinds:
        return uniform(facts, layers, *kinds["full"])
    return Layout(kinds=kinds, layers=names)


@family("falcon_h1")
def falcon_h1(facts: Facts) -> Layout:
    """Falcon H1: attention and Mamba 2 side by side in every layer."""
    layers = layer_count(facts)
    channels = facts.optional("mamba_d_ssm") or width(facts, "mamba_expand")
    ignore_mamba(facts)
    return uniform(facts, layers, full(facts), mamba2_block(facts, channels))


@family("jamba")
def jamba(facts: Facts) -> Layout:
    """Jamba: attention at attn_layer_offset of every attn_layer_period, Mamba on the others."""
    layers = layer_count(facts)
    names = layer_names(facts, "layers_block_type", layers, MAMBA)
    if names is None:
        period = facts.count("period", "attn_layer_period")
        offset = facts.whole("attn_layer_offset", least=0)
        if offset is None and facts.defaults is not None:
            offset = facts.optional("offset", "attn_layer_offset")
        if offset is None or offset >= period:
            facts.refuse(
                f"attn_layer_offset {offset} lies not within {period}", key="attn_layer_offset"
            )
        names = tuple("full" if index % period == offset else "mamba" for index in range(layers))
    state = Mamba1(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        intermediate_size=width(facts, "mamba_expand"),
        state_size=facts.count("state_size", "mamba_d_state"),
        dtype=state_dtype(facts),
    )
    facts.ignore("attn_layer_period", "attn_layer_offset")
    ignore_mamba(facts)
    kinds: dict[str, tuple[State, ...]] = {"full": (full(facts),), "mamba": (state,)}
    return Layout(kinds=compact(kinds, names), layers=names)


# Letters of hybrid_override_pattern (Nemotron-H): Mamba, attention, and blocks that keep nothing.
_LETTERS = {"M": "mamba", "*": "full", "-": "mlp", "E": "mlp"}
_BLOCKS = {**MAMBA, "mlp": "mlp", "moe": "mlp"}


@family("nemotron_h")
def nemotron_h(facts: Facts) -> Layout:
    """Nemotron-H and Nemotron 3: a block per layer, of Mamba 2, attention or nothing to keep."""
    names = _nemotron_layers(facts, "layers_block_type", "hybrid_override_pattern")
    if names is None:
        facts.refuse(
            "neither layers_block_type nor hybrid_override_pattern says what the layers are"
        )
    given = facts.optional("layers")
    if given is not None and given != len(names):
        facts.refuse(
            f"num_hidden_layers {given} contradicts the pattern, which has {len(names)} layers",
            key="num_hidden_layers",
        )
    facts.optional("window")
    state = Mamba2(
        conv_kernel=facts.count("conv_kernel", "conv_kernel", "mamba_d_conv"),
        num_heads=facts.count("mamba_heads", "mamba_num_heads"),
        head_dim=facts.count("mamba_head_dim", "mamba_head_dim"),
        state_size=facts.count("state_size", "ssm_state_size", "mamba_state_dim"),
        n_groups=facts.count("n_groups", "n_groups", "mamba_n_groups"),
        dtype=state_dtype(facts),
    )
    ignore_mamba(facts)
    kinds: dict[str, tuple[State, ...]] = {"full": (full(facts),), "mamba": (state,), "mlp": ()}
    draft = _nemotron_draft(facts)
    return Layout(kinds=compact(kinds, names, draft), layers=names, draft=draft)


def _nemotron_layers(facts: Facts, listed: str, lettered: str) -> tuple[str, ...] | None:
    words = facts.texts(listed)
    if words is not None:
        return layer_names(facts, listed, len(words), _BLOCKS)
    pattern = facts.text(lettered)
    if pattern is None:
        return None
    unknown = next((letter for letter in pattern if letter not in _LETTERS), None)
    if unknown is not None or not pattern:
        facts.refuse(f"{lettered} holds {unknown!r}, known are M * - E", key=lettered)
    facts.note("layers by kind", f"{len(pattern)} letters", facts.origin(lettered))
    return tuple(_LETTERS[letter] for letter in pattern)


def _nemotron_draft(facts: Facts) -> tuple[str, ...]:
    """The draft head is a small stack of its own, num_nextn_predict_layers times; blocks that keep
    nothing are left out."""
    count = facts.whole("num_nextn_predict_layers", least=0) or 0
    stack = _nemotron_layers(facts, "mtp_layers_block_type", "mtp_hybrid_override_pattern")
    if not count or not stack:
        return ()
    if count * len(stack) > 4096:
        facts.refuse("num_nextn_predict_layers is too large", key="num_nextn_predict_layers")
    facts.note("draft_layers", count, facts.origin("num_nextn_predict_layers"))
    return tuple(kind for kind in stack if kind != "mlp") * count


@family("zamba2")
def zamba2(facts: Facts) -> Layout:
    """Zamba2: Mamba 2 everywhere; hybrid layers run a shared attention block of twice the width."""
    layers = layer_count(facts)
    names = _zamba_layers(facts, layers)
    channels = width(facts, "mamba_expand")
    heads = facts.count("mamba_heads", "n_mamba_heads")
    given = facts.optional("mamba_head_dim", "mamba_headdim")
    if channels % heads or (given is not None and given * heads != channels):
        facts.refuse(
            f"n_mamba_heads {heads} does not divide {channels} channels", key="n_mamba_heads"
        )
    state = Mamba2(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        num_heads=heads,
        head_dim=channels // heads,
        state_size=facts.count("state_size", "mamba_d_state"),
        n_groups=facts.count("n_groups", "mamba_ngroups"),
        dtype=state_dtype(facts),
    )
    return _zamba_layout(facts, names, state)


@family("zamba")
def zamba(facts: Facts) -> Layout:
    """Zamba: as Zamba2, with Mamba 1."""
    layers = layer_count(facts)
    names = _zamba_layers(facts, layers)
    if facts.optional("mamba_heads", "n_mamba_heads") is None:
        facts.refuse("n_mamba_heads is missing")
    state = Mamba1(
        conv_kernel=facts.count("conv_kernel", "mamba_d_conv"),
        intermediate_size=width(facts, "mamba_expand"),
        state_size=facts.count("state_size", "mamba_d_state"),
        dtype=state_dtype(facts),
    )
    facts.ignore("attn_layer_period", "attn_layer_offset")
    return _zamba_layout(facts, names, state)


def _zamba_layers(facts: Facts, layers: int) -> tuple[str, ...]:
    names = layer_names(facts, "layers_block_type", layers, MAMBA)
    if names is None:
        chosen = facts.wholes("hybrid_layer_ids")
        if chosen is None:
            chosen = _zamba_defaults(facts, layers)
        names = tuple("hybrid" if index in set(chosen) else "mamba" for index in range(layers))
    facts.ignore("hybrid_layer_ids")
    return names


def _zamba_defaults(facts: Facts, layers: int) -> list[int]:
    """The hybrid layers that the classes fix."""
    source = facts.defaults.source if facts.defaults else ""
    if facts.model_type == "zamba":
        period = facts.count("period", "attn_layer_period")
        offset = facts.count("offset", "attn_layer_offset")
        chosen = [2, *(i for i in range(3, layers) if (i - 3) % period == offset)]
    elif layers == 54:
        chosen = [6, 12, 18, 24, 30, 36, 42, 47, 51]
    else:
        facts.refuse("neither layers_block_type nor hybrid_layer_ids says which layers attend")
    facts.note("layers by kind", f"{len(chosen)} hybrid", f"class default ({source})")
    return chosen


def _zamba_layout(facts: Facts, names: tuple[str, ...], state: State) -> Layout:
    heads = facts.count("heads", "num_attention_heads")
    dim = facts.optional("head_dim", "attention_head_dim")
    if dim is None:
        hidden = facts.count("hidden_size")
        if 2 * hidden % heads:
            facts.refuse(f"2 x hidden_size {hidden} is no multiple of {heads} heads")
        dim = int(facts.derive("head_dim", 2 * hidden // heads, f"2 x {hidden} / {heads} heads"))
    facts.ignore("kv_channels", "num_query_groups", "attention_hidden_size")
    facts.ignore("use_shared_attention_adapter", "use_shared_mlp_adapter")
    ignore_mamba(facts)
    attention = FullAttention(kv_heads=kv_heads(facts, heads, "num_key_value_heads"), head_dim=dim)
    kinds: dict[str, tuple[State, ...]] = {"mamba": (state,), "hybrid": (attention, state)}
    return Layout(kinds=compact(kinds, names), layers=names)


@family("recurrent_gemma")
def recurrent_gemma(facts: Facts) -> Layout:
    """RecurrentGemma: RG-LRU blocks, and windowed attention, in the order of block_types."""
    layers = layer_count(facts)
    words = facts.texts("block_types") or facts.texts("_block_types")
    if words is None:
        words = ["recurrent", "recurrent", "attention"]
        facts.note(
            "layers by kind", words, "class default (transformers 5.24.0 RecurrentGemmaConfig)"
        )
    if not words or any(word not in ("recurrent", "attention") for word in words):
        facts.refuse("block_types is not a list of recurrent and attention", key="block_types")
    names = tuple(
        "sliding" if words[index % len(words)] == "attention" else "recurrent"
        for index in range(layers)
    )
    heads = facts.count("heads")
    window = facts.count("window", "attention_window_size")
    facts.ignore("sliding_window")
    local = FullAttention(kv_heads=kv_heads(facts, heads), head_dim=head_dim(facts, heads))
    unit = LinearRecurrentUnit(
        conv_kernel=facts.count("conv_kernel", "conv1d_width"),
        width=facts.optional("lru_width") or facts.count("hidden_size"),
        dtype=state_dtype(facts),
    )
    kinds: dict[str, tuple[State, ...]] = {
        "sliding": (sliding(local, window),),
        "recurrent": (unit,),
    }
    return Layout(kinds=compact(kinds, names), layers=names)


@family("rwkv5", "rwkv6", "rwkv7")
def rwkv(facts: Facts) -> Layout:
    """RWKV 5 and later: a matrix per head and two shifted activations."""
    state = Rwkv(
        hidden_size=facts.count("hidden_size"),
        head_dim=facts.count("rwkv_head_dim", "head_size", "head_dim"),
        dtype=state_dtype(facts),
    )
    facts.ignore(
        "attention_hidden_size", "num_attention_heads", "head_size_divisor", "context_length"
    )
    facts.ignore("decay_low_rank_dim", "gate_low_rank_dim", "rescale_every")
    return uniform(facts, layer_count(facts), state)
