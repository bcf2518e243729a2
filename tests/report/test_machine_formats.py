"""JSON, CSV and Markdown: whole reports, integers for bytes and tokens."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from kvplan.cli import main
from kvplan.engines.request import Request
from kvplan.errors import UsageError
from kvplan.notice import Notice
from kvplan.plan.explain import explain
from kvplan.plan.fit import fit
from kvplan.plan.size import size
from kvplan.report import as_csv, as_json, as_markdown
from kvplan.report.rows import rows
from kvplan.report.write import emit
from tests.report.conftest import hybrid


def test_size_as_json_has_the_names_of_the_contract(model):
    """model, request, logical, allocated and warnings, for each result."""
    text = as_json.size([size(model, batch=2, ctx=9000)], to_file=True)
    (result,) = json.loads(text)["results"]

    assert json.loads(text)["schema"] == "kvplan.size/1"
    assert result["model"] == {
        "name": "hybrid-9b",
        "asked": "hybrid-9b",
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
    # (46,205,952 - 68,608) / 4 KV heads + 68,608 of state, and over 46,205,952
    assert found["variants"][-1] == {
        "name": "MQA",
        "meaning": "one K and V for all query heads",
        "bytes_per_sequence": 11602944,
        "times": 0.25,
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
    assert as_csv.dump(rows("size", results)) == (
        "model,dtype,ctx,batch,attention,logical_bytes,logical_bytes_per_sequence,"
        "logical_bytes_per_token,logical_fixed_bytes_per_sequence,engine,engine_version,"
        "allocated_bytes,refusal,weights_bytes,warnings\n"
        "hybrid-9b,bfloat16,8192,2,gqa+sliding+hybrid-linear,92411904,46205952,4096,68608,"
        "logical,,,,,\n"
        "hybrid-9b,q8_0,9000,1,gqa+sliding+hybrid-linear,26337280,26337280,2176,68608,"
        "logical,,,,,ctx-above-maximum\n"
    )


def test_layers_as_csv(model):
    """One row per layer of each result."""
    lines = as_csv.dump(rows("size", [size(model)], per_layer=True)).splitlines()

    assert lines[0] == "model,dtype,ctx,batch,layer,layer_kind,states,bytes_per_sequence"
    assert lines[4] == "hybrid-9b,bfloat16,8192,1,3,global,full,16777216"
    assert len(lines) == 10


def test_csv_quotes_what_needs_it():
    """A name with a comma, a quote and a line break is still one field."""
    name = 'a,"b'
    text = as_csv.dump(rows("size", [size(hybrid(name))]))

    assert next(csv.DictReader(io.StringIO(text)))["model"] == name


def test_models_as_csv(model):
    """Lists are joined by blanks, unknown values are empty."""
    assert as_csv.dump(rows("models", [model.spec])) == (
        "name,family,attention,layers,max_context,dtype,parameters,aliases,hf_ids\n"
        "hybrid-9b,,gqa+sliding+hybrid-linear,9,8192,bfloat16,,,maker/Hybrid-9B\n"
    )


def test_size_as_markdown(model):
    """The tables' headings; numbers with separators, to the right."""
    assert as_markdown.dump(rows("size", [size(model, batch=2)])) == (
        "| model | dtype | tokens | sequences | attention | logical (bytes) | per sequence (bytes)"
        " | one more token (bytes) | fixed state (bytes) | engine | engine version"
        " | allocated (bytes) | refusal | weights (bytes) | warnings |\n"
        "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | --- | ---"
        " | --- | --- | --- |\n"
        "| hybrid-9b | bfloat16 | 8,192 | 2 | gqa+sliding+hybrid-linear | 92,411,904 | 46,205,952"
        " | 4,096 | 68,608 | logical |  |  |  |  |  |\n"
    )


def test_markdown_escapes_its_own_characters():
    """A bar in a name does not begin a cell."""
    assert "| a\\|b | bfloat16 |" in as_markdown.dump(rows("size", [size(hybrid("a|b"))]))


def test_nothing_is_an_empty_table():
    """No header without a row to take it from."""
    assert as_csv.dump(rows("models", [])) == ""
    assert as_markdown.dump(rows("models", [])) == ""


def test_warnings_of_a_row_are_their_ids(model):
    """In the order in which the table prints them."""
    loaded = model._replace(warnings=(Notice("assumed", "x"),))
    text = as_csv.dump(rows("size", [size(loaded, ctx=9000)]))

    assert text.endswith(",assumed ctx-above-maximum\n")


