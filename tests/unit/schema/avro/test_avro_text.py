"""The texts of schemas, compared with those of Confluent's registry 8.3, which uses Avro 1.12 for Java."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.schema.avro import parse
from tailrace.schema.language import InvalidSchema, SchemaType

GOLDEN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("golden.json").read_text())
VALID = [golden for golden in GOLDEN if "error" not in golden]
INVALID = [golden for golden in GOLDEN if "error" in golden]


def test_there_are_many_of_both() -> None:
    assert len(VALID) > 100
    assert len(INVALID) > 50


@pytest.mark.parametrize("golden", VALID, ids=lambda golden: golden["text"][:60])
def test_texts_are_those_of_confluent(golden: dict[str, Any]) -> None:
    schema = parse(golden["text"], golden.get("imports"))
    assert schema.type is SchemaType.AVRO
    assert schema.text == golden["canonical"]
    assert schema.formatted("resolved") == golden["resolved"]
    assert schema.normalized().text == golden["normalized"]
    assert schema.name == golden["name"]


@pytest.mark.parametrize("golden", INVALID, ids=lambda golden: golden["text"][:60])
def test_what_confluent_rejects_is_rejected(golden: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema):
        parse(golden["text"], golden.get("imports"))


@pytest.mark.parametrize("golden", VALID, ids=lambda golden: golden["text"][:60])
def test_normalizing_twice_changes_nothing(golden: dict[str, Any]) -> None:
    normal = parse(golden["text"], golden.get("imports")).normalized()
    assert normal.normalized().text == normal.text
    assert parse(normal.text, golden.get("imports")).normalized().text == normal.text


def test_an_unknown_format_gives_the_text() -> None:
    schema = parse('{"type": "int"}')
    assert [schema.formatted(form) for form in ("", "default", "serialized")] == ['"int"'] * 3


def test_normalizing_keeps_a_default_of_a_later_branch() -> None:
    """Confluent's registry drops this default, after which readers of older records fail."""
    text = '{"type":"record","name":"R","fields":[{"name":"x","type":["null","double"],"default":1}]}'
    assert '"default":1.0' in parse(text).normalized().text


def test_normalizing_keeps_a_type_without_a_namespace_there() -> None:
    """Confluent's registry moves the inner type to the namespace of the outer one, which renames it."""
    inner = '{"type":"fixed","name":"F","namespace":"","size":1}'
    text = f'{{"type":"record","name":"a.R","fields":[{{"name":"x","type":{inner}}}]}}'
    assert '"namespace":""' in parse(text).normalized().text


def test_normalizing_an_empty_union() -> None:
    """Confluent's registry fails with an exception."""
    text = '{"type":"record","name":"R","fields":[{"name":"x","type":[]}]}'
    assert parse(text).normalized().text == text


def test_normalizing_leaves_the_types_of_references_alone() -> None:
    """The normal form inlines S, which only the import defines, and must not define it in another way."""
    imports = {
        "R": '{"type":"record","name":"R","fields":[{"name":"s","type":{"type":"record","name":"S",'
        '"fields":[{"name":"x","type":"double","default":1}]}}]}'
    }
    normal = parse('{"type":"array","items":"S"}', imports).normalized()
    assert '"default":1}' in normal.text
    assert parse(normal.text, imports).text == normal.text
