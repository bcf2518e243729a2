"""Facts about model families that vLLM keeps in its model classes, in one table.

A family is recognised by the class name of its config (`architecture`) or by the text model's
`model_type`; nothing here names a single checkpoint. A family that is not listed has the defaults.
Source: vllm 0.33.0, model_executor/models/*, models/*, model_executor/models/config.py and
transformers_utils/model_arch_config_convertor.py; the part is named behind each entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kvplan.engines.vllm.facts.classes import class_named
from kvplan.spec.model import ModelSpec
from kvplan.spec.recurrent import RecurrentState, Rwkv
from kvplan.spec.states import CrossAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What vLLM's class for a family adds to the spec.

    Attributes:
        sinks: attention sinks, which not every backend can serve.
        image_prefix: image tokens see each other in both directions (mm-prefix attention).
        attention_first: attention layers are built before the state layers.
        latent: latent states stay compressed (MLA); otherwise they are stored as heads.
        packed_latent: DeepSeek V4's packed rows, whatever --kv-cache-dtype asks.
        replicates_heads: KV heads are copied when there are more ranks than heads.
        float32_states_only: the state kernel takes no other format.
        state_dtype: format of the recurrent matrix when neither a flag nor the config says.
        reads_state_dtype: the config's format of the recurrent matrix counts.
        prefill_backend: kernel family that may checkpoint states inside a prefill.
        sm100_cache_dtype: what --kv-cache-dtype auto becomes on SM10x.
        bfloat16_is_auto: --kv-cache-dtype bfloat16 is read as auto.
        widest_layer: layers differ in shape, and vLLM's configuration states the largest.
        drafts: kind of the one MTP layer that comes without a word in the config.
        slides_over_context: a window that the config names but switches off is read anyway; it is
            as long as the context.
        native_cache_only: the class does not hand --kv-cache-dtype to its attention.
        heads_free: no attention heads to divide among ranks.
        encoder_only: embeds whole inputs at once and keeps no cache.
        has_stages: the class can be split into pipeline stages.
        missing: neither vLLM nor the library it falls back to has a class of this name.
        pooling: embeds, ranks or rewards instead of writing text.
        multimodal: takes images, video or sound too.
        alibi: positions are biases of the attention (ALiBi).
        largest_item: tokens of the largest image or video, where the model sees it whole.
        chunk_size: tokens of a chunk of the state's kernel, 2,048 for kernels without chunks.
    """

    sinks: bool = False
    image_prefix: bool = False
    attention_first: bool = False
    latent: bool = True
    packed_latent: bool = False
    replicates_heads: bool = True
    float32_states_only: bool = False
    state_dtype: str | None = None
    reads_state_dtype: bool = False
    prefill_backend: str | None = None
    sm100_cache_dtype: str | None = None
    bfloat16_is_auto: bool = False
    widest_layer: bool = False
    drafts: str | None = None
    slides_over_context: bool = False
    native_cache_only: bool = False
    heads_free: bool = False
    encoder_only: bool = False
    has_stages: bool = True
    missing: bool = False
    chunk_size: int = 2048
    pooling: bool = False
    alibi: bool = False
    largest_item: int = 0
    multimodal: bool = False


_PLAIN = Family()

