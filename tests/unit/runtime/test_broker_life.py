"""A broker from start to stop and to start again, cleanly and not."""

import asyncio
import errno
import json
import logging
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from tests.logged import logged
from tests.started_thread import started_threads
from tests.unit.runtime.members import members
from tests.unit.sample import NOW_MS, BrokerInMemory, make_batch, records_of, replacing

import tailrace.runtime.opener
from tailrace.base.sentinel import ACKS_ALL
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import CLUSTER_ID
from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.store import Create
from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind, ConfigRecord
from tailrace.machines.controller.topic import NewTopic
from tailrace.records.batch import read_header
from tailrace.runtime.append import Appended
from tailrace.runtime.broker import Broker
from tailrace.runtime.group.coordinator import GroupCoordinators
from tailrace.runtime.log.folder import open_folders
from tailrace.runtime.opener import start_broker
from tailrace.storage.error import StorageError


async def create(broker: Broker, name: str = "t", partition_count: int = 1, **configs: str) -> UUID:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name, partition_count, 1, configs=settings)
    return (await broker.controller.create_topic(new, broker.topic_defaults)).topic_id


def append(broker: Broker, *values: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> Appended:
    batch = memoryview(make_batch(*values, producer=producer))
    return broker.replicas.get("t", 0).append(batch, read_header(batch), ACKS_ALL, NOW_MS)


def stored(broker: Broker, name: str = "t", index: int = 0) -> list[bytes | None]:
    log = broker.replicas.get(name, index).log
    data = log.read(log.log_start_offset, 2**20, log.log_end_offset, True)
    return [record.value for record in records_of(data)]


# --- restarts


async def test_a_clean_restart_keeps_everything_and_scans_nothing() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        cluster_id, topic_id = broker.cluster_id, await create(broker, "t", 2, retention_ms="12345")
        append(broker, b"a", b"b", producer=(7, 0, 0))
    async with machine.running() as again:
        assert [log_dir.was_clean for log_dir in again.log_dirs] == [True]
        assert again.cluster_id == cluster_id
        assert again.image.topics["t"].topic_id == again.replicas.get("t", 1).topic_id == topic_id
        assert again.replicas.get("t", 0).config.retention_ms == 12345
        assert again.replicas.get("t", 0).high_watermark == 2
        assert stored(again) == [b"a", b"b"]
        assert append(again, b"a", b"b", producer=(7, 0, 0)) == Appended(0, -1)


async def test_a_killed_broker_comes_back_with_topics_data_and_producers(caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        topic_id = await create(broker)
        append(broker, b"a", producer=(7, 0, 0))
        append(broker, b"b", producer=(7, 0, 1))
        await machine.kill(broker)
    async with machine.running() as again:
        assert "not stopped cleanly" in logged(caplog)
        assert again.image.topics["t"].topic_id == topic_id
        assert again.replicas.get("t", 0).high_watermark == 2
        assert append(again, b"b", producer=(7, 0, 1)) == Appended(1, -1)
        assert append(again, b"c", producer=(7, 0, 2)) == Appended(2, -1)
        assert stored(again) == [b"a", b"b", b"c"]


async def test_a_kill_between_metadata_and_folder_leaves_a_topic_that_works() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await broker.stop()
        async with machine.running() as other:
            topic_id = await create(other)
        machine.fs.rename("/data/t-0", "/data/gone")
    async with machine.running() as again:
        assert again.replicas.get("t", 0).topic_id == topic_id
        assert append(again, b"a") == Appended(0, -1)


async def test_what_was_flushed_survives_a_power_loss() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker, flush_messages="1")
        for value in (b"a", b"b", b"c"):
            append(broker, value)
            end = broker.replicas.get("t", 0).flush_end
            assert end is not None
            assert await end is None
        await machine.kill(broker)
        machine.fs.lose_power()
    async with machine.running() as again:
        assert stored(again) == [b"a", b"b", b"c"]


async def test_producer_ids_go_on_after_a_kill() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        first = [await broker.producer_ids.next() for _ in range(3)]
        await machine.kill(broker)
    async with machine.running() as again:
        assert await again.producer_ids.next() > max(first)


async def test_a_broker_on_a_real_disk_keeps_its_metadata_with_its_logs(tmp_path: Path) -> None:
    config = BrokerConfig({"node.id": "1", "log.dirs": str(tmp_path / "new" / "data")})
    broker = await start_broker(config)
    cluster_id, topic_id = broker.cluster_id, await create(broker)
    append(broker, b"a")
    await broker.stop()
    again = await start_broker(config)
    assert (again.cluster_id, again.image.topics["t"].topic_id) == (cluster_id, topic_id)
    assert stored(again) == [b"a"]
    await again.stop()


async def test_folders_are_opened_at_the_same_time() -> None:
    """Each may be on a disk of its own, and after a crash there may be much to read."""
    machine = BrokerInMemory()
    both = threading.Barrier(2, timeout=20)

    def hook(_count: int, operation: str, _path: str) -> OSError | None:
        if operation == "lock":
            both.wait()
        return None

    machine.fs.hook = hook
    async with machine.running(log_dirs="/a,/b") as broker:
        assert [log_dir.path for log_dir in broker.log_dirs] == ["/a", "/b"]


# --- folders of topics that should not be there


async def forget_topics(machine: BrokerInMemory, cluster_id: str) -> None:
    """Lose what the metadata says of topics, but not the logs."""
    machine.store = MemoryStore()
    await machine.store.commit([Create(CLUSTER_ID, json.dumps({"version": "1", "id": cluster_id}).encode())])


async def test_logs_of_unknown_topics_are_set_aside_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker, "stray")
    await forget_topics(machine, broker.cluster_id)
    async with machine.running():
        assert "stray-0 belongs to no topic" in logged(caplog)
        assert not machine.fs.exists("/data/stray-0")
    for _ in range(2):
        async with machine.running() as again:
            await again.care.remove_deleted_files()
            (kept,) = [entry for entry in machine.fs.list_directory("/data") if entry.name.endswith("-stray")]
            assert {entry.name for entry in machine.fs.list_directory(f"/data/{kept.name}")} > {"partition.metadata"}
    assert f"folder /data/{kept.name} is a stray partition and is left alone" in logged(caplog)


