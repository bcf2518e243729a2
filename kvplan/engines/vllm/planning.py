"""From a spec and a request to a pool: the whole pipeline of one model under one set of options.

`build` does all that the length has no part in; `at_length` settles a length and what follows from
it, which is cheap, so that a search over lengths or memory builds once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engines.base import LoadModel
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.layout import Provenance
from kvplan.engines.vllm.checks import (
    check_architecture,
    check_arguments,
    check_auto_length,
    check_batch,
    check_draft,
    check_formats,
    check_old_blocks,
    check_old_heads,
    check_old_latent_format,
    check_parallelism,
    check_release_format,
    check_shared,
    check_state_blocks,
    check_state_caching,
)
from kvplan.engines.vllm.facts import dtype as dtypes
from kvplan.engines.vllm.facts.families import Family, family_of, has_runner_v2
from kvplan.engines.vllm.facts.versions import cited
from kvplan.engines.vllm.failures import LAYERS, check_failures
from kvplan.engines.vllm.layers.blocks import BlockChoice, choose_block_size
from kvplan.engines.vllm.layers.model import (
    ONCE,
    Model,
    build_model,
    caches_prefixes,
    is_encoder_decoder,
    state_mode,
)
from kvplan.engines.vllm.layers.runs import Kind, Run, kinds_of, runs_of
from kvplan.engines.vllm.layers.slots import slots_of
from kvplan.engines.vllm.layers.specs import Load, SlidingSpec
from kvplan.engines.vllm.length import Length, settle_length
from kvplan.engines.vllm.options.settings import Settings
from kvplan.engines.vllm.pool.capacity import Pool
from kvplan.engines.vllm.pool.groups import form_groups, groups_by_stage, merge_equal
from kvplan.engines.vllm.pool.kv_layout import check_expressible, is_block_outermost, resolve
from kvplan.engines.vllm.v0 import as_v0, cuts_prompts, groups_of, is_planned_by_v0
from kvplan.errors import KvplanError, UsageError
from kvplan.named_tuple import NamedTuple
from kvplan.spec import states as kept
from kvplan.spec.model import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What depends on neither length, batch nor memory.

    Attributes:
        model, choice: the model under its options, and its block size.
        pool: groups and bytes per block.
        hybrid: windows are freed (hybrid KV cache manager).
        caches: prefixes are cached.
        states: how recurrent states are kept: see `Load`.
        batches: batches that may be in flight at once.
    """

    model: Model
    choice: BlockChoice
    pool: Pool
    hybrid: bool
    caches: bool
    states: str
    batches: int


class Broken(NamedTuple):
    """Why there are no parts: the error, and how many of the length's checks vLLM makes before."""

    error: Refused | KvplanError
    checks_before: int


