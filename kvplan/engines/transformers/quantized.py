"""QuantizedCache: whole prefills quantised, then a residual in the model's format that is flushed.

Right after the prefill of N tokens all N are quantised. Each later token joins a residual in the
model's format; when it would reach residual_length (L), everything is quantised anew. So after D
decode steps N + L * (D // L) tokens are quantised and D mod L are not. `fp8` has neither groups nor
residual: one byte per element and one float32 scale per tensor.

    elements E, group g, G = E / g groups                axis 0          axis -1 (hqq: 1)
    quanto    4 and 2 bits, 8/bits values per byte       [G/2, g] u8     [g/2, G] u8
    hqq       8, 4, 2, 1 bits; 3 bits: 10 per int32      [g/2, G] u8     [G/2, g] u8
    both      scale and shift (zero) per group           model's format

Source: transformers 5.24.0, cache_utils.py; optimum-quanto 0.2.7, grouped.py, packed.py; hqq 0.2.8,
core/quantize.py, core/bitpack.py.
"""

from __future__ import annotations

from math import prod

from kvplan.arithmetic import ceil_div
from kvplan.engines.kit.refusal import Refusal
from kvplan.engines.transformers.attention import Widths
from kvplan.engines.transformers.held import Held, LayerCache, own
from kvplan.engines.transformers.options import Quantization
from kvplan.engines.transformers.run import Run

CLASSES = {
    "quanto": "QuantoQuantizedLayer",
    "hqq": "HQQQuantizedLayer",
    "fp8": "Fp8QuantizedLayer",
}


def split_tokens(quantization: Quantization, run: Run, *, legacy: bool = False) -> tuple[int, int]:
    """(tokens quantised, tokens in the residual) per sequence."""
    if quantization.backend == "fp8":
        return run.tokens, 0
    period = flush_period(quantization, legacy=legacy)
    flushes = run.decode_steps // period
    return run.prefill + flushes * period, run.decode_steps % period


def flush_period(quantization: Quantization, *, legacy: bool = False) -> int:
    """Decode steps from one quantisation to the next.

    4.57 looks at the residual only once it holds a token, so it needs two steps at least.
    """
    return max(quantization.residual_length, 2 if legacy else 1)


def quantized_layer(
    wide: Widths, quantization: Quantization, run: Run, dtype: str, *, legacy: bool = False
) -> LayerCache:
    """All tensors of one layer."""
    tokens, residual = split_tokens(quantization, run, legacy=legacy)
    shapes = {
        "keys": (run.batch, wide.k_heads, tokens, wide.k_dim),
        "values": (run.batch, wide.v_heads, tokens, wide.v_dim),
    }
    tensors = [
        own(name, (*shape[:2], residual, shape[3]) if residual else (0,), dtype)
        for name, shape in shapes.items()
    ]
    axes = {"keys": quantization.axis_key, "values": quantization.axis_value}
    for name, shape in shapes.items():
        tensors += _quantized(name, shape, axes[name], quantization, dtype)
    return LayerCache(CLASSES[quantization.backend], tuple(tensors))


def _quantized(
    name: str, shape: tuple[int, ...], axis: int, quantization: Quantization, dtype: str
) -> list[Held]:
    base = f"_quantized_{name}"
    if quantization.backend == "fp8":
        return [own(base, shape, "float8_e4m3fn"), own(f"{base}.scale", (), "float32")]
    group = quantization.q_group_size
    groups = prod(shape) // group
    by_rows = (axis == 0) == (quantization.backend == "quanto")  # one group per row
    rows, columns = (groups, group) if by_rows else (group, groups)
    scale = (groups, 1) if by_rows else (1, groups)
    if quantization.backend == "quanto":
        packed = (ceil_div(rows * quantization.nbits, 8), columns)
        return [
            own(f"{base}._data._data", packed, "uint8"),
            own(f"{base}._scale", scale, dtype),
            own(f"{base}._shift", scale, dtype),
        ]
    if quantization.nbits == 3:  # 10 values in one int32
        data = own(base, (ceil_div(rows, 10), columns), "int32")
    else:
        data = own(base, (rows * quantization.nbits // 8, columns), "uint8")
    return [data, own(f"{base}.scale", scale, dtype), own(f"{base}.zero", scale, dtype)]


def refusal(
    wide: Widths, quantization: Quantization, run: Run, *, legacy: bool = False
) -> Refusal | None:
    """Why the backend cannot quantise, when the groups do not come out even, else None.

    Every quantisation of a generation must divide; if the first and the second do, all do, because
    each adds the same number of elements.
    """
    if quantization.backend == "fp8":
        return None
    counts = [run.prefill]
    period = flush_period(quantization, legacy=legacy)
    if run.decode_steps >= period:
        counts.append(run.prefill + period)
    for tokens in counts:
        for heads, dim, axis in (
            (wide.k_heads, wide.k_dim, quantization.axis_key),
            (wide.v_heads, wide.v_dim, quantization.axis_value),
        ):
            said = _uneven((run.batch, heads, tokens, dim), axis, quantization)
            if said:
                return said
    return None


def _uneven(shape: tuple[int, ...], axis: int, quantization: Quantization) -> Refusal | None:
    group = quantization.q_group_size
    if quantization.backend == "hqq":
        if prod(shape) % group:
            return _not_even("AssertionError", prod(shape), group)
        return None
    per_axis = prod(shape) // shape[axis] if shape[axis] else 0
    if group > per_axis or per_axis % group:
        return _not_even("ValueError", per_axis, group)
    return None


def _not_even(exception: str, elements: int, group: int) -> Refusal:
    return Refusal(
        code="quantization-groups",
        exception=exception,
        message=f"{elements:,} elements do not divide into groups of {group}; choose another "
        "q_group_size, or a length that is a multiple of it",
        figures={"elements": elements, "q_group_size": group},
    )