async def test_a_kill_during_a_deletion_leaves_no_name_in_the_way() -> None:
    """The folders of a large topic were renamed and synced one by one, and a kill left many under their names."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await broker.controller.create_topic(NewTopic("t", 8, 1), broker.topic_defaults)
        renamed: list[str] = []

        def hook(_count: int, operation: str, path: str) -> OSError | None:
            if operation == "rename" and "/t-" in path:
                renamed.append(path)
            assert operation != "sync_directory" or len(renamed) in (0, 8)
            return None

        machine.fs.hook = hook
        await broker.controller.delete_topic("t")
        machine.fs.hook = None
        assert len(renamed) == 8


async def test_the_log_of_an_old_topic_is_not_taken_for_that_of_a_new_one() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker)
        append(broker, b"old")
    await forget_topics(machine, broker.cluster_id)
    async with machine.running() as again:
        topic_id = await create(again)
        assert stored(again) == []
        assert again.replicas.get("t", 0).topic_id == topic_id
        append(again, b"new")
    async with machine.running() as third:
        assert stored(third) == [b"new"]


# --- dynamic configuration


async def test_dynamic_configuration_is_there_again_after_a_restart() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker)
        for name, value in (("1", "2000000"), (CLUSTER_DEFAULT, "3000000")):
            configs = {"log.segment.bytes": value}
            await broker.controller.write_config(ConfigKind.BROKER, name, replacing(configs), validate_only=False)
    async with machine.running() as again:
        assert again.config.log_segment_bytes == 2000000
        assert again.replicas.get("t", 0).log.config.segment_bytes == 2000000


async def test_a_config_that_changes_while_the_logs_are_opened_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another broker changed it. Recovery may take minutes, and the broker listens to changes after it."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker)
    other = ClusterMetadata(machine.store)

    async def change(*arguments: Any) -> Any:
        await other.load()
        await other.commit([ConfigRecord(ConfigKind.BROKER, CLUSTER_DEFAULT, {"log.segment.bytes": "3000000"})])
        return await open_folders(*arguments)

    monkeypatch.setattr(tailrace.runtime.opener, "open_folders", change)
    async with machine.running() as again:
        await again.replicas.settled()
        assert again.config.log_segment_bytes == 3000000
        assert again.replicas.get("t", 0).log.config.segment_bytes == 3000000


# --- what goes wrong


async def test_a_folder_in_use_stops_the_start_and_nothing_stays_behind(tmp_path: Path) -> None:
    """A start that failed kept its threads and the metadata store open. The same process could not try again."""
    config = BrokerConfig({"node.id": "1", "log.dirs": str(tmp_path)})
    first = await start_broker(config)
    with started_threads() as threads:
        with pytest.raises(StorageError):
            await start_broker(config)
        assert not threads.running()
    await first.stop()
    second = await start_broker(config)
    await second.stop()


async def test_a_start_that_fails_at_any_file_system_call_leaves_nothing_behind() -> None:
    """What a start had opened before it failed was closed only if the failure came late enough."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker, "t", 2)
        append(broker, b"a")
    tasks = asyncio.all_tasks()
    failing_call, failure_count, has_failed = 0, 0, True
    while has_failed:
        failing_call += 1
        has_failed = False
        first = machine.fs.call_count

        def hook(count: int, operation: str, _path: str, last: int = first + failing_call) -> OSError | None:
            nonlocal has_failed
            if count == last:
                has_failed = True
                return OSError(errno.EIO, operation)
            return None

        machine.fs.hook = hook
        with started_threads() as threads:
            try:
                broker = await machine.start()
            except StorageError:
                failure_count += 1
            else:
                await broker.stop()
            machine.fs.hook = None
            assert (asyncio.all_tasks(), threads.running()) == (tasks, []), failing_call
    assert failure_count > 10
    async with machine.running() as again:
        assert stored(again) == [b"a"]


