"""Multimodal models: which text model stands inside, where the file does not say so itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.documents.document import Path
from kvplan.importers.config.aliases import TEXT_KEYS

# model_type of a wrapper -> model_type of its text config (transformers 5.24.0, sub_configs).
TEXT_TYPES = {
    "llava": "llama",
    "llava_next": "llama",
    "llava_next_video": "llama",
    "llava_onevision": "qwen2",
    "vipllava": "llama",
    "video_llava": "llama",
    "idefics3": "llama",
    "smolvlm": "llama",
    "paligemma": "gemma",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "mistral3": "mistral",
    "pixtral": "mistral",
    "llama4": "llama4_text",
    "mllama": "mllama_text_model",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "minimax_m3_vl": "minimax_m3",
    "kimi_vl": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "deepseek_vl_v2": "deepseek_v2",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "lfm2_vl": "lfm2",
    "aya_vision": "cohere2",
    "cohere2_vision": "cohere2",
    "exaone4_5": "exaone4_5_text",
    "step3p7": "step3p5",
    "muse_glimmer": "muse_glimmer_text",
    "internvl": "qwen2",
    "internvl_chat": "internlm2",
    "ernie4_5_vl_moe": "ernie4_5_vl_moe_text",
    "aria": "aria_text",
    "emu3": "emu3_text_model",
    "molmo2": "molmo2_text",
    "paddleocr_vl": "paddleocr_vl_text",
    "kimi_k3": "kimi_linear",
    "vibevoice": "qwen2",
    "multi_modality": "llama",
    "NVLM_D": "qwen2",
    "ovis": "qwen2",
    "hunyuan_vl": "hunyuan_vl_text",
    "glm_ocr": "glm_ocr_text",
    "qwen2_audio": "qwen2",
    "qwen2_5_omni": "qwen2_5_omni_text",
    "qwen2_5_omni_thinker": "qwen2_5_omni_text",
    "qwen3_omni_moe": "qwen3_omni_moe_text",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe_text",
    "voxtral": "llama",
    "voxtral_realtime": "voxtral_realtime_text",
    "florence2": "bart",
    "fuyu": "persimmon",
    "idefics2": "mistral",
    "got_ocr2": "qwen2",
    "granite_speech": "granite",
    "step3_vl": "step3_text",
    "deepseek_ocr2": "deepseek_ocr2_text",
    "blip-2": "opt",
    "instructblip": "opt",
    "instructblipvideo": "opt",
    "jev": "qwen3_5_text",
    "muse_spark": "muse_spark_text",
    "musicflamingo": "qwen2",
    "shieldgemma2": "gemma3_text",
    "nemotron_h_omni": "nemotron_h",
    "qianfan_ocr": "qwen3",
    "minicpm_ocr": "qwen3_5_text",
    "minicpmv4_6": "qwen3_5_text",
    "minicpmv4_7": "qwen3_5_text",
    "granite_speech_plus": "granite",
    "t5gemma": "t5_gemma_module",
    "t5gemma2": "t5gemma2_decoder",
}

# A flat config of such a type is the text model itself.
_FLAT = {
    "llava": "llama",
    "llava_llama": "llama",
    "llava_mistral": "mistral",
    "llava_qwen": "qwen2",
}


# Encoder-decoders with a config for each half; the decoder's is the one that keeps a cache.
_HALVES = {"t5gemma": "decoder", "t5gemma2": "decoder"}


def text_path(data: Mapping[str, Any]) -> Path:
    """Where the text model's config stands: nested objects are followed, at most three deep."""
    half = _HALVES.get(str(data.get("model_type")))
    if half is not None and isinstance(data.get(half), Mapping):
        return (half,)
    path: Path = ()
    for _ in range(3):
        key = next((k for k in TEXT_KEYS if isinstance(data.get(k), Mapping) and data[k]), None)
        if key is None:
            break
        data = data[key]
        path = (*path, key)
    return path


def text_type(data: Mapping[str, Any], path: Path) -> str | None:
    """The model type of the text model whose config stands at `path`."""
    outer: Any = data.get("model_type")
    inner: Any = data
    for key in path:
        outer = inner.get("model_type") if isinstance(inner.get("model_type"), str) else outer
        inner = inner[key]
    own = inner.get("model_type")
    if not isinstance(own, str) or not own:
        own = None
    if not path:
        return _FLAT.get(own, own) if own else None
    return own or (TEXT_TYPES.get(outer) if isinstance(outer, str) else None)
