"""JSON, CSV and Markdown: whole reports, integers for bytes and tokens."""

from __future__ import annotations

import csv
import io
import json

import pytest

from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.plan.explain import explain
from kvplan.plan.size import size
from kvplan.report import as_csv, as_json, as_markdown
from kvplan.report.write import emit
from tests.report.conftest import hybrid


def test_size_as_json_has_the_names_of_the_contract(model):
    """model, request, logical, allocated and warnings, for each result."""
    text = as_json.size([size(model, batch=2, ctx=9000)], to_file=True)
    (result,) = json.loads(text)["results"]

    assert json.loads(text)["schema"] == "kvplan.size/1"
    assert result["model"] == {
        "name": "hybrid-9b",
        "hf_id": "maker/Hybrid-9B",
        "attention": "gqa+sliding+hybrid-linear",
        "layers": 9,
        "max_context": 8192,
        "source": "a card",
    }
    assert result["request"].items() >= {
        "ctx": 9000, "batch": 2, "dtype": "bfloat16", "dtype_k": "bfloat16", "dtype_v": "bfloat16",
        "engine": "logical", "engine_version": None, "tp": 1, "pp": 1, "dp": 1, "dcp": 1,
        "with_draft": False,
    }.items()  # fmt: skip
    kinds = result["logical"].pop("kinds")
    # 46,205,952 + 808 more tokens x 4,096 bytes
    assert result["logical"] == {
        "bytes": 99031040,
        "bytes_per_sequence": 49515520,
        "bytes_per_token": 4096,
        "fixed_bytes_per_sequence": 68608,
    }
    assert kinds[0] == {
        "kind": "sliding", "layer_kind": "local", "layers": 6, "entry_bytes": 2048,
        "entries": 1024, "bytes_per_token": 0, "bytes_per_sequence": 12582912,
    }  # fmt: skip
    assert [kind["kind"] for kind in kinds] == ["sliding", "full", "gated_delta_net"]
    assert result["allocated"] is None
    assert result["warnings"] == [
        {
            "id": "ctx-above-maximum",
            "message": "9,000 tokens is above the 8,192 that hybrid-9b supports",
        }
    ]
    assert "layers" not in result


def test_layers_are_listed_in_json_when_asked_for(model):
    """Index, kind, states and bytes of one sequence."""
    text = as_json.size([size(model)], to_file=True, per_layer=True)
    layers = json.loads(text)["results"][0]["layers"]

    assert len(layers) == 9
    assert layers[3] == {
        "layer": 3, "layer_kind": "global", "states": ["full"], "bytes_per_sequence": 16777216,
    }  # fmt: skip


def test_draft_layers_are_listed_when_they_count(model):
    """One more full layer behind the nine."""
    spec = model.spec.replaced(draft_layers=("global",))
    result = size(spec, request=Request(ctx=8192, with_draft=True))
    found = json.loads(as_json.size([result], to_file=True, per_layer=True))["results"][0]

    assert found["logical"]["bytes"] == 46205952 + 16777216
    assert len(found["layers"]) == 10
    assert found["request"]["with_draft"] is True


def test_explain_as_json(model):
    """The figures of the page; ratios with two decimals, counts exact."""
    found = json.loads(as_json.explain(explain(size(model), [128]), to_file=True))

    assert found["schema"] == "kvplan.explain/1"
    assert found["products"][1] == {
        "kind": "full",
        "layers": 2,
        "entries": 8192,
        "factors": [
            {"value": 2, "symbol": "", "meaning": "K and V"},
            {"value": 4, "symbol": "kv_heads", "meaning": "key/value heads"},
            {"value": 128, "symbol": "head_dim", "meaning": "elements"},
        ],
        "entry_bytes": 2048,
        "bytes_per_sequence": 33554432,
    }
    # 8 layers x 8,192 tokens x 2 x 1 x 128 x 2 B + 68,608, and over 46,205,952
    assert found["variants"][-1] == {
        "name": "MQA",
        "meaning": "one K and V for all query heads, every token",
        "bytes_per_sequence": 33623040,
        "times": 0.73,
    }
    assert found["generation"] == [
        {
            "tokens": 128, "without_cache": 707264, "with_cache": 8256, "ratio": 85.67,
            "approximation": 85.33,
        }
    ]  # fmt: skip
    assert found["closed_form"] == {"ratio": "(2n + 1)/3", "approximation": "2n/3"}
    assert "not seconds" in found["caveat"]
    assert found["logical"]["bytes"] == 46205952


def test_one_model_as_json(model):
    """The spec's facts, its kinds with their layers, and the order of layers."""
    found = json.loads(as_json.model(model, to_file=True))

    assert found["schema"] == "kvplan.model/1"
    assert found["model"].items() >= {
        "name": "hybrid-9b", "max_context": 8192, "attention": "gqa+sliding+hybrid-linear",
        "layers": 9, "file": "hybrid.yaml",
    }.items()  # fmt: skip
    assert found["model"]["kinds"]["local"] == {
        "layers": 6,
        "states": [{"kind": "sliding", "kv_heads": 4, "head_dim": 128, "window": 1024}],
    }
    assert found["model"]["layer_order"] == [
        {"repeat": 2, "of": [{"repeat": 3, "of": "local"}, "global"]},
        "delta",
    ]


