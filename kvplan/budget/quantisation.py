"""How many bytes a parameter takes in a quantised checkpoint, and which groups are quantised.

    fp8     1 + 4/16,384   block scales of 128 x 128 in float32, or one per channel
    int8    1.0005         one scale per channel
    int4    0.5195         groups of 128: a 16-bit scale and a packed zero point
    nvfp4   0.5625         groups of 16 with an 8-bit scale
    mxfp4   0.53125        groups of 32 with an 8-bit scale
    bnb4    0.5 to 0.5625  groups of 64 with a scale of 8 or 32 bits

Embedding, head and norms stay in 16 bit. Which further layers do (attention, towers, recurrent
layers) only the list of that very checkpoint says, so without it the weights are an interval.
Source: files and start-up logs of published checkpoints; errors against "Model loading took".
"""

from __future__ import annotations

import re

from kvplan.named_tuple import NamedTuple
from kvplan.spec.model import ModelSpec


class Scheme(NamedTuple):
    """One way to store weights.

    Attributes:
        name: fp8, int8, int4, nvfp4, mxfp4, bnb4, or a plain format.
        low, mid, high: bytes of a quantised parameter.
        margin: what a start-up log was off the formula at most, as a share, below and above.
        partial: layers besides embedding and head are often left in 16 bit.
        origin: what named it.
    """

    name: str
    low: float
    mid: float
    high: float
    margin: tuple[float, float]
    partial: bool
    origin: str


_SCHEMES = {
    "fp8": (1.0, 1 + 4 / 16384, 1.004, (0.008, 0.012), False),
    "int8": (1.0, 1.0005, 1.008, (0.008, 0.012), False),
    "int4": (0.5156, 0.5195, 0.532, (0.015, 0.025), True),
    "nvfp4": (0.5625, 0.5625, 0.5665, (0.015, 0.025), True),
    "mxfp4": (0.53125, 0.53125, 0.535, (0.01, 0.02), True),
    "bnb4": (0.5, 0.516, 0.5625, (0.02, 0.04), False),
    "bnb8": (1.0, 1.002, 1.01, (0.02, 0.04), False),
}  # fmt: skip
# What a checkpoint's own name says, the more particular first.
_NAMES = (
    (re.compile(r"nvfp4|w4a4|(?<![a-z])fp4"), "nvfp4"),
    (re.compile(r"mxfp4"), "mxfp4"),
    (re.compile(r"bnb[-_ ]?8|int8[-_]?bnb"), "bnb8"),
    (re.compile(r"bnb|bitsandbytes|nf4"), "bnb4"),
    (re.compile(r"fp8"), "fp8"),
    (re.compile(r"w4a16|w4a8|awq|gptq[-_]?int4|int4|4[-_]?bit|autoround|(?<![a-z])g?ptq"), "int4"),
    (re.compile(r"w8a8|w8a16|int8|8[-_]?bit"), "int8"),
)
# quant_method of a config, or the value of --quantization, where it says enough.
_METHODS = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8", "modelopt": "fp8", "awq": "int4",
    "awq_marlin": "int4", "gptq": "int4", "gptq_marlin": "int4", "auto-round": "int4",
    "mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "bitsandbytes": "bnb4", "experts_int8": "int8",
    "compressed-tensors-fp8": "fp8",
}  # fmt: skip
_VAGUE = ("compressed-tensors", "modelopt", "quark", "gptq", "bitsandbytes")
_FORMAT_BYTES = {"float32": 4, "float": 4, "half": 2, "float16": 2, "bfloat16": 2}
# Methods that store weights in 4 or in 8 bit.
_OPEN = ("compressed-tensors", "quark", "modelopt_mixed")


def scheme_of(
    spec: ModelSpec, *, named: str | None = None, flag: str | None = None, dtype: str = "auto"
) -> Scheme | None:
    """The scheme of a checkpoint, None where it is quantised and nothing says how.

    Args:
        spec: the model.
        named: the name it was asked for by, such as a Hugging Face id with `-FP8` in it.
        flag: `--quantization`; online quantisation gives its own size.
        dtype: the engine's `--dtype`, for parameters that are not quantised.
    """
    if flag:
        if flag.lower() in _METHODS and not (flag.lower() in _VAGUE and _by_name(named)):
            return _scheme(_METHODS[flag.lower()], f"--quantization {flag}")
        if _by_name(named) is None:
            return _plain(spec, dtype) if flag.lower() == "none" else None
    by_name = _by_name(named) if named else _by_name(f"{spec.name} {' '.join(spec.hf_ids[:1])}")
    if by_name is not None:
        return _scheme(by_name, f"the name {named or spec.name}")
    method = (spec.quant_method or "").lower()
    if method:
        if method in _METHODS:
            return _scheme(_METHODS[method], f"quant_method {method}")
        if method in _OPEN:
            return Scheme(
                "4 to 8 bit", 0.5156, 0.76, 1.008, (0.015, 0.025), True,
                f"{method}, which does not say how many bits",
            )  # fmt: skip
        return None
    return _plain(spec, dtype)


def bytes_of_format(spec: ModelSpec, dtype: str = "auto") -> int:
    """Bytes of a parameter that is not quantised."""
    name = (spec.dtype or "bfloat16") if dtype == "auto" else dtype
    # vLLM loads a float32 checkpoint in 16 bit unless it is told otherwise.
    return 2 if dtype == "auto" else _FORMAT_BYTES.get(name, 2)


def _plain(spec: ModelSpec, dtype: str) -> Scheme:
    size = float(bytes_of_format(spec, dtype))
    name = "float32" if size == 4 else "16 bit"
    return Scheme(name, size, size, size, (0.004, 0.013), False, f"{name} parameters")


def _scheme(name: str, origin: str) -> Scheme:
    low, mid, high, margin, partial = _SCHEMES[name]
    return Scheme(name, low, mid, high, margin, partial, f"{name} by {origin}")


def _by_name(name: str | None) -> str | None:
    lowered = (name or "").lower()
    return next((found for pattern, found in _NAMES if pattern.search(lowered)), None)
