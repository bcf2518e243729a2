"""The V0 engine: which starts it plans, and what its cache engine makes of the layers.

All starts up to 0.7.3; from 0.8.0 to 0.10.x those that V1 could not serve, release by release (see
`Rules.v0_for`). V0 keeps every attention layer of the decoder like full attention and nothing else:
windows play no part, states are the model's own. Its pool has no null block.

    blocks        available // (layers of the stage x block x heads x (K + V)), the smallest stage
    starts        blocks (from 0.8.0: blocks // stages) x block size >= max_model_len
    log line      blocks x block size / max_model_len, never divided by the stages

Source: vllm 0.6.6.post1 to 0.10.2, worker/cache_engine.py, worker/worker.py, engine/arg_utils.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.layers.runs import Run
from kvplan.engines.vllm.layers.specs import CrossSpec, StateSpec
from kvplan.engines.vllm.options.settings import Settings
from kvplan.engines.vllm.pool.group import Group
from kvplan.engines.vllm.pool.groups import merge_equal
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import CrossAttention, LatentAttention

_LONG = 32768  # from here on prompts are cut by default


def is_planned_by_v0(spec: ModelSpec, family: Family, settings: Settings) -> bool:
    """Whether this release plans this start with V0."""
    reasons = settings.rules.v0_for
    return "all" in reasons or any(_HOLDS[reason](spec, family, settings) for reason in reasons)


def _caches_a_format(spec: ModelSpec, family: Family, settings: Settings) -> bool:
    """A cache format that V1's FlashAttention does not read on this GPU."""
    name = settings.cache_dtype.strip().lower()
    if name in ("auto", "") or settings.gpu.major == 9:
        return False
    if "pipeline" not in settings.rules.v0_for and settings.rules.latent_blocks == "cutlass":
        # 0.10.1 on: Blackwell has backends for it, and V1 refuses latents by itself.
        return settings.gpu.major != 10 and not _has_latents(spec, family)
    return True


def _has_latents(spec: ModelSpec, family: Family) -> bool:
    return family.latent and any(isinstance(s, LatentAttention) for s in spec.states())


_HOLDS: dict[str, Callable[[ModelSpec, Family, Settings], bool]] = {
    "pipeline": lambda spec, family, settings: settings.pp > 1 and settings.executor != "ray",
    "pooling": lambda spec, family, settings: family.encoder_only,
    "encoder_only": lambda spec, family, settings: family.encoder_only,
    "states": lambda spec, family, settings: _has(spec, RecurrentState),
    "encoder_decoder": lambda spec, family, settings: _has(spec, CrossAttention),
    "cache_format": _caches_a_format,
    "old_gpu": lambda spec, family, settings: settings.gpu.capability < (8, 0),
}


def _has(spec: ModelSpec, kind: type) -> bool:
    return any(isinstance(state, kind) for state in spec.states())


def cuts_prompts(spec: ModelSpec, family: Family, settings: Settings, length: int) -> bool:
    """Whether V0 cuts long prompts by default: from 32,768 tokens, for plain text models."""
    windows = spec.states()
    sliding = any(type(state).__name__ == "SlidingAttention" for state in windows)
    own = not (_has(spec, CrossAttention) or family.multimodal or family.encoder_only or sliding)
    latents = settings.rules.latents and _has_latents(spec, family)
    return length > _LONG and own and not latents and settings.speculation is None


def groups_of(runs: list[Run]) -> list[Group]:
    """One group of the attention layers, each kept like full attention."""
    attention = (run for run in runs if not isinstance(run.spec, (StateSpec, CrossSpec)))
    merged = merge_equal(
        run
        if run.spec.keeps_every_token
        else Run(run.spec.as_full(run.spec.block_size), run.counts)
        for run in attention
    )
    return [Group(tuple(merged), mixed=len(merged) > 1)] if merged else []


def as_v0(settings: Settings) -> Settings:
    """The settings of a start that V0 plans."""
    return replace(settings, rules=settings.rules.of_v0())
