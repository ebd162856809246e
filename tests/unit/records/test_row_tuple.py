"""Records from and to objects: the native form and the one in Python make the same of everything."""

import os
import random
import struct
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.made_batch import RecordFields
from tests.unit.records.mutation import TELLING, mutate, repair
from tests.unit.records.mutation import build as build_any

from tailrace.records import row_tuple
from tailrace.records.batch import HEADER_SIZE, read_header, set_log_append_time, set_producer
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.error import RecordError
from tailrace.records.murmur2 import hash_key, murmur2
from tailrace.records.native import find_native
from tailrace.records.row_tuple import RowTuple, read_tuples, write_tuples, write_tuples_python

FIELDS = st.none() | st.binary(max_size=40) | st.integers(8190, 8200).map(lambda size: b"x" * size)
CASES = int(os.environ.get("TAILRACE_FUZZ_CASES", "300"))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
TIMES = st.integers(0, 2**62) | st.sampled_from([0, 2**63 - 1])
ROWS = st.lists(st.tuples(TIMES, FIELDS, FIELDS, HEADERS), min_size=1, max_size=10)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def build(rows: list[RecordFields]) -> bytearray:
    builder = BatchBuilder(Compression.LZ4 if len(rows) % 2 else Compression.NONE)
    for row in rows:
        assert builder.append(*row)
    return bytearray(builder.build())


def read(batch: bytes | bytearray, start: int = 0) -> list[Row] | str:
    try:
        return list(read_tuples(batch, 0, read_header(batch), start, Row, "t", 3))
    except RecordError as error:
        return str(error)


def read_both(batch: bytes | bytearray, monkeypatch: pytest.MonkeyPatch, start: int = 0) -> list[Row] | str:
    found = read(batch, start)
    with monkeypatch.context() as patch:
        patch.setattr(row_tuple, "_read_tuples", None)
        assert read(batch, start) == found
    return found


@pytest.fixture(scope="module")
def patch() -> pytest.MonkeyPatch:
    return pytest.MonkeyPatch()


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_the_same(rows: list[RecordFields]) -> None:
    encoded: list[RowTuple] = [(*row[:3], [(name.encode(), field) for name, field in row[3]]) for row in rows]
    assert write_tuples(encoded, 61) == write_tuples_python(encoded, 61)


@given(rows=ROWS, start=st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_what_is_read_is_the_same(
    patch: pytest.MonkeyPatch,
    rows: list[RecordFields],
    start: int,
) -> None:
    expected = [Row("t", 3, index, *row[:3], tuple(row[3])) for index, row in enumerate(rows) if index >= start]
    assert read_both(build(rows), patch, start) == expected


def test_append_time_is_that_of_every_record(patch: pytest.MonkeyPatch) -> None:
    batch = build([(5, b"k", b"v", ()), (6, None, None, ())])
    set_log_append_time(batch, 0, 99)
    assert [row.timestamp for row in read_both(batch, patch)] == [99, 99]  # type: ignore[union-attr]


@given(position=st.integers(HEADER_SIZE, 200), byte=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_damage_is_an_error_or_the_same_records(patch: pytest.MonkeyPatch, position: int, byte: int) -> None:
    batch = build([(index, b"key", b"value" * 5, (("h", b"x"),)) for index in range(4)])
    if position < len(batch):
        batch[position] = byte
    read_both(batch, patch)


def test_mutated_batches_by_the_hundred(patch: pytest.MonkeyPatch) -> None:
    """The header is damaged too, and what stands in it is true again afterwards; TAILRACE_FUZZ_CASES asks for more."""
    outcomes: Counter[str] = Counter()
    for seed in range(CASES):
        rng = random.Random(seed)
        batch = build_any(rng, rng.choice([Compression.NONE, Compression.NONE, Compression.ZSTD]))
        for _ in range(rng.randrange(4)):
            mutate(rng, batch)
        if rng.random() < 0.3:
            batch[HEADER_SIZE:] = bytes(rng.choice((0, 1, 2, 4, 12, 14, *TELLING)) for _ in range(rng.randrange(100)))
        if len(batch) < HEADER_SIZE:
            continue
        batch[16] = 2  # the version of the format
        repair(batch)
        try:
            read_header(batch)
        except RecordError:
            continue
        found = read_both(batch, patch, rng.randrange(6))
        outcomes["error" if isinstance(found, str) else "records"] += 1
    assert min(outcomes["error"], outcomes["records"]) > CASES // 10, outcomes


@pytest.mark.parametrize("count", [-1, 0, 3, 5, 2**31 - 1])
def test_a_wrong_count_is_the_same_error(patch: pytest.MonkeyPatch, count: int) -> None:
    batch = build([(index, b"key", b"value", ()) for index in range(4)])
    struct.pack_into(">i", batch, 57, count)
    assert isinstance(read_both(batch, patch), str)


def test_a_field_that_is_no_bytes_is_refused() -> None:
    if find_native("write_tuples") is None:
        pytest.skip("the native module is not built")
    with pytest.raises(TypeError, match="bytes or None, not str"):
        write_tuples([(0, "text", None, ())], 0)  # type: ignore[list-item]


@given(st.binary(max_size=40))
def test_the_hash_is_the_same(key: bytes) -> None:
    assert hash_key(key) == murmur2(key)


def test_a_producer_puts_its_name_on_a_batch() -> None:
    batch = build([(5, b"k", b"v", ())])
    set_producer(batch, 0, 7, 2, 11)
    builder = BatchBuilder(Compression.LZ4, producer_id=7, producer_epoch=2, base_sequence=11)
    builder.append(5, b"k", b"v")
    assert bytes(batch) == bytes(builder.build())
