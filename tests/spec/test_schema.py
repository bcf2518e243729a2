"""The published JSON Schema agrees with the reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from kvplan.spec.reader import read_spec
from kvplan.spec.schema import spec_schema
from kvplan.spec.source import parse_yaml
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
        data = parse_yaml(path.read_text(encoding="utf-8"), path.name).data
        if not validator.is_valid(data):
            wrong[path.name] = next(validator.iter_errors(data)).message

    assert FILES
    assert wrong == {}


@settings(max_examples=40)
@given(specs())
def test_every_spec_that_is_written_is_valid(validator, spec):
    """Every kind of state, every layout."""
    validator.validate(parse_yaml(write_spec(spec), "x.yaml").data)


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
    read_spec(parse_yaml(write_json(data), "x.yaml"))

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
        read_spec(parse_yaml(write_json(data), "x.yaml"))

    assert not validator.is_valid(data)


def test_every_kind_and_every_word_has_a_description():
    """That is what an editor shows."""
    schema = spec_schema()
    states = schema["$defs"]["state"]["oneOf"]
    described = {state["properties"]["kind"]["const"]: state["description"] for state in states}

    assert set(described) == {*KIND_NAMES, "none"}
    assert described["full"] == kind_class("full").summary
    for owner in (schema, schema["$defs"]["rope"], *states):
        for name, word in owner["properties"].items():
            assert name == "kind" or word.get("description") or "$ref" in word, name


def write_json(data) -> str:
    """JSON is YAML."""
    import json

    return json.dumps(data)
