"""The twins that fill columns write the same bytes and find the same fault, whatever they are given."""

import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.arrow.arrow_twin import (
    TWINS,
    build_batch,
    build_fetch,
    decode_all,
    fetches,
    native,
    needs_native,
    record_lists,
    twin,
)
from tests.unit.records.made_batch import RecordFields

from tailrace.base.sentinel import INT64_MAX
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.fill import (
    HEADER_SIZE_MIN,
    IS_NATIVE,
    RECORD_SIZE_MIN,
    BinaryBuffers,
    Fill,
    FillFunction,
    HeaderBuffers,
    Span,
    fill_columns_python,
)
from tailrace.records.batch import HEADER_SIZE
from tailrace.records.compression import Compression
from tailrace.records.walk import WalkError

COLUMNS = ("offset", "timestamp", "key", "value", "header")


def room_for(rows: int, size: int) -> dict[str, Any]:
    """Buffers of exactly the room that so many rows in so many bytes may need."""

    def binary(entries: int) -> BinaryBuffers:
        return BinaryBuffers(bytearray((entries + 7) // 8), bytearray(4 * entries + 4), bytearray(size))

    headers = size // HEADER_SIZE_MIN
    return {
        "offset": bytearray(8 * rows),
        "timestamp": bytearray(8 * rows),
        "key": binary(rows),
        "value": binary(rows),
        "header": HeaderBuffers(
            bytearray((rows + 7) // 8),
            bytearray(4 * rows + 4),
            binary(headers)._replace(validity=None),
            binary(headers),
        ),
    }


def spans_of(bodies: list[bytes], count: int, base_timestamp: int = 0, last_offset_delta: int = 20) -> list[Span]:
    return [
        Span(body, 0, len(body), count, 100 * index, last_offset_delta, base_timestamp, index % 2 == 1)
        for index, body in enumerate(bodies)
    ]


def run(
    fill: FillFunction, spans: list[Span], bounds: tuple[int, int], wanted: Collection[str] = COLUMNS
) -> tuple[Fill, dict[str, Any]]:
    rows = sum(span.record_count for span in spans)
    room = room_for(max(rows, 0), sum(span.end - span.position for span in spans))
    filled = fill(spans, *bounds, *[room[name] if name in wanted else None for name in COLUMNS])
    return Fill._make(filled), room


def assert_twins(
    spans: list[Span], bounds: tuple[int, int] = (0, INT64_MAX), wanted: Collection[str] = COLUMNS
) -> Fill:
    python, python_room = run(fill_columns_python, spans, bounds, wanted)
    in_c, native_room = run(native.fill_columns, spans, bounds, wanted)
    assert python == in_c
    assert python_room == native_room
    return python


def body_of(records: Iterable[RecordFields]) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


bounds_around = st.tuples(st.integers(0, 8), st.integers(0, 300) | st.just(INT64_MAX))


@needs_native
@settings(max_examples=100, deadline=None)
@given(st.lists(record_lists, min_size=1, max_size=3), bounds_around, st.sets(st.sampled_from(COLUMNS)))
def test_twins_on_good_records(contents: list[list[RecordFields]], bounds: tuple[int, int], wanted: set[str]) -> None:
    spans = [span for records in contents for span in spans_of([body_of(records)], len(records), records[0][0])]
    found = assert_twins(spans, bounds, wanted)
    assert found.fault is None


@needs_native
@settings(max_examples=40, deadline=None)
@given(record_lists, st.integers(-1, 1))
def test_twins_on_every_prefix(records: list[RecordFields], more: int) -> None:
    body = body_of(records)
    for size in range(len(body)):
        if RECORD_SIZE_MIN * len(records) <= size:
            assert assert_twins(spans_of([body[:size]], len(records))).fault is not None
    assert (assert_twins(spans_of([body], len(records) + more)).fault is None) == (more == 0)


@needs_native
@settings(max_examples=200, deadline=None)
@given(
    st.lists(record_lists, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    st.sampled_from([0, 5, INT64_MAX, -INT64_MAX, INT64_MAX // 1000]),
)
def test_twins_on_mutated_records(
    contents: list[list[RecordFields]], mutations: list[tuple[int, int]], base_timestamp: int
) -> None:
    bodies = [bytearray(body_of(records)) for records in contents]
    for place, byte in mutations:
        body = bodies[place % len(bodies)]
        body[place % len(body)] = byte
    assert_twins(spans_of([bytes(body) for body in bodies], len(contents[0]), base_timestamp))


@needs_native
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 12, 14, 16, 0x7F, 0x80, 0x81, 0xFF]), max_size=60), st.integers(-2, 6))
def test_twins_on_bytes_that_look_like_records(body: list[int], count: int) -> None:
    assert_twins(spans_of([bytes(body)], count))


@needs_native
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.integers(-2, 6), st.integers(-INT64_MAX, INT64_MAX))
def test_twins_on_any_bytes(body: bytes, count: int, base_timestamp: int) -> None:
    assert_twins(spans_of([body], count, base_timestamp))


@needs_native
@settings(max_examples=60, deadline=None)
@given(fetches, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3), st.booleans())
def test_twins_on_whole_fetches(
    contents: list[tuple[Compression, list[RecordFields]]], mutations: list[tuple[int, int]], check_crcs: bool
) -> None:
    """The shortcut past plain batches is in this one, so nothing may depend on whether it is taken."""
    data = build_fetch(contents, base_offset=3)
    for place, byte in mutations:
        data[place % len(data)] = byte
    decoder = ColumnDecoder("t", 0, check_crcs=check_crcs, decompressed_bytes_max=10_000)
    outcomes = []
    for name in ("python", "native"):
        with twin(name):
            outcomes.append(decode_all(decoder, data, 4, 20))
    assert outcomes[0] == outcomes[1]


