"""Validation of values by a schema."""

import json
from typing import Any

import pytest

from tailrace.schema.json_schema import InvalidValue, Validator, parse, validator

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
        "share": {"multipleOf": 0.25},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
    },
    "patternProperties": {"^x_": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}


def refused(schema: Any, value: Any, imports: dict[str, str] | None = None) -> str:
    """Return the message with which a value is refused."""
    with pytest.raises(InvalidValue) as error:
        validator(parse(json.dumps(schema), imports or {})).validate(value)
    return str(error.value)


def test_a_value_that_fits() -> None:
    value = {"id": 1, "lines": [{"price": 1.5}], "share": 0.5, "code": "abc", "x_1": "y"}
    validator(parse(json.dumps(ORDER), {})).validate(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"lines": []}, "at /: 'id' is a required property"),
        ({"id": "1"}, "at /id: '1' is not of type 'integer'"),
        ({"id": 1, "lines": [{"price": 1}, {"price": "2"}]}, "at /lines/1/price: '2' is not of type 'number'"),
        ({"id": 1, "share": 0.3}, "at /share: 0.3 is not a multiple of 0.25"),
        ({"id": 1, "code": "ABC"}, "at /code: 'ABC' does not match '^[a-z]+$'"),
        ({"id": 1, "x_1": 5}, "at /x_1: 5 is not of type 'string'"),
        ({"id": 1, "other": 5}, "at /: the property 'other' is not allowed"),
    ],
)
def test_an_error_names_the_path(value: Any, message: str) -> None:
    assert refused(ORDER, value) == message


def test_a_schema_has_one_validator() -> None:
    schema = parse(json.dumps(ORDER), {})
    assert validator(schema) is validator(schema)


def test_references_to_imported_schemas_are_followed() -> None:
    imports = {"step.json": '{"multipleOf": 0.5, "properties": {"next": {"$ref": "step.json"}}}'}
    assert refused({"properties": {"a": {"$ref": "step.json"}}}, {"a": 0.7}, imports).startswith("at /a:")
    nested = {"a": {"next": 0.7}}
    assert refused({"properties": {"a": {"$ref": "step.json"}}}, nested, imports).startswith("at /a/next:")


def test_additional_properties_have_a_schema_of_their_own() -> None:
    schema = {"patternProperties": {"^x": {}}, "additionalProperties": {"type": "string"}}
    assert refused(schema, {"x": 5, "y": 5}) == "at /y: 5 is not of type 'string'"


@pytest.mark.parametrize(
    "url", ["http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_the_draft_of_the_schema_decides(url: str) -> None:
    validator(parse(json.dumps({"$schema": url, "const": 1}), {})).validate(1)
    if "2020" in url:
        assert refused({"$schema": url, "prefixItems": [{"type": "string"}]}, [5]).startswith("at /0:")
    else:
        validator(parse(json.dumps({"$schema": url, "prefixItems": [{"type": "string"}]}), {})).validate([5])


def test_an_expression_that_takes_exponential_time_to_match() -> None:
    assert "does not match" in refused({"pattern": "^(a+)+$"}, "a" * 60 + "!")


def test_an_expression_with_look_ahead() -> None:
    """jsonschema-rs refuses such a schema in its mode of linear time, so jsonschema validates alone."""
    schema = {"pattern": "^(?!x)[a-z]+$"}
    validator(parse(json.dumps(schema), {})).validate("abc")
    assert "does not match" in refused(schema, "xyz")


def test_a_schema_that_refers_to_itself_without_end() -> None:
    validator(parse('{"allOf": [{"$ref": "#"}]}', {})).validate(5)
    assert "refers to itself without end" in refused({"allOf": [{"$ref": "#"}], "type": "string"}, 5)


def test_a_value_nested_without_end() -> None:
    value: Any = 5
    for _ in range(5_000):
        value = [value]
    assert "nested too deeply" in refused({"type": "array", "items": {"$ref": "#"}}, value)


@pytest.mark.parametrize(
    "schema", [ORDER, {"$ref": "step.json"}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}]
)
def test_most_schemas_are_validated_by_the_fast_library(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """jsonschema alone validates 33,000 small values a second, jsonschema-rs more than a million."""
    found = Validator(parse(json.dumps(schema), {"step.json": '{"type": "object"}'}))
    monkeypatch.setattr(found, "_validator", None)
    found.validate({"id": 1})


@pytest.mark.parametrize("schema", [True, {}])
def test_a_schema_that_allows_everything(schema: Any) -> None:
    validator(parse(json.dumps(schema), {})).validate({"a": [None]})


def test_a_schema_that_allows_nothing() -> None:
    assert refused(False, 5).startswith("at /:")