def test_explain_as_csv(model):
    """One row per kind of state; 2 x 4 x 128 x 2 B an entry, 8,192 of them in 2 layers."""
    lines = as_csv.dump(rows("explain", explain(size(model), [128]))).splitlines()

    assert lines[0] == (
        "model,dtype,ctx,batch,attention,kind,layer_kind,layers,entry_bytes,entries,"
        "bytes_per_token,bytes_per_sequence"
    )
    assert lines[2] == (
        "hybrid-9b,bfloat16,8192,1,gqa+sliding+hybrid-linear,full,global,2,2048,8192,4096,33554432"
    )
    assert len(lines) == 4


def test_fit_as_csv(model):
    """One row: 2 x 46,205,952 bytes hold two sequences of 8,192 tokens, the model's maximum."""
    (row,) = rows("fit", fit(model, Request(), 92411904))

    assert row.items() >= {
        "model": "hybrid-9b", "ctx": 8192, "batch": 1, "engine": "logical", "engine_version": "",
        "available_bytes": 92411904, "needed_bytes": 46205952, "fits": "true",
        "max_batch_at_ctx": 2, "max_ctx_at_batch": 8192, "min_devices": 1, "num_blocks": "",
        "warnings": "",
    }.items()  # fmt: skip


def test_one_model_as_csv(model):
    """The row of the list, so that both can be put together."""
    assert rows("model", model) == rows("models", [model.spec])


def _values(format_=None, *, json=False, output=None):
    return {"format": format_, "json": json, "output": output}


@pytest.mark.parametrize(
    ("values", "begins"),
    [
        (_values(), "hybrid-9b: "),
        (_values("table"), "hybrid-9b: "),
        (_values(" JSON "), "{"),
        (_values(json=True), "{"),
        (_values("table", json=True), "{"),
        (_values("json", json=True), "{"),
        (_values("csv"), "model,"),
        (_values("markdown"), "| model"),
        (_values("MD"), "| model"),
        (_values(output="-"), "hybrid-9b: "),
    ],
)
def test_a_format_is_chosen_by_name(model, capsys, values, begins):
    """In any case; --json is --format json."""
    assert emit("size", [size(model)], values) == 0
    assert capsys.readouterr().out.startswith(begins)


@pytest.mark.parametrize(
    ("name", "values", "begins"),
    [
        ("x.csv", _values(), "model,"),
        ("x.JSON", _values(), "{"),
        ("x.md", _values(), "| model"),
        ("x.markdown", _values(), "| model"),
        ("x.txt", _values(), "hybrid-9b: "),
        ("x.csv", _values("json"), "{"),
        ("x.csv", _values(json=True), "{"),
        ("x", _values(), "hybrid-9b: "),
    ],
)
def test_a_format_is_chosen_by_the_files_name(model, tmp_path, name, values, begins):
    """Only where neither --format nor --json says it."""
    path = tmp_path / name
    assert emit("size", [size(model)], {**values, "output": str(path)}) == 0
    assert path.read_text().startswith(begins)


@pytest.mark.parametrize("name", ["x.png", "x.html", "x.xlsx", "x.xml"])
def test_an_unknown_ending_is_refused(model, tmp_path, name):
    """A file called a picture that holds a table helps nobody; --format still decides."""
    path = tmp_path / name
    with pytest.raises(UsageError, match="is no format of this report"):
        emit("size", [size(model)], {**_values(), "output": str(path)})
    assert not path.exists()
    assert emit("size", [size(model)], {**_values("csv"), "output": str(path)}) == 0


COMMANDS = {
    "size": "size llama3-8b",
    "explain": "explain llama3-8b",
    "fit": "fit llama3-8b --available-memory 40GiB",
    "verify": "verify llama3-8b --ctx 16 --device cpu",
    "models": "models --search llama3-8b",
    "model": "models llama3-8b",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_format_of_the_help_is_there(command, capsys):
    """Each command's help lists the formats it has, junit for verify alone."""
    words = COMMANDS[command].split()
    if command == "verify":
        pytest.importorskip("torch")
    assert main([words[0], "--help"]) == 0
    formats = re.search(r"--format FORMAT\s+(.+?)\s+\[", capsys.readouterr().out, re.DOTALL)
    names = re.split(r",\s+|\s+or\s+", formats.group(1))
    assert ("junit" in names) == (command == "verify")
    for name in names:
        assert main([*words, "--format", name]) == 0
        assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", ["junit", "yaml", ""])
def test_a_format_that_a_command_lacks_is_an_error(model, name):
    """With those it has."""
    with pytest.raises(UsageError, match="is not a format") as error:
        emit("size", [size(model)], _values(name))
    assert error.value.hint == "one of table, json, csv, markdown"
