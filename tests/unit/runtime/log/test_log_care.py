"""What happens to logs by themselves."""

import asyncio
import logging
from threading import Event, current_thread

import pytest
from tests.logged import logged
from tests.unit.sample import NOW_MS, BrokerInMemory, make_batch
from tests.unit.server.replication.cluster import running, until

from tailrace.base.sentinel import ACKS_ALL
from tailrace.machines.controller.topic import NewTopic
from tailrace.records.batch import read_header
from tailrace.runtime.broker import Broker
from tailrace.runtime.log import care as log_care
from tailrace.runtime.partition import Partition
from tailrace.storage.error import StorageError

DAY_MS = 24 * 3600 * 1000


async def create(broker: Broker, name: str, **configs: str) -> Partition:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    await broker.controller.create_topic(NewTopic(name, 1, 1, configs=settings), broker.topic_defaults)
    return broker.replicas.get(name, 0)


def append(partition: Partition, value: bytes = b"a", timestamp: int = NOW_MS) -> None:
    batch = memoryview(make_batch(value, timestamp=timestamp))
    partition.append(batch, read_header(batch), ACKS_ALL, timestamp)


async def test_a_log_is_flushed_when_flush_ms_is_over() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t", flush_ms="1000")
        append(partition)
        await broker.care.flush()
        assert partition.log.recovery_point == 0
        machine.clock.time_ms += 1000
        await broker.care.flush()
        assert partition.log.recovery_point == 1


async def test_by_default_only_what_is_sealed_is_flushed() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t")
        append(partition)
        machine.clock.time_ms += 365 * DAY_MS
        await broker.care.flush()
        assert partition.log.recovery_point == 0
        partition.log.roll()
        append(partition)
        await broker.care.flush()
        assert partition.log.recovery_point == 1


