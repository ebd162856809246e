"""One partition of a coordinator's topic as a log: what is appended comes back, and only what may be relied on."""

import logging

import pytest
from tests.logged import logged
from tests.unit.runtime.coordinator.shard_bench import Add, ShardBench
from tests.unit.sample import NOW_MS

from tailrace.machines.decision import ProducerIdentity
from tailrace.machines.log_replay import LogEntry, TransactionEnd
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.records.record import read_batches
from tailrace.runtime.append import TransactionMarker
from tailrace.runtime.transaction.guard import NO_GUARD

PRODUCER = ProducerIdentity(7, 0)


def append(bench: ShardBench, *records: Add, is_atomic: bool = True, producer: ProducerIdentity | None = None) -> int:
    guard = None if producer is None else NO_GUARD
    return bench.log.append(records, NOW_MS, is_atomic=is_atomic, producer=producer, guard=guard).first_offset


async def read(bench: ShardBench) -> list[LogEntry[Add] | TransactionEnd]:
    return [entry async for entries in bench.log.read() for entry in entries]


def batch_sizes(bench: ShardBench) -> list[int]:
    storage = bench.partition.log
    data = storage.read(0, 2**20, storage.log_end_offset, True)
    return [header.last_offset_delta + 1 for _, header in read_batches(data)]


async def test_what_is_appended_comes_back_with_its_place() -> None:
    bench = ShardBench()
    assert append(bench, Add("a", 1), Add("b", 2)) == 0
    assert append(bench, Add("c", 3)) == 2
    assert await read(bench) == [LogEntry(Add("a", 1), 0), LogEntry(Add("b", 2), 1), LogEntry(Add("c", 3), 2)]


async def test_of_each_key_the_newest_record_of_a_piece_counts_and_a_tombstone_is_one() -> None:
    bench = ShardBench()
    for record in (Add("a", 1), Add("b", 1), Add("a", 2), Add("b", None), Add("b", 3)):
        append(bench, record)
    # A tombstone does not stand for the value behind it: it voids what transactions have pending.
    assert await read(bench) == [LogEntry(Add("a", 2), 2), LogEntry(Add("b", None), 3), LogEntry(Add("b", 3), 4)]


async def test_a_log_is_read_in_pieces_of_whole_batches() -> None:
    bench = ShardBench(read_bytes=1)
    for amount in range(5):
        append(bench, Add("a", amount))
    pieces = [entries async for entries in bench.log.read()]
    assert pieces == [[LogEntry(Add("a", amount), amount)] for amount in range(5)]


async def test_records_above_the_high_watermark_are_not_read() -> None:
    bench = ShardBench(isr=(1, 2))
    append(bench, Add("a", 1))
    append(bench, Add("a", 2))
    bench.fetch(2, 1)
    assert await read(bench) == [LogEntry(Add("a", 1), 0)]


async def test_records_that_belong_together_are_one_batch_or_none() -> None:
    bench = ShardBench(max_message_bytes="200")
    many = [Add(f"name-{number}", number) for number in range(30)]
    with pytest.raises(ApiError) as caught:
        append(bench, *many)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert bench.partition.log.log_end_offset == 0
    assert append(bench, *many, is_atomic=False) == 0
    sizes = batch_sizes(bench)
    assert len(sizes) > 1
    assert sum(sizes) == 30
    assert [entry.record for entry in await read(bench) if isinstance(entry, LogEntry)] == many


async def test_a_record_that_is_too_large_by_itself_is_not_written() -> None:
    bench = ShardBench(max_message_bytes="200")
    with pytest.raises(ApiError) as caught:
        append(bench, Add("a" * 300, 1), is_atomic=False)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert bench.partition.log.log_end_offset == 0


async def test_records_and_the_end_of_a_transaction_come_back_as_such() -> None:
    bench = ShardBench()
    append(bench, Add("a", 1), producer=PRODUCER)
    bench.partition.append_marker(TransactionMarker(7, 0, 0, 1, is_commit=True), NOW_MS)
    append(bench, Add("a", 2))
    storage = bench.partition.log
    header = read_header(storage.read(0, 2**20, storage.log_end_offset, True))
    assert (header.producer_id, header.is_transactional) == (7, True)
    assert await read(bench) == [
        LogEntry(Add("a", 1), 0, 7),
        TransactionEnd(7, is_commit=True),
        LogEntry(Add("a", 2), 2),
    ]


async def test_records_that_cannot_be_read_are_passed_over_and_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = ShardBench()
    append(bench, Add("unknown", 1), Add("corrupt", 2), Add("a", 3))
    assert await read(bench) == [LogEntry(Add("a", 3), 2)]
    assert "t-0: skipped the record at offset 0" in logged(caplog)
    assert "t-0: the record at offset 1 is damaged" in logged(caplog)


async def test_a_replica_that_does_not_lead_takes_no_records() -> None:
    bench = ShardBench()
    bench.follow(1)
    with pytest.raises(ApiError) as caught:
        append(bench, Add("a", 1))
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
