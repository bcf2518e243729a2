"""Specs as a person writes them: what they mean, and where exactly they are wrong."""

from __future__ import annotations

from time import perf_counter

import pytest

from kvplan.documents.from_yaml import read_yaml
from kvplan.errors import SpecError
from kvplan.spec.reader import read_spec
from kvplan.spec.states import FullAttention, Indexer, LatentAttention, SlidingAttention


def read(text: str):
    return read_spec(read_yaml(text, "m.yaml"))


def complaint(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        read(text)
    return caught.value


def test_a_plain_model_is_five_lines():
    """Every layer keeps the same: a number of layers and one state, full attention if not said."""
    spec = read("""\
name: plain-8b
max_context: 8192
dtype: bfloat16
layers: 32
attention: {kv_heads: 8, head_dim: 128}
""")

    assert spec.name == "plain-8b"
    assert spec.layers == ("attention",) * 32
    assert spec.kinds == {"attention": (FullAttention(kv_heads=8, head_dim=128),)}


def test_a_hybrid_names_its_kinds_and_lays_them_out():
    """Runs and patterns nest; `none` keeps nothing; draft layers stand apart."""
    spec = read("""\
name: hybrid
kinds:
  local: {kind: sliding, kv_heads: 4, head_dim: 64, window: 512}
  global: {kind: full, kv_heads: 4, head_dim: 64}
  experts: {kind: none}
layers:
  - {repeat: 2, of: [{repeat: 2, of: local}, global]}
  - experts
draft_layers: [global]
""")

    assert spec.layers == ("local", "local", "global") * 2 + ("experts",)
    assert spec.draft_layers == ("global",)
    assert spec.kinds["experts"] == ()
    assert spec.kinds["local"] == (SlidingAttention(kv_heads=4, head_dim=64, window=512),)


def test_a_layer_may_keep_several_states():
    """A list of states: a latent and the indexer beside it."""
    spec = read("""\
name: sparse
layers: 2
attention:
  - {kind: latent, kv_lora_rank: 512, qk_rope_head_dim: 64}
  - {kind: indexer, head_dim: 128}
""")

    assert spec.kinds["attention"] == (
        LatentAttention(kv_lora_rank=512, qk_rope_head_dim=64),
        Indexer(head_dim=128),
    )


def test_one_kind_needs_no_list():
    """A number of layers is enough when there is one kind to choose from."""
    spec = read("name: x\nlayers: 3\nkinds: {only: {kind: full, kv_heads: 1, head_dim: 8}}\n")

    assert spec.layers == ("only",) * 3


def test_a_shared_layer_reads_the_nearest_earlier_layer_of_a_kind():
    """Layers 2 and 3 read layer 1; layer 5 reads layer 4."""
    spec = read("""\
name: shared
kinds:
  own: {kind: full, kv_heads: 1, head_dim: 8}
  tied: {kind: shared, reads: own}
layers: [own, own, tied, tied, own, tied]
""")

    assert spec.shared_sources() == {2: 1, 3: 1, 5: 4}


def test_a_shared_layer_that_reads_a_shared_layer_reads_its_source():
    """Layer 2 reads layer 1, which reads layer 0."""
    spec = read("""\
name: shared
kinds:
  own: {kind: full, kv_heads: 1, head_dim: 8}
  first: {kind: shared, reads: own}
  second: {kind: shared, reads: 1}
layers: [own, first, second]
""")

    assert spec.shared_sources() == {1: 0, 2: 0}


def test_quoted_numbers_are_text():
    """A name may look like a number or a truth value when it is quoted."""
    spec = read("name: '8'\naliases: ['yes', \"007\"]\nlayers: 1\nattention: {kind: none}\n")

    assert spec.name == "8"
    assert spec.aliases == ("yes", "007")


HEAD = "name: x\n"
KINDS = """\
name: x
kinds:
  own: {kind: full, kv_heads: 2, head_dim: 8}
  rest: {kind: none}
"""

# text, where, message, hint (None: any)
WRONG = [
    # unknown keys
    (HEAD + "layer: 1\n", "2:1", "unknown key 'layer'", "did you mean 'layers'?"),
    (
        HEAD + "layers: 1\nattention: {kv_heads: 1, head_dm: 8}\n",
        "3:26",
        "unknown key 'head_dm'",
        "did you mean 'head_dim'?",
    ),
    (
        HEAD + "layers: 1\nattention: {kv_heads: 1, head_dim: 8, window: 5}\n",
        "3:39",
        "unknown key 'window'",
        None,
    ),
    (
        HEAD + "rope: {type: yarn, scale: 2}\nlayers: 1\nattention: {kind: none}\n",
        "2:20",
        "unknown key 'scale'",
        None,
    ),
    (KINDS + "layers:\n  - {repeat: 2, ov: own}\n", "6:17", "unknown key 'ov'", None),
    (
        KINDS + "layers: [own]\n".replace("own", "ownn"),
        "5:10",
        "layer kind 'ownn' is not defined",
        "did you mean 'own'?",
    ),
    # wrong types
    ("name: 8\nlayers: 1\nattention: {kind: none}\n", "1:7", "name is 8, it must be text", None),
    (
        HEAD + "max_context: 128k\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "max_context is '128k', it must be a whole number",
        None,
    ),
    (
        HEAD + "max_context: 8192.0\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "max_context is 8192.0, it must be a whole number",
        None,
    ),
    (
        HEAD + "max_context:\nlayers: 1\nattention: {kind: none}\n",
        "2:13",
        "max_context is nothing, it must be a whole number",
        None,
    ),
    (
        HEAD + "layers: 1\nattention: {kv_heads: true, head_dim: 8}\n",
        "3:23",
        "kv_heads is True, it must be a whole number",
        None,
    ),
    (
        HEAD + "hf_ids: a/b\nlayers: 1\nattention: {kind: none}\n",
        "2:9",
        "hf_ids is 'a/b', it must be a list of texts",
        None,
    ),
    (HEAD + "hf_ids: [a/b, 7]\n", "2:9", "hf_ids is ['a/b', 7], it must be a list of texts", None),
    (HEAD + "rope: yarn\nlayers: 1\n", "2:7", "expected a mapping, found 'yarn'", None),
    (HEAD + "layers: many\nattention: {kind: none}\n", "2:9", "layers is neither a number", None),
    (HEAD + "layers: 2.5\nattention: {kind: none}\n", "2:9", "layers is neither a number", None),
    (HEAD + "layers: true\nattention: {kind: none}\n", "2:9", "layers is neither a number", None),
    (HEAD + "layers: 1\nattention: 8\n", "3:12", "expected a mapping, found 8", None),
    (HEAD + "layers: 1\nattention: []\n", "3:12", "an empty list of states", None),
    (KINDS + "layers: [own, 3]\n", "5:15", "expected a mapping, found 3", None),
    ("- name: x\n", "1:1", "expected a mapping, found a list", None),
    ("just text\n", "1:1", "expected a mapping, found 'just text'", None),
    # missing
    ("layers: 1\nattention: {kind: none}\n", "1:1", "name is missing", None),
    (HEAD + "attention: {kind: none}\n", "1:1", "the spec has no layers", None),
    (HEAD + "layers: 1\n", "1:1", "either `attention` (all layers alike) or `kinds`", None),
    (
        KINDS + "attention: {kind: none}\nlayers: 1\n",
        "1:1",
        "either `attention` (all layers alike) or `kinds`",
        None,
    ),
    (
        HEAD + "layers: 1\nattention: {kv_heads: 1}\n",
        "3:12",
        "head_dim is missing",
        "write `head_dim:` (elements of one K vector)",
    ),
    (HEAD + "kinds: {a: {kv_heads: 1}}\nlayers: 1\n", "2:12", "the state has no kind", None),
    (KINDS + "layers:\n  - {of: own}\n", "6:5", "a run of layers is neither", None),
    (KINDS + "layers:\n  - {repeat: 2}\n", "6:14", "a run of layers is neither", None),
    # impossible values
    (
        HEAD + "layers: 1\nattention: {kind: ful, kv_heads: 1, head_dim: 8}\n",
        "3:19",
        "'ful' is not a kind of state",
        "did you mean 'full'?",
    ),
    (
        HEAD + "heads: 32\nlayers: 1\nattention: {kv_heads: 5, head_dim: 8}\n",
        "4:23",
        "kv_heads 5 does not divide heads 32",
        None,
    ),
    (
        HEAD + "heads: 32\nkinds:\n  a.b: {kind: full, kv_heads: 5, head_dim: 8}\nlayers: [a.b]\n",
        "4:31",
        "kv_heads 5 does not divide heads 32",
        None,
    ),
    (
        HEAD + "layers: 1\nattention: {kv_heads: 5, head_dim: 8, heads: 6}\n",
        "3:23",
        "kv_heads 5 does not divide heads 6",
        None,
    ),
    (
        HEAD + "layers: 1\nattention: {kv_heads: 0, head_dim: 8}\n",
        "3:23",
        "kv_heads is 0, it must be at least 1",
        None,
    ),
    (
        HEAD + "layers: 1\nattention: {kv_heads: 1, head_dim: -8}\n",
        "3:36",
        "head_dim is -8, it must be at least 1",
        None,
    ),
    (
        HEAD + "max_context: 0\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "max_context is 0, it must be at least 1",
        None,
    ),
    (
        HEAD + "max_context: 1125899906842625\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "it must be at most 2^50",
        None,
    ),
    (HEAD + "vocab_size: " + "9" * 5000 + "\n", "2:13", "is too large a number", None),
    (
        HEAD + "dtype: bf17\nlayers: 1\nattention: {kind: none}\n",
        "2:8",
        "dtype 'bf17' is not a known format",
        "did you mean bfloat16? one of float32, float16, bfloat16, ",
    ),
    (
        HEAD + "kinds:\n  a: {kind: none}\n  locl: {kind: none}\nlayers: [a]\n",
        "4:3",
        "no layer is of kind 'locl'",
        "list it under layers, or take it out",
    ),
    # what other files call it
    (
        HEAD + "max_context: 32k\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "max_context is '32k', it must be a whole number",
        "write 32768",
    ),
    (
        HEAD + "max_context: 4096.0\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "max_context is 4096.0, it must be a whole number",
        "write 4096",
    ),
    (
        HEAD + "max_context: long\nlayers: 1\nattention: {kind: none}\n",
        "2:14",
        "max_context is 'long', it must be a whole number",
        None,
    ),
    *(
        (
            HEAD + f"layers: 1\nattention: {{kind: {called}, kv_heads: 1, head_dim: 8}}\n",
            "3:19",
            f"'{called}' is not a kind of state",
            f"{called} is called {kind} here",
        )
        for called, kind in (
            ("mla", "latent"),
            ("gqa", "full"),
            ("MHA", "full"),
            ("mqa", "full"),
            ("swa", "sliding"),
            ("mamba", "mamba1 or mamba2"),
        )
    ),
    (
        "num_hidden_layers: 12\nhidden_size: 8\n",
        "1:1",
        "unknown key 'num_hidden_layers'",
        "it looks like a config.json: as a .json file `kvplan size` takes it, and `kvplan import`"
        " writes its spec; a spec says layers",
    ),
    (
        HEAD + "layers: 1\nattention: {kind: sliding, sliding_window: 8}\n",
        "3:28",
        "unknown key 'sliding_window'",
        "did you mean 'window'?",
    ),
    (
        HEAD + "unsupported_dtypes: {fp17: why}\nlayers: 1\nattention: {kind: none}\n",
        "2:21",
        "'fp17' is not a known format",
        "did you mean float16? one of",
    ),
    (
        HEAD + "rope: {type: yarn, factor: 0}\nlayers: 1\nattention: {kind: none}\n",
        "2:28",
        "factor is 0, it must be above 0 and at most 2^50",
        None,
    ),
    (
        HEAD + f"rope: {{type: yarn, factor: {2**63}}}\nlayers: 1\nattention: {{kind: none}}\n",
        "2:28",
        f"factor is {2**63}, it must be above 0 and at most 2^50",
        None,
    ),
    (
        HEAD + "rope: {type: yarn, factor: .nan}\nlayers: 1\nattention: {kind: none}\n",
        "2:28",
        "factor is nan",
        None,
    ),
    (
        HEAD + "rope: {type: yarn, factor: .inf}\nlayers: 1\nattention: {kind: none}\n",
        "2:28",
        "factor is inf",
        None,
    ),
    (
        HEAD + "rope: {type: yarn, original_max_context: 0}\nlayers: 1\nattention: {kind: none}\n",
        "2:42",
        "original_max_context is 0",
        None,
    ),
    ("name: ''\nlayers: 1\nattention: {kind: none}\n", "1:7", "'' is not a name", None),
    (
        'name: "\\e[2J"\nlayers: 1\nattention: {kind: none}\n',
        "1:7",
        r"'\x1b[2J' is not a name",
        None,
    ),
    (
        HEAD + 'kinds: {"\\e[31m": {kind: none}}\nlayers: 1\n',
        "2:8",
        r"'\x1b[31m' is not a name of a kind of layer",
        None,
    ),
    (
        HEAD + "kinds: {'': {kind: none}}\nlayers: 1\n",
        "2:8",
        "'' is not a name of a kind of layer",
        None,
    ),
    (HEAD + "layers: 0\nattention: {kind: none}\n", "2:9", "layers is 0, outside 1 .. 4,096", None),
    (HEAD + "layers: -3\nattention: {kind: none}\n", "2:9", "layers is -3, outside", None),
    (HEAD + "layers: 4097\nattention: {kind: none}\n", "2:9", "layers is 4097, outside", None),
    (KINDS + "layers: 2\n", "5:9", "2 layers of which kind? the spec defines 2", None),
    (KINDS + "layers: []\n", "5:9", "an empty list of layers", None),
    (KINDS + "layers: [own]\ndraft_layers: []\n", "6:15", "an empty list of layers", None),
    (KINDS + "layers:\n  - {repeat: 2, of: []}\n", "6:21", "an empty list of layers", None),
    (KINDS + "layers:\n  - {repeat: 0, of: own}\n", "6:14", "a run of layers is neither", None),
    (KINDS + "layers:\n  - {repeat: -1, of: own}\n", "6:14", "a run of layers is neither", None),
    (KINDS + "layers:\n  - {repeat: 5000, of: own}\n", "6:5", "more than 4,096 layers", None),
    (
        KINDS + "layers:\n  - {repeat: 4096, of: {repeat: 4096, of: own}}\n",
        "6:5",
        "more than 4,096 layers",
        None,
    ),
    (KINDS + f"layers: [{'own, ' * 4096}own]\n", "5:20490", "more than 4,096 layers", None),
    (
        HEAD + "layers: 1\nattention: [{kind: none}, {kv_heads: 1, head_dim: 8}]\n",
        "3:12",
        "`none` cannot stand beside other states",
        None,
    ),
    # shared layers
    (
        KINDS + "  tied: {kind: shared, reads: onw}\nlayers: [own, tied]\n",
        "5:31",
        "'onw' is not defined under kinds",
        None,
    ),
    (
        KINDS + "  tied: {kind: shared, reads: own}\nlayers: [tied, own]\n",
        "5:31",
        "layer 0 reads 'own', but no earlier layer is that",
        None,
    ),
    (
        KINDS + "  tied: {kind: shared, reads: 7}\nlayers: [own, tied]\n",
        "5:31",
        "layer 1 reads 7, but no earlier layer is that",
        None,
    ),
    (
        KINDS + "  tied: {kind: shared, reads: 1}\nlayers: [own, tied]\n",
        "5:31",
        "layer 1 reads 1, but no earlier layer is that",
        None,
    ),
    (
        KINDS + "  tied: {kind: shared, reads: rest}\nlayers: [own, rest, tied]\n",
        "5:31",
        "layer 2 reads layer 1, which keeps nothing",
        None,
    ),
    (
        KINDS + "  tied: {kind: shared, reads: -1}\nlayers: [own, tied]\n",
        "5:31",
        "reads is -1, layers are counted from 0",
        None,
    ),
    (
        KINDS
        + "  a: {kind: shared, reads: b}\n  b: {kind: shared, reads: a}\nlayers: [own, a, b]\n",
        "5:28",
        "shared layers read each other: a -> b -> a",
        None,
    ),
    (
        KINDS + "  a: {kind: shared, reads: a}\nlayers: [own, a]\n",
        "5:28",
        "shared layers read each other: a -> a",
        None,
    ),
]


@pytest.mark.parametrize(("text", "place", "message", "hint"), WRONG, ids=[w[2] for w in WRONG])
def test_an_error_says_what_is_wrong_and_where(text, place, message, hint):
    """file:line:column of the word or value that has to change."""
    error = complaint(text)

    assert error.where == f"m.yaml:{place}"
    assert message in error.message
    assert hint is None or (error.hint or "").startswith(hint)


@pytest.mark.parametrize(("text", "place", "message", "hint"), WRONG, ids=[w[2] for w in WRONG])
def test_an_error_is_one_to_three_short_lines(text, place, message, hint):
    """However long the value that is quoted."""
    lines = str(complaint(text)).splitlines()

    assert len(lines) <= 3
    assert max(map(len, lines)) < 500


def test_a_long_chain_of_shared_kinds_takes_no_time():
    """2,000 kinds, each reading the one before: each link is followed once."""
    chain = "".join(f"  k{i}: {{kind: shared, reads: k{i - 1}}}\n" for i in range(1, 2000))
    names = ", ".join(f"k{i}" for i in range(2000))
    text = f"name: x\nkinds:\n  k0: {{kind: full, kv_heads: 1, head_dim: 1}}\n{chain}"
    start = perf_counter()
    spec = read(f"{text}layers: [{names}]\n")
    assert perf_counter() - start < 5
    assert spec.shared_sources()[1999] == 0
