"""JSON Schemas as the registry reads, stores and names them, with references to imported schemas."""

import json
from typing import Any

import pytest

from tailrace.schema.json_schema import InvalidValue, parse, validator
from tailrace.schema.language import InvalidSchema, Schema, SchemaType

DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def refused(text: str, imports: dict[str, str] | None = None) -> str:
    """Return the message with which a text is refused."""
    with pytest.raises(InvalidSchema) as error:
        parse(text, imports or {})
    return str(error.value)


def test_a_schema_offers_what_the_registry_needs() -> None:
    schema: Schema = parse('{"title": "Order", "type": "object"}', {})
    assert schema.type is SchemaType.JSON
    assert schema.name == "Order"
    assert schema.text == '{"title":"Order","type":"object"}'
    assert schema.formatted("") == schema.formatted("serialized") == schema.text


@pytest.mark.parametrize("text", ["true", "false", "{}", '{"type": "string"}'])
def test_a_schema_without_a_title_has_no_name(text: str) -> None:
    assert parse(text, {}).name is None


# Each text on the right is what Confluent's registry 8.3.1 stores for the one on the left.
TEXTS = [
    (' { "b" : 1,\n "a" : [ true , null ] } ', '{"b":1,"a":[true,null]}'),
    ('{"title":"a","type":"string","title":"b"}', '{"title":"b","type":"string"}'),
    ('{"x":1.0}', '{"x":1.0}'),
    ('{"x":1.50}', '{"x":1.50}'),
    ('{"x":-0}', '{"x":0}'),
    ('{"x":-0.0}', '{"x":0.0}'),
    ('{"x":1e5}', '{"x":1E+5}'),
    ('{"x":12.30E+3}', '{"x":1.230E+4}'),
    ('{"x":0.000001}', '{"x":0.000001}'),
    ('{"x":0.0000001}', '{"x":1E-7}'),
    ('{"x":100e-2}', '{"x":1.00}'),
    ('{"x":123456789012345678901234567890}', '{"x":123456789012345678901234567890}'),
    (r'{"x":"\u0000\u001f\u007f\u00e9\/\b\f\n\r\t\"\\"}', '{"x":"\\u0000\\u001F\x7fé/\\b\\f\\n\\r\\t\\"\\\\"}'),
    (r'{"x":"\ud83d\ude00"}', '{"x":"😀"}'),
    (r'{"x":"\\u001f"}', r'{"x":"\\u001f"}'),
    ('{"x":"\ue0001.5","y":1.5}', '{"x":"\ue0001.5","y":1.5}'),
]


@pytest.mark.parametrize(("text", "stored"), TEXTS)
def test_a_text_is_stored_as_jackson_writes_it(text: str, stored: str) -> None:
    assert parse(text, {}).text == stored
    assert parse(stored, {}).text == stored


def test_normalisation_sorts_the_keys_and_nothing_else() -> None:
    schema = parse('{"type":"object","required":["b","a"],"properties":{"b":{"type":"string"},"a":{"x":1.0}}}', {})
    expected = '{"properties":{"a":{"x":1.0},"b":{"type":"string"}},"required":["b","a"],"type":"object"}'
    assert schema.normalized().text == expected
    assert schema.normalized().normalized().text == expected
    assert schema.normalized().differences(schema) == []


def test_normalisation_sorts_by_utf_16_as_java_does() -> None:
    assert parse('{"\uffee":1,"😀":2}', {}).normalized().text == '{"😀":2,"\uffee":1}'


@pytest.mark.parametrize("url", DRAFTS.values(), ids=DRAFTS)
def test_each_draft_has_its_own_rules(url: str) -> None:
    def accepts(schema: dict[str, Any]) -> bool:
        try:
            parse(json.dumps({"$schema": url} | schema), {})
        except InvalidSchema:
            return False
        return True

    draft = next(name for name, known in DRAFTS.items() if known == url)
    assert accepts({"properties": {"a": True}}) is (draft != "4")
    assert accepts({"minimum": 1, "exclusiveMinimum": True}) is (draft == "4")
    assert accepts({"exclusiveMinimum": 1}) is (draft != "4")
    assert accepts({"contains": 5}) is (draft == "4")
    assert accepts({"if": 5}) is (draft in ("4", "6"))
    assert accepts({"items": [{}]}) is (draft != "2020-12")
    assert accepts({"prefixItems": 5}) is (draft != "2020-12")
    assert accepts({"dependentRequired": 5}) is (draft not in ("2019-09", "2020-12"))
    assert not accepts({"type": "text"})
    assert not accepts({"minLength": -1})


@pytest.mark.parametrize(
    "url", ["", '"$schema": "https://acme.example/own",', '"$schema": "http://json-schema.org/draft-03/schema#",']
)
def test_a_schema_of_no_known_draft_is_of_draft_7(url: str) -> None:
    assert parse(f'{{{url} "if": {{}}}}', {}).text
    assert "draft 7" in refused(f'{{{url} "if": 5}}')


