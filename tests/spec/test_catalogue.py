"""The catalogue as a whole: complete, unambiguous, fresh, and right to the byte where known."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from kvplan.documents.document import Document
from kvplan.documents.from_yaml import read_yaml
from kvplan.dtypes import find_dtype
from kvplan.engines.logical import logical_cache
from kvplan.engines.request import Request
from kvplan.errors import UnknownModelError
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.folder import SpecFolder, builtin_folder
from kvplan.spec.index import dumps, loads
from kvplan.spec.model import ModelSpec
from kvplan.spec.reader import read_spec
from kvplan.spec.writer import write_spec

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "model_specs"
FILES = sorted(FOLDER.glob("*.yaml"))
FACTS = ROOT / "tests" / "data" / "facts" / "facts.tsv"


def _read(path: Path) -> ModelSpec:
    return read_spec(read_yaml(path.read_text(encoding="utf-8"), str(path)))


@pytest.fixture(scope="module")
def specs() -> dict[str, ModelSpec]:
    """Every file through the reader, by file name without its ending."""
    return {path.stem: _read(path) for path in FILES}


def test_there_are_at_least_180_specs() -> None:
    """The size that was promised; one file per distinct cache."""
    assert len(FILES) >= 180


def test_file_name_is_spec_name(specs: dict[str, ModelSpec]) -> None:
    """A name that a person types leads to the file, and is short and in lower case."""
    for stem, spec in specs.items():
        assert spec.name == stem
        assert spec.name == spec.name.lower()
        assert "/" not in spec.name
        assert " " not in spec.name


def test_every_spec_says_where_it_comes_from(specs: dict[str, ModelSpec]) -> None:
    """Source, family and at least one full Hugging Face id."""
    for name, spec in specs.items():
        assert spec.source, name
        assert spec.family, name
        assert spec.hf_ids, name
        assert all(hf_id.count("/") == 1 for hf_id in spec.hf_ids), name


def test_names_are_unambiguous(specs: dict[str, ModelSpec]) -> None:
    """No spelling (any case, with or without the organisation) belongs to two specs."""
    owner: dict[str, str] = {}
    for name, spec in specs.items():
        full = (spec.name, *spec.aliases, *spec.hf_ids)
        for spelling in {part.lower() for item in full for part in (item, item.split("/")[-1])}:
            assert owner.setdefault(spelling, name) == name, spelling


def test_no_name_is_written_twice_in_a_spec(specs: dict[str, ModelSpec]) -> None:
    """An alias that a Hugging Face id already gives would only be noise."""
    for name, spec in specs.items():
        shorts = {hf_id.split("/")[-1].lower() for hf_id in spec.hf_ids} - {spec.name}
        listed = [spec.name, *spec.aliases, *shorts]
        assert len(listed) == len(set(listed)), name


def test_compiled_data_is_what_the_files_say(specs: dict[str, ModelSpec]) -> None:
    """Every file through the index gives the spec that it gives when it is parsed."""
    compiled = loads(dumps(SpecFolder(str(FOLDER)).compiled()).encode())
    assert compiled is not None
    assert {
        name.removesuffix(".yaml"): read_spec(Document(data=item.data))
        for name, item in compiled.items()
    } == specs


def test_builtin_folder_is_this_one() -> None:
    """In a clone the catalogue beside the package is the one that answers."""
    assert Path(builtin_folder().path).resolve() == FOLDER.resolve()


def test_every_published_id_resolves() -> None:
    """Each of the 270 ids of the fact table, with and without organisation, in any case."""
    catalogue = Catalogue([])
    entries = [entry.names() for entry in catalogue.entries()]
    known = {part.lower() for names in entries for n in names for part in (n, n.split("/")[-1])}
    with FACTS.open(encoding="utf-8", newline="") as file:
        ids = [row["hf_id"] for row in csv.DictReader(file, delimiter="\t")]
    assert [hf_id for hf_id in ids if hf_id.lower() not in known] == []
    assert [hf_id for hf_id in ids if hf_id.split("/")[-1].lower() not in known] == []


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("llama3-8b", "llama3-8b"),
        ("Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("llama3.3-70b", "llama3.1-70b"),
        ("Qwen3-32B", "qwen3-32b"),
        ("qwen/qwen3-32b", "qwen3-32b"),
        ("qwen2.5-7b", "qwen2.5-7b"),
        ("qwen2.5-7b-instruct", "qwen2.5-7b-instruct"),
        ("deepseek-r1", "deepseek-v3"),
        ("deepseek-v3.1", "deepseek-v3"),
        ("qwen3.6-27b", "qwen3.5-27b"),
        ("gemma-3-27b-it", "gemma-3-27b"),
        ("falcon-7b", "falcon-7b"),
        ("mimo-v2-flash", "mimo-v2-flash"),
    ],
)
def test_names_people_type(query: str, name: str) -> None:
    """Short names, the maker's names in any case, and names that share one cache."""
    assert Catalogue([]).find(query).name == name


def test_a_near_miss_lists_candidates() -> None:
    """A slip of the finger is answered with the names that come close."""
    with pytest.raises(UnknownModelError) as caught:
        Catalogue([]).find("lama3-8b")
    assert "llama3-8b" in caught.value.candidates


