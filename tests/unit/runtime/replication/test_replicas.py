"""Partitions come, change and go as the image says, and a failing disk takes only its own."""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from tests.logged import logged, own_records
from tests.unit.sample import NOW_MS, BrokerInMemory, make_batch

from tailrace.base.sentinel import ACKS_ALL
from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind
from tailrace.machines.controller.topic import NewTopic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.runtime.broker import Broker
from tailrace.runtime.fetch_wait import FetchWait
from tailrace.runtime.partition import Partition


async def create(broker: Broker, name: str = "t", partition_count: int = 1) -> UUID:
    topic = await broker.controller.create_topic(NewTopic(name, partition_count, 1), broker.topic_defaults)
    return topic.topic_id


def append(partition: Partition) -> int:
    batch = memoryview(make_batch(b"a"))
    return partition.append(batch, read_header(batch), ACKS_ALL, NOW_MS).base_offset


def absence(broker: Broker, name: str, index: int) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        broker.replicas.get(name, index)
    return caught.value.code


def failing(code: int, operation: str, part: str) -> Callable[[int, str, str], OSError | None]:
    """A hook that fails an operation on paths with `part` in them."""
    return lambda _count, name, path: OSError(code, "no") if name == operation and part in path else None


# --- coming and going


async def test_a_topic_is_ready_when_its_creation_returns() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker, "t", 3)
        assert [append(broker.replicas.get("t", index)) for index in range(3)] == [0, 0, 0]
        assert {partition.name for partition in broker.replicas.all()} == {"t-0", "t-1", "t-2"}


async def test_what_is_not_here_is_unknown() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker, "t", 2)
        for name, index in (("t", 2), ("t", -1), ("u", 0), ("", 0), ("..", 0)):
            assert absence(broker, name, index) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_grown_topic_keeps_its_partitions_and_their_data() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker)
        first = broker.replicas.get("t", 0)
        append(first)
        await broker.controller.add_partitions("t", 3, None, validate_only=False)
        assert broker.replicas.get("t", 0) is first
        assert first.high_watermark == 1
        assert append(broker.replicas.get("t", 2)) == 0


async def test_the_files_of_a_deleted_topic_go_after_their_delay() -> None:
    machine = BrokerInMemory()

    def names() -> list[str]:
        return [entry.name for entry in machine.fs.list_directory("/data") if entry.is_directory]

    async with machine.running() as broker:
        await create(broker, "t", 2)
        delay_ms = broker.replicas.get("t", 0).config.file_delete_delay_ms
        await broker.controller.delete_topic("t")
        assert absence(broker, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.replicas.all() == []
        machine.clock.time_ms += delay_ms - 1
        await broker.care.remove_deleted_files()
        assert [name.endswith("-delete") for name in names()] == [True, True]
        machine.clock.time_ms += 1
        await broker.care.remove_deleted_files()
        assert names() == []
        assert not any(log_dir.has_deleted_files for log_dir in broker.log_dirs)


async def test_a_topic_made_again_is_another_one() -> None:
    async with BrokerInMemory().running() as broker:
        old = await create(broker)
        append(broker.replicas.get("t", 0))
        await broker.controller.delete_topic("t")
        new = await create(broker)
        partition = broker.replicas.get("t", 0)
        assert old != new == partition.topic_id
        assert (partition.high_watermark, append(partition)) == (0, 0)


async def test_deleting_and_creating_at_once_ends_with_the_new_one() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker, "t", 3)
        append(broker.replicas.get("t", 0))
        await asyncio.gather(broker.controller.delete_topic("t"), create(broker, "t", 2))
        assert [broker.replicas.get("t", index).high_watermark for index in range(2)] == [0, 0]
        assert absence(broker, "t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_those_who_wait_at_a_deleted_topic_are_sent_away() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker)
        waiting = asyncio.ensure_future(FetchWait(1).wait([broker.replicas.get("t", 0)], 60))
        await asyncio.sleep(0)
        await broker.controller.delete_topic("t")
        assert await waiting is True


# --- who still holds a partition that is gone


async def test_a_write_that_was_on_its_way_to_a_deleted_topic_is_refused() -> None:
    """A batch is checked in a thread, and its topic may be deleted meanwhile. The closed log was taken for a bug in
    the broker, or written to in its renamed folder, where a roll would have taken the whole disk for broken."""
    async with BrokerInMemory().running() as broker:
        await create(broker)
        held = broker.replicas.get("t", 0)
        await broker.controller.delete_topic("t")
        with pytest.raises(ApiError) as caught:
            append(held)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(ApiError):
            held.delete_records(0)


async def test_retention_leaves_a_topic_alone_that_is_deleted_under_its_hands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retention went on with a partition whose folder had been renamed. It found no folder to roll a segment in, and
    took the disk offline."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        for name in ("t", "u"):
            await create(broker, name)
            append(broker.replicas.get(name, 0))
        everything = broker.replicas.all()
        await broker.controller.delete_topic("t")
        monkeypatch.setattr(broker.replicas, "all", lambda: everything)
        machine.clock.time_ms += 30 * 24 * 3600 * 1000
        await broker.care.apply_retention()
        assert not broker.log_dirs[0].is_offline
        assert broker.replicas.get("u", 0).log.log_start_offset == 1


# --- configuration


async def test_a_topics_configuration_reaches_its_log() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker, "t", 2)
        values = {"segment.bytes": "2000000", "retention.ms": "5", "min.insync.replicas": "2"}
        await broker.controller.write_config(ConfigKind.TOPIC, "t", lambda _: values, validate_only=False)
        for index in range(2):
            partition = broker.replicas.get("t", index)
            assert (partition.log.config.segment_bytes, partition.log.config.retention_ms) == (2000000, 5)
            assert partition.config.min_insync_replicas == 2
        await broker.controller.write_config(ConfigKind.TOPIC, "t", lambda _: {}, validate_only=False)
        assert broker.replicas.get("t", 0).log.config.segment_bytes == 2**30


