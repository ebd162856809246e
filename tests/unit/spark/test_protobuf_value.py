"""Protobuf messages as rows of pipelines, and rows as messages."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.spark.registry_model import SETTINGS, RegistryModel

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("google.protobuf", reason="protobuf is not installed")

from google.protobuf import json_format
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tailrace.pipeline import PipelineError
from tailrace.schema.codec.protobuf import LoadedProtobuf
from tailrace.schema.language import SchemaType
from tailrace.schema.protobuf.schema import parse
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.topic.framed_value import ValueDecoder, ValueEncoder, _kept_codec
from tailrace.spark.connector.topic.protobuf_schema import protobuf_schema
from tailrace.spark.connector.topic.protobuf_value import first_message, message_fields, row_of
from tailrace.spark.connector.topic.registered import ValueFormat
from tailrace.spark.connector.topic.value_type import arrow_columns
from tailrace.spark.error import MalformedValue, WriteError

TEXT = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Item { string name = 1; uint32 count = 2; }
  int64 id = 1;
  optional string note = 2;
  State state = 3;
  repeated Item items = 4;
  map<string, Item> by_name = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.Int64Value limit = 7;
  uint64 huge = 8;
  bytes data = 9;
  repeated State states = 10;
  map<int32, double> prices = 11;
}
message Other { int64 id = 1; }
"""
STOPS = Rejects("f")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> RegistryModel:
    model = RegistryModel()
    monkeypatch.setattr("tailrace.spark.connector.topic.framed_value.Registry", model)
    _kept_codec.cache_clear()
    return model


def message(name: str, **fields: Any) -> Any:
    return json_format.ParseDict(fields, LoadedProtobuf(parse(TEXT)).message_class(name)())


def batch(*values: bytes | None) -> Any:
    count = len(values)
    columns = {"value": pa.array(values, pa.binary()), "topic": ["t"] * count}
    return pa.RecordBatch.from_pydict({**columns, "partition": [0] * count, "offset": list(range(count))})


def test_a_message_is_a_row() -> None:
    order = message(
        "Order",
        id=-5,
        state="PAID",
        items=[{"name": "mug", "count": 2}],
        byName={"pen": {"name": "pen"}},
        at="2026-01-01T10:00:00.000007Z",
        limit=0,
        huge=2**64 - 1,
        data="/w==",
        states=["NEW", "PAID", 7],
        prices={"3": 1.5},
    )
    type_ = pa.struct(message_fields(first_message(TEXT, {})))
    assert pa.array([row_of(order), row_of(message("Order"))], type_).to_pylist() == [
        {
            "id": -5,
            "note": None,
            "state": "PAID",
            "items": [{"name": "mug", "count": 2}],
            "by_name": [("pen", {"name": "pen", "count": 0})],
            "at": datetime(2026, 1, 1, 10, 0, 0, 7, UTC),
            "limit": 0,
            "huge": Decimal(2**64 - 1),
            "data": b"\xff",
            "states": ["NEW", "PAID", "7"],
            "prices": [(3, 1.5)],
        },
        {
            "id": 0,
            "note": None,
            "state": "NEW",
            "items": [],
            "by_name": [],
            "at": None,
            "limit": None,
            "huge": Decimal(0),
            "data": b"",
            "states": [],
            "prices": [],
        },
    ]


def test_a_message_that_contains_itself_has_no_columns() -> None:
    with pytest.raises(PipelineError, match="message Node contains itself"):
        message_fields(first_message('syntax = "proto3"; message Node { Node next = 1; }', {}))


def test_values_of_another_message_or_of_none_are_malformed(registry: RegistryModel) -> None:
    schema_id = registry.add("t-value", TEXT, SchemaType.PROTOBUF)
    frame = b"\x00" + schema_id.to_bytes(4)
    columns = arrow_columns(registry.schema(schema_id))
    good = frame + b"\x00" + message("Order", id=1).SerializeToString()
    other = frame + b"\x02\x02" + message("Other", id=1).SerializeToString()
    values = batch(good, None, other, frame + b"\x00\xff", good)
    decoder = ValueDecoder(ValueFormat.PROTOBUF, SETTINGS, "t", schema_id, None, columns)
    (decoded,) = decoder.decode(iter([values]))
    assert decoded.column("id").to_pylist() == [1, None, None, None, 1]
    strict = ValueDecoder(ValueFormat.PROTOBUF, SETTINGS, "t", schema_id, STOPS, columns)
    with pytest.raises(MalformedValue, match="t-0 offset 2: the value is a Other and not a Order"):
        list(strict.decode(iter([values])))


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in types.items()])


def test_rows_have_a_derived_message_and_come_back(registry: RegistryModel) -> None:
    item = columns(name=StringType(), price=DoubleType())
    schema = columns(
        user=StringType(), items=ArrayType(item), sums=MapType(StringType(), LongType()), at=TimestampType(), top=item
    )
    text = protobuf_schema(schema, "1st-topic")
    parse(text)
    schema_id = registry.add("t-value", text, SchemaType.PROTOBUF)
    read_columns = arrow_columns(registry.schema(schema_id))
    moment = datetime(2026, 1, 1, 10, 0, 0, 7, UTC)
    rows = [
        {"user": "ann", "items": [{"name": "mug", "price": 1.5}], "sums": [("a", 1)], "at": moment, "top": None},
        {"user": None, "items": [], "sums": [], "at": None, "top": {"name": None, "price": 2.0}},
    ]
    encoder = ValueEncoder(ValueFormat.PROTOBUF, SETTINGS, "t", text, STOPS)
    (encoded,) = encoder.encode(iter([pa.RecordBatch.from_pylist(rows, read_columns)]))
    decoder = ValueDecoder(ValueFormat.PROTOBUF, SETTINGS, "t", schema_id, None, read_columns)
    (decoded,) = decoder.decode(iter([batch(*encoded.column("value").to_pylist())]))
    assert decoded.to_pylist() == rows
    nulls = pa.RecordBatch.from_pylist([{"items": [None]}], read_columns)
    with pytest.raises(WriteError, match=r"a row cannot be written to topic t: .* no null in lists"):
        list(encoder.encode(iter([nulls])))


@pytest.mark.parametrize(
    ("name", "type_", "message"),
    [
        ("a b", LongType(), "t: column a b is not a name in Protobuf"),
        ("d", DateType(), "t: column d is date, which Protobuf does not have"),
        ("m", MapType(DoubleType(), LongType()), "t: column m is a map with keys of type double"),
    ],
)
def test_columns_without_a_protobuf_type_are_named(name: str, type_: DataType, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        protobuf_schema(columns(**{name: type_}), "t")
