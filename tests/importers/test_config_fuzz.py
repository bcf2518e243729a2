"""Mutated configs: a valid spec or a refusal, never a traceback, never a silent zero."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.errors import ImportRefused, InputError
from kvplan.importers.config import import_config, import_config_text
from kvplan.spec.states import SharedCache
from tests.importers.config_cases import llama

MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
MAMBA = {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128,
         "mamba_d_conv": 4, "mamba_expand": 2}  # fmt: skip
DELTA = {"linear_conv_kernel_dim": 4, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
         "linear_num_value_heads": 32, "linear_value_head_dim": 128}  # fmt: skip

SEEDS: list[dict[str, Any]] = [
    llama(),
    llama(model_type="gemma2", sliding_window=4096),
    {"model_type": "gemma3", "text_config": llama(model_type="gemma3_text")},
    llama(model_type="gemma4_text", num_kv_shared_layers=4, global_head_dim=512),
    llama(model_type="llama4_text", no_rope_layers=[1, 0] * 16),
    llama(model_type="laguna", num_attention_heads_per_layer=[32] * 32, sliding_window=512),
    llama(model_type="deepseek_v3", num_nextn_predict_layers=1, **MLA),
    llama(model_type="glm_moe_dsa", index_head_dim=128, indexer_types=["full"] * 32, **MLA),
    llama(model_type="deepseek_v4", num_key_value_heads=1, head_dim=512, sliding_window=128,
          index_head_dim=128, compress_ratios=[0, 4, 128, 4] * 8),
    llama(model_type="qwen3_next", full_attention_interval=4, **DELTA),
    llama(model_type="kimi_linear", linear_attn_config={
        "full_attn_layers": [32], "kda_layers": list(range(1, 32)), "num_heads": 32,
        "head_dim": 128, "short_conv_kernel_size": 4}, **MLA),
    llama(model_type="nemotron_h", num_hidden_layers=4, hybrid_override_pattern="ME*-",
          mamba_num_heads=64, mamba_head_dim=64, ssm_state_size=128),
    llama(model_type="falcon_h1", mamba_d_ssm=8192, **MAMBA),
    llama(model_type="jamba", mamba_d_state=16, mamba_d_conv=4, mamba_expand=2),
    llama(model_type="zamba2", num_hidden_layers=54, mamba_d_state=64, mamba_expand=2,
          n_mamba_heads=128, mamba_headdim=64),
    llama(model_type="nemotron-nas", block_configs=[{"attention": {"n_heads_in_group": 8}}] * 32),
    llama(model_type="mllama_text_model", cross_attention_layers=[3, 8]),
    llama(model_type="whisper", decoder_layers=4, decoder_attention_heads=20, d_model=1280,
          hidden_size=1280, max_source_positions=1500),
    llama(model_type="gpt_neo", attention_types=[[["global", "local"], 16]], window_size=256),
    llama(model_type="zephyrine"),
    {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "sliding_window": 4096},
]  # fmt: skip

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70),
    st.sampled_from([2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan")]),
    st.text(max_size=8),
    st.sampled_from(["full_attention", "sliding_attention", "M*E-", "LLLG", "float16", "auto"]),
    st.lists(st.one_of(st.integers(-1, 40), st.none(), st.text(max_size=3)), max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path below the root."""
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    found = []
    for key, value in items:
        found += [(*path, key), *places(value, (*path, key))]
    return found


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A config with one to four values replaced, taken out, or renamed."""
    config = deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        found = places(config)
        if not found:
            break
        *parents, last = draw(st.sampled_from(found))
        parent: Any = config
        for key in parents:
            parent = parent[key]
        what = draw(st.sampled_from(["replace", "replace", "remove", "rename"]))
        if what == "replace":
            parent[last] = draw(ODD)
        elif what == "remove":
            del parent[last]
        elif isinstance(parent, dict):
            parent[
                draw(st.sampled_from(["kv_window", "n_layer", "text_config", "layer_types"]))
            ] = parent.pop(last)
    return config


def check(config: dict[str, Any]) -> None:
    """Import it: a refusal with a message, or a spec whose every layer is accounted for."""
    try:
        found = import_config(config)
    except InputError as refused:
        assert refused.message
        return
    spec = found.spec
    assert spec.layers
    assert all(name in spec.kinds for name in spec.layers)
    nothing = {"mlp", "encoder"}
    for name, states in spec.kinds.items():
        assert states or name in nothing
        assert not any(isinstance(state, SharedCache) for state in states) or name.startswith(
            "shared"
        )
    assert set(spec.layers) - {"mlp"}, "no layer at all keeps anything"


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_configs(config: dict[str, Any]) -> None:
    """Whatever is broken in a config, the answer is a spec or a refusal."""
    check(config)


@settings(max_examples=300, deadline=None)
@given(config=mutated(), cut=st.integers(0, 2000), junk=st.text(max_size=4))
def test_mutated_text(config: dict[str, Any], cut: int, junk: str) -> None:
    """Truncated and spliced text is refused as such, or still a config."""
    text = json.dumps(config)
    try:
        import_config_text(text[:cut] + junk + text[cut:], "config.json")
    except ImportRefused as refused:
        assert (refused.where or "").startswith("config.json")
    except InputError:
        raise AssertionError("a refusal that names no place") from None


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:0129.eE+-truefalsn \\u', max_size=60))
def test_any_text(text: str) -> None:
    """Text that only looks like JSON never escapes as anything but a refusal."""
    try:
        import_config_text(text, "config.json")
    except ImportRefused as refused:
        assert (refused.where or "").startswith("config.json")
