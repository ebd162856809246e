"""How records become batches, and when these may leave."""

import pytest

from runnel.base.invariant import InvariantError
from runnel.client.accumulator import Accumulator, Batch, TopicPartition
from runnel.records.compression import Compression
from runnel.records.record import Record, read_records

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def new_accumulator(*, size: int = 200, linger_s: float = 1.0) -> Accumulator:
    return Accumulator(Compression.NONE, size, linger_s)


def add(accumulator: Accumulator, target: TopicPartition, value: bytes, now_s: float = 0.0) -> bool:
    return accumulator.append(target, 1000, None, value, (), now_s)


def values(batch: Batch) -> list[bytes | None]:
    return [record.value for record in read_records(batch.data())]


def test_a_batch_waits_for_its_time() -> None:
    accumulator = new_accumulator()
    assert add(accumulator, T0, b"a", now_s=5.0)  # opened a batch
    assert not add(accumulator, T0, b"b", now_s=5.5)  # joined it
    assert accumulator.ready(5.9, flush=False) == []
    assert accumulator.next_ready_at_s(flush=False) == 6.0
    assert accumulator.ready(6.0, flush=False) == [T0]
    assert values(accumulator.take(T0)) == [b"a", b"b"]


def test_a_flush_does_not_wait() -> None:
    accumulator = new_accumulator()
    add(accumulator, T0, b"a", now_s=5.0)
    assert accumulator.ready(5.0, flush=True) == [T0]


def test_a_full_batch_leaves_at_once_and_the_next_one_waits_behind_it() -> None:
    accumulator = new_accumulator()
    for number in range(4):
        add(accumulator, T0, b"%d" % number * 50)
    assert accumulator.ready(0.0, flush=False) == [T0]
    first = accumulator.take(T0)
    assert first.size_bytes <= 200
    assert accumulator.ready(100.0, flush=True) == []  # one of a partition at a time, or order would be lost
    accumulator.done(first)
    assert accumulator.ready(100.0, flush=True) == [T0]


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    accumulator = new_accumulator()
    add(accumulator, T0, b"a")
    add(accumulator, T0, b"x" * 500)
    add(accumulator, T0, b"b")
    batches = []
    while accumulator.ready(9.0, flush=False):
        batches.append(accumulator.take(T0))
        accumulator.done(batches[-1])
    assert [values(batch) for batch in batches] == [[b"a"], [b"x" * 500], [b"b"]]
    assert (accumulator.held_batches, accumulator.held_bytes) == (0, 0)


def test_a_batch_that_failed_goes_first_but_not_too_soon() -> None:
    accumulator = new_accumulator(linger_s=0.0)
    add(accumulator, T0, b"first")
    batch = accumulator.take(T0)
    add(accumulator, T0, b"second")
    add(accumulator, T1, b"other")
    accumulator.put_back(batch, not_before_s=3.0)
    assert accumulator.ready(2.9, flush=True) == [T1]
    assert accumulator.next_ready_at_s(flush=True) == 0.0
    assert accumulator.ready(3.0, flush=True) == [T0, T1]
    again = accumulator.take(T0)
    assert (values(again), again.failure_count) == ([b"first"], 1)


def test_a_batch_can_be_split_and_keeps_every_field() -> None:
    accumulator = Accumulator(Compression.GZIP, 10_000, 0.0)
    for number in range(5):
        accumulator.append(T0, 1000 + number, b"k", b"v%d" % number, [("h", None)], 0.0)
    batch = accumulator.take(T0)
    add(accumulator, T0, b"later")
    accumulator.replace(batch, batch.split())
    assert accumulator.held_batches == 3
    parts = []
    while accumulator.ready(0.0, flush=True):
        parts.append(accumulator.take(T0))
        accumulator.done(parts[-1])
    assert [values(part) for part in parts] == [[b"v0", b"v1"], [b"v2", b"v3", b"v4"], [b"later"]]
    assert next(read_records(parts[1].data())) == Record(0, 1002, b"k", b"v2", (("h", None),))
    assert accumulator.held_bytes == 0


def test_taking_twice_is_a_bug() -> None:
    accumulator = new_accumulator()
    add(accumulator, T0, b"a")
    accumulator.take(T0)
    with pytest.raises(InvariantError):
        accumulator.take(T0)
