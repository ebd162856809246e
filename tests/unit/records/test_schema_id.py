"""The schema ids of a batch: what the look at the first bytes finds, and that its two implementations never differ."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.base.limits import MIB, RECORD_ERRORS_PER_BATCH_MAX, SCHEMA_IDS_PER_BATCH_MAX
from tailrace.base.record_part import RecordPart
from tailrace.records.batch import HEADER_SIZE, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.schema_id import (
    TOO_SHORT,
    WRONG_MAGIC,
    CollectFunction,
    SchemaIds,
    collect_schema_ids_python,
)
from tailrace.records.validation import find_schema_ids, validate_batch

try:
    from tailrace.records._native import collect_schema_ids as collect_schema_ids_native
except ImportError:
    collect_schema_ids_native = None

needs_native = pytest.mark.skipif(collect_schema_ids_native is None, reason="the native module is not built here")


@pytest.fixture(params=["python", pytest.param("native", marks=needs_native)])
def collect(request: pytest.FixtureRequest) -> CollectFunction:
    return collect_schema_ids_python if request.param == "python" else collect_schema_ids_native


def framed(schema_id: int, payload: bytes = b"payload") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def body_of(*pairs: tuple[bytes | None, bytes | None]) -> bytes:
    """The records of these keys and values, as an uncompressed batch has them."""
    builder = BatchBuilder()
    for index, (key, value) in enumerate(pairs):
        builder.append(1_000 + index, key, value, [("name", b"header"), ("null", None)])
    return bytes(builder.build())[HEADER_SIZE:]


def values_of(collect: CollectFunction, *values: bytes | None) -> SchemaIds:
    body = body_of(*((b"key", value) for value in values))
    return collect(body, 0, len(body), len(values), False)


def test_ids_come_with_the_records_that_have_them(collect: CollectFunction) -> None:
    found = values_of(collect, framed(7), framed(7), framed(2**31 - 1, b""), framed(7), framed(0))
    assert found == {7: (0, 1, 3), 2**31 - 1: (2,), 0: (4,)}


def test_an_id_is_read_as_an_unsigned_number(collect: CollectFunction) -> None:
    """So no bytes of a producer look like the numbers for records without an id."""
    assert values_of(collect, b"\x00\xff\xff\xff\xff", b"\x00\xff\xff\xff\xfe") == {2**32 - 1: (0,), 2**32 - 2: (1,)}


@pytest.mark.parametrize("size", range(5))
def test_a_value_without_room_for_an_id_is_too_short(collect: CollectFunction, size: int) -> None:
    assert values_of(collect, framed(7)[:size]) == {TOO_SHORT: (0,)}


def test_another_first_byte_is_the_wrong_magic(collect: CollectFunction) -> None:
    assert values_of(collect, framed(7), b"\x01\x00\x00\x00\x07", b"plain text") == {7: (0,), WRONG_MAGIC: (1, 2)}


def test_null_is_left_out(collect: CollectFunction) -> None:
    assert values_of(collect, None, framed(3), None) == {3: (1,)}
    assert values_of(collect, None) == {}


def test_no_records(collect: CollectFunction) -> None:
    assert collect(b"", 0, 0, 0, False) == {}


def test_keys_are_looked_at_apart_from_values(collect: CollectFunction) -> None:
    body = body_of((framed(1), framed(2)), (None, b"x"), (b"x", None))
    assert collect(body, 0, len(body), 3, True) == {1: (0,), TOO_SHORT: (2,)}
    assert collect(body, 0, len(body), 3, False) == {2: (0,), TOO_SHORT: (1,)}


def test_only_the_first_records_of_an_id_are_named(collect: CollectFunction) -> None:
    found = values_of(collect, *[framed(7)] * (RECORD_ERRORS_PER_BATCH_MAX + 5))
    assert found == {7: tuple(range(RECORD_ERRORS_PER_BATCH_MAX))}


@pytest.mark.parametrize("step", [1, 4096, 2**20, 999_983])
def test_the_walk_ends_at_the_limit_of_ids(collect: CollectFunction, step: int) -> None:
    values = [framed(step * number) for number in range(SCHEMA_IDS_PER_BATCH_MAX + 3)]
    most = values_of(collect, *values[: SCHEMA_IDS_PER_BATCH_MAX - 1], *values[: SCHEMA_IDS_PER_BATCH_MAX - 1])
    assert most == {step * number: (number, number + len(most)) for number in range(SCHEMA_IDS_PER_BATCH_MAX - 1)}
    assert len(values_of(collect, *values)) == SCHEMA_IDS_PER_BATCH_MAX


def test_part_of_a_buffer(collect: CollectFunction) -> None:
    body = body_of((None, framed(9)))
    assert collect(memoryview(b"before" + body + b"after"), 6, 6 + len(body), 1, False) == {9: (0,)}


@pytest.mark.parametrize(("position", "end"), [(-1, 3), (0, 999), (4, 3)])
def test_part_that_is_not_within_the_buffer(collect: CollectFunction, position: int, end: int) -> None:
    with pytest.raises(ValueError, match="within"):
        collect(body_of((None, None)), position, end, 1, False)


@given(st.binary(max_size=40), st.integers(0, 5), st.booleans())
@needs_native
def test_both_implementations_judge_any_bytes_alike(data: bytes, count: int, is_key: bool) -> None:
    """Also bytes that no validation has seen: neither may read beyond them."""
    outcomes = []
    for collect in (collect_schema_ids_python, collect_schema_ids_native):
        try:
            outcomes.append(collect(data, 0, len(data), count, is_key))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


FIELDS = st.none() | st.binary(max_size=8) | st.builds(framed, st.integers(0, 2**32 - 1) | st.integers(0, 3))


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=30), st.booleans())
@needs_native
def test_both_implementations_find_the_same(pairs: list[tuple[bytes | None, bytes | None]], is_key: bool) -> None:
    body = body_of(*pairs)
    arguments = (body, 0, len(body), len(pairs), is_key)
    assert collect_schema_ids_native(*arguments) == collect_schema_ids_python(*arguments)


# --- within the validation of a batch


def batch_of(codec: Compression, **details: Any) -> bytearray:
    builder = BatchBuilder(codec, **details)
    for key, value in ((None, framed(5)), (framed(6), None), (framed(6), b"no id"), (b"k", framed(5))):
        builder.append(1_000, key, value)
    return bytearray(builder.build())


@pytest.mark.parametrize(
    "details",
    [
        pytest.param({}, id="plain"),
        pytest.param({"producer_id": 4, "producer_epoch": 1, "base_sequence": 0}, id="idempotent"),
        pytest.param(
            {"producer_id": 4, "producer_epoch": 1, "base_sequence": 0, "is_transactional": True}, id="transactional"
        ),
    ],
)
def test_a_valid_batch_of_every_codec_has_its_ids(codec: Compression, details: dict[str, Any]) -> None:
    batch = batch_of(codec, **details)
    key_ids: tuple[RecordPart, SchemaIds] = ("key", {6: (1, 2), TOO_SHORT: (3,)})
    value_ids: tuple[RecordPart, SchemaIds] = ("value", {5: (0, 3), WRONG_MAGIC: (2,)})
    assert validate_batch(batch, size_bytes_max=10_000).schema_ids == ()
    for found in ((value_ids,), (key_ids,), (key_ids, value_ids)):
        valid = validate_batch(batch, size_bytes_max=10_000, schema_parts=[part for part, _ in found])
        assert [(part, list(ids)) for part, ids in valid.schema_ids] == [(part, list(ids)) for part, ids in found]
        parts = [part for part, _ in found]
        assert find_schema_ids(batch, valid.header, parts, decompressed_bytes_max=10_000) == dict(found)
        assert valid.header == read_header(batch)


def test_a_batch_keeps_its_different_ids_only() -> None:
    """A batch of 3.6 KB with a thousand ids kept 267 KB until the answer, and a request has hundreds of batches."""
    builder = BatchBuilder(Compression.ZSTD)
    for number in range(20_000):
        builder.append(1_000, None, framed(number % 1_000))
    valid = validate_batch(bytearray(builder.build()), size_bytes_max=MIB, schema_parts=["value"])
    ((_, found),) = valid.schema_ids
    assert list(found) == list(range(1_000))
    assert sys.getsizeof(found) < 10_000
