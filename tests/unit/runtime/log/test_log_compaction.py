"""Which logs a broker compacts, and what happens when one cannot be."""

import asyncio
import errno
import logging
from pathlib import PurePath

import pytest
from tests.logged import logged
from tests.unit.sample import NOW_MS, BrokerInMemory, make_batch, records_of

from tailrace.base.sentinel import ACKS_ALL
from tailrace.machines.controller.topic import NewTopic
from tailrace.records.batch import read_header
from tailrace.runtime.broker import Broker
from tailrace.runtime.partition import Partition
from tailrace.storage.checkpoint import read_offsets
from tailrace.storage.retention import delete_segments

NEVER = {"log_cleaner_backoff_ms": "3600000"}
CLEANER_FILE = "/data/cleaner-offset-checkpoint"


async def create(broker: Broker, name: str, **configs: str) -> Partition:
    settings = {key.replace("_", "."): value for key, value in {"cleanup_policy": "compact", **configs}.items()}
    await broker.controller.create_topic(NewTopic(name, 1, 1, configs=settings), broker.topic_defaults)
    return broker.replicas.get(name, 0)


async def fill(broker: Broker, partition: Partition, *keys: bytes) -> None:
    for key in keys:
        batch = memoryview(make_batch(b"value", key=key))
        partition.append(batch, read_header(batch), ACKS_ALL, NOW_MS)
    partition.log.roll()
    await broker.care.flush()


def keys_of(partition: Partition) -> list[tuple[int, bytes | None]]:
    found = []
    offset = partition.log.log_start_offset
    while offset < partition.high_watermark:
        records = records_of(partition.log.read(offset, 100_000, partition.high_watermark, min_one_batch=True))
        found += [(record.offset, record.key) for record in records]
        offset = records[-1].offset + 1
    return found


async def compact(broker: Broker) -> None:
    broker.compaction.start_due()
    await broker.compaction.settled()


async def test_a_log_is_compacted_and_it_is_written_down_up_to_where() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"b", b"a")
        await compact(broker)
        assert keys_of(partition) == [(1, b"b"), (2, b"a")]
        assert read_offsets(machine.fs, CLEANER_FILE) == {("t", 0): 3}
        await machine.kill(broker)
    async with machine.running(**NEVER) as again:
        partition = again.replicas.get("t", 0)
        assert partition.log.cleaner_offset == 3
        assert keys_of(partition) == [(1, b"b"), (2, b"a")]


async def test_nobody_has_to_ask_for_it() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_cleaner_backoff_ms="1") as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        async with asyncio.timeout(60):
            while keys_of(partition) != [(1, b"a")]:
                await asyncio.sleep(0.001)


async def test_only_topics_that_want_it_are_compacted() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t", cleanup_policy="delete")
        both = await create(broker, "u", cleanup_policy="delete,compact")
        for one in (partition, both):
            await fill(broker, one, b"a", b"a")
        await compact(broker)
        assert keys_of(partition) == [(0, b"a"), (1, b"a")]
        assert keys_of(both) == [(1, b"a")]


async def test_compacted_topics_are_deleted_from_as_well_if_they_want_it() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        both = await create(broker, "u", cleanup_policy="delete,compact", retention_ms="1000")
        only = await create(broker, "v", retention_ms="1000")
        for one in (both, only):
            await fill(broker, one, b"a", b"a")
        await compact(broker)
        machine.clock.time_ms += 5000
        await broker.care.apply_retention()
        assert (both.log.log_start_offset, only.log.log_start_offset) == (2, 0)
        await fill(broker, both, b"b", b"b")
        await compact(broker)
        assert keys_of(both) == [(3, b"b")]


async def test_the_dirtiest_log_comes_first() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        cleaner, dirtier = await create(broker, "a"), await create(broker, "b")
        for partition in (cleaner, dirtier):
            await fill(broker, partition, *[b"%d" % number for number in range(10)])
        await compact(broker)
        await compact(broker)
        await fill(broker, cleaner, *[b"x"] * 20)
        await fill(broker, dirtier, *[b"x"] * 40)
        broker.compaction.start_due()
        assert list(broker.compaction._running) == [dirtier.log]
        await broker.compaction.settled()


async def test_as_many_logs_are_compacted_at_once_as_there_are_threads() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_cleaner_threads="2", **NEVER) as broker:
        partitions = [await create(broker, name) for name in ("a", "b", "c")]
        for partition in partitions:
            await fill(broker, partition, b"a", b"a")
        broker.compaction.start_due()
        assert len(broker.compaction._running) == 2
        await broker.compaction.settled()
        await compact(broker)
        assert [keys_of(partition) for partition in partitions] == [[(1, b"a")]] * 3


async def test_a_log_that_is_not_dirty_enough_waits() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t", max_compaction_lag_ms="5000")
        await fill(broker, partition, b"a", b"b", b"c", b"d")
        await compact(broker)
        await fill(broker, partition, b"a")
        await compact(broker)
        assert len(keys_of(partition)) == 5
        machine.clock.time_ms += 5001
        await compact(broker)
        assert len(keys_of(partition)) == 4


