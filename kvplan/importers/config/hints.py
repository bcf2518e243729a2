"""Which keys of a config smell of a cache layout that nobody read: the fail-closed rule.

After a family has read its config, every key it neither read nor passed over is looked at. A key
whose words speak of windows, patterns, latents, states, indexers, compression or sharing, and whose
value switches something on, means that the layout may be another one; the import is refused with
the key. In a family that was read, a harmless word excuses a key (`add_swa_attention_sink_bias`).
For a model type that is not known, a word of the cache outweighs every harmless word beside it
(`loop_steps_norm`); only whole phrases in which it means something else (`shared_expert`) are
excused, and any key is enough that is not known to be harmless, because nothing says that the model
is plain and the next idea has a name nobody listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from kvplan.documents.document import Path
from kvplan.errors import ImportRefused
from kvplan.importers.config.facts import Facts
from kvplan.importers.config.harmless import (
    FORMS,
    HARMLESS_IF_KNOWN,
    HARMLESS_KEYS,
    HARMLESS_PHRASES,
    HARMLESS_WORDS,
    TOWER_WORDS,
)

_MOST = 6  # keys in one message
_NUMBERS = ("kv_heads", "head_dim", "layers")

# How a word of a key begins that speaks of another cache layout, whatever the model.
_WORDS = """
    window sliding slid pattern latent lora lowrank ssm mamba rwkv conv state index compress share
    sharing sharer period interval chunk linear recurr hybrid spars blockspars strid dilat
    retention retent retain delta freq span segment local global gqa mqa memory sink evict budget
    keep reuse reus pool cache kv kvs cross horizon lookback anchor fold merg bank slot scan ring
    band stripe landmark lsh bucket cluster decay mtp nextn prune unroll loop hash tile summar
    register scratch snapshot tier rolling circular buffer quantum leap hop skip stride subsampl
    downsampl upsampl aggreg condens distil consolid yoco rnn moba moh refine decoupled switchhead
    hyena titan diffusion halo receptive streaming zigzag
"""
_STRONG_WORDS = tuple(_WORDS.split())
# Such words that other words begin with: whole ones only (`clamp_qkv` is no `cla`).
_WHOLE = "swa mla cla nsa dsa kda gdn gla lru mem ttt"
# Several words that do so together.
_PAIRS = """
    block_type layer_type layers_type layers_block attn_type attention_type attn_layer attn_idx
    attention_layer every_n group_size layer_group d_state d_conv full_att per_layer _types no_op
    head_dim_ _head_dim v_head value_head key_head value_dim key_dim qk_rope qk_nope low_rank
    multi_query query_group head_share layer_share shared_layer kv_head _kv_ _heads head_size
    _head_size attn_kind attention_kind layer_kind layer_map attn_map attention_span layers_per
    layer_sched attn_sched block_sched rank_kv qkv_rank encoder_decoder encoder_layers full_layers
    attention_free attn_free switch_head k_eq_v attn_topk attention_topk attn_mode attention_mode
    token_mixer mixer_type layer_repet repeat_layer universal_transformer
"""
_STRONG_PAIRS = tuple(_PAIRS.split())
STRONG = re.compile(
    "(?:^|[_.])(?:"
    + "|".join(_STRONG_WORDS)
    + "|(?:"
    + "|".join(_WHOLE.split())
    + ")(?![a-z]))|"
    + "|".join(map(re.escape, _STRONG_PAIRS))
)

# The same anywhere in a word. What experts, pictures or norms remember is kept too.
_KEPT = re.compile(
    "window|pattern|latent|ssm|mamba|state|compress|cache|recurr|chunk|period|interval|memory|slot"
    "|kept|keep|evict|span|shar|reus|cross|attn_block|attention_block|(?:^|_)kvs?(?:_|$)"
)
# What pictures and sound remember; windows and pooling in their towers are no matter of the cache.
_KEPT_OF_TOWERS = re.compile("cache|memory|slot|kept|keep|evict|reus|cross|(?:^|_)kvs?(?:_|$)")
# Attention that no harmless word excuses: `attention_experts`.
_ATTENTION = re.compile("attn|attention|(?:^|_)heads(?:_|$)|rope_(?:head_)?dim")


def unread(facts: Facts, *, known: bool) -> Iterator[tuple[Path, Any]]:
    """Keys that nobody understood and that may shape the cache, with their values."""
    for path, value in _walk(facts.data, facts.path, facts.passed, known=known):
        if path not in facts.used and _smells(path, value, known=known):
            yield path, value


def suspects(path: Path, value: Any, *, known: bool) -> Iterator[tuple[Path, Any]]:
    """The key at `path`, and those below it, that may shape the cache."""
    if _smells(path, value, known=known):
        yield path, value
    elif isinstance(value, Mapping) and not _harmless(words(str(path[-1])), value, known=known):
        for inner, found in _walk(value, path, set(), known=known):
            if _smells(inner, found, known=known):
                yield inner, found


def _smells(path: Path, value: Any, *, known: bool) -> bool:
    key = words(str(path[-1]))
    if not _active(value) or _harmless(key, value, known=known):
        return False
    if STRONG.search(key) or key in FORMS:
        return True
    if isinstance(value, Mapping):
        return False  # its keys speak
    return not known


def words(key: str) -> str:
    """A key in lower case, `camelCase` split at its humps."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def _harmless(key: str, value: Any, *, known: bool) -> bool:
    if key in HARMLESS_KEYS:
        return True
    if key in FORMS:
        return str(value) in FORMS[key] or (known and key == "cache_implementation")
    if key in HARMLESS_IF_KNOWN:
        return known
    if TOWER_WORDS.search(key):
        return not _KEPT_OF_TOWERS.search(key)
    rest = HARMLESS_PHRASES.sub("", key)
    speaks = STRONG.search(rest) or _KEPT.search(rest) or _ATTENTION.search(rest)
    if speaks and not known:
        return False
    return bool(HARMLESS_WORDS.search(key))