_BY_TYPE: dict[str, Family] = {
    # model_arch_config_convertor.py is_deepseek_mla lists who keeps a latent; classes that vLLM has
    # only through the Transformers backend keep it too, so the exceptions are the shorter list.
    "minicpm3": Family(latent=False),
    "deepseek_v32": Family(bfloat16_is_auto=True),  # models/config.py
    "deepseek_v4": Family(packed_latent=True),  # models/deepseek_v4
    "deepseek_ref": Family(packed_latent=True),  # the same, under its authors' name
    "glm_moe_dsa": Family(sm100_cache_dtype="fp8_e4m3"),
    "glm5_next": Family(sm100_cache_dtype="fp8"),
    "glm5_next_text": Family(sm100_cache_dtype="fp8"),
    # gdn/kimi_gdn_linear_attn.py: the shared layer asserts float32 states.
    "kimi_linear": Family(float32_states_only=True),
    "longcat_flash": Family(drafts="latent"),  # models/longcat_flash_mtp.py
    # models/config.py Gemma4Config; from_layers takes the largest head.
    **dict.fromkeys(("gemma4", "gemma4_text", "gemma4_unified_text"), Family(widest_layer=True)),
    **dict.fromkeys(("bloom", "mpt", "jais"), Family(alibi=True)),
    # engine/arg_utils.py: the config's sliding_window, whatever its remote class would do with it.
    "mimo": Family(slides_over_context=True),
    "phi3_v": Family(slides_over_context=True),
    "phi4": Family(slides_over_context=True),
    "gpt_oss": Family(sinks=True, replicates_heads=False),  # models/gpt_oss.py
    "mimo_v2": Family(sinks=True),
    "mimo_v2_flash": Family(sinks=True),
    "nemotron_h": Family(
        state_dtype="float32", reads_state_dtype=True, chunk_size=128
    ),  # models/config.py NemotronHForCausalLMConfig
    "qwen3_next": Family(
        prefill_backend="flashinfer", drafts="full"
    ),  # gdn/qwen_gdn_linear_attn.py
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"),
        Family(prefill_backend="flashinfer", reads_state_dtype=True),  # models/config.py
    ),
    # models/zamba2.py builds shared attention first
    "zamba2": Family(attention_first=True, chunk_size=256),
    "falcon_h1": Family(attention_first=True, chunk_size=256),
    **dict.fromkeys(("granitemoehybrid", "bamba"), Family(chunk_size=256)),  # mamba_chunk_size
    # models/falcon.py builds its attention without the cache options.
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), Family(native_cache_only=True)),
    "mamba": Family(heads_free=True),
    "mamba2": Family(heads_free=True, chunk_size=256),
    "falcon_mamba": Family(heads_free=True),
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "nomic_bert", "modernbert", "new", "gte"),
        Family(encoder_only=True),
    ),
}

# Classes whose name decides more than the text model's type does.
_BY_CLASS = {
    # models/kimi_k3/nvidia/kda.py; its text model calls itself kimi_linear.
    "KimiK3ForConditionalGeneration": Family(prefill_backend="flashkda"),
}
_IMAGE_PREFIX = (  # model_arch_config_convertor.py MM_PREFIX_LM_MODELS
    "Gemma3ForConditionalGeneration",
    "PaliGemmaForConditionalGeneration",
    "Molmo2ForConditionalGeneration",
    "BagelForConditionalGeneration",
    "HfMoondream",
    "Moondream3ForCausalLM",
)
# Names that checkpoints carry and that nobody's registry has.
_MISSING = frozenset((
    "LlavaLlamaForCausalLM", "MiniMaxM3ForCausalLM", "Step3p7FlashForCausalLM",
))  # fmt: skip
_WITH_ENCODER = frozenset((  # the only classes with cross attention to an encoder
    "WhisperForConditionalGeneration", "CohereAsrForConditionalGeneration",
    "NemotronParseForConditionalGeneration", "RadioMBartPrefixForCausalLM",
))  # fmt: skip
_ONE_STAGE = frozenset((  # model_executor/models/*: no SupportsPP among the bases
    "AliceAIForCausalLM", "DomynEdgeForCausalLM", "DoryForCausalLM", "Gemma3nForCausalLM",
    "HrmTextForCausalLM", "IQuestLoopCoderForCausalLM", "Mamba2ForCausalLM", "Zamba2ForCausalLM",
    "BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification",
    "BgeM3EmbeddingModel", "EmbeddingGemma2Model", "Gemma3TextModel", "GteModel", "GteNewModel",
    "GteNewForSequenceClassification", "GPT2ForSequenceClassification", "Lfm2BidirectionalModel",
    "LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification", "ModernBertModel",
    "ModernBertForSequenceClassification", "ModernBertForTokenClassification", "NomicBertModel",
    "RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification",
    "RobertaForTokenClassification", "VoyageQwen3BidirectionalEmbedModel", "XLMRobertaModel",
    "XLMRobertaForSequenceClassification", "XLMRobertaForTokenClassification", "CLIPModel",
    "SiglipModel", "AriaForConditionalGeneration", "CohereAsrForConditionalGeneration",
    "DiffusionGemmaForBlockDiffusion", "Gemma3nForConditionalGeneration",
    "Idefics3ForConditionalGeneration", "NemotronH_Nano_VL_V2", "NemotronH_Omni_Reasoning_V3",
    "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3",
    "NemotronParseForConditionalGeneration", "PaddleOCRVLForConditionalGeneration",
    "Phi4MMForCausalLM", "SmolVLMForConditionalGeneration", "WhisperForConditionalGeneration",
))  # fmt: skip