def test_models_as_json(model):
    """One object per model; what a spec does not say is null."""
    found = json.loads(as_json.models([model.spec], to_file=True))

    assert found == {
        "schema": "kvplan.models/1",
        "models": [
            {
                "name": "hybrid-9b",
                "family": None,
                "attention": "gqa+sliding+hybrid-linear",
                "layers": 9,
                "max_context": 8192,
                "dtype": "bfloat16",
                "parameters": None,
                "aliases": [],
                "hf_ids": ["maker/Hybrid-9B"],
            }
        ],
    }


def test_json_keeps_other_scripts_readable():
    """No escapes where UTF-8 does."""
    assert '"name": "模型"' in as_json.size([size(hybrid("模型"))], to_file=True)


def test_size_as_csv(model):
    """A header and one row per result."""
    results = [size(model, batch=2), size(model, ctx=9000, dtype="q8_0")]

    # q8_0: 2 x 544 B an entry; 46,205,952 in bf16 is 6,144 + 16,384 entries and the state;
    # 6,144 + 18,000 entries x 1,088 + 68,608
    assert as_csv.size(results, to_file=True) == (
        "model,dtype,ctx,batch,attention,logical_bytes,logical_bytes_per_sequence,"
        "logical_bytes_per_token,logical_fixed_bytes_per_sequence,engine,engine_version,"
        "allocated_bytes,weights_bytes,warnings\n"
        "hybrid-9b,bfloat16,8192,2,gqa+sliding+hybrid-linear,92411904,46205952,4096,68608,"
        "logical,,,,\n"
        "hybrid-9b,q8_0,9000,1,gqa+sliding+hybrid-linear,26337280,26337280,2176,68608,"
        "logical,,,,ctx-above-maximum\n"
    )


def test_layers_as_csv(model):
    """One row per layer of each result."""
    lines = as_csv.size([size(model)], to_file=True, per_layer=True).splitlines()

    assert lines[0] == "model,dtype,ctx,batch,layer,layer_kind,states,bytes_per_sequence"
    assert lines[4] == "hybrid-9b,bfloat16,8192,1,3,global,full,16777216"
    assert len(lines) == 10


def test_csv_quotes_what_needs_it():
    """A name with a comma, a quote and a line break is still one field."""
    name = 'a,"b'
    text = as_csv.size([size(hybrid(name))], to_file=True)

    assert next(csv.DictReader(io.StringIO(text)))["model"] == name


def test_models_as_csv(model):
    """Lists are joined by blanks, unknown values are empty."""
    assert as_csv.models([model.spec], to_file=True) == (
        "name,family,attention,layers,max_context,dtype,parameters,aliases,hf_ids\n"
        "hybrid-9b,,gqa+sliding+hybrid-linear,9,8192,bfloat16,,,maker/Hybrid-9B\n"
    )


def test_size_as_markdown(model):
    """Numbers with separators, to the right."""
    assert as_markdown.size([size(model, batch=2)], to_file=True) == (
        "| model | dtype | ctx | batch | attention | logical_bytes | logical_bytes_per_sequence"
        " | logical_bytes_per_token | logical_fixed_bytes_per_sequence | engine | engine_version"
        " | allocated_bytes | weights_bytes | warnings |\n"
        "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | --- | ---"
        " | --- | --- |\n"
        "| hybrid-9b | bfloat16 | 8,192 | 2 | gqa+sliding+hybrid-linear | 92,411,904 | 46,205,952"
        " | 4,096 | 68,608 | logical |  |  |  |  |\n"
    )


def test_markdown_escapes_its_own_characters():
    """A bar in a name does not begin a cell."""
    assert "| a\\|b | bfloat16 |" in as_markdown.size([size(hybrid("a|b"))], to_file=True)


def test_nothing_is_an_empty_table():
    """No header without a row to take it from."""
    assert as_csv.models([], to_file=True) == ""
    assert as_markdown.models([], to_file=True) == ""


def test_warnings_of_a_row_are_their_ids(model):
    """In the order in which the table prints them."""
    loaded = model._replace(warnings=(Notice("assumed", "x"),))
    text = as_csv.size([size(loaded, ctx=9000)], to_file=True)

    assert text.endswith(",assumed ctx-above-maximum\n")


@pytest.mark.parametrize(
    ("values", "begins"),
    [
        ({"format": "table", "json": False}, "hybrid-9b: "),
        ({"format": " JSON ", "json": False}, "{"),
        ({"format": "table", "json": True}, "{"),
        ({"format": "json", "json": True}, "{"),
        ({"format": "csv", "json": False}, "model,"),
        ({"format": "markdown", "json": False}, "| model"),
    ],
)
def test_a_format_is_chosen_by_name(model, capsys, values, begins):
    """In any case; --json is --format json."""
    assert emit("size", [size(model)], {**values, "output": None}) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_a_format_that_a_command_lacks_is_an_error(model):
    """A page of products is no table of rows."""
    with pytest.raises(UsageError, match="explain has no csv report"):
        emit("explain", explain(size(model)), {"format": "csv", "json": False, "output": None})