ADDRESS = '{"type": "object", "properties": {"city": {"type": "string"}}, "definitions": {"zip": {"type": "string"}}}'


@pytest.mark.parametrize(
    ("root", "reference", "name"),
    [
        ("", "address.json", "address.json"),
        ("", "address.json#/definitions/zip", "address.json"),
        ("", "address.json#/$defs/zip", "address.json"),
        ("", "com.acme.Address", "com.acme.Address"),
        ("", "http://acme.example/address.json", "http://acme.example/address.json"),
        ("http://acme.example/order.json", "address.json", "address.json"),
        ("http://acme.example/order.json", "http://acme.example/address.json", "address.json"),
        ("http://acme.example/order.json", "./address.json", "address.json"),
        ("", "./address.json", "address.json"),
        ("urn:acme:order", "address.json", "address.json"),
    ],
)
def test_a_reference_is_found_by_its_name(root: str, reference: str, name: str) -> None:
    identity = f'"$id": "{root}",' if root else ""
    text = f'{{{identity} "properties": {{"address": {{"$ref": "{reference}"}}}}}}'
    assert parse(text, {name: ADDRESS}).text
    assert "cannot be resolved" in refused(text, {"other.json": ADDRESS})


def test_a_change_of_an_imported_schema_is_a_change() -> None:
    text = '{"properties": {"address": {"$ref": "address.json"}}}'
    old, new = parse(text, {"address.json": ADDRESS}), parse(text, {"address.json": '{"type": "string"}'})
    assert [(found.kind, found.path) for found in new.differences(old)] == [("TYPE_CHANGED", "#/properties/address")]


def test_imported_schemas_refer_to_each_other() -> None:
    imports = {
        "zip.json": '{"type": "string"}',
        "address.json": '{"properties": {"zip": {"$ref": "zip.json"}, "next": {"$ref": "address.json"}}}',
    }
    old = parse('{"$ref": "address.json"}', imports)
    new = parse('{"$ref": "address.json"}', imports | {"zip.json": '{"type": "integer"}'})
    assert [found.path for found in new.differences(old)] == ["#/properties/zip"]


@pytest.mark.parametrize("name", ["address.json", "parts/address.json", "http://acme.example/address.json"])
@pytest.mark.parametrize("identity", ["", '"$id": "http://other.example/a.json",'])
def test_an_imported_schema_finds_others_by_their_names(name: str, identity: str) -> None:
    address = f'{{{identity} "properties": {{"zip": {{"$ref": "zip.json"}}}}}}'
    schema = parse(f'{{"$ref": "{name}"}}', {"zip.json": '{"type": "string"}', name: address})
    validator(schema).validate({"zip": "89073"})
    with pytest.raises(InvalidValue):
        validator(schema).validate({"zip": 89073})


def test_an_imported_schema_keeps_its_own_draft() -> None:
    pair = f'{{"$schema": "{DRAFTS["2020-12"]}", "prefixItems": [{{"type": "string"}}], "items": false}}'
    old = parse('{"$ref": "pair.json"}', {"pair.json": pair})
    new = parse('{"$ref": "pair.json"}', {"pair.json": pair.replace("string", "integer")})
    assert [found.path for found in new.differences(old)] == ["#/items/0"]


@pytest.mark.parametrize("text", ["[]", "not json", '{"type": 5}'])
def test_an_imported_text_that_is_no_schema_is_named(text: str) -> None:
    assert "$ref 'a.json'" in refused('{"$ref": "a.json"}', {"a.json": text})


def test_an_unused_import_is_not_read() -> None:
    assert parse("{}", {"a.json": "not json"}).text == "{}"


@pytest.mark.parametrize(
    "text",
    [
        '{"properties": {"a": {"$ref": "#name"}}, "definitions": {"n": {"$id": "#name"}}}',
        '{"$id": "http://acme.example/x", "properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {}}}',
        '{"$id": "urn:acme:x", "properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {}}}',
        '{"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": {"type": "string"}}}',
        '{"properties": {"a": {"$ref": "#/definitions/a~1b%20c"}}, "definitions": {"a/b c": {}}}',
        '{"properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}}',
        '{"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}',
        f'{{"$schema": "{DRAFTS["2020-12"]}", "$anchor": "a", "properties": {{"x": {{"$ref": "#a"}}}}}}',
        f'{{"$schema": "{DRAFTS["2020-12"]}", "$dynamicAnchor": "n", "items": {{"$dynamicRef": "#n"}}}}',
        f'{{"$schema": "{DRAFTS["2019-09"]}", "$recursiveAnchor": true, "items": {{"$recursiveRef": "#"}}}}',
        '{"definitions": {"unused": {"$ref": "#/nowhere"}}}',
    ],
)
def test_references_that_lead_to_a_schema(text: str) -> None:
    assert parse(text, {}).differences(parse(text, {})) == []
