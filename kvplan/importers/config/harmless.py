"""Keys that have no say in what the cache holds, although their names may sound like it.

Collected from the configuration classes of transformers 5.24.0 and from published files: training,
tokens, activations, norms, experts, rotary angles, vision and audio towers, generation settings.
"""

from __future__ import annotations

import re

# Any key with one of these, unless it also speaks of the cache (hints.py): parts of the model that
# keep nothing, tokens, generation, arithmetic, formats, training.
HARMLESS_WORDS = re.compile(
    "token_id|token_index|_token$|dropout|drop_rate|_drop$|_pdrop|initializ|init_std|expert|moe|router"
    "|routing|routed|anyres|resolution|_tiles$|(?:^|_)(?:rope|rotary|yarn|sampling)|mlp|ffn|ff_dim"
    "|ff_factor|ff_mult|intermediate|generation|penalty|^eos_|^bos_|^pad_|^sep_|^unk_|^cls_|mask_time"
    "|mask_feature|^bad_words|suppress|beam|ngram_size|num_return|forced_|lm_head|classif|^num_labels"
    "|problem_type|label|id2|tokenizer|transformers|torch"
    "|_init|init_|norm|bias|pool_type|act_fn|(?:^|hidden_|mlp_|ffn_)activation|hidden_act|gelu|swiglu"
    "|silu|projection|mscale|softcap|multipliers?$|loss|coef|quantiz|gradient|logit|pretrain"
    "|^tied?_(?:word|emb|weight|encoder|last)|^mup_|altup|laurel|alibi|dtype|fp16|bf16|fp32|engram_"
    "|scale_|_scale|scaling|residual|^hc_|^mhc|output_gate|prefix_lm|(?:^|_)eps$|epsilon"
)

# Keys of the parts that see and hear, and of those that speak.
TOWER_WORDS = re.compile(
    "(?:^|_)(?:vision|visual|image|img|pixel|video|audio|speech|acoustic|semantic|mel|mm|multimodal"
    "|patch|timestamp|thumbnail|projector|resampler)|^vq_|^vit_|^clip(?!_qkv)|^talker|^code2wav"
)

# Where a word of the cache means something else: taken out of a key before it is judged.
HARMLESS_PHRASES = re.compile(
    "shared?_(?:experts?|moe|mlp|intermediate)|local_experts|moe_latent_size|rope_local_base_freq"
    "|(?:moe|expert|mlp)_layer_(?:freq|period|interval|offset|types|start_index|end_index)"
    "|hc_sinkhorn|max_tiles$|tokenizer|classif|anyres_pooling|^pool_type$|torch_dtype"
    "|(?:attn|attention)_(?:[a-z]+_)?(?:dropout|pdrop|prob|bias|eps|norm|multiplier|softmax_in_fp32)"
    "|attn_output_gate|attn_weights|logit_softcapping|(?:rms|layer)_?norm"
)

# Ways to compute attention, by key: the same cache. Any other word may be another attention.
_KERNELS = """
    auto eager sdpa torch triton flash flash_attn flash_attention_2 flash_attention_3
    flex_attention dynamic static
"""
FORMS = dict.fromkeys(
    ("attn_impl", "attn_implementation", "_attn_implementation", "cache_implementation"),
    frozenset(_KERNELS.split()),
)

# No matter in the families that were read, but not known to be none elsewhere.
_IF_KNOWN = """
    context_window_size prefill_chunk_size downsample_factor num_decoder_layers use_mtp
    mtp_transformer_layers mtp_share_layers mtp_hybrid_override_pattern num_hash_layers
    activation_sparsity_pattern dense_list cross_attention_hidden_size
"""
HARMLESS_IF_KNOWN = frozenset(_IF_KNOWN.split())

