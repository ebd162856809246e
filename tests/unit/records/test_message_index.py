"""The message index of Confluent's wire format, with bytes from the Java serializer's rules."""

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from tailrace.records.error import CorruptBatch
from tailrace.records.message_index import FIRST, decode, encode, index_of, name_at
from tailrace.schema.protobuf import parse

GOLDEN = {
    (0,): b"\x00",
    (1,): b"\x02\x02",
    (0, 0): b"\x04\x00\x00",
    (1, 0): b"\x04\x02\x00",
    (2, 1, 64): b"\x06\x04\x02\x80\x01",
}


@pytest.mark.parametrize("index", GOLDEN)
def test_golden_bytes(index: tuple[int, ...]) -> None:
    assert encode(index) == GOLDEN[index]
    assert decode(GOLDEN[index], 0, len(GOLDEN[index])) == (index, len(GOLDEN[index]))


def test_the_first_message_may_also_be_written_in_full() -> None:
    assert decode(b"\x02\x00", 0, 2) == (FIRST, 2)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20), st.binary(max_size=5), st.binary(max_size=5))
def test_round_trip_between_other_bytes(parts: list[int], before: bytes, after: bytes) -> None:
    data = encode(tuple(parts))
    assert decode(before + data + after, len(before), len(before) + len(data)) == (
        tuple(parts),
        len(before) + len(data),
    )


@pytest.mark.parametrize("data", [data[:end] for data in GOLDEN.values() for end in range(len(data))])
def test_cut_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode(data, 0, len(data))


@pytest.mark.parametrize(
    "data", [b"\x01", b"\x02\x01", b"\xff" * 9, b"\xd0\x0f" + b"\0" * 1000, b"\x02\xff\xff\xff\xff\xff\x01"]
)
def test_impossible_indexes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode(data, 0, len(data))


TEXT = """syntax = "proto3"; package shop.v1;
    enum E { X = 0; }
    message Order { map<string, Line> lines = 1; message Line { message Price { } } enum K { Y = 0; } message Note { } }
    message Item { }"""

NAMES = {
    "shop.v1.Order": (0,),
    "shop.v1.Order.Line": (0, 0),
    "shop.v1.Order.Line.Price": (0, 0, 0),
    "shop.v1.Order.Note": (0, 1),
    "shop.v1.Item": (1,),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_and_indexes(name: str) -> None:
    file = parse(TEXT).counted_descriptor
    assert index_of(file, name) == NAMES[name]
    assert name_at(file, NAMES[name]) == name


def test_a_file_without_a_package() -> None:
    file = parse('syntax = "proto3"; message M { message N { } }').counted_descriptor
    assert index_of(file, "M.N") == (0, 0)
    assert name_at(file, ()) == name_at(file, FIRST) == "M"


@pytest.mark.parametrize("name", ["Order", "shop.v1", "shop.v1.Other", "shop.v1.Order.Other", "", ".", "shop.v1.E"])
def test_an_unknown_name_has_no_index(name: str) -> None:
    with pytest.raises(LookupError):
        index_of(parse(TEXT).counted_descriptor, name)


@pytest.mark.parametrize("index", [(2,), (0, 9), (1, 0), (-1,), (0, 0, 0, 0)])
def test_an_unknown_index_has_no_name(index: tuple[int, ...]) -> None:
    with pytest.raises(LookupError):
        name_at(parse(TEXT).counted_descriptor, index)


def test_an_empty_file_has_no_message() -> None:
    with pytest.raises(LookupError):
        name_at(FileDescriptorProto(), FIRST)


def test_a_message_of_map_entries_counts_where_a_descriptor_has_it() -> None:
    """protoc puts it before messages that are declared later, and clients count it there."""
    file = FileDescriptorProto(name="m.proto", syntax="proto3")
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="AEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=9)
    message.field.add(name="a", number=1, label=3, type=11, type_name=".M.AEntry")
    message.nested_type.add(name="N")
    schema = parse(base64.b64encode(file.SerializeToString()).decode())
    assert (
        index_of(schema.counted_descriptor, "M.N") == index_of(parse(schema.text).counted_descriptor, "M.N") == (0, 1)
    )


def test_a_file_that_only_imports_another_publicly_counts_its_messages() -> None:
    imported = {"order.proto": TEXT}
    schema = parse('syntax = "proto3"; import public "order.proto";', imported)
    assert schema.name == "shop.v1.Order"
    assert index_of(schema.counted_descriptor, "shop.v1.Item") == (1,)
