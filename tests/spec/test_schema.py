"""The published JSON Schema agrees with the reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from kvplan.documents.from_yaml import read_yaml
from kvplan.spec.reader import read_spec
from kvplan.spec.schema import spec_schema
from kvplan.spec.vocabulary import KIND_NAMES, kind_class
from kvplan.spec.writer import write_spec
from tests.strategies import specs

jsonschema = pytest.importorskip("jsonschema")

FILES = sorted((Path(__file__).parents[2] / "model_specs").glob("*.yaml"))
FULL = {"kv_heads": 8, "head_dim": 128}
PLAIN = {"name": "x", "layers": 32, "attention": FULL}


@pytest.fixture(scope="module")
def validator():
    schema = spec_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_spec_of_the_catalogue_is_valid(validator):
    """All files, with the names of those that are not."""
    wrong = {}
    for path in FILES:
        data = read_yaml(path.read_text(encoding="utf-8"), path.name).data
        if not validator.is_valid(data):
            wrong[path.name] = next(validator.iter_errors(data)).message

    assert FILES
    assert wrong == {}


@settings(max_examples=40)
@given(specs())
def test_every_spec_that_is_written_is_valid(validator, spec):
    """Every kind of state, every layout."""
    validator.validate(read_yaml(write_spec(spec), "x.yaml").data)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        {**PLAIN, "layers": ["attention"]},
        {**PLAIN, "attention": [{"kind": "full", **FULL}, {"kind": "indexer", "head_dim": 128}]},
        {**PLAIN, "attention": {"kind": "none"}},
        {"name": "x", "kinds": {"a": {"kind": "full", **FULL}}, "layers": 3},
        {
            "name": "x",
            "kinds": {"a": {"kind": "full", **FULL}, "b": {"kind": "shared", "reads": 0}},
            "layers": [{"repeat": 2, "of": [{"repeat": 3, "of": "a"}, "b"]}, "a"],
            "draft_layers": ["a"],
        },
        {**PLAIN, "rope": {"type": "yarn", "factor": 4.0}},
    ],
)
def test_valid_specs(validator, data):
    """What the reader takes, the schema takes."""
    read_spec(read_yaml(write_json(data), "x.yaml"))

    validator.validate(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"name": "x"},
        {"name": "x", "layers": 32},
        {"name": "x", "attention": FULL},
        {**PLAIN, "name": 8},
        {**PLAIN, "layer": 32},
        {**PLAIN, "layers": 0},
        {**PLAIN, "layers": 4097},
        {**PLAIN, "layers": []},
        {**PLAIN, "layers": "many"},
        {**PLAIN, "max_context": 0},
        {**PLAIN, "max_context": "128k"},
        {**PLAIN, "max_context": 2**50 + 1},
        {**PLAIN, "hf_ids": "a/b"},
        {**PLAIN, "attention": []},
        {**PLAIN, "attention": {"kv_heads": 8}},
        {**PLAIN, "attention": {**FULL, "window": 5}},
        {**PLAIN, "attention": {**FULL, "kv_heads": 0}},
        {**PLAIN, "attention": {**FULL, "kv_heads": "8"}},
        {**PLAIN, "attention": {"kind": "ful", **FULL}},
        {**PLAIN, "attention": {"kind": "none", **FULL}},
        {**PLAIN, "kinds": {"a": {"kind": "full", **FULL}}},
        {"name": "x", "layers": 3, "kinds": {"a": FULL}},
        {"name": "x", "layers": 3, "kinds": {}},
        {"name": "x", "layers": [{"repeat": 0, "of": "a"}], "attention": FULL},
        {"name": "x", "layers": [{"repeat": 2}], "attention": FULL},
        {"name": "x", "layers": [{"repeat": 2, "of": []}], "attention": FULL},
        {**PLAIN, "draft_layers": []},
        {**PLAIN, "rope": {"factor": 4.0}},
        {**PLAIN, "rope": {"type": "yarn", "factor": 0}},
        {**PLAIN, "rope": {"type": "yarn", "scale": 4}},
    ],
)
def test_invalid_specs(validator, data):
    """What the reader refuses by its words, the schema refuses."""
    with pytest.raises(Exception, match=r"x\.yaml:1"):
        read_spec(read_yaml(write_json(data), "x.yaml"))

    assert not validator.is_valid(data)


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (
            {**PLAIN, "attention": {"kind": "slidng", **FULL}},
            "attention.kind",
            "'slidng' is not one",
        ),
        (
            {"name": "x", "layers": 3, "kinds": {"a": {"kind": "slidng", **FULL}}},
            "kinds.a.kind",
            "'slidng' is not one of ['full', ",
        ),
        (
            {"name": "x", "layers": 3, "kinds": {"a": [{"kind": "mla"}]}},
            "kinds.a.0.kind",
            "'mla' is not one of ['full', ",
        ),
        (
            {**PLAIN, "attention": {"kind": "sliding", **FULL}},
            "attention",
            "'window' is a required",
        ),
        ({**PLAIN, "attention": {**FULL, "window": 5}}, "attention", "'window' was unexpected"),
        ({**PLAIN, "layers": [{"repeat": 0, "of": "a"}]}, "layers.0.repeat", "0 is less than"),
        ({**PLAIN, "dtype": "bf17"}, "dtype", "'bf17' is not one of ['float32', "),
        ({**PLAIN, "kv_dtype": "fp7"}, "kv_dtype", "'fp7' is not one of"),
        (
            {**PLAIN, "unsupported_dtypes": {"fp17": "why"}},
            "unsupported_dtypes",
            "'fp17' is not one",
        ),
    ],
)
def test_one_mistake_is_one_error(validator, data, path, message):
    """At its place, without what is wrong with every other kind."""
    (error,) = validator.iter_errors(data)

    assert not error.context
    assert ".".join(map(str, error.absolute_path)) == path
    assert message in error.message


def test_an_editor_can_complete_formats_and_kinds():
    """Every spelling that the reader takes in lower case; every kind."""
    schema = spec_schema()
    for key in ("dtype", "kv_dtype"):
        assert {"bfloat16", "bf16", "fp8", "q8_0"} <= set(schema["properties"][key]["enum"])
    assert schema["$defs"]["state"]["properties"]["kind"]["enum"] == [*KIND_NAMES, "none"]
    assert "fp32" in schema["$defs"]["state_mamba2"]["properties"]["dtype"]["enum"]


def test_every_kind_and_every_word_has_a_description():
    """That is what an editor shows."""
    schema = spec_schema()
    states = {
        name.removeprefix("state_"): state
        for name, state in schema["$defs"].items()
        if name.startswith("state_")
    }

    assert set(states) == {*KIND_NAMES, "none"}
    assert states["full"]["description"] == kind_class("full").summary
    for owner in (schema, schema["$defs"]["rope"], *states.values()):
        for name, word in owner["properties"].items():
            assert name == "kind" or word.get("description") or "$ref" in word, name


def write_json(data) -> str:
    """JSON is YAML."""
    import json

    return json.dumps(data)
