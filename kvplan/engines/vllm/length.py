"""max_model_len: what a checkpoint allows, and what vLLM makes of the length asked for.

    derived   the config's own length, times the rope factor for the types that scale it
    default   derived; LongRoPE models start at their original length; 2048 if the config has none
    -1, auto  the derived length, later cut to what the memory holds

Source: vllm 0.33.0, config/model.py _get_and_verify_max_len.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.options.settings import Settings
from kvplan.spec.model import ModelSpec

# Types whose max_position_embeddings is scaled already.
_ALREADY_SCALED = (
    "default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling",
)  # fmt: skip
_LONG = ("longrope", "su")  # the second is the first one's old name
_WITHOUT_LENGTH = 2048


@dataclass(frozen=True, slots=True)
class Length:
    """The length vLLM plans for.

    Attributes:
        tokens: max_model_len.
        auto: cut it to what the memory holds.
        why: the rule that settled it, None when it was given.
    """

    tokens: int
    auto: bool
    why: str | None


def settle_length(spec: ModelSpec, settings: Settings, asked: int | None) -> Length:
    """The length vLLM plans for.

    Args:
        spec, settings: the model and the options.
        asked: --max-model-len (-1: auto) or the request's ctx; None when neither is given.

    Raises:
        Refused: a length that the checkpoint does not allow.
    """
    derived = derived_length(spec)
    if derived is None:
        if asked == -1:
            raise Refused(
                "bad-value",
                "ValidationError",
                "the config names no length, so --max-model-len auto has nothing to start from; "
                "give a number of tokens",
                max_model_len=asked,
            )
        if asked is not None:
            return Length(asked, False, None)
        return Length(_WITHOUT_LENGTH, False, "config/model.py: the config names no length")
    if asked is None or asked == -1:
        rope = spec.rope
        short = settings.rules.long_rope_starts_short
        if short and rope is not None and rope.type in _LONG and rope.original_max_context:
            why = "config/model.py: LongRoPE models start at their original length"
            return Length(rope.original_max_context, asked == -1, why)
        return Length(int(derived), asked == -1, "config/model.py: the checkpoint's length")
    if asked > derived and not settings.long_length_allowed:
        raise Refused(
            "length-above-model",
            "ValidationError",
            f"--max-model-len {asked} is above the {int(derived):,} tokens that the checkpoint "
            "allows; lower it, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 if the positions really "
            "reach that far",
            max_model_len=asked,
            longest=int(derived),
        )
    return Length(asked, False, None)


def derived_length(spec: ModelSpec) -> float | None:
    """The longest length the checkpoint allows, None if its config names none."""
    if spec.max_context is None:
        return None
    rope = spec.rope
    scaled = (
        rope is not None
        and rope.factor is not None
        and rope.type not in _ALREADY_SCALED
        and "gemma3" not in (spec.model_type or "")
    )
    factor = rope.factor if scaled and rope is not None and rope.factor is not None else 1.0
    return spec.max_context * factor
