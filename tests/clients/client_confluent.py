"""The workload through confluent-kafka, and the reader that checks what the others wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.clients import workload
from tests.clients.workload import Record, Report
from tests.eventual import eventually

VERSION = confluent_kafka.__version__
TIMEOUT_S = 60.0


def write(bootstrap: str, topic: str) -> Report:
    """Create, describe, produce."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create(admin, topic)
    described = describe_configs(admin, topic)
    produced = sum(_produce(bootstrap, topic, codec, records) for codec, records in workload.by_codec())
    return {
        "version": VERSION,
        "partitions": partition_count(admin, topic),
        "config": {name: described[name] for name in ("retention.ms", "cleanup.policy")},
        "produced": produced,
    }


def create(admin: AdminClient, topic: str) -> None:
    """Create the workload's topic and wait until it has its partitions."""
    new = NewTopic(topic, workload.PARTITION_COUNT, workload.REPLICATION_FACTOR, config=workload.TOPIC_CONFIG)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    eventually(lambda: partition_count(admin, topic), lambda count: count == workload.PARTITION_COUNT)


def partition_count(admin: AdminClient, topic: str) -> int:
    """How many partitions with a leader the topic has."""
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    return sum(1 for partition in found.partitions.values() if partition.leader >= 0)


def describe_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    """All configs of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(TIMEOUT_S).items()}


def _produce(bootstrap: str, topic: str, codec: str, records: list[Record]) -> int:
    confirmed: list[int] = []
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all", "linger.ms": 20})

    def report(error: Any, message: Any) -> None:
        (failed if error else confirmed).append(error or message.offset())

    for item in records:
        producer.produce(
            topic,
            value=item.value,
            key=item.key,
            partition=item.partition,
            timestamp=item.timestamp_ms,
            headers=list(item.headers),
            on_delivery=report,
        )
    producer.flush(TIMEOUT_S)
    if failed:
        raise AssertionError(f"{codec}: {len(failed)} records failed, the first with {failed[0]}")
    return len(confirmed)


def read(bootstrap: str, topic: str) -> Report:
    """Read all, look up the times."""
    records = stored_records(bootstrap, topic)
    consumer = _consumer(bootstrap)
    seek: dict[str, list[int]] = {str(partition): [] for partition in range(workload.PARTITION_COUNT)}
    for time_ms in workload.SEEK_MS:
        wanted = [TopicPartition(topic, partition, time_ms) for partition in range(workload.PARTITION_COUNT)]
        for found in consumer.offsets_for_times(wanted, timeout=TIMEOUT_S):
            # The library says "end" (-1) for a time after the last record.
            seek[str(found.partition)].append(found.offset)
    consumer.close()
    return {"version": VERSION, **workload.read_report(records, seek)}


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            # The library wants a name even for assignment by hand; no group request is ever sent.
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )


def stored_records(bootstrap: str, topic: str) -> list[Record]:
    """Every record of a topic, by partition and offset."""
    consumer = _consumer(bootstrap)
    partitions = sorted(consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    records = sorted(_until_the_end(consumer, len(partitions)), key=lambda item: (item.partition, item.offset))
    consumer.close()
    return records


def _until_the_end(consumer: Consumer, partitions: int) -> Iterator[Record]:
    ended = 0
    deadline = time.monotonic() + TIMEOUT_S
    while ended < partitions:
        if time.monotonic() > deadline:
            raise AssertionError(f"the end was not reached within {TIMEOUT_S:.0f} s")
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            yield _record(message)
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended += 1
        else:
            raise AssertionError(error)


def _record(message: Any) -> Record:
    return Record(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def change(bootstrap: str, topic: str) -> Report:
    """Alter, grow, delete records, delete."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(
        "max.message.bytes",
        workload.CHANGED_CONFIG["max.message.bytes"],
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    config = eventually(
        lambda: {name: describe_configs(admin, topic)[name] for name in workload.CHANGED_CONFIG},
        lambda found: found == workload.CHANGED_CONFIG,
    )
    admin.create_partitions([NewPartitions(topic, workload.PARTITION_COUNT_AFTER)])[topic].result(TIMEOUT_S)
    partitions = eventually(
        lambda: partition_count(admin, topic), lambda count: count == workload.PARTITION_COUNT_AFTER
    )
    asked = TopicPartition(topic, 0, workload.DELETE_BEFORE)
    for future in admin.delete_records([asked]).values():
        future.result(TIMEOUT_S)
    earliest = _consumer(bootstrap).get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)[0]
    delete(admin, topic)
    gone = eventually(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, bool)
    return {"version": VERSION, "config": config, "partitions": partitions, "earliest": earliest, "gone": gone}


def delete(admin: AdminClient, topic: str) -> None:
    """Delete a topic."""
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
