"""Recurrent states on one rank: conv columns and matrices, sharded as vLLM shards them.

    Mamba            (d_conv - 1) x I / tp, and (I / tp) x d_state
    Mamba 2          (d_conv - 1 + spec) x (I + 2 g d_state) / tp, (heads / tp) x head_dim x d_state
    gated delta net  (K - 1 + spec) x (2 k_heads k + v_heads v) / tp, (v_heads / tp) x v x k
    KDA              (K - 1 + spec) x 3 heads dim / tp, (heads / tp) x dim x dim
    short conv       (L - 1 + spec) x channels / tp
    lightning        (heads / tp) x dim x dim

`spec` is the number of draft tokens, g the groups: copied up to tp where tp does not divide them.
Columns take --mamba-cache-dtype, else the model's format; matrices --mamba-ssm-cache-dtype, else
what the family says, else the columns' format. Source: vllm 0.33.0,
model_executor/layers/mamba/mamba_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kvplan.dtypes import find_dtype
from kvplan.engines.kit.refusal import Refused
from kvplan.engines.vllm.facts.dtype import ELEMENT_BYTES
from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.options.settings import Settings
from kvplan.spec import recurrent
from kvplan.spec.recurrent import RecurrentState


@dataclass(frozen=True, slots=True)
class StateShapes:
    """The tensors of one layer's state on one rank: shapes and torch element names."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return sum(
            prod(shape) * ELEMENT_BYTES[dtype]
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )


def state_shapes(
    state: RecurrentState, settings: Settings, family: Family, model_dtype: str
) -> StateShapes:
    """The tensors that `state` becomes on one rank.

    Raises:
        Refused: sizes that vLLM cannot shard, a format its kernel does not take, or a kind of
            state that it has no layer for.
    """
    columns = settings.state_dtype if settings.state_dtype != "auto" else model_dtype
    shapes = _shapes(state, settings)
    if isinstance(state, (recurrent.ShortConvolution, recurrent.LightningAttention)):
        return StateShapes(shapes, (columns,))
    return StateShapes(shapes, (columns, _matrix_dtype(state, settings, family, columns)))


def _matrix_dtype(state: RecurrentState, settings: Settings, family: Family, columns: str) -> str:
    asked = settings.matrix_dtype
    if family.float32_states_only and asked not in ("auto", "float32"):
        raise Refused(
            "state-format-unsupported",
            "AssertionError",
            f"the family's state kernel takes float32 only, not {asked}; leave out "
            "--mamba-ssm-cache-dtype",
            state_dtype=asked,
        )
    if isinstance(state, recurrent.KimiDeltaAttention):
        if asked == "float16":
            raise Refused(
                "state-format-unsupported",
                "ValueError",
                f"a Kimi delta attention state is kept in float32 or bfloat16, not in {asked}; "
                "leave out --mamba-ssm-cache-dtype",
                state_dtype=asked,
            )
        return "float32" if asked == "auto" else asked
    if asked != "auto":
        return asked
    if family.reads_state_dtype and state.dtype is not None:
        known = find_dtype(state.dtype)
        if known is not None and known.name in ELEMENT_BYTES:
            return known.name
    return family.state_dtype or columns


def _shapes(state: RecurrentState, settings: Settings) -> tuple[tuple[int, ...], ...]:
    tp, draft = settings.tp, settings.speculative_tokens
    columns = (state.conv_kernel or 1) - 1
    if isinstance(state, recurrent.Mamba1):
        channels = _divide(state.intermediate_size, tp)
        return (columns, channels), (channels, state.state_size)
    if isinstance(state, recurrent.Mamba2):
        _check_mamba2(state, tp)
        groups = state.n_groups if state.n_groups % tp == 0 else tp
        channels = state.intermediate_size + 2 * groups * state.state_size
        heads = _divide(state.num_heads, tp)
        return (
            (columns + draft, _divide(channels, tp)),
            (heads, state.head_dim, state.state_size),
        )
    if isinstance(state, recurrent.GatedDeltaNet):
        return (
            (columns + draft, _divide(state.conv_channels, tp)),
            (_divide(state.v_heads, tp), state.v_head_dim, state.k_head_dim),
        )
    if isinstance(state, recurrent.KimiDeltaAttention):
        return (
            (columns + draft, _divide(state.conv_channels, tp)),
            (_divide(state.num_heads, tp), state.head_dim, state.head_dim),
        )
    if isinstance(state, recurrent.ShortConvolution):
        return ((columns + draft, _divide(state.channels, tp)),)
    if isinstance(state, recurrent.LightningAttention):
        return ((state.num_heads // tp, state.head_dim, state.head_dim),)
    raise Refused(
        "layer-kind-unsupported",
        "ValueError",
        f"vllm has no layer for a {state.kind} state",
        kind=state.kind,
    )


def _check_mamba2(state: recurrent.Mamba2, tp: int) -> None:
    if state.num_heads % tp:
        raise Refused(
            "heads-not-divisible",
            "AssertionError",
            f"{state.num_heads} heads of a Mamba 2 state do not divide among {tp} tensor parallel "
            "ranks",
            heads=state.num_heads,
            tp=tp,
        )
    if state.n_groups % tp and state.n_groups != 1:
        raise Refused(
            "state-groups-not-divisible",
            "AssertionError",
            f"{state.n_groups} groups of a Mamba 2 state do not divide among {tp} tensor parallel "
            "ranks, and only a single group is copied",
            groups=state.n_groups,
            tp=tp,
        )


def _divide(count: int, ranks: int) -> int:
    if count % ranks:
        raise Refused(
            "state-not-divisible",
            "AssertionError",
            f"{count:,} channels or heads of a recurrent state do not divide among {ranks} tensor "
            "parallel ranks",
            count=count,
            tp=ranks,
        )
    return count // ranks


_CHECKPOINTING: dict[type[RecurrentState], str] = {
    recurrent.Mamba2: "mamba2",
    recurrent.GatedDeltaNet: "gated_delta_net",
    recurrent.KimiDeltaAttention: "kimi_delta_attention",
}


def checkpoint_rule(
    state: RecurrentState, settings: Settings, family: Family
) -> tuple[int, int | None]:
    """(further blocks for checkpoints inside a prefill, token alignment they force on blocks).

    Mamba 2 always takes the block and forces nothing (mamba_mixer2.py); a gated delta net with
    FlashInfer's prefill kernel takes it and 64 tokens, but only while prefixes are cached
    (gdn/qwen_gdn_linear_attn.py); FlashKDA takes the block (models/kimi_k3/nvidia/kda.py).
    """
    if _CHECKPOINTING.get(type(state)) not in settings.rules.checkpoint_kinds:
        return 0, None
    gpu = settings.gpu
    if isinstance(state, recurrent.Mamba2):
        return 1, None
    if family.prefill_backend == "flashinfer" and isinstance(state, recurrent.GatedDeltaNet):
        blackwell = gpu.major in (10, 12) and state.k_head_dim == 128
        return (1, 64) if gpu.capability == (9, 0) or blackwell else (0, None)
    if family.prefill_backend == "flashkda" and isinstance(state, recurrent.KimiDeltaAttention):
        fits = gpu.major in (9, 10, 12) and state.head_dim == 128
        return (1, None) if fits else (0, None)
    return 0, None