async def test_young_records_are_left_alone() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t", min_compaction_lag_ms="1000")
        await fill(broker, partition, b"a", b"a")
        machine.clock.time_ms += 999
        await compact(broker)
        assert len(keys_of(partition)) == 2
        machine.clock.time_ms += 1
        await compact(broker)
        assert len(keys_of(partition)) == 1


async def test_a_log_that_cannot_be_compacted_is_named_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        broken, good = await create(broker, "broken"), await create(broker, "good")
        await fill(broker, broken, b"a", b"a")
        await fill(broker, good, b"a", b"a")
        broken.log.segments[0].file.write_at(b"\xff", 70)
        for _ in range(3):
            await compact(broker)
        assert keys_of(good) == [(1, b"a")]
        (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert line == "broken-0 cannot be compacted and is skipped until the broker restarts"
        assert "wrong checksum at position 0" in logged(caplog)


async def test_a_full_disk_makes_it_wait_and_leaves_the_log_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with machine.running(log_cleaner_backoff_ms="60000") as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        full = OSError(errno.ENOSPC, "no space")
        machine.fs.hook = lambda _, operation, path: (
            full if operation == "create" and PurePath(path).suffix == ".cleaned" else None
        )
        await compact(broker)
        assert "t-0 could not be compacted" in logged(caplog)
        assert len(keys_of(partition)) == 2
        machine.fs.hook = None
        await compact(broker)
        assert len(keys_of(partition)) == 2
        machine.clock.time_ms += 60_000
        await compact(broker)
        assert len(keys_of(partition)) == 1


async def test_a_topic_deleted_meanwhile_is_nobodys_failure(caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        broker.compaction.start_due()
        await broker.controller.delete_topic("t")
        await broker.compaction.settled()
        machine.clock.time_ms += partition.config.file_delete_delay_ms
        await broker.care.remove_deleted_files()
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
        assert not broker.log_dirs[0].is_offline
        assert not any(entry.is_directory for entry in machine.fs.list_directory("/data"))


async def test_retention_may_take_segments_away_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    """The compaction could not open what retention had deleted, and took the whole folder offline for it."""
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t", cleanup_policy="compact,delete", segment_bytes="1048576")
        for _ in range(3):
            await fill(broker, partition, b"a", b"b")

        def delete_first(_: int, operation: str, path: str) -> None:
            if operation == "create" and path.endswith(".cleaned"):
                machine.fs.hook = None
                delete_segments(partition.log, 2)

        machine.fs.hook = delete_first
        await compact(broker)
        assert not broker.log_dirs[0].is_offline
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
        assert (partition.log.log_start_offset, partition.log.cleaner_offset) == (4, None)
        assert keys_of(partition) == [(4, b"a"), (5, b"b")]


async def test_a_log_may_begin_again_right_after_it_was_measured(caplog: pytest.LogCaptureFixture) -> None:
    """The compaction was planned a step later, for a log that had begun again further on, as a follower's does whose
    leader has deleted all its records. The log was not compacted any more until the broker was restarted."""
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        broker.compaction.start_due()
        partition.log.truncate_fully(9)
        await broker.compaction.settled()
        assert "cannot be compacted" not in logged(caplog)
        partition.high_watermark = 9
        await fill(broker, partition, b"a", b"a")
        machine.clock.time_ms += 3_600_000
        await compact(broker)
        assert keys_of(partition) == [(10, b"a")]


async def test_a_bug_in_one_log_does_not_end_the_compaction_of_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        odd, good = await create(broker, "odd"), await create(broker, "good")
        for partition in (odd, good):
            await fill(broker, partition, b"a", b"a")
        monkeypatch.setattr(odd.log, "recovery_point", None)
        await compact(broker)
        assert "odd-0 cannot be compacted" in logged(caplog)
        assert keys_of(good) == [(1, b"a")]
        monkeypatch.undo()


async def test_a_stop_in_the_middle_is_clean() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_cleaner_io_max_bytes_per_second="1", **NEVER) as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        broker.compaction.start_due()
        await asyncio.sleep(0)
    async with machine.running(**NEVER) as again:
        assert again.log_dirs[0].was_clean
        assert len(keys_of(again.replicas.get("t", 0))) == 2
        await compact(again)
        assert len(keys_of(again.replicas.get("t", 0))) == 1


async def test_without_a_cleaner_nothing_is_compacted() -> None:
    machine = BrokerInMemory()
    for setting in ({"log_cleaner_enable": "false"}, {"log_cleaner_threads": "0"}):
        async with machine.running(**NEVER, **setting) as broker:
            name = next(iter(setting)).replace("_", "-")
            partition = await create(broker, name)
            await fill(broker, partition, b"a", b"a")
            await compact(broker)
            assert len(keys_of(partition)) == 2
