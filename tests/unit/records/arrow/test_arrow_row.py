"""The twins that write rows make the same bytes and find the same fault, also in columns that are damaged."""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.arrow.arrow_twin import TWINS, native, needs_native

from tailrace.records.arrow.column import BinaryColumn, HeaderColumns, TimestampColumn
from tailrace.records.arrow.row import PythonRowWriter, RowError, RowWriter, WrittenRows, WrittenTuple

PREFIX_SIZE = 3
# What a writer is made of: the row count, key, value, headers and timestamps, and the timestamp of rows without one.
Source: TypeAlias = tuple[
    int, BinaryColumn | None, BinaryColumn | None, HeaderColumns | None, TimestampColumn | None, int
]
MakeWriter: TypeAlias = Callable[
    [int, BinaryColumn | None, BinaryColumn | None, HeaderColumns | None, TimestampColumn | None, int], RowWriter
]


def offsets_of(values: list[int], is_large: bool) -> bytes:
    return struct.pack(f"={len(values)}{'q' if is_large else 'i'}", *values)


@st.composite
def columns(
    draw: st.DrawFn, count: int, data_size_max: int = 40, has_data: bool = True, limit: int = 0
) -> BinaryColumn:
    """A column of `count` entries that may say anything, but has buffers of the sizes that it needs."""
    is_large, shift = draw(st.booleans()), draw(st.integers(0, 3))
    data = draw(st.binary(max_size=data_size_max))
    limit = len(data) if has_data else limit
    ordered = st.lists(st.integers(0, limit), min_size=count + shift + 1, max_size=count + shift + 4).map(sorted)
    wild = st.lists(st.integers(-3, limit + 3), min_size=count + shift + 1, max_size=count + shift + 1)
    edge = st.lists(st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]), min_size=count + shift + 1, max_size=12)
    offsets = draw(st.one_of(ordered, ordered, ordered, wild, edge))
    bitmap_size = (count + shift + 7) // 8
    validity = draw(st.none() | st.binary(min_size=bitmap_size, max_size=bitmap_size + 1))
    return BinaryColumn(is_large, shift, count, validity, offsets_of(offsets, is_large), data if has_data else None)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    row_count = draw(st.integers(0, 6))
    header_count = draw(st.integers(0, 6))
    key = draw(st.none() | columns(row_count))
    value = draw(st.none() | columns(row_count))
    header = None
    if draw(st.booleans()):
        lists = draw(columns(row_count, has_data=False, limit=header_count))
        header = HeaderColumns(lists, draw(columns(header_count)), draw(st.none() | columns(header_count)))
    timestamp = None
    if draw(st.booleans()):
        shift = draw(st.integers(0, 2))
        values = draw(st.lists(st.integers(-3, 2**63 - 1), min_size=row_count + shift, max_size=row_count + shift))
        validity = draw(st.none() | st.binary(min_size=2, max_size=2))
        timestamp = TimestampColumn(shift, validity, struct.pack(f"={len(values)}q", *values))
    return row_count, key, value, header, timestamp, draw(st.integers(-1, 2**63 - 1))


def outcome(make: MakeWriter, source: Source, *arguments: Any) -> WrittenTuple | str:
    try:
        return make(*source).encode(*arguments)
    except ValueError as error:
        return str(error)


@needs_native
@settings(max_examples=600, deadline=None)
@given(
    sources(),
    st.none() | st.lists(st.integers(-1, 6), max_size=8),
    st.integers(-1, 7),
    st.integers(-1, 8),
    st.integers(-5, 150),
)
def test_twins(source: Source, numbers: list[int] | None, start: int, stop: int, size_max: int) -> None:
    rows = None if numbers is None else struct.pack(f"={len(numbers)}i", *numbers)
    arguments = (rows, start, stop, size_max, PREFIX_SIZE)
    assert outcome(PythonRowWriter, source, *arguments) == outcome(native.RowWriter, source, *arguments)


@needs_native
@settings(max_examples=300, deadline=None)
@given(sources())
def test_twins_on_all_rows(source: Source) -> None:
    arguments = (None, 0, source[0], 10_000, 0)
    assert outcome(PythonRowWriter, source, *arguments) == outcome(native.RowWriter, source, *arguments)


@pytest.fixture(params=TWINS)
def make(request: pytest.FixtureRequest) -> MakeWriter:
    made: MakeWriter = PythonRowWriter if request.param == "python" else native.RowWriter
    return made


def column(*offsets: int, data: bytes | None = b"abcdef", **fields: Any) -> BinaryColumn:
    return BinaryColumn(False, 0, len(offsets) - 1, None, offsets_of(list(offsets), False), data)._replace(**fields)


@pytest.mark.parametrize(
    "damaged", [column(0, 7), column(-1, 3), column(4, 3), column(2**31 - 1, 2**31 - 1), column(0, 1, data=None)]
)
def test_offsets_outside_of_the_data(make: MakeWriter, damaged: BinaryColumn) -> None:
    for key, value in ((damaged, None), (None, damaged)):
        written = WrittenRows._make(make(1, key, value, None, None, -1).encode(None, 0, 1, 100, 0))
        assert (bytes(written.output), written.error, written.row_count) == (b"", RowError.FIELD_OUTSIDE, 0)


def test_lists_outside_of_the_headers(make: MakeWriter) -> None:
    header = HeaderColumns(column(0, 3, data=None), column(0, 1, 2), None)
    written = WrittenRows._make(make(1, None, None, header, None, -1).encode(None, 0, 1, 100, 0))
    assert written.error == RowError.FIELD_OUTSIDE


@pytest.mark.parametrize(
    ("row_count", "key", "header", "timestamp", "message"),
    [
        (2, column(0, 1), None, None, "differ in length"),
        (1, column(0, 1, shift=1), None, None, "fewer offsets"),
        (1, column(0, 1, is_large=True), None, None, "fewer offsets"),
        (1, column(0, 1, shift=-1), None, None, "begin before"),
        (1, column(0, 1, validity=b""), None, None, "bitmap is shorter"),
        (1, None, HeaderColumns(column(0, 1, 2, data=None), column(0, 1), None), None, "differ in length"),
        (1, None, HeaderColumns(column(0, 1, data=None), column(0, 1), column(0, 1, 2)), None, "differ in length"),
        (1, None, None, TimestampColumn(0, None, bytes(7)), "fewer timestamps"),
        (1, None, None, TimestampColumn(1, None, bytes(8)), "fewer timestamps"),
        (1, None, None, TimestampColumn(-1, None, bytes(16)), "fewer timestamps"),
        (9, None, None, TimestampColumn(0, b"\xff", bytes(72)), "bitmap is shorter"),
    ],
)
def test_buffers_that_are_too_small(
    make: MakeWriter,
    row_count: int,
    key: BinaryColumn | None,
    header: HeaderColumns | None,
    timestamp: TimestampColumn | None,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        make(row_count, key, None, header, timestamp, -1)


def test_the_prefix_is_empty_and_the_fault_is_named(make: MakeWriter) -> None:
    writer = make(3, None, column(0, 1, 2, 9), None, None, 5)
    written = WrittenRows._make(writer.encode(None, 0, 2, 100, 4))
    assert written.output[:4] == bytes(4)
    assert (written.error, written.row_count, written.base_timestamp, written.max_timestamp) == (0, 2, 5, 5)
    assert WrittenRows._make(writer.encode(None, 1, 3, 100, 4)).row_count == 1  # the second of those asked for


def test_every_error_has_a_text() -> None:
    assert len({error.text for error in RowError}) == len(RowError)