async def test_a_start_that_fails_late_stops_its_fetchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetchers begin while the logs are opened. A start that failed after that left them running."""
    async with members(1, 2) as cluster:
        await cluster.create([1, 2])
        await cluster.stop(2)
        tasks = asyncio.all_tasks()
        with monkeypatch.context() as patch:
            patch.setattr(
                tailrace.runtime.opener, "set_strays_aside", Mock(side_effect=StorageError("/data", OSError()))
            )
            with pytest.raises(StorageError):
                await cluster.start(2)
        assert asyncio.all_tasks() == tasks
        await cluster.start(2)


async def test_what_fails_in_a_stop_does_not_keep_the_rest_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the middle of a stop left the logs locked and the metadata store open."""
    machine = BrokerInMemory()
    with monkeypatch.context() as patch:
        patch.setattr(GroupCoordinators, "stop", Mock(side_effect=ZeroDivisionError))
        broker = await machine.start()
        with pytest.raises(ZeroDivisionError):
            await broker.stop()
    async with machine.running() as again:
        assert [log_dir.was_clean for log_dir in again.log_dirs] == [True]


async def test_a_broker_with_a_broken_disk_still_stops(caplog: pytest.LogCaptureFixture) -> None:
    """A folder that had gone offline ended the stop half way. The other folders were not closed cleanly."""
    machine = BrokerInMemory()
    broker = await machine.start(log_dirs="/bad,/good")
    for name in ("a", "b"):
        await create(broker, name)
    broker.log_dirs[0]._folder.fail(StorageError("/bad", OSError(5, "broken")))
    with caplog.at_level(logging.ERROR, "tailrace.runtime"):
        await broker.stop()
    assert "/bad" in logged(caplog)
    async with machine.running(log_dirs="/bad,/good") as again:
        assert [log_dir.was_clean for log_dir in again.log_dirs] == [False, True]
        assert set(again.image.topics) == {"a", "b"}