# How classes that write no text end, and classes with images whose names do not say so.
_POOLING = ("Model", "ForSequenceClassification", "ForRewardModel", "ForTokenClassification",
            "ForMaskedLM", "ForProcessRewardModel", "ForRetrieval")  # fmt: skip
_MULTIMODAL = frozenset((
    "AyaVisionForConditionalGeneration", "ChatGLMModel", "FuyuForCausalLM", "GLM4VForCausalLM",
    "H2OVLChatModel", "InternVLChatModel", "MiniCPMO", "MiniCPMV", "MolmoForCausalLM",
    "MultiModalityCausalLM", "NVLM_D", "Ovis", "Phi3VForCausalLM", "Phi4MMForCausalLM",
    "QwenVLForConditionalGeneration", "SkyworkR1VChatModel", "KimiVLForConditionalGeneration",
))  # fmt: skip


def _has_no_class(spec: ModelSpec) -> bool:
    """An encoder-decoder, or a state, that no class of vLLM serves."""
    name = spec.architecture
    if name is None or class_named(name) is not None:
        return False
    return any(isinstance(state, (CrossAttention, Rwkv)) for state in spec.states())


# Classes that the V2 runner served first; beside them all dense models without states.
_RUNNER_V2 = frozenset((  # 0.28.0, config/vllm.py
    "DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM",
    "InklingForConditionalGeneration", "KimiK3ForConditionalGeneration",
    "LongcatFlashNgramForCausalLM", "Qwen2MoeForCausalLM",
))  # fmt: skip


def has_runner_v2(spec: ModelSpec, family: Family) -> bool:
    """Whether releases 0.26 to 0.28 serve a model with the V2 runner by default."""
    if spec.architecture in _RUNNER_V2:
        return True
    states = any(isinstance(state, RecurrentState) for state in spec.states())
    return not (states or family.pooling or is_mixture(spec))


def is_mixture(spec: ModelSpec) -> bool:
    """Whether a model is a mixture of experts."""
    if spec.active_parameters is not None:
        return True
    named = " ".join((spec.name, *spec.hf_ids))
    if re.search(r"(?i)-a\d+(?:\.\d+)?b\b", named) is not None:
        return True
    return re.search(_MIXTURE, spec.architecture or "") is not None


# Classes that are mixtures whatever their config says.
_MIXTURE = (
    r"(?i)moe|mixtral|gptoss|llama4|deepseekv[234]|dbrx|jamba|longcat|kimi|minimax|glm5|arctic"
    r"|grok|bailing|dots1|hunyuan_?v1_?moe|step3|ernie4_5_(?:moe|vl)|qwen3next|flexolmo|lfm2moe"
)


def family_of(spec: ModelSpec) -> Family:
    """The family a spec belongs to."""
    family = _BY_CLASS.get(spec.architecture or "") or _BY_TYPE.get(spec.model_type or "", _PLAIN)
    if spec.architecture in _IMAGE_PREFIX or spec.image_attention == "bidirectional":
        family = replace(family, image_prefix=True)
    if spec.architecture in _MISSING or _has_no_class(spec):
        family = replace(family, missing=True)
    name = spec.architecture or ""
    if name.endswith(_POOLING):
        family = replace(family, pooling=True)
    if name.endswith("ForConditionalGeneration") or name in _MULTIMODAL:
        family = replace(family, multimodal=True)
    if name.startswith("Gemma4") and family.multimodal:
        family = replace(family, largest_item=2496)  # 32 frames of 78 tokens
    if spec.architecture in _ONE_STAGE:
        family = replace(family, has_stages=False)
    return family