async def test_a_brokers_configuration_reaches_the_topics_that_have_none() -> None:
    async with BrokerInMemory().running() as broker:
        for name in ("own", "inherits"):
            await create(broker, name)
        own = {"segment.bytes": "2000000"}
        await broker.controller.write_config(ConfigKind.TOPIC, "own", lambda _: own, validate_only=False)
        default = {"log.segment.bytes": "3000000"}
        await broker.controller.write_config(ConfigKind.BROKER, CLUSTER_DEFAULT, lambda _: default, validate_only=False)
        sizes = {name: broker.replicas.get(name, 0).log.config.segment_bytes for name in ("own", "inherits")}
        assert sizes == {"own": 2000000, "inherits": 3000000}


async def test_what_is_only_validated_changes_nothing() -> None:
    async with BrokerInMemory().running() as broker:
        await create(broker)
        values = {"segment.bytes": "2000000"}
        await broker.controller.write_config(ConfigKind.TOPIC, "t", lambda _: values, validate_only=True)
        await broker.controller.add_partitions("t", 5, None, validate_only=True)
        assert broker.replicas.get("t", 0).log.config.segment_bytes == 2**30
        assert broker.image.topics["t"].partition_count == 1


# --- a disk that fails


async def test_a_disk_that_is_full_takes_only_the_partitions_it_could_not_make(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One folder that could not be made left all partitions of its topic without a log, those before it included."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        machine.fs.hook = failing(errno.ENOSPC, "make_directory", "/t-1")
        await create(broker, "t", 3)
        assert absence(broker, "t", 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert [append(broker.replicas.get("t", index)) for index in (0, 2)] == [0, 0]
        topic = broker.image.topics["t"]
        assert [broker.replicas.offline(topic, index) for index in range(3)] == [[], [1], []]
        assert [record.levelno for record in own_records(caplog)] == [logging.ERROR]
        machine.fs.hook = None
        await create(broker, "u")
        await broker.controller.delete_topic("t")
        assert absence(broker, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_with_room_again_the_next_change_of_the_topic_makes_what_is_missing() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        machine.fs.hook = failing(errno.ENOSPC, "make_directory", "/t-0")
        await create(broker)
        assert absence(broker, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        machine.fs.hook = None
        await broker.controller.write_config(
            ConfigKind.TOPIC, "t", lambda _: {"retention.ms": "1"}, validate_only=False
        )
        assert append(broker.replicas.get("t", 0)) == 0


async def test_with_room_again_a_topic_is_deleted_that_could_not_be() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker, "t", 2)
        machine.fs.hook = failing(errno.ENOSPC, "rename", "/data/t-0")
        await broker.controller.delete_topic("t")
        machine.fs.hook = None
        await broker.care.checkpoint()
        await broker.replicas.settled()
        names = [entry.name for entry in machine.fs.list_directory("/data") if entry.is_directory]
        assert [name.endswith("-delete") for name in names] == [True, True]


async def test_a_replica_that_could_not_be_deleted_comes_back_to_its_broker() -> None:
    """It came back with the log that was closed for the deletion, and went offline as soon as that was used."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker)
        append(broker.replicas.get("t", 0))
        topic = broker.image.topics["t"]
        machine.fs.hook = failing(errno.ENOSPC, "rename", "/data/t-0")
        broker.image.topics["t"] = replace(topic, assignment=((broker.broker_id + 1,),))
        await broker.replicas.reconcile("t")
        assert absence(broker, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.image.topics["t"] = topic
        await broker.replicas.reconcile("t")
        assert append(broker.replicas.get("t", 0)) == 1


async def test_a_broken_disk_leaves_the_other_ones_in_use() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_dirs="/bad,/good") as broker:
        machine.fs.hook = failing(errno.EIO, "make_directory", "/bad/")
        await create(broker, "t", 4)
        assert [log_dir.is_offline for log_dir in broker.log_dirs] == [True, False]
        assert [append(broker.replicas.get("t", index)) for index in range(4)] == [0, 0, 0, 0]
        await create(broker, "u", 2)
        assert [append(broker.replicas.get("u", index)) for index in range(2)] == [0, 0]


async def test_partitions_are_spread_over_the_folders() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_dirs="/a,/b") as broker:
        await create(broker, "t", 4)
        assert [len(log_dir.logs) for log_dir in broker.log_dirs] == [2, 2]


async def test_a_change_that_cannot_be_carried_out_does_not_hold_up_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug while one topic was made ended the task that makes all of them, without a word. Every later creation of a
    topic waited for ever."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        with monkeypatch.context() as patch:
            patch.setattr(broker.replicas, "_resolve_config", lambda name: 1 / 0)
            await create(broker, "t")
        assert "ZeroDivisionError" in logged(caplog)
        await asyncio.wait_for(create(broker, "u"), 60)
        assert append(broker.replicas.get("u", 0)) == 0
