"""The workload through aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.clients import workload
from tests.clients.workload import Record, Report

VERSION = aiokafka.__version__


def write(bootstrap: str, topic: str) -> Report:
    """Create, describe, produce."""
    return asyncio.run(_write(bootstrap, topic))


def read(bootstrap: str, topic: str) -> Report:
    """Read all, look up the times."""
    return asyncio.run(_read(bootstrap, topic))


def change(bootstrap: str, topic: str) -> Report:
    """Alter, grow, delete records, delete."""
    return asyncio.run(_change(bootstrap, topic))


async def _write(bootstrap: str, topic: str) -> Report:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        new = NewTopic(topic, workload.PARTITION_COUNT, 1, topic_configs=workload.TOPIC_CONFIG)
        new.replication_factor = workload.REPLICATION_FACTOR  # which its constructor refuses to take
        created = await admin.create_topics([new])
        _check(code for _, code, *_ in created.topic_errors)
        partitions = await _eventually(
            lambda: _partition_count(admin, topic), lambda count: count == workload.PARTITION_COUNT
        )
        described = await _configs(admin, topic)
    finally:
        await admin.close()
    produced = 0
    for codec, records in workload.by_codec():
        produced += await _produce(bootstrap, topic, codec, records)
    return {
        "version": VERSION,
        "partitions": partitions,
        "config": {name: described[name] for name in ("retention.ms", "cleanup.policy")},
        "produced": produced,
    }


def _check(codes: Any) -> None:
    failed = [code for code in codes if code]
    if failed:
        raise AssertionError(f"error codes {failed}")


async def _partition_count(admin: Any, topic: str) -> int:
    found = (await admin.describe_topics([topic]))[0]
    return sum(1 for partition in found["partitions"] if partition["leader"] >= 0)


async def _configs(admin: Any, topic: str) -> dict[str, str]:
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    ((code, _, _, _, entries),) = answers[0].resources
    _check([code])
    return {entry[0]: entry[1] for entry in entries}


async def _produce(bootstrap: str, topic: str, codec: str, records: list[Record]) -> int:
    compression = None if codec == "none" else codec
    settings = {"compression_type": compression, "acks": "all", "linger_ms": 20}
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                value=item.value,
                key=item.key,
                partition=item.partition,
                timestamp_ms=item.timestamp_ms,
                headers=list(item.headers),
            )
            for item in records
        ]
        await producer.flush()
        return sum(1 for placed in await asyncio.gather(*sent) if placed.offset >= 0)
    finally:
        await producer.stop()


async def _read(bootstrap: str, topic: str) -> Report:
    partitions = [TopicPartition(topic, number) for number in range(workload.PARTITION_COUNT)]
    settings = {"group_id": None, "auto_offset_reset": "none", "enable_auto_commit": False}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings)
    await consumer.start()
    try:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        records: list[Record] = []
        while len(records) < sum(ends.values()):
            for found in (await consumer.getmany(timeout_ms=10_000)).values():
                records += [_record(message) for message in found]
        seek: dict[str, list[int]] = {str(partition.partition): [] for partition in partitions}
        for time_ms in workload.SEEK_MS:
            for partition, where in (await consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))).items():
                seek[str(partition.partition)].append(-1 if where is None else where.offset)
    finally:
        await consumer.stop()
    return {"version": VERSION, **workload.read_report(records, seek)}


def _record(message: Any) -> Record:
    return Record(
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=message.timestamp,
        key=message.key,
        value=message.value,
        headers=tuple((name, value) for name, value in message.headers),
    )


async def _change(bootstrap: str, topic: str) -> Report:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=workload.CHANGED_CONFIG)
        for answer in await admin.alter_configs([resource]):
            _check(code for code, *_ in answer.resources)
        config = await _eventually(
            lambda: _chosen_configs(admin, topic), lambda found: found == workload.CHANGED_CONFIG
        )
        grown = await admin.create_partitions({topic: NewPartitions(workload.PARTITION_COUNT_AFTER)})
        _check(code for _, code, *_ in grown.topic_errors)
        partitions = await _eventually(
            lambda: _partition_count(admin, topic), lambda count: count == workload.PARTITION_COUNT_AFTER
        )
        first = TopicPartition(topic, 0)
        await admin.delete_records({first: RecordsToDelete(before_offset=workload.DELETE_BEFORE)})
        earliest = await _earliest(bootstrap, first)
        deleted = await admin.delete_topics([topic])
        _check(code for _, code in deleted.topic_error_codes)
        gone = await _eventually(lambda: _is_gone(admin, topic), bool)
    finally:
        await admin.close()
    return {"version": VERSION, "config": config, "partitions": partitions, "earliest": earliest, "gone": gone}


async def _chosen_configs(admin: Any, topic: str) -> dict[str, str]:
    found = await _configs(admin, topic)
    return {name: found[name] for name in workload.CHANGED_CONFIG}


async def _is_gone(admin: Any, topic: str) -> bool:
    return topic not in await admin.list_topics()


async def _earliest(bootstrap: str, partition: TopicPartition) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    await consumer.start()
    try:
        offset: int = (await consumer.beginning_offsets([partition]))[partition]
        return offset
    finally:
        await consumer.stop()


async def _eventually(look: Callable[[], Awaitable[Any]], wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + 15
    while True:
        seen = await look()
        if wanted(seen) or time.monotonic() > deadline:
            return seen
        await asyncio.sleep(0.02)
