"""Both indexes, byte for byte as Kafka writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.storage.offset_index import AnyOffsetIndex, CorruptIndex, OffsetIndex, SealedOffsetIndex
from tailrace.storage.time_index import AnyTimeIndex, SealedTimeIndex, TimeIndex

BASE = 1000


def offset_index() -> OffsetIndex:
    index = OffsetIndex(BASE)
    for offset, position in ((1009, 4200), (1020, 9000), (1500, 2**31 - 1)):
        index.append(offset, position)
    return index


def time_index() -> TimeIndex:
    index = TimeIndex(BASE)
    for timestamp, offset in ((5_000_000_000_000, 1009), (5_000_000_000_010, 1020)):
        index.append(timestamp, offset)
    return index


def offset_indexes() -> list[AnyOffsetIndex]:
    """As it grows, as it is read to go on, as it is searched in its file."""
    data = offset_index().encode()
    return [offset_index(), OffsetIndex.decode(data, BASE, 2**31), SealedOffsetIndex(data, BASE, 2**31)]


def time_indexes() -> list[AnyTimeIndex]:
    data = time_index().encode()
    return [time_index(), TimeIndex.decode(data, BASE), SealedTimeIndex(data, BASE)]


def test_offset_entries_are_eight_big_endian_bytes() -> None:
    assert offset_index().encode() == bytes.fromhex("00000009 00001068 00000014 00002328 000001f4 7fffffff")


def test_offset_index_reads_back() -> None:
    for index in offset_indexes():
        assert len(index) == 3
        assert index.encode() == offset_index().encode()
        assert [(index.offset(entry), index.position(entry)) for entry in range(3)] == [
            (1009, 4200),
            (1020, 9000),
            (1500, 2**31 - 1),
        ]


@pytest.mark.parametrize(
    ("offset", "entry"), [(1000, -1), (1008, -1), (1009, 0), (1019, 0), (1020, 1), (1499, 1), (1500, 2), (9999, 2)]
)
def test_offset_lookup_gives_the_last_entry_not_above(offset: int, entry: int) -> None:
    assert [index.find(offset) for index in offset_indexes()] == [entry] * 3


@pytest.mark.parametrize(("offset", "left"), [(1000, 0), (1009, 0), (1010, 1), (1020, 1), (1021, 2), (9999, 3)])
def test_offset_index_forgets_the_end(offset: int, left: int) -> None:
    index = offset_index()
    index.truncate_to(offset)
    assert len(index) == left


@pytest.mark.parametrize(
    ("data", "log_size_bytes"),
    [
        (b"\0" * 7, 100),  # half an entry
        (b"\0" * 8, 100),  # Kafka's preallocated zeros
        (bytes.fromhex("00000009 00000064"), 100),  # a position at the end of the log
        (bytes.fromhex("80000000 00000001"), 100),  # a relative offset that does not fit
        (bytes.fromhex("00000009 00000001 00000008 00000002"), 100),  # falling
    ],
)
def test_an_impossible_offset_index_is_refused(data: bytes, log_size_bytes: int) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(data, BASE, log_size_bytes)
    with pytest.raises(CorruptIndex):
        SealedOffsetIndex(data, BASE, log_size_bytes)


def test_time_entries_are_twelve_big_endian_bytes() -> None:
    assert time_index().encode() == bytes.fromhex("0000048c27395000 00000009 0000048c2739500a 00000014")


def test_time_index_reads_back() -> None:
    assert [index.last() for index in time_indexes()] == [(5_000_000_000_010, 1020)] * 3
    assert [index.encode() for index in time_indexes()] == [time_index().encode()] * 3
    assert TimeIndex.decode(b"", BASE).last() == SealedTimeIndex(b"", BASE).last() == (-1, BASE)


def test_time_index_takes_only_larger_timestamps() -> None:
    index = time_index()
    index.append(5_000_000_000_010, 1030)
    index.append(4, 1040)
    assert len(index) == 2
    empty = TimeIndex(BASE)
    empty.append(-1, 1030)
    assert len(empty) == 0


@pytest.mark.parametrize(
    ("timestamp", "entry"),
    [
        (0, (-1, 1000)),
        (5_000_000_000_000, (5_000_000_000_000, 1009)),
        (5_000_000_000_009, (5_000_000_000_000, 1009)),
        (2**62, (5_000_000_000_010, 1020)),
    ],
)
def test_time_lookup_gives_where_to_begin(timestamp: int, entry: tuple[int, int]) -> None:
    assert [index.floor(timestamp) for index in time_indexes()] == [entry] * 3


@pytest.mark.parametrize(("offset", "left"), [(1009, 0), (1010, 1), (1020, 1), (1021, 2)])
def test_time_index_forgets_the_end(offset: int, left: int) -> None:
    index = time_index()
    index.truncate_to(offset)
    assert len(index) == left


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 11,
        bytes.fromhex("0000000000000005 00000009 0000000000000005 0000000a"),
        bytes.fromhex("0000000000000005 00000009 0000000000000006 00000009"),
        bytes.fromhex("ffffffffffffffff 00000009"),
        bytes.fromhex("0000000000000005 80000000"),
    ],
)
def test_an_impossible_time_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        TimeIndex.decode(data, BASE)
    with pytest.raises(CorruptIndex):
        SealedTimeIndex(data, BASE)


@given(st.sets(st.integers(0, 2**31 - 1), max_size=70), st.lists(st.integers(0, 2**31), min_size=1))
def test_the_file_answers_like_the_arrays(numbers: set[int], asked: list[int]) -> None:
    offsets, times = OffsetIndex(BASE), TimeIndex(BASE)
    for position, number in enumerate(sorted(numbers), 1):
        offsets.append(BASE + number, position)
        times.append(number * 1000, BASE + number)
    sealed_offsets = SealedOffsetIndex(offsets.encode(), BASE, 2**31)
    sealed_times = SealedTimeIndex(times.encode(), BASE)
    for number in [*asked, *numbers]:
        assert sealed_offsets.find(BASE + number) == offsets.find(BASE + number)
        assert sealed_times.floor(number * 1000) == times.floor(number * 1000)


@given(st.binary(max_size=100), st.integers(0, 2**31))
def test_any_bytes_are_an_index_or_refused(data: bytes, log_size_bytes: int) -> None:
    for decode in (
        lambda: OffsetIndex.decode(data, BASE, log_size_bytes),
        lambda: SealedOffsetIndex(data, BASE, log_size_bytes),
        lambda: TimeIndex.decode(data, BASE),
        lambda: SealedTimeIndex(data, BASE),
    ):
        try:
            assert decode().encode() == data
        except CorruptIndex:
            continue