def _walk(data: Any, path: Path, passed: set[Path], *, known: bool) -> Iterator[tuple[Path, Any]]:
    """Every key below `data`, without the parts that never speak of the text model's cache."""
    if not isinstance(data, Mapping):
        return
    for key, value in data.items():
        here = (*path, key)
        if here in passed:
            continue
        yield here, value
        if not isinstance(value, Mapping):
            continue
        if not _harmless(words(key), value, known=known):
            yield from _walk(value, here, passed, known=known)


def _active(value: Any) -> bool:
    """False for a value that switches nothing on."""
    if value is None or value is False:
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value != 0
    return not (isinstance(value, (str, list, dict)) and not value)


def check(facts: Facts, *, known: bool) -> None:
    """Refuse a config with keys that may shape the cache and that nobody understood.

    Raises:
        ImportRefused: names the keys, and what a user can do about them.
    """
    refuse_all(facts, list(unread(facts, known=known)))


def refuse_all(facts: Facts, found: Sequence[tuple[Path, Any]]) -> None:
    """Refuse a config for all its keys that may shape the cache, if there are any."""
    found = [item for item in found if not facts.declared_harmless(item[0])]
    paths = {path for path, _ in found}
    found = [item for item in found if not any(item[0][:n] in paths for n in range(len(item[0])))]
    if not found:
        return
    if len(found) == 1:
        refuse(facts, *found[0])
    first = found[0][0]
    shown = ", ".join(".".join(map(str, path)) for path, _ in found[:_MOST])
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    raise ImportRefused(
        f"keys {shown}{more} may shape the cache; they are not understood for {_type(facts)}",
        where=facts.source.locate(first, key=True),
        hint=_way_out(facts, [path for path, _ in found]),
    )


def refuse(facts: Facts, path: Path, value: Any) -> NoReturn:
    """Refuse a config for one key that may shape the cache."""
    name = ".".join(map(str, path))
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    raise ImportRefused(
        f"key {name!r} ({shown}) may shape the cache; it is not understood for {_type(facts)}",
        where=facts.source.locate(path, key=True),
        hint=_way_out(facts, [path]),
    )


def _type(facts: Facts) -> str:
    return f"model_type {facts.model_type}" if facts.model_type else "a config without model_type"


def _way_out(facts: Facts, paths: Sequence[Path]) -> str:
    """What a user can do: write the layers down, or declare the keys harmless."""
    numbers = [facts.found[name].value for name in _NUMBERS if name in facts.found]
    plain = ""
    if len(numbers) == len(_NUMBERS):
        heads, dim, layers = numbers
        plain = (
            f", such as kinds: {{full: {{kind: full, kv_heads: {heads}, head_dim: {dim}}}}} with "
            f"layers: [{{repeat: {layers}, of: full}}]"
        )
    keys = " ".join(f"--ignore-key {'.'.join(map(str, path))}" for path in paths[:_MOST])
    return (
        f"write a spec with the kinds of layers as they are{plain}; or, if that has no say in the "
        f"cache, `kvplan import FILE {keys} -o spec.yaml`"
    )
