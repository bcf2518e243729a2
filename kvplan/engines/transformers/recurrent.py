"""Recurrent layers: convolution columns in the model's format, the matrix in float32.

transformers keeps all `conv_kernel` columns (a model needs one less), and whatever a config says of
the matrix' format (mamba_ssm_dtype), the 5.x layers hold it in float32. In 4.57.6 each family had a
cache class of its own, most with the matrix in the model's format.

    conv_states       [B, channels, conv_kernel]
    recurrent_states  [B, *matrix]                 e.g. [B, heads, head_dim, state_size] of Mamba 2

Source: transformers 5.24.0, cache_utils.py, LinearAttentionLayer; 4.57.6, models/*/modeling_*.py.
"""

from __future__ import annotations

from kvplan.engines.transformers.families import LEGACY, Family
from kvplan.engines.transformers.held import Held, own, renamed
from kvplan.engines.transformers.versions import Rules
from kvplan.errors import UsageError
from kvplan.spec.recurrent import LightningAttention, RecurrentState, Rwkv


def recurrent_states(
    state: RecurrentState,
    family: Family,
    model_type: str | None,
    rules: Rules,
    batch: int,
    dtype: str,
) -> tuple[Held, ...]:
    """Tensors of one recurrent state.

    Raises:
        UsageError: no class of this version holds such a state.
    """
    if isinstance(state, Rwkv):
        raise UsageError(
            "transformers has no class for RWKV 5 and later, so its cache is not modelled"
        )
    if family.in_modules:
        return _in_modules(state, batch, dtype)
    if isinstance(state, LightningAttention):
        if family.linear_cache is None:
            raise UsageError(
                f"lightning attention of {model_type or 'an unnamed model_type'} is not modelled "
                "for transformers",
                hint="model_type minimax is",
            )
        return (own(family.linear_cache, (batch, *state.matrix_shape), dtype),)
    matrix_dtype = "float32"
    names: dict[str, str] = {}
    if rules.legacy:
        legacy = LEGACY.get(model_type or "")
        if legacy is None:
            raise UsageError(
                f"transformers {rules.version} has no cache class for the recurrent layers of "
                f"{model_type or 'this model'} that is modelled",
                hint="5.24.0 holds all of them the same way",
            )
        if not holds_float32(family, model_type, rules):
            matrix_dtype = dtype
        names = {"conv_states": legacy.conv, "recurrent_states": legacy.matrix}
    return renamed(_tensors(state, batch, dtype, matrix_dtype), names)


def holds_float32(family: Family, model_type: str | None, rules: Rules) -> bool:
    """True when this version holds the recurrent matrix in float32."""
    if family.linear_cache:
        return False
    legacy = LEGACY.get(model_type or "")
    return not rules.legacy or (legacy is not None and legacy.float32)


def _tensors(state: RecurrentState, batch: int, dtype: str, matrix_dtype: str) -> tuple[Held, ...]:
    found = []
    if state.conv_kernel:
        found.append(own("conv_states", (batch, state.conv_channels, state.conv_kernel), dtype))
    if state.matrix_shape:
        found.append(own("recurrent_states", (batch, *state.matrix_shape), matrix_dtype))
    return tuple(found)


def _in_modules(state: RecurrentState, batch: int, dtype: str) -> tuple[Held, ...]:
    found = []
    if state.conv_kernel:
        shape = (batch, state.conv_channels, state.conv_kernel - 1)
        found.append(own("temporal_block.conv1d_state", shape, dtype))
    if state.matrix_shape:
        found.append(own("rg_lru.recurrent_states", (batch, *state.matrix_shape), "float32"))
    return tuple(found)
