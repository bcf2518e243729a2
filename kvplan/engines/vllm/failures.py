"""Starts that a release fails for a fault or a gap of its own, beside any rule: a short list.

Each row was seen when the release's own code was run. A newer release serves the model.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.facts.families import is_mixture
from kvplan.engines.vllm.facts.versions import HISTORY
from kvplan.engines.vllm.options.settings import Settings
from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState
from kvplan.spec.states import Indexer, LatentAttention


class Failure(NamedTuple):
    """One row: classes, first and last release, the refusal, and what must hold beside."""

    classes: str
    first: str
    last: str
    code: str
    exception: str
    message: str
    holds: Callable[[ModelSpec, Settings], bool] = lambda spec, settings: True


def _staged_latents(spec: ModelSpec, settings: Settings) -> bool:
    return settings.pp > 1 and any(isinstance(s, LatentAttention) for s in spec.states())


def _quantized_on_hopper(spec: ModelSpec, settings: Settings) -> bool:
    sparse = any(isinstance(state, Indexer) for state in spec.states())
    return sparse and settings.gpu.major == 9 and settings.cache_dtype.startswith("fp8")


def _caches_states_alone(spec: ModelSpec, settings: Settings) -> bool:
    states = list(spec.states())
    alone = bool(states) and all(isinstance(state, RecurrentState) for state in states)
    return alone and settings.prefix_caching is True


# What fails while the config is read.
CONFIG = (
    Failure(
        "Gemma3n",
        "0.9.2",
        "0.9.2",
        code="unsupported-architecture",
        exception="TypeError",
        message="{release} cannot build Gemma 3n's text model with its transformers",
    ),
    Failure(
        "Mamba2ForCausalLM",
        "0.15.0",
        "0.18.1",
        code="config-not-readable",
        exception="AttributeError",
        message="{release} asks Mamba 2's config for attention heads that it does not have",
    ),
    Failure(
        "Gemma4",
        "0.19.0",
        "0.19.1",
        code="config-not-readable",
        exception="ValidationError",
        message="{release} is installed with a transformers that cannot read Gemma 4's config; "
        'install 5.5 or newer and say so: --engine-args "--transformers 5.5"',
        holds=lambda spec, settings: not settings.transformers_5,
    ),
)

# What fails while the layers are built.
LAYERS = (
    Failure(
        "GlmMoeDsaForCausalLM",
        "0.15.0",
        "0.18.1",
        code="no-attention-backend",
        exception="ValueError",
        message="{release} has no kernel for this model's sparse latents in fp8 on Hopper",
        holds=_quantized_on_hopper,
    ),
    Failure(
        "",
        "0.15.0",
        "0.18.1",
        code="release-bug-assert",
        exception="TypeError",
        message="{release} has no block size for cached prefixes of a model without attention; "
        "leave out --enable-prefix-caching",
        holds=_caches_states_alone,
    ),
    Failure(
        "DeepseekV",
        "0.9.2",
        "0.9.2",
        code="release-bug-assert",
        exception="AssertionError",
        message="{release} fails to build this model on several pipeline stages",
        holds=_staged_latents,
    ),
    Failure(
        "NemotronHForCausalLM",
        "0.9.2",
        "0.11.0",
        code="layer-kind-unsupported",
        exception="KeyError",
        message="{release} has no layer for this model's experts",
        holds=lambda spec, settings: is_mixture(spec),
    ),
    Failure(
        "Gemma3nForCausalLM",
        "0.10.0",
        "0.11.0",
        code="kv-sharing-target",
        exception="ValueError",
        message="{release} does not find the layers whose cache others read",
    ),
)


def check_failures(spec: ModelSpec, settings: Settings, rows: tuple[Failure, ...] = CONFIG) -> None:
    """Known failures of a release.

    Raises:
        Refused: one of them.
    """
    name = spec.architecture or ""
    version = HISTORY.number(settings.rules.version)
    for row in rows:
        if not name.startswith(row.classes) or not row.holds(spec, settings):
            continue
        if HISTORY.number(row.first) <= version <= HISTORY.number(row.last):
            message = row.message.format(release=f"vllm {settings.rules.version}")
            raise Refused(row.code, row.exception, message, architecture=name)