async def test_only_logs_that_may_have_to_be_flushed_are_looked_at() -> None:
    """A broker looked at ten thousand idle partitions every second, and needed a hundredth of a core for that."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        (log_dir,) = broker.log_dirs
        idle, timed = await create(broker, "idle"), await create(broker, "timed", flush_ms="1000")
        for partition in (idle, timed):
            append(partition)
        assert log_dir.unflushed.look() == [timed.log]
        idle.log.roll()
        assert log_dir.unflushed.look() == [timed.log, idle.log]
        await broker.care.flush()
        assert log_dir.unflushed.look() == [timed.log]
        timed.log.reconfigure(idle.log.config)
        assert log_dir.unflushed.look() == []
        append(idle)
        idle.log.roll()
        await broker.controller.delete_topic("idle")
        await broker.replicas.settled()
        assert log_dir.unflushed.look() == []


async def test_checkpoints_are_written_when_they_change() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t")
        append(partition)
        await broker.care.checkpoint()
        machine.fs.calls.clear()
        await broker.care.checkpoint()
        assert not any(operation.startswith(("write", "sync")) for operation, _ in machine.fs.calls)
        partition.log.flush()
        machine.fs.calls.clear()
        partition.log.roll()
        await broker.care.flush()
        await broker.care.checkpoint()
        assert ("rename", "recovery-point-offset-checkpoint.tmp") in machine.fs.calls


async def test_a_checkpoint_that_could_not_be_written_is_written_later() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t")
        append(partition)
        await broker.care.checkpoint()
        partition.log.flush()
        partition.log.roll()
        await broker.care.flush()
        machine.fs.hook = lambda _number, operation, _path: OSError(28, "full") if operation == "write_file" else None
        await broker.care.checkpoint()
        machine.fs.hook = None
        machine.fs.calls.clear()
        await broker.care.checkpoint()
        assert ("rename", "recovery-point-offset-checkpoint.tmp") in machine.fs.calls


async def test_a_flush_that_fails_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A folder that had failed was flushed again every second. Each time and for each partition the log got a line."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        for name in ("t", "u"):
            append(await create(broker, name, flush_ms="0"))
        broker.log_dirs[0]._folder.fail(StorageError("/data", OSError(5, "broken")))
        for _ in range(5):
            await broker.care.flush()
            await broker.care.apply_retention()
        (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert line == "log folder /data is offline until the broker restarts: /data: broken"


async def test_old_records_go_and_their_topic_stays() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        old, young = await create(broker, "old", retention_ms="1000"), await create(broker, "young")
        for partition in (old, young):
            append(partition)
        machine.clock.time_ms += DAY_MS
        await broker.care.apply_retention()
        assert (old.log.log_start_offset, old.high_watermark) == (1, 1)
        assert young.log.log_start_offset == 0


async def test_the_files_of_old_records_go_in_the_thread_of_folders_and_after_their_delay() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t", retention_ms="1000", file_delete_delay_ms="5000")
        append(partition)
        partition.log.roll()
        machine.clock.time_ms += DAY_MS
        threads: set[str] = set()

        def watch(number: int, operation: str, path: str) -> None:
            if operation in ("rename", "remove", "sync", "sync_directory"):
                threads.add(current_thread().name.rstrip("0123456789_"))

        machine.fs.hook = watch
        await broker.care.apply_retention()
        names = [entry.name for entry in machine.fs.list_directory(partition.log.directory)]
        assert f"{0:020d}.log.deleted" in names
        assert f"{0:020d}.log" not in names
        await broker.care.remove_deleted_files()
        machine.clock.time_ms += 5000
        await broker.care.remove_deleted_files()
        assert threads == {"tailrace-folder"}
        names = [entry.name for entry in machine.fs.list_directory(partition.log.directory)]
        assert [name for name in names if name.endswith(".deleted")] == []


async def test_a_checkpoint_spares_a_killed_broker_the_scan_and_keeps_the_log_start() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t")
        for value in (b"a", b"b", b"c"):
            append(partition, value)
        partition.log.flush()
        partition.delete_records(2)
        await broker.care.checkpoint()
        await machine.kill(broker)
    async with machine.running() as again:
        log = again.replicas.get("t", 0).log
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 3, 2)


async def test_producers_that_fell_silent_are_forgotten() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        partition = await create(broker, "t")
        batch = memoryview(make_batch(b"a", producer=(7, 0, 0)))
        partition.append(batch, read_header(batch), ACKS_ALL, NOW_MS)
        await broker.care.expire_producers()
        assert list(partition.log.producers.entries) == [7]
        machine.clock.time_ms += DAY_MS
        await broker.care.expire_producers()
        assert list(partition.log.producers.entries) == []


async def test_care_that_fails_once_is_taken_up_again(caplog: pytest.LogCaptureFixture) -> None:
    """A bug in one round of retention ended retention for good. Nobody was told until the disk was full."""
    rounds = 0
    third = asyncio.Event()

    async def care() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            third.set()
        raise ZeroDivisionError

    task = asyncio.ensure_future(log_care._every(0, care))
    await asyncio.wait_for(third.wait(), 60)
    task.cancel()
    assert "ZeroDivisionError" in logged(caplog)


async def test_high_watermarks_are_written_when_one_has_moved() -> None:
    async with running(2, replica_high_watermark_checkpoint_interval_ms="3600000") as cluster:
        await cluster.create([(1, 2)])
        server, path = cluster[2].server, "/data-2/replication-offset-checkpoint"
        assert server is not None
        broker = server.broker
        assert (await cluster.produce(1, b"a")).error_code == 0
        await until(lambda: cluster[2].partition().high_watermark == 1)
        await broker.care.checkpoint_high_watermarks()
        assert cluster[2].fs.read_file(path) == b"0\n1\nt 0 1\n"
        cluster[2].fs.remove(path)
        await broker.care.checkpoint_high_watermarks()
        assert cluster[2].fs.read_file(path) is None
        cluster[2].fs.hook = lambda _number, _operation, name: (
            OSError(28, "full") if "offset-checkpoint" in name else None
        )
        assert (await cluster.produce(1, b"b")).error_code == 0
        await until(lambda: cluster[2].partition().high_watermark == 2)
        await broker.care.checkpoint_high_watermarks()
        cluster[2].fs.hook = None
        await broker.care.checkpoint_high_watermarks()
        assert cluster[2].fs.read_file(path) == b"0\n1\nt 0 2\n"


async def test_high_watermarks_whose_writing_was_cancelled_are_written_when_the_broker_stops() -> None:
    """A stop ended the periodic work before its thread came to it, and a restart lowered the high watermark."""
    async with running(2, replica_high_watermark_checkpoint_interval_ms="3600000") as cluster:
        await cluster.create([(1, 2)])
        server, path = cluster[2].server, "/data-2/replication-offset-checkpoint"
        assert server is not None
        broker = server.broker
        assert (await cluster.produce(1, b"a")).error_code == 0
        await until(lambda: cluster[2].partition().high_watermark == 1)
        is_free = Event()
        broker.folder_worker.submit(is_free.wait)
        writing = asyncio.create_task(broker.care.checkpoint_high_watermarks())
        await until(lambda: not broker.replicas.moved)
        writing.cancel()
        await asyncio.wait([writing])
        is_free.set()
        await broker.care.finish()
        assert cluster[2].fs.read_file(path) == b"0\n1\nt 0 1\n"
