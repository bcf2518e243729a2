"""Which layers are recurrent, and the state one of them keeps.

`ssm.*` means different things by architecture: `ssm.time_step_rank` is a rank in Mamba, the number
of heads in Mamba 2, the number of value heads in a gated delta net, whose key heads are
`ssm.group_count` (llama.cpp b11434: converter `conversion/*.py`, `src/models/*.cpp`).
"""

from __future__ import annotations

from kvplan.importers.gguf.architectures import Recurrence
from kvplan.importers.gguf.keys import RULE, Keys
from kvplan.spec.recurrent import (
    GatedDeltaNet,
    GenericRecurrent,
    KimiDeltaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    RecurrentState,
    Rwkv,
    ShortConvolution,
)

LISTED, INTERVAL = "attention.recurrent_layers", "full_attention_interval"


def recurrent_layers(
    keys: Keys, rule: Recurrence, kv_heads: tuple[int, ...], trunk: int
) -> tuple[tuple[bool, ...], str]:
    """True for each layer with a recurrent state, and where that stands.

    Args:
        keys: the metadata.
        rule: the architecture's rule.
        kv_heads: head_count_kv of every layer.
        trunk: layers before those of multi-token prediction, which are never recurrent.
    """
    total = len(kv_heads)
    if rule.layers in ("all", "beside"):
        return tuple(layer < trunk for layer in range(total)), f"every layer: {RULE}"
    if rule.layers == "no_kv_heads":
        found = tuple(layer < trunk and kv_heads[layer] == 0 for layer in range(total))
        return found, f"{keys.full('attention.head_count_kv')} 0"
    if rule.layers == "no_kv_heads_no_ffn":
        return _without_ffn(keys, kv_heads, trunk)
    if keys.raw(LISTED) is not None:
        listed = [bool(item) for item in keys.array(LISTED, (trunk, total))]
        if any(listed[trunk:]):
            keys.refuse(LISTED, f"lists a layer beyond the {trunk} that can be recurrent")
        return (*listed, *[False] * (total - len(listed))), keys.full(LISTED)
    interval = keys.number(INTERVAL)
    origin = keys.full(INTERVAL)
    if interval is None:
        interval, origin = rule.interval, f"all but every {rule.interval}th layer: {RULE}"
    found = tuple(layer < trunk and (layer + 1) % interval != 0 for layer in range(total))
    return found, origin


def _without_ffn(keys: Keys, kv_heads: tuple[int, ...], trunk: int) -> tuple[tuple[bool, ...], str]:
    feed_forward = keys.per_layer("feed_forward_length", len(kv_heads))
    if feed_forward is None:
        keys.refuse("feed_forward_length", "is missing, so the recurrent blocks are not known")
    for layer in range(trunk):
        if kv_heads[layer] and feed_forward[layer]:
            keys.refuse(
                f"feed_forward_length[{layer}]",
                f"is {feed_forward[layer]} and head_count_kv {kv_heads[layer]},"
                " a block is either attention or feed-forward",
            )
    found = tuple(
        layer < trunk and not kv_heads[layer] and not feed_forward[layer]
        for layer in range(len(kv_heads))
    )
    key = keys.full("attention.head_count_kv")
    return found, f"{key} 0 and {keys.full('feed_forward_length')} 0"


def recurrent_state(keys: Keys, rule: Recurrence, heads: tuple[int, ...]) -> RecurrentState:
    """The state of one recurrent layer.

    Args:
        keys: the metadata.
        rule: the architecture's rule.
        heads: head_count of every layer, for the kinds that have a matrix per attention head.
    """
    number = keys.required
    if rule.kind == "mamba1":
        return Mamba1(
            conv_kernel=number("ssm.conv_kernel"),
            intermediate_size=number("ssm.inner_size"),
            state_size=number("ssm.state_size"),
        )
    if rule.kind == "mamba2":
        count, head_dim = _split(keys)
        return Mamba2(
            conv_kernel=number("ssm.conv_kernel"),
            num_heads=count,
            head_dim=head_dim,
            state_size=number("ssm.state_size"),
            n_groups=number("ssm.group_count"),
        )
    if rule.kind == "mamba2_x":
        count, head_dim = _split(keys)
        if keys.number("ssm.group_count", minimum=0):
            keys.refuse(
                "ssm.group_count", "is not 0, the convolution of this architecture is over x"
            )
        return GenericRecurrent(
            conv_kernel=number("ssm.conv_kernel"),
            channels=number("ssm.inner_size"),
            shape=(count, head_dim, number("ssm.state_size")),
        )
    if rule.kind == "gated_delta_net":
        count, head_dim = _split(keys)
        return GatedDeltaNet(
            conv_kernel=number("ssm.conv_kernel"),
            k_heads=number("ssm.group_count"),
            k_head_dim=number("ssm.state_size"),
            v_heads=count,
            v_head_dim=head_dim,
        )
    if rule.kind == "kda":
        return KimiDeltaAttention(
            conv_kernel=number("ssm.conv_kernel"),
            num_heads=_one_count(keys, heads),
            head_dim=number("kda.head_dim"),
        )
    if rule.kind == "lightning":
        return LightningAttention(
            num_heads=_one_count(keys, heads), head_dim=number("attention.key_length")
        )
    if rule.kind == "short_conv":
        return ShortConvolution(
            conv_kernel=number("shortconv.l_cache"), channels=number("embedding_length")
        )
    shifts = keys.number("token_shift_count")
    return Rwkv(
        hidden_size=number("embedding_length"),
        head_dim=number("wkv.head_size"),
        token_shifts=rule.token_shifts if shifts is None else shifts,
    )


def _split(keys: Keys) -> tuple[int, int]:
    """Heads, and elements per head, that the inner size is made of."""
    inner, count = keys.required("ssm.inner_size"), keys.required("ssm.time_step_rank")
    if inner % count:
        keys.refuse("ssm.inner_size", f"is {inner}, not a multiple of time_step_rank {count}")
    return count, inner // count


def _one_count(keys: Keys, heads: tuple[int, ...]) -> int:
    counts = set(heads) - {0}
    if len(counts) != 1:
        keys.refuse("attention.head_count", f"holds {len(counts)} different counts, one is needed")
    return counts.pop()
