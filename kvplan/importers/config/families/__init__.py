"""Families with a layout of their own: model type -> the function that reads it.

A new family is one short function `(Facts) -> Layout` in one of the modules here, with the model
types it reads in the decorator. Types that only need the plain layout stand in `PLAIN`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import FAMILIES
from kvplan.importers.config.layout import Layout
from kvplan.importers.config.plain import plain

_ROOMS = "windows gemma heads per_layer latent linear mamba nemotron zamba recurrent encoders"

# Model types whose layers all attend with K and V per KV head, whole or through one window.
_PLAIN_TYPES = """
    apertus apertus1p5_text aquila arcee arctic aria_text aya baichuan bailing_moe bailing_moe_v2
    biogpt bitnet bloom chameleon codegen codeshell cogvlm cohere csm ctrl deepseek
    deepseek_ocr2_text diffllama dots1 emu3_text_model ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text
    exaone flex_olmo gemma glm glm4 glm4_moe glm4v_moe_text glm4v_text glm_ocr_text gpt2 gpt_neox
    gpt_neox_japanese gptj granite granite_docling_text granitemoe granitemoeshared grok-1 helium
    hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text hy_v3 hyperclovax internlm internlm2 internlm3
    iquestcoder jais jais2 llama mimo minicpm ministral ministral3 mistral mixtral
    molmo2_text moshi nanochat nemotron olmo olmo2 olmoe openai-gpt opt orion paddleocr_vl_text
    persimmon phi phi-msft phimoe qwen qwen2 qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text
    qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_moe qwen3_omni_moe_text qwen3_vl_moe_text
    qwen3_vl_text sarvam_moe seed_oss skywork smollm3 solar solar_open stablelm stablelm_epoch
    starcoder2 voxtral_realtime_text xglm xverse yi
"""
PLAIN = frozenset(_PLAIN_TYPES.split())


def reader(model_type: str | None) -> Callable[[Facts], Layout] | None:
    """The function that reads a model type, None for a type that is not known."""
    if model_type is None:
        return None
    if model_type in PLAIN:
        return plain
    _open_rooms()
    return FAMILIES.get(model_type)


@cache
def _open_rooms() -> None:
    """Let every family sign in; a plain type needs none of them."""
    for name in _ROOMS.split():
        import_module(f"{__name__}.{name}")