_KEYS = """
    summary_activation summary_proj_to_labels summary_type summary_use_proj ignore_index
    spatial_merge_size global_view_pos tile_tag tile_size _name_or_path architectures auto_map
    model_type name name_or_path revision use_cache verbose transformers_version torch_dtype
    license tags _attn_implementation_autoset attn_clip use_flash_attn use_flash_attention
    use_flash_attention_2 flash_attn flash_rotary use_sdpa fused_dense fused_attention
    attention_multiplier attention_probs_dropout_prob chunk_size_feed_forward
    query_pre_attn_scalar attention_softmax_in_fp32 reorder_and_upcast_attn
    apply_query_key_layer_scaling use_logn_attn use_dynamic_ntk use_attn_logn use_qk_norm qk_ln
    qk_layernorm attn_uses_sequence_id softmax_scale clip_qkv hidden_size_per_layer_input
    vocab_size_per_layer_input first_k_dense_replace first_last_layers_pooling num_hidden_layers
    num_layers n_layer n_layers num_attention_heads n_head n_heads num_heads num_key_value_heads
    num_kv_heads hidden_size n_embd d_model vocab_size padded_vocab_size max_position_embeddings
    n_positions n_ctx seq_length max_length min_length model_max_length
    original_max_position_embeddings position_embedding_type position_embedding_xdrope
    pos_emb_type use_position_embedding position_biased_input max_relative_positions
    type_vocab_size parallel_attn use_parallel_residual num_ln_in_parallel_attn
    use_bidirectional_attention is_causal tensor_parallel_size ep_size pipeline_parallel_size
    sequence_parallel sequence_parallel_enabled keys_to_ignore_at_inference output_attentions
    output_hidden_states is_decoder decoder_sparse_step layer_scale num_dense_layers
    block_auto_adjust_ff_dim block_dim block_ff_dim block_ffn_dim_multiplier block_mlp_init_scale
    block_multiple_of block_norm_eps block_out_init_scale block_use_swiglu block_use_xavier_init
    num_img_tokens embd_layer embedding_fraction init_config ffn_config hidden_layers_dropout
    decoder_start_token_id layerdrop decoder_layerdrop encoder_layerdrop classifier_proj_size
    feed_forward_proj use_pos_enc initial_context_length mtp_loss_scaling_factor
    mtp_use_dedicated_embeddings num_mtp_modules num_nextn_predict_layers mtp_num_hidden_layers
    _num_mtp_layers pad_sequence_to_multiple_of_64 layer_norm_elementwise_affine skip_bias_add
    word_embed_proj_dim embedding_size embed_dim token_type_ids image_token_pooling max_batch_size
    max_sequence_length scale_emb dim_model_base scale_depth num_logits_to_keep attention_bias
    attention_dropout attention_in_multiplier attention_out_multiplier attention_out_bias
    attn_logit_softcapping attn_bias attn_scale attn_temperature_tuning floor_scale attn_factor
    attention_factor attention_scaling attention_scale no_rope_layers no_rope_layer_interval
    nope_layer_interval layer_rope_theta use_nope key_multiplier num_reward_heads
    layernorm_full_attention_alpha layernorm_linear_attention_alpha layernorm_full_attention_beta
    layernorm_linear_attention_beta return_dict return_dict_in_generate _from_model_config prefix
    predict_special_tokens masked_softmax_fusion scoring_func n_group topk_group topk_method
    seq_aux mask_value torchscript do_sample early_stopping temperature top_k top_p typical_p
    num_beams num_beam_groups max_new_tokens output_scores remove_invalid_values finetuning_task
    task_specific_params exponential_decay_length_penalty _commit_hash for_llm_compressor rm_head
    gating gating_types description version author homepage library_name pipeline_tag
    share_encoder_decoder_embeddings use_embedding_sharing share_embedding encoder_sparse_step
    boi_token_index eoi_token_index downsample_mode downsample_ratio
    summary_first_dropout attn_pdrop head_layers beta_fast beta_slow
"""
HARMLESS_KEYS = frozenset(_KEYS.split())