# What each model must keep, as the makers' published numbers give it.
MUST_HOLD = [
    # 2 x 8 kv_heads x 128 x 2 B x 32 layers x 131,072 x 32
    ("llama3-8b", 131072, 32, "bf16", 549_755_813_888),
    ("llama3-8b", 131072, 32, "fp8", 274_877_906_944),
    # 2 x 32 x 128 x 2 B x 32 x 4096
    ("meta-llama/Llama-2-7b-hf", 4096, 1, "bf16", 2_147_483_648),
    # multi-query: 2 x 1 x 64 x 2 B x 32 x 2048
    ("tiiuae/falcon-7b", 2048, 1, "bf16", 16_777_216),
    # 8192 B x (10 full x 131,072 + 52 sliding x 1024); 8192 = 2 x 16 x 128 x 2
    ("google/gemma-3-27b-it", 131072, 1, "bf16", 11_173_625_856),
    # (512 + 64) x 2 B x 61 x 131,072
    ("deepseek-ai/DeepSeek-V3", 131072, 1, "bf16", 9_210_691_584),
    # 4096 B x 32 x a window of 4096
    ("mistralai/Mistral-7B-v0.1", 32768, 1, "bf16", 536_870_912),
    # 2048 B x 18 x (131,072 + 128)
    ("openai/gpt-oss-120b", 131072, 1, "bf16", 4_836_556_800),
    # 12 x 2048 B x 131,072 + 36 x (8192 x 3 x 2 B + 32 x 128 x 128 x 4 B)
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 131072, 1, "bf16", 3_298_492_416),
    # 4096 B x (12 x 131,072 + 36 x 8192)
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 131072, 1, "bf16", 7_650_410_496),
    # 16 x 4096 B x 131,072 + 48 x (10,240 x 3 x 2 B + 48 x 128 x 128 x 4 B)
    ("Qwen/Qwen3.6-27B", 131072, 1, "bf16", 8_743_878_656),
    # 131,072 x (78 x 576 x 2 B + 21 x 128 x 2 B)
    ("zai-org/GLM-5.2", 131072, 1, "bf16", 12_482_248_704),
]


@pytest.mark.parametrize(("name", "ctx", "batch", "dtype", "expected"), MUST_HOLD)
def test_logical_bytes(name: str, ctx: int, batch: int, dtype: str, expected: int) -> None:
    """The exact logical cache of well-known models, found by name."""
    spec = Catalogue([]).find(name).spec()
    assert logical_cache(spec, Request(ctx=ctx, batch=batch, dtype=dtype)).bytes == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3.5-27b", 153_944_064),
        ("nemotron-3-nano", 49_082_368),
        ("qwen3-next-80b-a3b", 77_266_944),
        ("kimi-k3", 449_372_160),
    ],
)
def test_recurrent_state_of_one_sequence(name: str, expected: int) -> None:
    """The recurrent state of all layers is what SGLang 0.5.23 keeps per slot on one rank."""
    spec = Catalogue([]).find(name).spec()
    assert logical_cache(spec, Request(ctx=1)).fixed_bytes_per_sequence == expected


def test_every_spec_can_be_sized(specs: dict[str, ModelSpec]) -> None:
    """Each model keeps something at 1024 tokens, and never less at 2048; encoders keep nothing."""
    for name, spec in specs.items():
        dtype = "auto" if spec.dtype else "bf16"
        short, long = (
            logical_cache(spec, Request(ctx=ctx, dtype=dtype)).bytes for ctx in (1024, 2048)
        )
        encoder = not any(spec.kinds.values())
        assert (short == long == 0) if encoder else (0 < short <= long), name


def test_writing_and_reading_a_spec_gives_the_same_model(specs: dict[str, ModelSpec]) -> None:
    """Nothing in the catalogue is beyond the writer."""
    for spec in specs.values():
        assert read_spec(read_yaml(write_spec(spec), spec.name)) == spec


def test_unsupported_formats_are_known_and_have_a_reason(specs: dict[str, ModelSpec]) -> None:
    """Gemma 2 and 3 say that they do not run in float16."""
    for name, spec in specs.items():
        for dtype, reason in spec.unsupported_dtypes.items():
            assert find_dtype(dtype) is not None, name
            assert reason, name
    refused = {name for name, spec in specs.items() if "float16" in spec.unsupported_dtypes}
    assert {"gemma-2-9b", "gemma-2-27b-it", "gemma-3-1b", "gemma-3-27b"} <= refused


# The name counts the language model alone.
OTHER_SIZE = {"vibevoice-1.5b"}


def test_parameters_are_plausible(specs: dict[str, ModelSpec]) -> None:
    """Active parameters are fewer than all; the size in a name is the size, to two fifths."""
    for name, spec in specs.items():
        if spec.active_parameters is not None:
            assert spec.parameters is not None, name
            assert spec.active_parameters < spec.parameters, name
        sizes = re.findall(r"(?<![x\d.ae])(\d+(?:\.\d+)?)(b|(?<=\d\d)m)\b", name)
        if sizes and spec.parameters and name not in OTHER_SIZE:
            said = float(sizes[-1][0]) * {"b": 10**9, "m": 10**6}[sizes[-1][1]]
            # Makers call 1.1 to 1.7 billion 1b.
            assert abs(spec.parameters / said - 1) < (0.7 if said == 10**9 else 0.4), name
