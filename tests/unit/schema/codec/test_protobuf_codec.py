"""Protobuf values and columns whose schemas are in a registry."""

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.message import Message
from google.type import money_pb2, postal_address_pb2  # type: ignore[import-untyped]

from tailrace.schema import CodecError, NewSchema, ProtobufCodec, Reference, Registry, SchemaType

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message View {
  int64 user = 1;
  google.protobuf.Timestamp at = 2;
  message Page { string path = 1; }
  repeated Page pages = 3;
}
message Click { string button = 1; }
"""


@pytest.fixture
def views(registry: Registry, topic: str) -> ProtobufCodec:
    return ProtobufCodec(registry, topic, schema=TEXT)


def test_a_dictionary_becomes_a_message(registry: Registry, topic: str, views: ProtobufCodec) -> None:
    data = views.encode({"user": 7, "at": "2026-03-01T12:00:00Z", "pages": [{"path": "/"}]})
    assert data is not None
    assert data[:6] == b"\0" + registry.latest(f"{topic}-value").id.to_bytes(4) + b"\0"
    found = ProtobufCodec(registry, topic).decode(data)
    assert isinstance(found, Message)
    assert (found.user, found.at.seconds, found.pages[0].path) == (7, 1772366400, "/")
    assert views.encode(views.decode(data)) == data


@pytest.mark.parametrize(("name", "index"), [("shop.Click", b"\x02\x02"), ("shop.View.Page", b"\x04\x00\x00")])
def test_messages_by_their_index(registry: Registry, topic: str, name: str, index: bytes) -> None:
    codec = ProtobufCodec(registry, topic, schema=TEXT, message=name)
    data = codec.encode({})
    assert data is not None
    assert data[5:] == index
    assert ProtobufCodec(registry, topic).decode(data).DESCRIPTOR.full_name == name


def test_a_generated_class_is_its_own_schema(registry: Registry, topic: str) -> None:
    codec = ProtobufCodec(registry, topic, message=money_pb2.Money)
    message = money_pb2.Money(currency_code="EUR", units=3)
    data = codec.encode(message)
    assert codec.decode(data) == message
    assert registry.latest(f"{topic}-value").text.startswith('syntax = "proto3";\npackage google.type;')
    assert ProtobufCodec(registry, topic).decode(data).currency_code == "EUR"
    with pytest.raises(CodecError, match=r"is a google.type.PostalAddress and not a google.type.Money"):
        codec.encode(postal_address_pb2.PostalAddress())
    other = ProtobufCodec(registry, f"{topic}-other", message=timestamp_pb2.Timestamp)
    with pytest.raises(CodecError, match=r"is a google.type.Money and not a google.protobuf.Timestamp"):
        other.decode(data)


def test_a_schema_with_references(registry: Registry, topic: str) -> None:
    part = 'syntax = "proto3"; package p; message Part { string name = 1; }'
    registry.register(f"{topic}-part", NewSchema(part, SchemaType.PROTOBUF))
    text = 'syntax = "proto3"; import "part.proto"; message Whole { p.Part part = 1; }'
    codec = ProtobufCodec(registry, topic, schema=text, references=[Reference("part.proto", f"{topic}-part", 1)])
    assert ProtobufCodec(registry, topic).decode(codec.encode({"part": {"name": "x"}})).part.name == "x"


def test_a_reader_with_a_newer_schema(registry: Registry, topic: str, views: ProtobufCodec) -> None:
    data = views.encode({"user": 7})
    newer = TEXT.replace("int64 user = 1;", "int64 user = 1; string country = 4;")
    assert ProtobufCodec(registry, topic, schema=newer).decode(data).country == ""


def test_the_subject_is_named_after_the_message(registry: Registry, topic: str) -> None:
    assert ProtobufCodec(registry, topic, schema=TEXT, subject_name="record").subject == "shop.View"
    codec = ProtobufCodec(registry, topic, schema=TEXT, message="shop.Click", subject_name="topic-record")
    assert codec.subject == f"{topic}-shop.Click"


def test_what_cannot_be_written(registry: Registry, topic: str, views: ProtobufCodec) -> None:
    with pytest.raises(CodecError, match=f"value of topic {topic} does not fit the schema: .*colour"):
        views.encode({"colour": "red"})
    with pytest.raises(CodecError, match="neither a message nor a dictionary"):
        views.encode(5)
    with pytest.raises(CodecError, match=r"the schema has no message shop\.Sale"):
        ProtobufCodec(registry, topic, schema=TEXT, message="shop.Sale").encode({})


@pytest.mark.parametrize("rest", [b"", b"\x02\x0a", b"\x0f", b"\x00\xff"])
def test_what_cannot_be_read(views: ProtobufCodec, rest: bytes) -> None:
    data = views.encode({"user": 7})
    assert data is not None
    with pytest.raises(CodecError, match="not a valid Protobuf value"):
        views.decode(data[:5] + rest)


def test_a_table_there_and_back(registry: Registry, topic: str, views: ProtobufCodec) -> None:
    table = pa.table({"user": ["7", "8"], "pages": [[{"path": "/"}], []]})
    values = views.encode_table(table)["value"]
    found = ProtobufCodec(registry, topic).decode_column(pa.chunked_array([*values.chunks, pa.nulls(1, pa.binary())]))
    assert found["user"].to_pylist() == ["7", "8", None]
    assert found["pages"].to_pylist() == [[{"path": "/"}], [], None]
