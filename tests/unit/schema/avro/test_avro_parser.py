"""Parsing: what errors say, references, stored schemas, and input that is meant to do harm."""

import json

import pytest

from tailrace.records.avro.type import Json
from tailrace.schema.avro import parse
from tailrace.schema.language import NESTING_DEPTH_MAX, InvalidSchema


def record(*fields: Json, name: str = "R") -> Json:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type_: Json, **attributes: Json) -> Json:
    return {"name": name, "type": type_, **attributes}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record(field("a", "money")), "/fields/0/type: neither the schema nor its references define a type 'money'"),
        (record(field("a", {"type": "array"})), '/fields/0/type: array has no attribute "items"'),
        (record(field("a", "int"), field("a", "int")), "/fields/1: record 'R' has two fields 'a'"),
        (record(field("a-b", "int")), "/fields/0: 'a-b' is not a valid name of a field of record 'R': "),
        (record(field("a", "int", default="s")), "Field 'a' of record 'R': the default \"s\" is not a valid int"),
        (record({"name": "a"}), "/fields/0: field 'a' of record 'R' has no type"),
        (["int", "int"], "/: the union contains 'int' twice"),
        (record(field("a", ["int", ["int"]])), "/fields/0/type: a union cannot directly contain another union"),
        (record(field("a", 7)), "/fields/0/type: a type is a name, an object or an array, not int 7"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "/: enum 'E' has the symbol 'A' twice"),
        ({"type": "fixed", "name": "F", "size": -1}, "/: fixed 'F' has no valid size: int -1"),
        (record(name="int"), "/: a record cannot be named 'int', as a primitive type is"),
        ([record(name="a.R"), record(field("x", "int"), name="a.R")], "/1: 'a.R' is already defined as another type"),
        (record(field("a", "R", default={})), "The defaults of fields contain each other without end: 'a'"),
    ],
)
def test_an_error_names_the_place(schema: Json, message: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse(json.dumps(schema))
    assert str(caught.value).startswith(message)


def test_broken_json_is_reported_by_line() -> None:
    with pytest.raises(InvalidSchema, match=r"^Line 2 column 9: not valid JSON: Expecting value$"):
        parse('{\n"type": int}')


def test_references() -> None:
    imports = {
        "shop.Money": '{"type":"fixed","name":"shop.Money","size":8}',
        "shop.Line": '{"type":"record","name":"shop.Line","fields":[{"name":"price","type":"shop.Money"}]}',
    }
    schema = parse('{"type":"array","items":"shop.Line"}', imports)
    assert schema.text == '{"type":"array","items":"shop.Line"}'
    assert '"size":8' in schema.formatted("resolved")
    assert schema.differences(parse(schema.formatted("resolved"))) == []


def test_an_error_in_a_reference_names_it() -> None:
    with pytest.raises(InvalidSchema, match=r"^Reference 'a.B': /: array has no"):
        parse('"a.B"', {"a.B": '{"type":"array"}'})


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"record","name":"größe","fields":[]}',
        '{"type":"record","name":"a-b.R","fields":[]}',
        '{"type":"record","name":"R","fields":[{"name":"x","type":"int","default":"s"}]}',
    ],
)
def test_stored_schemas_need_not_pass_the_checks_of_new_ones(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text)
    parse(text, is_new=False)


def test_names_of_stored_schemas_are_still_checked() -> None:
    with pytest.raises(InvalidSchema):
        parse('{"type":"record","name":"a b","fields":[]}', is_new=False)


def nested(kind: str, depth: int) -> str:
    if kind == "record":
        starts = [f'{{"type":"record","name":"R{level}","fields":[{{"name":"x","type":' for level in range(depth)]
        return "".join(starts) + '"int"' + "}]}" * depth
    start, end = {
        "array": ('{"type":"array","items":', "}"),
        "map": ('{"type":"map","values":', "}"),
        "union": ("[", "]"),
    }[kind]
    return start * depth + '"int"' + end * depth


@pytest.mark.parametrize("kind", ["record", "array", "map"])
def test_nesting_up_to_the_limit(kind: str) -> None:
    schema = parse(nested(kind, NESTING_DEPTH_MAX))
    assert schema.normalized().text == schema.text
    assert schema.differences(parse(schema.text)) == []


@pytest.mark.parametrize("depth", [NESTING_DEPTH_MAX + 1, 10_000, 100_000])
@pytest.mark.parametrize("kind", ["record", "array", "map", "union"])
def test_deeper_nesting_is_rejected(kind: str, depth: int) -> None:
    with pytest.raises(InvalidSchema, match=r"nested more than 200 levels|another union"):
        parse(nested(kind, depth))


@pytest.mark.parametrize("depth", [NESTING_DEPTH_MAX + 1, 10_000])
def test_deep_values_are_rejected(depth: int) -> None:
    value = "[" * depth + "]" * depth
    with pytest.raises(InvalidSchema):
        parse(f'{{"type":"int","x":{value}}}')
    with pytest.raises(InvalidSchema):
        parse(f'{{"type":"record","name":"R","fields":[{{"name":"a","type":"int","default":{value}}}]}}')


def chain(*, is_forward: bool) -> str:
    """Return a union of records of which each contains the next or the previous one."""
    length = 3000
    records: list[Json] = [record(name=f"R{length}")]
    records += [record(field("x", f"R{index + 1}"), name=f"R{index}") for index in reversed(range(length))]
    return json.dumps(records[::-1] if is_forward else records)


def test_a_chain_of_references_does_not_exhaust_the_stack() -> None:
    schema = parse(chain(is_forward=False))
    assert schema.differences(parse(schema.text)) == []
    assert schema.normalized().text == schema.text


def test_definitions_that_nest_where_they_are_first_used_are_rejected() -> None:
    """Avro writes a definition where the name is first used, so this text would nest 3000 records."""
    with pytest.raises(InvalidSchema, match="where they are first used"):
        parse(chain(is_forward=True))


@pytest.mark.parametrize(
    "text",
    [
        "/* " * 3_000_000,
        '"' + "\\" * 9_000_001,
        "[" * 10_000_000,
        '{"type":"int","x":' + "1" * 1_000_000 + "}",
        '{"type":"int","x":"\\ud800"}',
        '{"type":"int","x":NaN}',
        "\ufeff" + '"int"',
    ],
    ids=["comments", "backslashes", "brackets", "digits", "half a surrogate pair", "NaN", "byte order mark"],
)
def test_hostile_text_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text)


def test_a_text_of_many_megabytes() -> None:
    fields = [field(f"f{index}", ["null", "string"], default=None) for index in range(20_000)]
    schema = parse(json.dumps(record(*fields), indent=8))
    assert schema.text == json.dumps(record(*fields), separators=(",", ":"))


def test_comments() -> None:
    assert parse('/* a */ {"type": // b\r\n "int", "x": "// \\" /* no comment */"}').text == (
        '{"type":"int","x":"// \\" /* no comment */"}'
    )
