"""A model under one set of options: its formats, its head counts, and what its attention needs."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engines.vllm.backends.flash_attn import flash_attn_4
from kvplan.engines.vllm.backends.query import AttentionQuery
from kvplan.engines.vllm.facts import dtype as dtypes
from kvplan.engines.vllm.facts.classes import class_named
from kvplan.engines.vllm.facts.dtype import CacheDType
from kvplan.engines.vllm.facts.families import Family, family_of
from kvplan.engines.vllm.facts.versions import HISTORY
from kvplan.engines.vllm.options.settings import Settings
from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model under one set of options: what its layers have in common.

    Attributes:
        dtype: the format it runs in.
        cache: the run's cache format, as far as it is settled before the layers are built.
        mla: latents stay compressed.
        heads: query heads, all ranks together.
        kv_heads, head_size: of the model as a whole, as vLLM's configuration states them.
        sparse: attention reads tokens that an indexer chose.
        image_prefix: image tokens see each other in both directions.
        nope: elements of a latent head's part without rotation.
        skipped: indices of layers that stay unquantised.
    """

    spec: ModelSpec
    family: Family
    settings: Settings
    dtype: str
    cache: CacheDType
    mla: bool
    heads: int
    kv_heads: int
    head_size: int
    sparse: bool
    image_prefix: bool
    nope: int = 1
    skipped: frozenset[int] = frozenset()

    @property
    def skips_layers(self) -> bool:
        """Whether some layers stay unquantised."""
        return bool(self.skipped or self.settings.skip_layers)

    @property
    def kv_heads_per_rank(self) -> int:
        """KV heads of one rank as vLLM's configuration counts them."""
        return 1 if self.mla else max(1, self.kv_heads // self.settings.tp)

    def query(self, head_size: int, head_size_v: int, dtype: CacheDType) -> AttentionQuery:
        """The backend query for plain attention of this shape."""
        tp = self.settings.tp
        version, forced = _insisted(self)
        return AttentionQuery(
            gpu=self.settings.gpu,
            head_size=head_size,
            head_size_v=head_size_v,
            dtype=self.dtype,
            cache_dtype=dtype.name,
            cache_is_quantized=dtype.is_quantized,
            block_size=self.settings.block_size,
            heads=self.heads // tp,
            model_heads=(self.heads // tp, self.kv_heads_per_rank),
            image_prefix=self.image_prefix,
            forced_flash_version=version,
            forced_backend=self.settings.attention_backend or forced,
            run_quantized=self.cache.is_quantized,
            dcp=self.settings.dcp > 1,
            composites=self.settings.rules.composite_backends,
            wide_fp8_blocks=self.settings.rules.wide_fp8_blocks,
            latent_fp8_from_ada=self.settings.rules.latent_fp8_from_ada,
        )


def _insisted(model: Model) -> tuple[int | None, str | None]:
    """(FlashAttention version, backend) that vLLM's configuration sets for a family or format."""
    if model.cache.name.startswith("turboquant_") or model.cache.name == "ultraquant_4bit":
        return 2, None  # engine/arg_utils.py: the packed formats need version 2
    gpu = model.settings.gpu
    if not model.family.widest_layer:
        return None, None
    # models/config.py Gemma4Config: heads of unequal size.
    if not flash_attn_4(gpu):
        return None, "TRITON_ATTN"
    per_layer = gpu.major == 9 and model.cache.name.startswith("fp8")
    return (None if per_layer else 4), None


def build_model(spec: ModelSpec, settings: Settings) -> Model:
    """A spec under these options: formats, head counts, and what its attention needs.

    Raises:
        UsageError: a format that vLLM cannot be asked for.
    """
    family = family_of(spec)
    if settings.rules.is_v0 and family.encoder_only and spec.heads and spec.hidden_size:
        # V0 sets a cache aside for every attention layer, also where none is read.
        head = kept.FullAttention(kv_heads=spec.heads, head_dim=spec.hidden_size // spec.heads)
        spec = spec.replaced(kinds=dict.fromkeys(spec.kinds, (head,)), text_attention=None)
    if spec.text_attention == "bidirectional":  # models/qwen2.py: encoder-only attention, no cache
        spec = spec.replaced(kinds=dict.fromkeys(spec.kinds, ()))
    spec = _lent(spec, settings.rules.version)
    if family.slides_over_context and spec.max_context is not None:
        spec = _sliding_over(spec, spec.max_context)
    running, _ = dtypes.model_dtype(spec, settings.model_dtype, settings.gpu)
    every = [state for states in spec.kinds.values() for state in states]
    latent = any(isinstance(s, (kept.LatentAttention, kept.CompressedLatent)) for s in every)
    mla = latent and family.latent and not settings.latent_disabled and settings.rules.latents
    asked = dtypes.spelled(settings.cache_dtype)
    cache = dtypes.resolve(
        asked,
        spec,
        family,
        settings.gpu,
        running,
        latent=mla,
        sm100_fp8=settings.rules.sm100_latent_fp8,
    )
    if family.packed_latent and (cache.name == "auto" or cache.name.startswith("fp8")):
        cache = dtypes.CacheDType("fp8_ds_mla", "uint8", "models/deepseek_v4: its only layout")
    head_size, kv_heads = _model_shape(spec, mla, widest=family.widest_layer)
    heads = 0 if family.heads_free else spec.heads or 0
    hybrid = any(isinstance(s, RecurrentState) for s in every)
    packed = cache.name.startswith("turboquant_") or cache.name == "ultraquant_4bit"
    boundary = _boundary(len(spec.layers)) if packed and not hybrid else frozenset()
    named = {int(word) for word in settings.skip_layers if word.isdigit()}
    return Model(
        spec=spec,
        family=family,
        settings=settings,
        dtype=running,
        cache=cache,
        mla=mla,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        sparse=mla and any(isinstance(s, kept.Indexer) for s in every),
        image_prefix=family.image_prefix and not settings.language_model_only,
        nope=next(
            (s.qk_nope_head_dim or 1 for s in every if isinstance(s, kept.LatentAttention)), 1
        ),
        skipped=boundary | named,
    )


def _lent(spec: ModelSpec, version: str) -> ModelSpec:
    """A class that transformers lends has attention in every layer, as far as vLLM sees.

    Newer releases read the layers' types; up to 0.19 states became attention of the model's shape.
    """
    row = class_named(spec.architecture)
    lent = row is not None and not row.is_own(version)
    if not lent or HISTORY.number(version) >= HISTORY.number("0.20.0"):
        return spec
    attention = next(
        (
            states
            for states in spec.kinds.values()
            if any(isinstance(s, kept.HeadState) for s in states)
        ),
        None,
    )
    if attention is None:
        return spec
    kinds = {
        name: attention if any(isinstance(s, RecurrentState) for s in states) else states
        for name, states in spec.kinds.items()
    }
    return spec.replaced(kinds=kinds)


def _sliding_over(spec: ModelSpec, window: int) -> ModelSpec:
    """Full attention read as a window of the context's length."""
    kinds = {
        name: tuple(
            kept.SlidingAttention(
                kv_heads=state.kv_heads, head_dim=state.head_dim, v_head_dim=state.v_head_dim,
                heads=state.heads, window=window,
            )
            if isinstance(state, kept.FullAttention)
            else state
            for state in states
        )
        for name, states in spec.kinds.items()
    }  # fmt: skip
    return spec.replaced(kinds=kinds)


def _boundary(layers: int, each: int = 2) -> frozenset[int]:
    """The first and last two layers, which packed formats leave in 16 bit."""
    each = min(each, layers // 2)
    return frozenset((*range(each), *range(layers - each, layers)))


def _model_shape(spec: ModelSpec, mla: bool, *, widest: bool) -> tuple[int, int]:
    """(head size, KV heads) as vLLM's configuration states them.

    Those of the first attention layer; the largest of each where the configuration is per layer.
    """
    found: list[tuple[int, int]] = []
    for name in dict.fromkeys(spec.layers):
        for state in spec.kinds[name]:
            if isinstance(state, kept.LatentAttention):
                heads = spec.heads or 1
                if mla:
                    found.append((state.kv_lora_rank + state.qk_rope_head_dim, heads))
                else:
                    size = (state.qk_nope_head_dim or 0) + state.qk_rope_head_dim
                    found.append((size, state.heads or heads))
            elif isinstance(state, kept.CompressedLatent):
                found.append((state.head_dim, 1))
            elif isinstance(state, kept.HeadState):
                found.append((state.head_dim, state.kv_heads))
    if not found:
        return 0, 0
    if widest:
        return max(size for size, _ in found), max(heads for _, heads in found)
    return found[0]


def is_encoder_decoder(spec: ModelSpec) -> bool:
    return any(isinstance(s, kept.CrossAttention) for s in spec.states())


# How recurrent states are kept: once, at block boundaries, or for every block.
ONCE, ALIGN, ALL = "none", "align", "all"

# Classes whose states can be kept for every block (SupportsMambaPrefixCaching).
_KEEPS_EVERY_BLOCK = frozenset((
    "BambaForCausalLM", "FalconH1ForCausalLM", "FalconMambaForCausalLM",
    "GraniteMoeHybridForCausalLM", "JambaForCausalLM", "JambaForSequenceClassification",
    "Mamba2ForCausalLM", "MambaForCausalLM", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM",
    "Zamba2ForCausalLM",
))  # fmt: skip


def caches_prefixes(model: Model) -> bool:
    """Whether prefixes are cached: by default yes, except where the model or the release cannot."""
    every = list(model.spec.states())
    rules = model.settings.rules
    attention = any(not isinstance(s, (RecurrentState, kept.SharedCache)) for s in every)
    recurrent = any(isinstance(s, RecurrentState) for s in every)
    possible = attention and not is_encoder_decoder(model.spec)
    asked = model.settings.prefix_caching
    if recurrent and (
        rules.state_caching == "off"
        or (rules.state_caching == "marked" and not _keeps_every_block(model))
    ):
        return False
    if asked is not None:
        return asked
    if recurrent and not rules.prefix_caching_of_hybrids:
        return False
    return possible and rules.prefix_caching


def state_mode(model: Model, *, caches: bool) -> str:
    """How recurrent states are kept, with or without cached prefixes."""
    rules, asked = model.settings.rules, model.settings.state_cache_mode.strip().lower()
    if not caches:
        return ONCE
    marked = _keeps_every_block(model)
    alone = all(isinstance(s, RecurrentState) for s in model.spec.states())
    if rules.state_caching == "marked" and alone:
        return ONCE
    if asked in (ALIGN, ALL):
        return ALL if asked == ALL and marked else ALIGN
    if rules.state_caching == ALIGN or not marked:
        return ALIGN
    drafting = rules.drafts_align and model.settings.speculation is not None
    return ALIGN if drafting else ALL


def _keeps_every_block(model: Model) -> bool:
    return model.spec.architecture in _KEEPS_EVERY_BLOCK
