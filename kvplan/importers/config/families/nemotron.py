"""Nemotron-H and Nemotron 3: stacks of single blocks.

Sources: transformers 5.24.0 configuration_*.py, vLLM 0.33.0's plans of the same configs.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.linear import state_dtype
from kvplan.importers.config.families.mamba import MAMBA, ignore_mamba
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import (
    Layout,
    compact,
    full,
    layer_names,
)
from kvplan.spec.recurrent import Mamba2
from kvplan.spec.states import State

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