@needs_native
def test_a_large_body_is_read_without_the_interpreter_lock() -> None:
    records = [(index, b"key", b"v" * 100, [("h", None)] * (index % 3)) for index in range(1_000)]
    body = body_of(records)
    assert len(body) > 32_768
    found = assert_twins(spans_of([body], 1_000, last_offset_delta=999))
    assert found.row_count == 1_000
    assert found.header == (999, 334)


@pytest.fixture(params=TWINS)
def fill(request: pytest.FixtureRequest) -> FillFunction:
    return fill_columns_python if request.param == "python" else native.fill_columns


def test_a_fault_leaves_what_came_before_it(fill: FillFunction) -> None:
    good = body_of([(5, b"key", None, [("ü", b"x")])])
    bad = body_of([(5, None, b"value", [("h", b"y")])]) + b"\x00"
    found, room = run(fill, spans_of([good, bad, good], 1), (0, INT64_MAX))
    assert found == Fill(1, (3, 0), (0, 1), (1, 0), (2, True), (1, 0), (WalkError.LEFTOVER, 1, 1))
    assert bytes(room["key"].data[:3]) == b"key"


SPAN = spans_of([body_of([(0, b"key", b"value", [("h", None)])] * 3)], 3)[0]


PIECES = {"offset": 1, "timestamp": 1, "key": 3, "value": 3, "header": 7}


@pytest.mark.parametrize(("name", "part"), [(name, part) for name in COLUMNS for part in range(PIECES[name])])
def test_no_room_is_an_error_before_anything_is_written(fill: FillFunction, name: str, part: int) -> None:
    """A caller's mistake, and the only thing between a column and memory that is not its own."""
    room = room_for(3, SPAN.end - SPAN.position)
    buffers = room[name]
    parts = [buffers] if isinstance(buffers, bytearray) else buffers
    flat = [piece for item in parts for piece in (item if isinstance(item, tuple) else [item]) if piece is not None]
    assert len(flat) == PIECES[name]
    del flat[part][-8 if isinstance(buffers, bytearray) else -4 :]
    with pytest.raises(ValueError, match="room"):
        fill([SPAN], 0, INT64_MAX, *[room[column] for column in COLUMNS])


@pytest.mark.parametrize(
    "span",
    [
        SPAN._replace(position=-1),
        SPAN._replace(end=SPAN.end + 1),
        SPAN._replace(position=9, end=8),
        SPAN._replace(last_offset_delta=-1),
        SPAN._replace(base_offset=INT64_MAX),
    ],
)
def test_spans_that_cannot_be(fill: FillFunction, span: Span) -> None:
    room = room_for(3, 1_000)
    with pytest.raises(ValueError, match=r"within|fit"):
        fill([span], 0, INT64_MAX, *[room[column] for column in COLUMNS])


def test_columns_must_be_writable(fill: FillFunction) -> None:
    with pytest.raises((BufferError, TypeError)):
        fill([SPAN], 0, INT64_MAX, bytes(100), None, None, None, None)


@needs_native
def test_native_twin_is_used_where_it_was_built() -> None:
    assert (os.environ.get("TAILRACE_PURE_PYTHON") != "1") == IS_NATIVE


@pytest.mark.parametrize("pure", ["1", "0"])
def test_environment_chooses_the_python_twins(pure: str) -> None:
    names = ("arrow.fill", "arrow.row", "arrow.partition")
    program = ";".join(f"from tailrace.records.{name} import IS_NATIVE; print(IS_NATIVE)" for name in names)
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TAILRACE_PURE_PYTHON": pure},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.split() == [str(pure == "0" and native is not None)] * len(names)


def test_pyarrow_sees_the_memory_that_was_filled(fill: FillFunction) -> None:
    """No copy lies between the records' bytes and the array."""
    room = room_for(3, SPAN.end - SPAN.position)
    fill([SPAN], 0, INT64_MAX, None, None, None, room["value"], None)
    validity, offsets, data = (pa.py_buffer(buffer) for buffer in room["value"])
    array = pa.Array.from_buffers(pa.binary(), 3, [validity, offsets, data])
    assert array.to_pylist() == [b"value"] * 3
    room["value"].data[0:1] = b"V"
    assert array[0].as_py() == b"Value"
