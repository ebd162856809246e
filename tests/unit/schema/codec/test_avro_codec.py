"""Avro values and columns whose schemas are in a registry."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tailrace.records.arrow.avro_decode import AvroValueError
from tailrace.records.error import RecordError
from tailrace.schema import AvroCodec, CodecError, JsonCodec, NewSchema, Reference, Registry, RegistryError


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "View", "namespace": "shop", "fields": list(fields)})


USER = {"name": "user", "type": "int"}
PAGE = {"name": "page", "type": "string"}
FIRST = record(USER, PAGE)
SECOND = record(
    {"name": "user", "type": "long"},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
    {"name": "seconds", "type": ["null", "double"], "default": None},
)


@pytest.fixture
def first(registry: Registry, topic: str) -> AvroCodec:
    return AvroCodec(registry, topic, schema=FIRST)


def test_a_value_there_and_back(registry: Registry, topic: str, first: AvroCodec) -> None:
    data = first.encode({"user": 7, "page": "/docs"})
    assert data is not None
    schema_id = registry.latest(f"{topic}-value").id
    assert data == b"\0" + schema_id.to_bytes(4) + b"\x0e\x0a/docs"
    assert first.decode(data) == AvroCodec(registry, topic).decode(data) == {"user": 7, "page": "/docs"}
    assert (first.encode(None), first.decode(None)) == (None, None)


def test_a_reader_with_a_newer_schema(registry: Registry, topic: str, first: AvroCodec) -> None:
    data = first.encode({"user": 7, "page": "/docs"})
    expected = {"user": 7, "tags": ["none"], "seconds": None}
    assert AvroCodec(registry, topic, schema=SECOND).decode(data) == expected
    newest = registry.register(f"{topic}-value", NewSchema(SECOND))
    assert AvroCodec(registry, topic, use_latest=True).decode(data) == expected
    assert AvroCodec(registry, topic, schema_id=newest.id).decode(data) == expected


def with_default(type_: Any, default: Any) -> tuple[str, str]:
    """The schemas of a record without and with a field that has a default."""
    return record(USER), record(USER, {"name": "more", "type": type_, "default": default})


FIXED = {"type": "fixed", "name": "Two", "size": 2}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "data", "type": "bytes", "default": "\u00ff"}]}


@pytest.mark.parametrize(
    ("type_", "default", "value"),
    [
        ("bytes", "\u00ff\u0000", b"\xff\x00"),
        (FIXED, "\u00ffa", b"\xffa"),
        (["bytes", "null"], "\u00e9", b"\xe9"),
        (["null", "bytes"], "\u00e9", b"\xe9"),
        ([FIXED, "null"], "\u00ffa", b"\xffa"),
        (["string", "bytes"], "\u00e9", "\u00e9"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": ["null", "bytes"]}, {"a": "\u00ff", "b": None}, {"a": b"\xff", "b": None}),
        (INNER, {}, {"data": b"\xff"}),
        (INNER, {"data": "a"}, {"data": b"a"}),
        (["null", INNER], {}, {"data": b"\xff"}),
        (DECIMAL, "\u0001\u0000", Decimal("2.56")),
        ({"type": "long", "logicalType": "timestamp-millis"}, 0, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        ({"type": "string", "logicalType": "uuid"}, "", ""),
    ],
)
def test_defaults_are_written_and_read_as_values(
    registry: Registry, topic: str, type_: Any, default: Any, value: Any
) -> None:
    """fastavro took the text of a default for the value: it could not write bytes, and returned text for them."""
    lacking, having = with_default(type_, default)
    data = AvroCodec(registry, topic, schema=lacking).encode({"user": 1})
    codec = AvroCodec(registry, topic, schema=having)
    assert codec.decode(data) == {"user": 1, "more": value}
    if value != "":  # fastavro writes no other text as a UUID than that of one
        assert codec.encode({"user": 1}) == codec.encode({"user": 1, "more": value})


def test_a_default_inside_a_value(registry: Registry, topic: str) -> None:
    codec = AvroCodec(registry, topic, schema=record({"name": "inner", "type": ["null", INNER]}))
    assert codec.decode(codec.encode({"inner": {}})) == {"inner": {"data": b"\xff"}}


@pytest.mark.parametrize(
    ("name", "subject"),
    [("topic", "{topic}-key"), ("record", "shop.View"), ("topic-record", "{topic}-shop.View")],
)
def test_names_of_subjects(registry: Registry, topic: str, name: str, subject: str) -> None:
    codec = AvroCodec(registry, topic, schema=FIRST, subject_name=name, is_key=True)
    assert codec.subject == subject.format(topic=topic)
    codec.encode({"user": 1, "page": ""})
    assert codec.subject in registry.subjects()


def test_a_subject_named_after_a_record_needs_one(registry: Registry, topic: str) -> None:
    with pytest.raises(CodecError, match="needs a schema"):
        AvroCodec(registry, topic, use_latest=True, subject_name="record").encode({})
    with pytest.raises(CodecError, match="has no name"):
        AvroCodec(registry, topic, schema='"int"', subject_name="record").encode(1)


def test_nothing_is_registered_unless_asked(registry: Registry, topic: str) -> None:
    codec = AvroCodec(registry, topic, schema=FIRST, auto_register=False)
    with pytest.raises(RegistryError) as raised:
        codec.encode({"user": 1, "page": ""})
    assert raised.value.code == 40401
    stored = registry.register(f"{topic}-value", NewSchema(FIRST))
    data = codec.encode({"user": 1, "page": ""})
    assert data is not None
    assert data[1:5] == stored.id.to_bytes(4)


def test_a_schema_with_references(registry: Registry, topic: str) -> None:
    registry.register(
        f"{topic}-user", NewSchema('{"type":"record","name":"User","fields":[{"name":"id","type":"int"}]}')
    )
    text = json.dumps({"type": "record", "name": "Visit", "fields": [{"name": "by", "type": "User"}]})
    codec = AvroCodec(registry, topic, schema=text, references=[Reference("User", f"{topic}-user", 1)])
    data = codec.encode({"by": {"id": 3}})
    assert AvroCodec(registry, topic).decode(data) == {"by": {"id": 3}}


def test_what_cannot_be_written(registry: Registry, topic: str, first: AvroCodec) -> None:
    with pytest.raises(CodecError, match=f"value of topic {topic} does not fit the schema.*user"):
        first.encode({"user": "seven", "page": ""})
    with pytest.raises(CodecError, match="pass schema, schema_id or use_latest=True"):
        AvroCodec(registry, topic).encode({})
    with pytest.raises(ValueError, match="exclude each other"):
        AvroCodec(registry, topic, schema=FIRST, use_latest=True)


def test_what_cannot_be_read(registry: Registry, topic: str, first: AvroCodec) -> None:
    data = first.encode({"user": 7, "page": "/docs"})
    assert data is not None
    for damaged in (b"", b"{}", b"\x01" + data[1:]):
        with pytest.raises(CodecError, match="do not begin with 0 and the id of a schema"):
            first.decode(damaged)
    for damaged, reason in ((data[:-1], "not a valid Avro value"), (data + b"x", "1 bytes follow its end")):
        with pytest.raises(CodecError, match=f"value of topic {topic}, schema id .*{reason}"):
            first.decode(damaged)
    with pytest.raises(RegistryError) as raised:
        first.decode(b"\0\x7f\xff\xff\xff")
    assert raised.value.code == 40403
    with pytest.raises(CodecError, match="is AVRO and not JSON"):
        JsonCodec(registry, topic).decode(data)


# --- columns


def test_a_table_there_and_back(registry: Registry, topic: str, first: AvroCodec) -> None:
    table = pa.table({"user": pa.array([7, 8], pa.int64()), "page": ["/docs", "/"]})
    sent = first.encode_table(table)
    assert sent.column_names == ["value"]
    rows = [{"user": 7, "page": "/docs"}, {"user": 8, "page": "/"}]
    assert sent["value"].to_pylist() == [first.encode(row) for row in rows]
    assert AvroCodec(registry, topic).decode_column(sent["value"]).to_pylist() == rows
    assert AvroCodec(registry, topic, schema=FIRST, is_key=True).encode_table(table).column_names == ["key"]


def test_values_of_several_schemas_become_one_table(registry: Registry, topic: str, first: AvroCodec) -> None:
    second = AvroCodec(registry, topic, schema=SECOND)
    new = {"user": 2**40, "tags": ["a", "b"], "seconds": 1.5}
    values = [first.encode({"user": 7, "page": "/"}), None, second.encode(new), first.encode({"user": 8, "page": "/"})]
    column = pa.chunked_array([values[:2], values[2:], []], pa.binary())
    old = {"tags": ["none"], "seconds": None}
    expected = [{"user": 7, **old}, {"user": None, "tags": None, "seconds": None}, new, {"user": 8, **old}]
    for codec in (second, AvroCodec(registry, topic), AvroCodec(registry, topic, use_latest=True)):
        table = codec.decode_column(column)
        assert table.to_pylist() == expected
        assert table.schema.field("user").type == pa.int64()


def test_an_error_names_the_row_of_the_column(registry: Registry, topic: str, first: AvroCodec) -> None:
    second = AvroCodec(registry, topic, schema=SECOND)
    good, other = first.encode({"user": 7, "page": "/"}), second.encode({"user": 1})
    assert good is not None
    with pytest.raises(AvroValueError, match=r"row 3: .*ends before its schema does"):
        second.decode_column(pa.array([good, other, None, good[:-1]]))


def test_schemas_that_do_not_fit_are_refused(registry: Registry, topic: str, first: AvroCodec) -> None:
    registry.set_config({"compatibility": "NONE"}, f"{topic}-value")
    required = AvroCodec(registry, topic, schema=record(USER, PAGE, {"name": "country", "type": "string"}))
    values = [required.encode({"user": 1, "page": "", "country": "nl"}), first.encode({"user": 7, "page": "/"})]
    with pytest.raises(RecordError, match=r"row 1: .*country"):
        required.decode_column(pa.array(values))


def test_a_column_without_values(registry: Registry, topic: str, first: AvroCodec) -> None:
    empty = pa.array([], pa.binary())
    assert first.decode_column(empty).schema == pa.schema({"user": pa.int32(), "page": pa.string()})
    assert first.decode_column(pa.array([None], pa.binary())).to_pylist() == [{"user": None, "page": None}]
    with pytest.raises(CodecError, match="without values has no schema"):
        AvroCodec(registry, topic).decode_column(empty)


def test_a_column_of_another_type_than_record(registry: Registry, topic: str) -> None:
    codec = AvroCodec(registry, topic, schema='{"type":"int","logicalType":"date"}')
    day = datetime.date(2026, 3, 1)
    assert codec.decode_column(pa.array([codec.encode(day)])).to_pylist() == [{"value": day}]
