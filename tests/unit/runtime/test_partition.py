"""The leader's side of one partition."""

import asyncio
import errno
import logging
import threading
from uuid import UUID

import pytest
from tests.logged import own_records
from tests.unit.sample import NOW_MS, ManualClock, make_batch, records_of

from tailrace.base.sentinel import ACKS_ALL
from tailrace.config.broker import BrokerConfig
from tailrace.config.topic import TopicConfig
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import TimestampType, check_crc, read_header
from tailrace.runtime.append import Appended
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.leadership import ReplicaWorld
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.timestamp_lookup import TimestampLookup


class NoDesk:
    """Nobody joins or leaves an ISR."""

    def is_eligible(self, _broker_id: int, _broker_epoch: int) -> bool:
        return False

    def is_live(self, _broker_id: int) -> bool:
        return True

    def watch(self, _partition: Partition) -> None:
        """Nobody looks."""

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        raise AssertionError((partition.name, isr))


WORLD = ReplicaWorld(1, ManualClock(), 30_000, NoDesk())


class Bench:
    """A partition in memory."""

    def __init__(self, **configs: str) -> None:
        self.fs = MemoryFileSystem()
        self.fs.make_directory("/data")
        config = TopicConfig.resolve({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfig())
        self.log_dir = LogDir.open(self.fs, "/data", ManualClock())
        log = self.log_dir.create("t", 0, UUID(int=1), LogConfig.of_topic(config))
        self.partition = Partition("t", UUID(int=1), 0, log, config)
        self.lead(0)

    def lead(self, epoch: int, isr: tuple[int, ...] = (1,), replicas: tuple[int, ...] = (1,)) -> None:
        self.partition.lead(PartitionRecord("t", 0, 1, epoch, isr), replicas, WORLD)

    def append(self, batch: bytearray | None = None, *, acks: int = ACKS_ALL, now_ms: int = NOW_MS) -> Appended:
        data = memoryview(make_batch() if batch is None else batch)
        return self.partition.append(data, read_header(data), acks, now_ms)

    def refusal(self, batch: bytearray | None = None, *, acks: int = ACKS_ALL) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.append(batch, acks=acks)
        return caught.value.code

    def stored(self) -> list[bytes | None]:
        log = self.partition.log
        data = log.read(log.log_start_offset, 2**20, log.log_end_offset, True)
        return [None if record.value is None else bytes(record.value) for record in records_of(data)]

    def fail_writes(self, code: int | None) -> None:
        def hook(_count: int, operation: str, path: str) -> OSError | None:
            return OSError(code, "no") if code and operation == "write_at" and path.endswith(".log") else None

        self.fs.hook = hook


class Waiter:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def appended(self, size_bytes: int) -> None:
        self.told.append(size_bytes)

    def disturbed(self) -> None:
        self.told.append("disturbed")


# --- epochs


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (5, None),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2**31 - 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_clients_of_another_epoch_are_fenced(epoch: int, code: ErrorCode | None) -> None:
    bench = Bench()
    bench.lead(5)
    partition = bench.partition
    if code is None:
        partition.check_leader_epoch(epoch)
    else:
        with pytest.raises(ApiError) as caught:
            partition.check_leader_epoch(epoch)
        assert caught.value.code is code


def test_the_leader_epoch_stands_in_every_batch() -> None:
    bench = Bench()
    bench.append()
    bench.lead(3)
    bench.append()
    log = bench.partition.log
    data = log.read(0, 2**20, 2, True)
    first = read_header(data)
    assert (first.partition_leader_epoch, read_header(data, first.size_bytes).partition_leader_epoch) == (0, 3)
    assert log.end_offset_for_epoch(0) == (0, 1)


# --- appending


def test_what_is_appended_can_be_read_at_once() -> None:
    bench = Bench()
    assert bench.append(make_batch(b"a", b"b")) == Appended(0, -1)
    assert bench.append(make_batch(b"c")) == Appended(2, -1)
    assert bench.partition.high_watermark == bench.partition.last_stable_offset == 3
    assert bench.stored() == [b"a", b"b", b"c"]


def test_a_partition_starts_where_its_log_ends() -> None:
    bench = Bench()
    bench.append(make_batch(b"a", b"b"))
    again = Partition("t", UUID(int=1), 0, bench.partition.log, bench.partition.config)
    assert again.high_watermark == 2


def test_those_who_wait_are_told_of_each_append() -> None:
    bench, first, second = Bench(), Waiter(), Waiter()
    batch = make_batch(b"a")
    bench.partition.waiters.add(first)
    bench.append(bytearray(batch))
    bench.partition.waiters.add(second)
    bench.append(bytearray(batch))
    bench.partition.waiters.remove(first)
    bench.append(bytearray(batch))
    assert (first.told, second.told) == ([len(batch)] * 2, [len(batch)] * 2)


def test_a_waiter_may_leave_while_it_is_told() -> None:
    bench = Bench()

    class Leaving(Waiter):
        def appended(self, size_bytes: int) -> None:
            super().appended(size_bytes)
            bench.partition.waiters.remove(self)

    waiters = [Leaving() for _ in range(3)]
    for waiter in waiters:
        bench.partition.waiters.add(waiter)
    bench.append()
    bench.append()
    assert [len(waiter.told) for waiter in waiters] == [1, 1, 1]
    bench.partition.waiters.remove(waiters[0])


def test_a_disturbance_reaches_everybody() -> None:
    bench, waiter = Bench(), Waiter()
    bench.partition.waiters.add(waiter)
    bench.partition.waiters.disturb()
    assert waiter.told == ["disturbed"]


# --- timestamps


def test_create_time_keeps_the_batch_as_it_came() -> None:
    bench = Bench()
    batch = make_batch(b"a", timestamp=1_000)
    crc = read_header(batch).crc
    assert bench.append(batch) == Appended(0, -1)
    header = read_header(bench.partition.log.read(0, 2**20, 1, True))
    assert (header.crc, header.max_timestamp, header.timestamp_type) == (crc, 1_000, TimestampType.CREATE_TIME)


def test_log_append_time_stamps_the_batch() -> None:
    bench = Bench(message_timestamp_type="LogAppendTime")
    assert bench.append(make_batch(b"a", timestamp=1_000), now_ms=NOW_MS + 5) == Appended(0, NOW_MS + 5)
    data = bench.partition.log.read(0, 2**20, 1, True)
    header = read_header(data)
    assert (header.max_timestamp, header.timestamp_type) == (NOW_MS + 5, TimestampType.LOG_APPEND_TIME)
    assert check_crc(data, 0, header)
    assert bench.partition.log.offset_for_timestamp(NOW_MS) is not None


# --- producers


def test_a_repeated_batch_is_answered_with_where_it_was_written_first() -> None:
    bench, waiter = Bench(), Waiter()
    bench.append(make_batch(b"other"))
    first = make_batch(b"a", b"b", producer=(7, 0, 0))
    bench.append(bytearray(first))
    bench.append(make_batch(b"c", producer=(7, 0, 2)))
    bench.partition.waiters.add(waiter)
    assert bench.append(bytearray(first)) == Appended(1, -1)
    assert bench.partition.high_watermark == 4
    assert waiter.told == []
    assert bench.stored() == [b"other", b"a", b"b", b"c"]


def test_a_repeated_batch_keeps_its_first_append_time() -> None:
    bench = Bench(message_timestamp_type="LogAppendTime")
    batch = make_batch(b"a", producer=(7, 0, 0))
    bench.append(bytearray(batch), now_ms=NOW_MS)
    assert bench.append(bytearray(batch), now_ms=NOW_MS + 1000) == Appended(0, NOW_MS)


def test_a_repeat_is_recognised_after_a_restart_though_it_was_not_the_last() -> None:
    """The simulator's seed 12: what was repeated after a restart was refused, and written again under another epoch."""
    bench = Bench()
    batches = [make_batch(b"a", producer=(7, 0, 0)), make_batch(b"b", producer=(7, 0, 1))]
    for batch in batches:
        bench.append(bytearray(batch))
    bench.log_dir.close()
    log_dir = LogDir.open(bench.fs, "/data", ManualClock())
    bench.partition = Partition("t", UUID(int=1), 0, log_dir.logs["t", 0], bench.partition.config)
    bench.lead(0)
    assert bench.append(batches[0]) == Appended(0, -1)
    assert bench.stored() == [b"a", b"b"]


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused() -> None:
    bench = Bench()
    bench.append(make_batch(b"a", producer=(7, 1, 0)))
    assert bench.refusal(make_batch(b"b", producer=(7, 1, 2))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.refusal(make_batch(b"b", producer=(7, 0, 1))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.stored() == [b"a"]


# --- replicas in sync


def test_acks_all_needs_enough_replicas_in_sync_before_anything_is_written() -> None:
    bench = Bench(min_insync_replicas="2")
    bench.lead(0, isr=(1,), replicas=(1, 2))
    assert bench.refusal() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.partition.log.log_end_offset == 0
    assert bench.append(acks=1) == Appended(0, -1)
    bench.lead(0, isr=(1, 2), replicas=(1, 2))
    assert bench.append() == Appended(1, -1)


def test_more_than_all_replicas_need_not_be_in_sync() -> None:
    """Kafka takes the smaller of min.insync.replicas and the number of replicas (KIP-966)."""
    assert Bench(min_insync_replicas="2").append() == Appended(0, -1)


# --- a disk that fails


def test_a_full_disk_is_a_storage_error_until_there_is_room_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tailrace.runtime")
    bench, waiter = Bench(), Waiter()
    bench.append(make_batch(b"a"))
    bench.partition.waiters.add(waiter)
    bench.fail_writes(errno.ENOSPC)
    assert [bench.refusal(make_batch(b"lost")) for _ in range(3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert (bench.partition.high_watermark, waiter.told) == (1, [])
    bench.fail_writes(None)
    assert bench.append(make_batch(b"b")) == Appended(1, -1)
    assert bench.stored() == [b"a", b"b"]
    assert [record.getMessage().split(":")[0] for record in own_records(caplog)] == [
        "t-0 cannot be written",
        "t-0 can be written again",
    ]


def test_a_broken_disk_takes_the_folder_offline() -> None:
    bench = Bench()
    bench.fail_writes(errno.EIO)
    assert bench.refusal() is ErrorCode.KAFKA_STORAGE_ERROR
    bench.fail_writes(None)
    assert bench.log_dir.is_offline
    assert bench.refusal() is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_failed_write_does_not_use_up_the_sequence() -> None:
    bench = Bench()
    bench.fail_writes(errno.ENOSPC)
    batch = make_batch(b"a", producer=(7, 0, 0))
    assert bench.refusal(bytearray(batch)) is ErrorCode.KAFKA_STORAGE_ERROR
    bench.fail_writes(None)
    assert bench.append(bytearray(batch)) == Appended(0, -1)
    assert bench.append(bytearray(batch)) == Appended(0, -1)
    assert bench.stored() == [b"a"]


# --- deleting records


@pytest.mark.parametrize(("before", "low"), [(0, 0), (2, 2), (3, 3), (-1, 3)])
def test_records_below_an_offset_go(before: int, low: int) -> None:
    bench = Bench()
    bench.append(make_batch(b"a", b"b", b"c"))
    assert bench.partition.delete_records(before) == low == bench.partition.log.log_start_offset


@pytest.mark.parametrize("before", [4, -2, 2**62])
def test_records_that_are_not_there_cannot_be_deleted(before: int) -> None:
    bench = Bench()
    bench.append(make_batch(b"a", b"b", b"c"))
    with pytest.raises(ApiError) as caught:
        bench.partition.delete_records(before)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.partition.log.log_start_offset == 0


def test_the_log_start_never_goes_back() -> None:
    bench = Bench()
    bench.append(make_batch(b"a", b"b", b"c"))
    bench.partition.delete_records(2)
    assert bench.partition.delete_records(1) == 1
    assert bench.partition.log.log_start_offset == 2


# --- searching by time


async def test_a_search_by_time_waits_for_the_disk_in_a_thread() -> None:
    bench = Bench()
    bench.append(make_batch(b"a", b"b"))
    may_go_on, threads = threading.Event(), set()

    def hook(_count: int, operation: str, path: str) -> OSError | None:
        if operation == "read_at":
            threads.add(threading.current_thread())
            assert may_go_on.wait(60)
        return None

    bench.fs.hook = hook
    searching = asyncio.create_task(bench.partition.find_by_time(NOW_MS + 1))
    await asyncio.sleep(0)
    bench.append(make_batch(b"c"))  # the loop goes on meanwhile
    may_go_on.set()
    assert await searching == (NOW_MS + 1, 1, 0)
    assert threads
    assert threading.current_thread() not in threads


async def test_a_search_by_time_begins_again_when_its_segments_go() -> None:
    bench = Bench()
    log = bench.partition.log
    for number in range(4):
        bench.append(make_batch(b"a", timestamp=NOW_MS + number))
        log.roll()
    lookups = []
    begin = log.begin_lookup

    def begin_and_delete(timestamp_ms: int | None) -> TimestampLookup:
        lookups.append(begin(timestamp_ms))
        if len(lookups) == 1:
            log.advance_log_start(2)
            assert log.apply_retention(0) == 2
        return lookups[-1]

    log.begin_lookup = begin_and_delete  # type: ignore[method-assign]
    assert await bench.partition.find_by_time(NOW_MS) == (NOW_MS + 2, 2, 0)
    assert len(lookups) == 2
