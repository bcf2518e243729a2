"""What was probably meant by a spec that the vocabulary does not allow; loaded for errors only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvplan.spec.vocabulary import Word

# Names that papers, configs and engines have for kinds of state.
_KINDS = {
    "mla": "latent",
    "gqa": "full", "mha": "full", "mqa": "full", "attention": "full", "full_attention": "full",
    "swa": "sliding", "local": "sliding", "window": "sliding", "sliding_window": "sliding",
    "sliding_attention": "sliding", "chunked_attention": "chunked",
    "mamba": "mamba1 or mamba2", "ssm": "mamba1 or mamba2",
    "linear_attention": "gated_delta_net, kda or lightning",
    "conv": "short_conv", "cross_attention": "cross",
}  # fmt: skip
# Keys of a config.json, and the spec's own word for each.
_CONFIG_KEYS = {
    "num_hidden_layers": "layers", "n_layer": "layers", "num_layers": "layers",
    "num_attention_heads": "heads", "n_head": "heads",
    "num_key_value_heads": "kv_heads (in a state)", "head_dim": "head_dim (in a state)",
    "max_position_embeddings": "max_context", "torch_dtype": "dtype",
    "architectures": "architecture", "rope_scaling": "rope", "layer_types": "layers",
    "sliding_window": "window (in a state)", "text_config": "kinds and layers",
}  # fmt: skip


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """For a key that does not belong there."""
    allowed = tuple(allowed)
    word = _CONFIG_KEYS.get(key)
    if word is None or "layers" not in allowed:
        called = (word or "").partition(" ")[0]
        return f"did you mean {called!r}?" if called in allowed else suggest(key, allowed)
    return (
        f"it looks like a config.json: as a .json file `kvplan size` takes it, and `kvplan import`"
        f" writes its spec; a spec says {word}"
    )


def unknown_kind(kind: object, kinds: Iterable[str]) -> str:
    """For a kind of state that does not exist."""
    word = _KINDS.get(str(kind).strip().lower())
    return f"{kind} is called {word} here" if word else suggest(kind, kinds)


def wrong_value(value: Any, word: Word) -> str | None:
    """For a value of another type than its key's."""
    if not word.type.startswith("int"):
        return None
    if isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if not isinstance(value, str):
        return None
    from kvplan.errors import UsageError
    from kvplan.units import parse_tokens

    try:
        return f"write {parse_tokens(value)}"
    except UsageError:
        return None


def suggest(given: object, known: Iterable[str]) -> str:
    """The closest of the words allowed in a place, or all of them."""
    from difflib import get_close_matches

    known = tuple(known)
    close = get_close_matches(str(given), known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "allowed here: " + ", ".join(known) if known else "nothing else is allowed here"
