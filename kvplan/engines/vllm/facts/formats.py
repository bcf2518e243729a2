"""Formats that releases have: of the cache (--kv-cache-dtype) and of checkpoints' weights.

Sources: config/cache.py CacheDType (before 0.9 config.py and engine/arg_utils.py) and
model_executor/layers/quantization/__init__.py of the releases from 0.2.4 to 0.33.0.
"""

from __future__ import annotations

# --kv-cache-dtype values and the first release with each.
CACHE_SINCE = {
    "auto": "0.2.4", "fp8_e5m2": "0.4.0", "fp8": "0.5.4", "fp8_e4m3": "0.5.4", "fp8_inc": "0.10.0",
    "bfloat16": "0.11.0", "fp8_ds_mla": "0.11.1", "float16": "0.18.0",
    "turboquant_k8v4": "0.20.0", "turboquant_4bit_nc": "0.20.0", "turboquant_k3v4_nc": "0.20.0",
    "turboquant_3bit_nc": "0.20.0", "int8_per_token_head": "0.20.0",
    "fp8_per_token_head": "0.20.0", "nvfp4": "0.20.0", "int4_per_token_head": "0.25.0",
    "nvfp4_4over6": "0.28.0", "nvfp4_ds_mla": "0.30.0", "ultraquant_4bit": "0.32.0",
    "octave_k3v4": "0.33.0", "octave_k3v3": "0.33.0", "octave_k3v3_compact": "0.33.0",
}  # fmt: skip

# Weight formats (quant_method) and the first release that reads each.
WEIGHTS_SINCE = {
    "awq": "0.2.4", "gptq": "0.4.0", "fp8": "0.5.4", "fbgemm_fp8": "0.5.4",
    "compressed-tensors": "0.5.4", "bitsandbytes": "0.5.4", "modelopt": "0.6.3.post1",
    "quark": "0.7.0", "torchao": "0.8.4", "modelopt_fp4": "0.9.0", "auto-round": "0.9.0",
    "mxfp4": "0.10.1", "modelopt_mixed": "0.17.0", "mxfp8": "0.19.0",
}  # fmt: skip

# Weight formats that a release refused when it was run, and the last release before it.
WEIGHTS_UNTIL = {"fbgemm_fp8": "0.32.0"}
