"""The map of keys to their newest offsets, and what it leaves of a batch."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.records.batch import HEADER_SIZE, Buffer
from tailrace.records.builder import BatchBuilder
from tailrace.records.error import CorruptBatch
from tailrace.records.offset_map import IS_NATIVE, SLOT_SIZE, NativeOffsetMap, PythonOffsetMap
from tailrace.records.record import Record, read_records

Pairs: TypeAlias = list[tuple[bytes | None, bytes | None]]
OffsetMap: TypeAlias = PythonOffsetMap | NativeOffsetMap
MakeMap: TypeAlias = Callable[[int, float], OffsetMap]

MAPS: list[MakeMap] = [PythonOffsetMap, NativeOffsetMap] if IS_NATIVE else [PythonOffsetMap]

keys = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=30, max_size=40))
values = st.one_of(st.none(), st.binary(max_size=300))
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=20)


def body_of(records: Pairs) -> bytes:
    builder = BatchBuilder()
    for number, (key, value) in enumerate(records):
        builder.append(1000 + number * 100, key, value, [("h", b"x")] if number % 2 else ())
    return builder.build()[HEADER_SIZE:]


@pytest.mark.parametrize("make", MAPS)
def test_a_key_has_the_offset_that_was_put_last(make: MakeMap) -> None:
    found = make(SLOT_SIZE * 100, 0.9)
    assert found.get(b"a") == -1
    assert found.put(b"a", 0)
    assert found.put(b"", 7)
    assert (found.get(b"a"), found.get(b""), found.get(b"b"), found.size) == (0, 7, -1, 2)
    assert found.put(b"a", 9)
    assert (found.get(b"a"), found.size) == (9, 2)


@pytest.mark.parametrize("make", MAPS)
def test_a_full_map_takes_no_new_key_but_known_ones(make: MakeMap) -> None:
    found = make(SLOT_SIZE * 10, 0.9)
    assert found.capacity == 9
    assert all(found.put(b"%d" % number, number) for number in range(9))
    assert not found.put(b"new", 100)
    assert found.put(b"3", 100)
    assert found.get(b"new") == -1
    assert [found.get(b"%d" % number) for number in range(9)] == [0, 1, 2, 100, 4, 5, 6, 7, 8]
    # However full it may get, one slot stays free, where a search ends.
    assert make(SLOT_SIZE * 10, 1.0).capacity == 9


@pytest.mark.parametrize("make", MAPS)
@given(puts=st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 2**62)), max_size=60))
def test_it_is_a_dictionary(make: MakeMap, puts: list[tuple[bytes, int]]) -> None:
    found, model = make(SLOT_SIZE * 64, 1.0), dict(puts)
    for key, offset in puts:
        assert found.put(key, offset)
    assert found.size == len(model)
    assert {key: found.get(key) for key in model} == model


@pytest.mark.parametrize("make", MAPS)
@given(records=pairs, newer=pairs, up_to=st.integers(0, 60), from_offset=st.integers(0, 45), keep=st.booleans())
def test_what_is_left_of_a_batch(
    make: MakeMap, records: Pairs, newer: Pairs, up_to: int, from_offset: int, keep: bool
) -> None:
    found = make(SLOT_SIZE * 64, 1.0)
    body = body_of(records)
    model: dict[bytes, int] = {}
    for base_offset, batch in ((10, records), (10 + len(records), newer)):
        assert found.put_records(body_of(batch), len(batch), base_offset, from_offset)
        for offset, (key, _) in enumerate(batch, base_offset):
            if key is not None and offset >= from_offset:
                model[key] = offset
    assert {key: found.get(key) for key in model} == model
    kept = found.filter_records(body, len(records), 10, 1000, up_to, keep)
    wanted = [
        number
        for number, (key, value) in enumerate(records)
        if 10 + number >= up_to
        or (key is not None and (keep or value is not None) and 10 + number >= model.get(key, -1))
    ]
    assert kept.record_count == len(wanted)
    assert kept.has_tombstone == any(records[number][1] is None for number in wanted)
    assert kept.max_timestamp == max((1000 + number * 100 for number in wanted), default=-1)
    assert (kept.body is None) == (len(wanted) == len(records))
    left = kept.body if kept.body is not None else body
    assert [(record.offset, record.key, record.value) for record in reread(left, len(wanted))] == [
        (number, *records[number]) for number in wanted
    ]


def reread(body: Buffer, count: int) -> list[Record]:
    builder = BatchBuilder()
    builder.append(1000, None, None)
    batch = bytearray(builder.build()[:HEADER_SIZE] + body)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    return list(read_records(batch))


@pytest.mark.parametrize("make", MAPS)
@given(data=st.data())
def test_records_that_are_none_are_told(make: MakeMap, data: st.DataObject) -> None:
    body = bytearray(body_of(data.draw(pairs)))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    count = data.draw(st.integers(0, 20))
    actions: list[Callable[[OffsetMap], object]] = [
        lambda keys: keys.put_records(body, count, 0, 0),
        lambda keys: keys.filter_records(body, count, 0, 0, 100, True),
    ]
    for action in actions:
        outcomes = [outcome(action, chosen(SLOT_SIZE * 64, 1.0)) for chosen in (make, PythonOffsetMap)]
        assert outcomes[0] == outcomes[1]


def outcome(action: Callable[[OffsetMap], object], keys: OffsetMap) -> object:
    try:
        return action(keys), keys.size
    except CorruptBatch:
        return "corrupt"


@pytest.mark.skipif(not IS_NATIVE, reason="the native module was not built")
def test_many_keys_keep_apart() -> None:
    """Keys that differ in one place only, of every length that the hash treats in its own way."""
    found = NativeOffsetMap(SLOT_SIZE * 120_000, 1.0)
    many = [b"x" * length + b"%05d" % number + b"y" * length for length in range(11) for number in range(10_000)]
    for offset, key in enumerate(many):
        assert found.put(key, offset)
    assert found.size == len(many)
    assert all(found.get(key) == offset for offset, key in enumerate(many))