class Built(NamedTuple):
    """A model under one set of options, before its length is known: its parts, or what broke."""

    spec: ModelSpec
    settings: Settings
    parts: Parts | Broken
    family: Family
    cuts_prompts: bool
    caches: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Everything that does not depend on how much memory there is.

    Attributes:
        settings: the options.
        parts: what does not depend on the length.
        load: one request of the settled length.
        length: how that was settled.
        batched_why: the rule that settled max_num_batched_tokens, None when it was given.
    """

    settings: Settings
    parts: Parts
    load: Load
    length: Length
    batched_why: str | None

    @property
    def model(self) -> Model:
        """The model under its options."""
        return self.parts.model

    @property
    def choice(self) -> BlockChoice:
        """The block size."""
        return self.parts.choice

    @property
    def pool(self) -> Pool:
        """Groups and bytes per block."""
        return self.parts.pool

    @property
    def hybrid(self) -> bool:
        """Whether windows are freed."""
        return self.parts.hybrid

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        """Every value vLLM chose by itself."""
        tokens = (self.load.batched, self.batched_why)
        return _provenance(self.settings, self.parts, self.length, tokens)


def prepare(spec: ModelSpec, settings: Settings, load_model: LoadModel) -> Planned:
    """The whole pipeline up to the pool, for the length of the settings.

    Raises:
        Refused: vLLM would not start.
        UsageError: a draft model that cannot be found.
    """
    return at_length(build(spec, settings, load_model), settings.length)


def build(spec: ModelSpec, settings: Settings, load_model: LoadModel) -> Built:
    """Walk the pipeline without the length: nothing is raised before `at_length`."""
    done, caches = 0, False
    family, cut = family_of(spec), not is_encoder_decoder(spec)
    try:
        check_architecture(spec, family, settings)
        if is_planned_by_v0(spec, family, settings):
            settings = as_v0(settings)
        rules = settings.rules
        check_arguments(settings)
        check_release_format(settings)
        check_old_blocks(settings)
        done = 1
        model = build_model(spec, settings)
        done = 2
        check_parallelism(model)
        check_state_caching(model)
        check_failures(spec, settings, LAYERS)
        check_old_latent_format(model)
        check_old_heads(model)
        check_formats(model)
        check_shared(model)
        kinds = _all_kinds(model, load_model)
        slots = [slot for kind in kinds for slot in kind.slots]
        # DeepSeek's sparse backends repack the cache for every later layer.
        model = replace(model, cache=_repacked(model, kinds))
        caches = caches_prefixes(model)
        done = 3
        states = state_mode(model, caches=caches and any(slot.shapes is not None for slot in slots))
        choice = choose_block_size(model, slots, states=states)
        runs = runs_of(model, kinds, choice, caches_states=states != ONCE)
        runs = _with_retained(runs, model)
        hybrid = rules.hybrid_groups and not _hybrid_disabled(model)
        layout = resolve(slots, runs, settings.layout) if runs else "LBNHC"
        if rules.is_v0:
            groups = groups_of(runs)
        elif rules.groups_by_stage:
            groups = groups_by_stage(runs, settings.pp, rules, hybrid=hybrid)
        else:
            outermost = is_block_outermost(layout)
            groups = form_groups(runs, rules, hybrid=hybrid, block_outermost=outermost)
            check_expressible(layout, groups)
        pool = Pool(tuple(groups), layout, settings.pp, rules, tuple(runs))
        pool.check_stages()
    except (Refused, KvplanError) as error:
        return Built(spec, settings, Broken(error, done), family, cut, caches)
    parts = Parts(
        model=model, choice=choice, pool=pool, hybrid=hybrid, caches=caches, states=states,
        batches=settings.concurrent_batches(runner_v2=_runner_v2(model)),
    )  # fmt: skip
    return Built(spec, settings, parts, family, cut, caches)


def at_length(built: Built, asked: int | None) -> Planned:
    """The pool for a length: --max-model-len, else the request's ctx; None is vLLM's default.

    The checks of the length stand among the others in vLLM's order, because only the first refusal
    is ever seen.

    Raises:
        Refused, UsageError: as `prepare`.
    """
    spec, settings, parts, family, chunked, caches = built
    _raise_after(parts, 0)
    check_auto_length(settings, asked)
    length = settle_length(spec, settings, asked)
    _raise_after(parts, 1)
    if settings.rules.is_v0:
        chunked = cuts_prompts(spec, family, settings, length.tokens)
    tokens, why = settings.batched_tokens_for(length.tokens, chunked_prefill=chunked)
    floor = settings.rules.multimodal_floor and not settings.language_model_only
    if floor and why is not None:
        tokens = max(tokens, family.largest_item)
    check_batch(settings, length.tokens, tokens, chunked_prefill=chunked)
    _raise_after(parts, 2)
    check_state_blocks(settings, length.tokens, caches_prefixes=caches)
    if isinstance(parts, Broken):
        raise parts.error
    load = Load(
        length=length.tokens,
        in_flight=tokens * parts.batches,
        batched=tokens,
        dcp=settings.dcp,
        states=parts.states,
        whole_prompts=settings.whole_prompts(chunked_prefill=chunked),
    )
    return Planned(settings=settings, parts=parts, load=load, length=length, batched_why=why)


def _raise_after(parts: Parts | Broken, checks: int) -> None:
    if isinstance(parts, Broken) and parts.checks_before == checks:
        raise parts.error


def _runner_v2(model: Model) -> bool:
    """Whether the V2 runner serves the model: it may have one batch more in flight."""
    settings = model.settings
    if settings.model_runner_v2 is not None:
        return settings.model_runner_v2
    if settings.rules.runner_v2_for == "listed":
        return has_runner_v2(model.spec, model.family)
    return settings.rules.runner_v2_for == "all"


def _all_kinds(model: Model, load_model: LoadModel) -> tuple[Kind, ...]:
    spec, speculation = model.spec, model.settings.speculation
    kinds = kinds_of(model, spec.layers, on_last_stage=False)
    if speculation is None:
        return kinds
    if speculation.has_draft_layers:
        return kinds + _draft_kinds(model)
    if speculation.method == "draft_model":
        if speculation.model is None:
            raise UsageError(
                "vllm speculative_config lacks the draft model's name",
                hint='write "model": a name that kvplan knows, or a path',
            )
        draft_spec = load_model(speculation.model)
        check_draft(spec, draft_spec)
        draft = build_model(draft_spec, model.settings)
        return kinds + kinds_of(draft, draft_spec.layers, on_last_stage=True)
    if speculation.method in ("ngram", "ngram_gpu", "suffix"):
        return kinds
    raise UsageError(
        f"speculative method {speculation.method!r} is not modelled",
        hint="ngram, suffix, mtp and draft_model are",
    )


def _draft_kinds(model: Model) -> tuple[Kind, ...]:
    """The layers of multi-token prediction, on the last stage."""
    spec, wanted = model.spec, model.family.drafts
    if spec.draft_layers:
        return kinds_of(model, spec.draft_layers, on_last_stage=True)
    attention = {"full": kept.FullAttention, "latent": kept.LatentAttention}.get(wanted or "")
    every = (state for states in spec.kinds.values() for state in states)
    state = next((s for s in every if attention is not None and isinstance(s, attention)), None)
    if state is None:
        raise UsageError(
            f"{spec.name} has no layers of multi-token prediction",
            hint="write draft_layers in the spec, or another speculative method",
        )
    counts = (*[0] * (model.settings.pp - 1), 1)
    return (Kind("draft", slots_of(model, (state,), skipped=False), counts),)


def _repacked(model: Model, kinds: tuple[Kind, ...]) -> dtypes.CacheDType:
    for kind in kinds:
        for slot in kind.slots:
            if slot.dtype.name == "fp8_ds_mla" and model.cache.name != "fp8_ds_mla":
                return slot.dtype
    return model.cache


def _hybrid_disabled(model: Model) -> bool:
    settings = model.settings
    chunked = any(isinstance(s, kept.ChunkedAttention) for s in model.spec.states())
    drafting = settings.speculation is not None and settings.speculation.is_eagle_like
    if chunked and (drafting or not settings.chunked_local_hybrid):
        return True
    return bool(settings.hybrid_disabled)


def _with_retained(runs: list[Run], model: Model) -> list[Run]:
    """Multi-module drafting keeps further tokens below every window."""
    speculation = model.settings.speculation
    modules = len(model.spec.draft_layers)
    if speculation is None or not speculation.has_draft_layers or modules < 2:
        return runs
    extra = speculation.tokens - 1
    return merge_equal(
        Run(replace(run.spec, extra_retained=extra), run.counts)
        if isinstance(run.spec, SlidingSpec)
        else run
        for run in runs
    )


def _provenance(
    settings: Settings, parts: Parts, length: Length, tokens: tuple[int, str | None]
) -> tuple[Provenance, ...]:
    model, choice = parts.model, parts.choice
    source = f"vllm {settings.rules.version} "
    notes = list(settings.provenance)

    def note(option: str, value: object, origin: str | None) -> None:
        if origin is not None:
            notes.append(Provenance(option, str(value), source + cited(origin, settings.rules)))

    note("max_model_len", length.tokens, length.why)
    note("max_num_batched_tokens", *tokens)
    if settings.cache_dtype.strip().lower() == "auto" or model.cache.origin:
        held = model.cache.name if model.cache.name != "auto" else model.dtype
        note("kv_cache_dtype", held, model.cache.origin or "config/cache.py: the model's format")
    if choice.why:
        by_platform = settings.rules.block_choice == "forced"
        file = "platforms/cuda.py" if by_platform else "platforms/interface.py"
        note("block_size", choice.size, f"{file}: {choice.why}")
    if settings.prefix_caching is None:
        note("enable_prefix_caching", str(parts.caches).lower(), "config/model.py")
    if settings.layout is None and settings.rules.one_tensor:
        note("kv_cache_layout", parts.pool.layout, "v1/attention/backends/utils.py")
    return tuple(notes)
