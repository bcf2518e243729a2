"""`--kv-cache-dtype`: every value, what it stores, and what `auto` becomes.

    attention      bytes of one KV head of one token, K and V together
    16-bit, fp8    (head_size + head_size_v) x element
    per-token-head (K + V) elements + one float32 scale for each
    nvfp4          K and V slots of head_size / 2 + head_size / 16
    turboquant     packed key + packed value, rounded up to even
    MLA            head_size x element; fp8_ds_mla 656, nvfp4_ds_mla 352

Source: vllm 0.33.0, config/cache.py, v1/kv_cache_interface.py, the backends' customize_spec, and
model_executor/layers/quantization/turboquant/config.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arithmetic import ceil_div
from kvplan.dtypes import find_dtype
from kvplan.engines.vllm.facts.families import Family
from kvplan.engines.vllm.facts.gpus import Gpu
from kvplan.errors import UsageError
from kvplan.spec.model import ModelSpec

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1}

# value -> torch element type; "auto" and the 16-bit names are the model's.
_STORED = {
    "fp8": "uint8", "fp8_e4m3": "uint8", "fp8_e5m2": "uint8", "fp8_inc": "uint8",
    "fp8_ds_mla": "uint8", "nvfp4_ds_mla": "uint8",
    "turboquant_k8v4": "uint8", "turboquant_4bit_nc": "uint8",
    "turboquant_k3v4_nc": "uint8", "turboquant_3bit_nc": "uint8",
    "octave_k3v4": "uint8", "octave_k3v3": "uint8", "octave_k3v3_compact": "uint8",
    "ultraquant_4bit": "uint8",
    "int4_per_token_head": "uint8", "int8_per_token_head": "int8", "fp8_per_token_head": "uint8",
    "nvfp4": "uint8", "nvfp4_4over6": "uint8",
}  # fmt: skip

VALUES = ("auto", "float16", "bfloat16", *_STORED)

# Bits of a packed key and value; 8-bit keys carry no scale of their own.
_TURBOQUANT = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}


@dataclass(frozen=True, slots=True)
class CacheDType:
    """A resolved `--kv-cache-dtype`.

    Attributes:
        name: vLLM's value; "auto" means the model's own format.
        element: torch name of what the tensors hold.
        origin: why it is this value, when vLLM chose it.
    """

    name: str
    element: str
    origin: str | None = None

    @property
    def element_bytes(self) -> int:
        """Bytes of one stored element."""
        return ELEMENT_BYTES[self.element]

    @property
    def is_quantized(self) -> bool:
        """True for everything but the model's own format and the 16-bit names."""
        return self.name in _STORED

    def for_model(self, model_dtype: str) -> CacheDType:
        """The unquantised format that skipped layers keep."""
        return CacheDType("auto", model_dtype)

    def head_bytes(self, head_size: int, head_size_v: int) -> tuple[int, int]:
        """(slots per KV head, bytes of one slot of one token) of K and V together."""
        if self.name.startswith("nvfp4"):
            return 2, head_size // 2 + head_size // 16
        if self.name in _TURBOQUANT:
            return 1, _turboquant_slot(self.name, head_size)
        if self.name == "int4_per_token_head":
            return 1, head_size // 2 + head_size_v // 2 + 8
        scales = 8 if self.name.endswith("_per_token_head") else 0
        return 1, (head_size + head_size_v) * self.element_bytes + scales

    def latent_bytes(self, head_size: int) -> int:
        """Bytes of one token's latent (MLA)."""
        packed = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
        return packed.get(self.name, head_size * self.element_bytes)


def _turboquant_slot(name: str, head_size: int) -> int:
    key_bits, value_bits = _TURBOQUANT[name]
    key = head_size if key_bits == 8 else ceil_div(head_size * key_bits, 8) + 2
    value = ceil_div(head_size * value_bits, 8) + 4
    return key + value + (key + value) % 2


def spelled(text: str) -> str:
    """vLLM's spelling of a cache format: its own values as they are, `bf16` as bfloat16, ...

    Raises:
        UsageError: not a format that vLLM can be asked for.
    """
    word = text.strip()
    if word in VALUES:
        return word
    known = find_dtype(word)
    name = known.name if known else word.lower()
    if name in VALUES:
        return name
    raise UsageError(
        f"vllm --kv-cache-dtype cannot be {text!r}", hint="one of " + ", ".join(VALUES)
    )


def model_dtype(spec: ModelSpec, flag: str, gpu: Gpu) -> tuple[str, str | None]:
    """The format the model runs in under `--dtype`, and why when vLLM chose it.

    A float32 checkpoint runs in 16 bit: bfloat16 from compute capability 8.0, else float16
    (vllm 0.33.0, config/model.py _resolve_auto_dtype).

    Raises:
        UsageError: neither the flag nor the spec says, or the flag is not a format.
    """
    if flag not in ("auto",):
        known = find_dtype(flag)
        if known is None or known.name not in ("float32", "float16", "bfloat16"):
            raise UsageError(f"vllm --dtype cannot be {flag!r}")
        return known.name, None
    if spec.dtype is None:
        # A config without torch_dtype counts as float32 (model_arch_config_convertor.py).
        own = "float32"
    else:
        known = find_dtype(spec.dtype)
        own = known.name if known else spec.dtype
    if own in ("float16", "bfloat16"):
        return own, None
    chosen = "bfloat16" if gpu.capability >= (8, 0) else "float16"
    return chosen, f"config/model.py: a {own} checkpoint runs in 16 bit on this GPU"


def resolve(
    name: str,
    spec: ModelSpec,
    family: Family,
    gpu: Gpu,
    model: str,
    *,
    latent: bool,
    sm100_fp8: bool = True,
) -> CacheDType:
    """What `--kv-cache-dtype name` stores for this model here, before backends are chosen."""
    if name != "auto":
        if name == "bfloat16" and family.bfloat16_is_auto:
            return CacheDType("auto", model)
        return _stored(name, model, None)
    declared = find_dtype(spec.kv_dtype) if spec.kv_dtype else None
    method = (spec.quant_method or "").lower()
    if declared is not None and method.startswith("modelopt"):
        value = {"fp8_e4m3": "fp8_e4m3", "nvfp4": "nvfp4"}.get(declared.name)
        if value:
            return _stored(
                value, model, "utils/torch_utils.py: the ModelOpt checkpoint declares it"
            )
    elif declared is not None and "compressed" in method and not latent:
        origin = "layers/attention/attention.py: the checkpoint's kv_cache_scheme"
        return _stored("fp8", model, origin)
    if family.packed_latent:
        return _stored("fp8_ds_mla", model, "models/deepseek_v4: the only layout on CUDA")
    if family.sm100_cache_dtype and gpu.major == 10 and sm100_fp8:
        origin = f"model_executor/models/config.py: {family.sm100_cache_dtype} on SM10x"
        return _stored(family.sm100_cache_dtype, model, origin)
    return CacheDType("auto", model)


def _stored(name: str, model: str, origin: str | None) -> CacheDType:
    return CacheDType(name, _STORED.get(name, name if name != "auto" else model), origin)
