"""The walk over records: what it finds, and that its two implementations never differ."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.made_batch import RecordFields

from tailrace.base.limits import RECORD_ERRORS_PER_BATCH_MAX
from tailrace.base.sentinel import INT64_MAX, INT64_MIN
from tailrace.records.batch import HEADER_SIZE
from tailrace.records.builder import BatchBuilder
from tailrace.records.varint import write_varint
from tailrace.records.walk import IS_NATIVE, WalkError, WalkFunction, WalkTuple, walk_records, walk_records_python

try:
    from tailrace.records._native import walk_records as walk_records_native
except ImportError:
    walk_records_native = None

needs_native = pytest.mark.skipif(walk_records_native is None, reason="the native module is not built here")


@pytest.fixture(params=["python", pytest.param("native", marks=needs_native)])
def walk(request: pytest.FixtureRequest) -> WalkFunction:
    return walk_records_python if request.param == "python" else walk_records_native


def record(*fields: int | bytes, size: int | None = None) -> bytes:
    """A record of zig-zag numbers and plain bytes after its attributes, with its size or another one."""
    body = bytearray(1)
    for field in fields:
        if isinstance(field, bytes):
            body += field
        else:
            write_varint(body, field)
    output = bytearray()
    write_varint(output, len(body) if size is None else size)
    return bytes(output + body)


def run(
    walk: WalkFunction, body: bytes, count: int, base_timestamp: int = 0, low: int = INT64_MIN, high: int = INT64_MAX
) -> WalkTuple:
    return walk(body, 0, len(body), count, base_timestamp, low, high)


PLAIN = record(0, 0, -1, -1, 0)


def test_what_a_good_walk_finds(walk: WalkFunction) -> None:
    body = (
        record(5, 0, 1, b"k", -1, 0)
        + record(9, 1, -1, 2, b"vv", 1, 1, b"h", -1)
        + record(9, 2, 0, 0, 2, 0, 1, b"x", 3, b"key", 0)
        + record(-3, 3, -1, -1, 0)
    )
    assert run(walk, body, 4, 1_000, 1_000, 1_008) == (-1, WalkError.NONE, 1_009, 1, 997, (1, 3), (1, 2, 3))


def test_no_records(walk: WalkFunction) -> None:
    assert run(walk, b"", 0) == (-1, WalkError.NONE, -1, -1, -1, (), ())


def test_no_timestamp_is_never_out_of_range(walk: WalkFunction) -> None:
    assert run(walk, PLAIN + record(1, 1, -1, -1, 0), 2, -1, 50, 100) == (-1, 0, 0, 1, -1, (0, 1), (1,))


def test_part_of_a_buffer(walk: WalkFunction) -> None:
    for view in (bytes, bytearray, memoryview):
        buffer = view(b"before" + PLAIN + b"after")
        assert walk(buffer, 6, 6 + len(PLAIN), 1, 0, INT64_MIN, INT64_MAX)[:2] == (-1, WalkError.NONE)


@pytest.mark.parametrize(("position", "end"), [(-1, 3), (0, 8), (4, 3), (9, 9)])
def test_part_that_is_not_within_the_buffer(walk: WalkFunction, position: int, end: int) -> None:
    with pytest.raises(ValueError, match="within"):
        walk(PLAIN, position, end, 1, 0, INT64_MIN, INT64_MAX)


@pytest.mark.parametrize(
    ("body", "count", "index", "error"),
    [
        pytest.param(PLAIN, 2, 1, WalkError.TRUNCATED, id="too few records"),
        pytest.param(PLAIN, 2**31 - 1, 1, WalkError.TRUNCATED, id="far too few records"),
        pytest.param(PLAIN, 0, 0, WalkError.LEFTOVER, id="too many records"),
        pytest.param(PLAIN + b"\x00", 1, 1, WalkError.LEFTOVER, id="leftover"),
        pytest.param(PLAIN[:-1], 1, 0, WalkError.RECORD_SIZE, id="cut"),
        pytest.param(record(0, 0, -1, -1, 0, size=-1), 1, 0, WalkError.RECORD_SIZE, id="negative size"),
        pytest.param(record(0, 0, -1, -1, 0, size=2**31 - 1), 1, 0, WalkError.RECORD_SIZE, id="size beyond the end"),
        pytest.param(b"\x00", 1, 0, WalkError.RECORD_SHORT, id="size zero"),
        pytest.param(b"\x80", 1, 0, WalkError.RECORD_SHORT, id="size cut"),
        pytest.param(record(0, 0, -1, -1, 0, size=5), 1, 0, WalkError.RECORD_SHORT, id="size too small"),
        pytest.param(record(0, 0, -1, -1, 0, b"\x00"), 1, 0, WalkError.RECORD_LONG, id="size too large"),
        pytest.param(b"\x80" * 5 + PLAIN, 1, 0, WalkError.BAD_VARINT, id="endless size"),
        pytest.param(record(b"\x80" * 10, 0, 0, -1, -1, 0), 1, 0, WalkError.BAD_VARINT, id="endless timestamp"),
        pytest.param(record(0, b"\x80" * 5, 0, -1, -1, 0), 1, 0, WalkError.BAD_VARINT, id="endless offset"),
        pytest.param(record(0, 1, -1, -1, 0), 1, 0, WalkError.OFFSET_DELTA, id="first delta not 0"),
        pytest.param(PLAIN + PLAIN, 2, 1, WalkError.OFFSET_DELTA, id="delta repeated"),
        pytest.param(PLAIN + record(0, 2, -1, -1, 0), 2, 1, WalkError.OFFSET_DELTA, id="delta with a gap"),
        pytest.param(record(0, 0, 3, -1, 0), 1, 0, WalkError.FIELD_SIZE, id="key beyond the end"),
        pytest.param(record(0, 0, -2, -1, 0), 1, 0, WalkError.FIELD_SIZE, id="key of -2"),
        pytest.param(record(0, 0, -1, 2, 0), 1, 0, WalkError.FIELD_SIZE, id="value beyond the end"),
        pytest.param(record(0, 0, -1, -(2**31), 0), 1, 0, WalkError.FIELD_SIZE, id="value of the least size"),
        pytest.param(record(0, 0, -1, -1, -1), 1, 0, WalkError.HEADER_COUNT, id="negative header count"),
        pytest.param(record(0, 0, -1, -1, 1), 1, 0, WalkError.HEADER_COUNT, id="headers beyond the end"),
        pytest.param(record(0, 0, -1, -1, 1, -1, -1), 1, 0, WalkError.HEADER_KEY, id="header without a key"),
        pytest.param(record(0, 0, -1, -1, 1, 9, -1), 1, 0, WalkError.HEADER_KEY, id="header key beyond the end"),
        pytest.param(record(0, 0, -1, -1, 1, 0, 9), 1, 0, WalkError.FIELD_SIZE, id="header value beyond the end"),
        pytest.param(record(0, 0, -1, -1, 1, 0), 1, 0, WalkError.RECORD_SHORT, id="header value missing"),
    ],
)
def test_what_is_wrong(walk: WalkFunction, body: bytes, count: int, index: int, error: WalkError) -> None:
    assert run(walk, body, count)[:2] == (index, error)


@pytest.mark.parametrize(("base", "delta"), [(INT64_MAX, 1), (INT64_MIN, -1), (-2, INT64_MIN), (1, INT64_MAX)])
def test_timestamp_beyond_64_bits(walk: WalkFunction, base: int, delta: int) -> None:
    assert run(walk, record(delta, 0, -1, -1, 0), 1, base)[:2] == (0, WalkError.TIMESTAMP)


@pytest.mark.parametrize(("base", "delta"), [(INT64_MAX, 0), (INT64_MIN, 0), (-1, INT64_MIN + 1), (0, INT64_MAX)])
def test_timestamp_at_the_edge(walk: WalkFunction, base: int, delta: int) -> None:
    assert run(walk, record(delta, 0, -1, -1, 0), 1, base)[:3] == (-1, WalkError.NONE, base + delta)


def test_only_the_first_few_are_named(walk: WalkFunction) -> None:
    count = RECORD_ERRORS_PER_BATCH_MAX + 10
    body = b"".join(record(0, index, -1, -1, 0) for index in range(count))
    found = run(walk, body, count, 5, 6, 7)
    assert found[5] == found[6] == tuple(range(RECORD_ERRORS_PER_BATCH_MAX))


def test_every_error_has_a_text() -> None:
    assert len({error.text for error in WalkError}) == len(WalkError)


def test_result_has_names() -> None:
    found = walk_records(PLAIN, 0, len(PLAIN), 1, 7)
    assert found.error is WalkError.NONE
    assert (found.max_timestamp, found.max_timestamp_index) == (7, 0)


@pytest.mark.parametrize("pure", ["1", "0"])
def test_environment_chooses_the_python_walk(pure: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from tailrace.records.walk import IS_NATIVE; print(IS_NATIVE)"],
        env={**os.environ, "TAILRACE_PURE_PYTHON": pure},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.strip() == str(pure == "0" and walk_records_native is not None)


@needs_native
def test_native_walk_is_used_where_it_was_built() -> None:
    assert (os.environ.get("TAILRACE_PURE_PYTHON") != "1") == IS_NATIVE


# The twins.

fields = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)
timestamps = st.integers(-1, 200) | st.integers(-1, INT64_MAX)
contents = st.lists(st.tuples(timestamps, fields, fields, headers), min_size=1, max_size=12)
bounds = st.tuples(st.integers(INT64_MIN, INT64_MAX) | st.integers(-5, 205), st.integers(-5, 205) | st.just(INT64_MAX))


def body_of(records: list[RecordFields]) -> bytes:
    builder = BatchBuilder()
    for timestamp, key, value, pairs in records:
        builder.append(timestamp, key, value, pairs)
    return builder.build()[HEADER_SIZE:]


def assert_twins(body: bytes, count: int, base_timestamp: int, low: int, high: int) -> WalkTuple:
    python = run(walk_records_python, body, count, base_timestamp, low, high)
    assert python == run(walk_records_native, body, count, base_timestamp, low, high)
    return python


@needs_native
@settings(max_examples=150)
@given(contents, bounds)
def test_twins_on_good_records(records: list[RecordFields], bounds: tuple[int, int]) -> None:
    found = assert_twins(body_of(records), len(records), records[0][0], *bounds)
    assert found[:2] == (-1, WalkError.NONE)
    assert found[2] == max(timestamp for timestamp, *_ in records)
    assert found[4] == min(timestamp for timestamp, *_ in records)
    assert found[5] == tuple(index for index, (_, key, *_) in enumerate(records) if key is None)


@needs_native
@settings(max_examples=60)
@given(contents, st.integers(-1, 1))
def test_twins_on_every_prefix(records: list[RecordFields], more: int) -> None:
    body = body_of(records)
    for size in range(len(body)):
        found = assert_twins(body[:size], len(records), 0, 0, 100)
        assert found[1] is not WalkError.NONE
    assert_twins(body, len(records) + more, 0, 0, 100)


@needs_native
@settings(max_examples=200)
@given(contents, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4), bounds)
def test_twins_on_mutated_records(
    records: list[RecordFields], mutations: list[tuple[int, int]], bounds: tuple[int, int]
) -> None:
    body = bytearray(body_of(records))
    for place, byte in mutations:
        body[place % len(body)] = byte
    assert_twins(bytes(body), len(records), records[0][0], *bounds)


@needs_native
@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(-3, 9), st.integers(INT64_MIN, INT64_MAX), bounds)
def test_twins_on_any_bytes(body: bytes, count: int, base_timestamp: int, bounds: tuple[int, int]) -> None:
    assert_twins(body, count, base_timestamp, *bounds)


# Bytes that mean something at many places: small numbers, continued ones and the edges.
@needs_native
@settings(max_examples=300)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 12, 14, 16, 0x7F, 0x80, 0x81, 0xFF]), max_size=40), st.integers(1, 4))
def test_twins_on_bytes_that_look_like_records(body: list[int], count: int) -> None:
    assert_twins(bytes(body), count, 0, 0, 100)


@needs_native
def test_native_walk_stops_at_the_end_of_the_part() -> None:
    """Without the bound the bytes after the part would complete each cut record."""
    body = record(300, 0, 5, b"key..", 5, b"value", 1, 1, b"h", 1, b"v")
    for end in range(len(body)):
        found = walk_records_native(body, 0, end, 1, 0, INT64_MIN, INT64_MAX)
        assert found == run(walk_records_python, body[:end], 1)
        assert found[1] != WalkError.NONE


@needs_native
def test_native_walk_of_a_large_body() -> None:
    """From 32 KiB on it runs without the interpreter lock."""
    body = body_of([(index, b"key", b"v" * 100, []) for index in range(1_000)])
    assert len(body) > 32_768
    assert assert_twins(body, 1_000, 0, 0, 998) == (-1, 0, 999, 999, 0, (), (999,))
