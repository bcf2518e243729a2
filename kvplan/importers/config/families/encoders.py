"""Encoder-decoders, decoders with cross-attention layers, and encoders, which keep nothing.

Sources: transformers 5.24.0 configuration_*.py.
"""

from __future__ import annotations

from kvplan.importers.config.facts import Facts
from kvplan.importers.config.families.registry import family
from kvplan.importers.config.layout import Layout, compact, full, head_dim, layer_count
from kvplan.importers.config.plain import periodic
from kvplan.spec.states import CrossAttention, FullAttention, State


def both(facts: Facts, layers: int, heads: int, dim: int, tokens: int | None) -> Layout:
    """A decoder whose every layer attends to itself and to the encoder."""
    return Layout(
        kinds={
            "attention": (
                FullAttention(kv_heads=heads, head_dim=dim),
                CrossAttention(kv_heads=heads, head_dim=dim),
            )
        },
        layers=("attention",) * layers,
        encoder_tokens=tokens,
        heads=heads,
    )


def nothing(layers: int) -> Layout:
    """Layers that keep nothing."""
    return Layout(kinds={"encoder": ()}, layers=("encoder",) * layers)


@family("whisper")
def whisper(facts: Facts) -> Layout:
    """Whisper: decoder_layers counts, num_hidden_layers is the encoder's; its output is fixed."""
    facts.ignore(
        "num_hidden_layers", "encoder_layers", "encoder_attention_heads", "is_encoder_decoder"
    )
    if facts.model_type == "speech_to_text":  # what samples the sound down, before the encoder
        facts.ignore("conv_channels", "conv_kernel_sizes", "num_conv_layers")
    layers = layer_count(facts, "decoder_layers")
    heads = facts.count("heads", "decoder_attention_heads")
    tokens = facts.count("encoder_tokens", "max_source_positions")
    return both(facts, layers, heads, head_dim(facts, heads, "head_dim"), tokens)


@family(
    "bart", "mbart", "marian", "pegasus", "blenderbot", "blenderbot-small", "m2m_100", "nllb-moe"
)
@family("plbart", "mvp", "speech_to_text")
def bart(facts: Facts) -> Layout:
    """BART and its relatives: the encoder is as long as its input."""
    facts.ignore(
        "num_hidden_layers", "encoder_layers", "encoder_attention_heads", "is_encoder_decoder"
    )
    if facts.model_type == "speech_to_text":  # what samples the sound down, before the encoder
        facts.ignore("conv_channels", "conv_kernel_sizes", "num_conv_layers")
    layers = layer_count(facts, "decoder_layers")
    heads = facts.count("heads", "decoder_attention_heads")
    return both(facts, layers, heads, head_dim(facts, heads, "head_dim"), None)


@family("t5", "mt5", "umt5", "longt5", "switch_transformers", "byt5")
def t5(facts: Facts) -> Layout:
    """T5: d_kv is a dimension of its own; num_layers is the encoder's."""
    key = "num_decoder_layers" if facts.has("num_decoder_layers") else "num_layers"
    facts.ignore("num_layers", "is_encoder_decoder", "relative_attention_num_buckets")
    facts.ignore("num_sparse_encoder_layers", "num_sparse_decoder_layers", "local_radius")
    facts.ignore("global_block_size", "encoder_attention_type", "relative_attention_max_distance")
    layers = layer_count(facts, key)
    heads = facts.count("heads", "num_heads")
    return both(facts, layers, heads, facts.count("head_dim", "d_kv"), None)


@family("t5_gemma_module", "t5gemma2_decoder")
def t5gemma(facts: Facts) -> Layout:
    """T5Gemma: a Gemma decoder whose every layer also attends to the encoder."""
    layout = periodic(facts)
    state = full(facts)
    cross = CrossAttention(kv_heads=state.kv_heads, head_dim=state.head_dim)
    kinds = {name: (*states, cross) for name, states in layout.kinds.items()}
    return Layout(kinds=kinds, layers=layout.layers)


@family("mllama_text_model")
def mllama(facts: Facts) -> Layout:
    """Llama 3.2 Vision: some layers attend to the image alone; they keep its tokens."""
    layers = layer_count(facts)
    chosen = facts.wholes("cross_attention_layers")
    if chosen is None or not all(index < layers for index in chosen):
        facts.refuse(
            "cross_attention_layers does not say which layers attend to the image",
            key="cross_attention_layers",
        )
    state = full(facts)
    names = tuple("cross" if index in set(chosen) else "full" for index in range(layers))
    facts.note(
        "layers by kind", f"{len(set(chosen))} cross", facts.origin("cross_attention_layers")
    )
    kinds: dict[str, tuple[State, ...]] = {
        "full": (state,),
        "cross": (CrossAttention(kv_heads=state.kv_heads, head_dim=state.head_dim),),
    }
    return Layout(kinds=compact(kinds, names), layers=names, encoder_tokens=_image_tokens(facts))


def _image_tokens(facts: Facts) -> int | None:
    """Tiles x (patches + 1) of the vision tower (Llama 3.2 Vision: 4 x 1601)."""
    vision = facts.source.data.get("vision_config")
    if not isinstance(vision, dict):
        return None
    image, patch, tiles = (vision.get(key) for key in ("image_size", "patch_size", "max_num_tiles"))
    if not all(isinstance(value, int) and value > 0 for value in (image, patch, tiles)):
        return None
    assert isinstance(image, int)
    assert isinstance(patch, int)
    assert isinstance(tiles, int)
    tokens = tiles * ((image // patch) ** 2 + 1)
    return int(
        facts.derive(
            "encoder_tokens", tokens, f"{tiles} tiles x (({image} / {patch})^2 + 1) tokens"
        )
    )


@family(
    "bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta", "deberta-v2"
)
@family("modernbert", "nomic_bert", "mpnet", "camembert", "gte", "new", "xlm-roberta-xl", "ernie")
@family(
    "eurobert", "jina_embeddings_v3", "splinter", "roformer", "data2vec-text", "xmod", "markuplm"
)
@family("dpr", "luke", "layoutlm", "layoutlmv3", "convbert", "rembert", "ibert", "mobilebert")
@family(
    "squeezebert",
    "megatron-bert",
    "big_bird",
    "longformer",
    "esm",
    "funnel",
    "openai_privacy_filter",
)
def encoder(facts: Facts) -> Layout:
    """An encoder reads everything at once and keeps nothing."""
    if facts.flag("is_decoder"):
        facts.refuse(
            "is_decoder is true: an encoder used as a decoder is not known here", key="is_decoder"
        )
    layers = layer_count(facts, "num_hidden_layers", "n_layers")
    facts.optional("heads")
    facts.ignore(*facts.data)
    return nothing(layers)
