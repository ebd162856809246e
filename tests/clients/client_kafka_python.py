"""The workload through kafka-python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kafka.admin import ConfigResource
from tests.clients import workload
from tests.clients.workload import Record, Report
from tests.eventual import eventually

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

VERSION = kafka.__version__


@contextlib.contextmanager
def _closing(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close()


def write(bootstrap: str, topic: str) -> Report:
    """Create, describe, produce."""
    with _closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics(
            {
                topic: {
                    "num_partitions": workload.PARTITION_COUNT,
                    "replication_factor": workload.REPLICATION_FACTOR,
                    "configs": workload.TOPIC_CONFIG,
                }
            },
            wait_for_metadata=True,
        )
        described = _configs(admin, topic)
        partitions = _partition_count(admin, topic)
    produced = sum(_produce(bootstrap, topic, codec, records) for codec, records in _records())
    return {
        "version": VERSION,
        "partitions": partitions,
        "config": {name: described[name] for name in ("retention.ms", "cleanup.policy")},
        "produced": produced,
    }


def _records() -> Iterator[tuple[str, list[Record]]]:
    # The producer refuses a header whose value is None.
    return workload.by_codec(null_headers=False)


def _partition_count(admin: Any, topic: str) -> int:
    found = admin.describe_topics([topic])[0]
    return sum(1 for partition in found["partitions"] if partition["leader_id"] >= 0)


def _configs(admin: Any, topic: str) -> dict[str, str]:
    found = admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
    return {name: entry["value"] for name, entry in found["topic"][topic].items()}


def _produce(bootstrap: str, topic: str, codec: str, records: list[Record]) -> int:
    compression = None if codec == "none" else codec
    settings = {"compression_type": compression, "acks": "all", "linger_ms": 20}
    with _closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
        sent = [
            producer.send(
                topic,
                value=item.value,
                key=item.key,
                partition=item.partition,
                timestamp_ms=item.timestamp_ms,
                headers=list(item.headers),
            )
            for item in records
        ]
        producer.flush(30)
        return sum(1 for future in sent if future.get(30).offset >= 0)


def read(bootstrap: str, topic: str) -> Report:
    """Read all, look up the times."""
    partitions = [TopicPartition(topic, number) for number in range(workload.PARTITION_COUNT)]
    settings = {"group_id": None, "auto_offset_reset": "none", "enable_auto_commit": False}
    with _closing(KafkaConsumer(bootstrap_servers=bootstrap, **settings)) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        records: list[Record] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for found in consumer.poll(timeout_ms=10_000).values():
                records += [_record(message) for message in found]
        seek: dict[str, list[int]] = {str(partition.partition): [] for partition in partitions}
        for time_ms in workload.SEEK_MS:
            for partition, where in consumer.offsets_for_times(dict.fromkeys(partitions, time_ms)).items():
                seek[str(partition.partition)].append(-1 if where is None else where.offset)
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


def change(bootstrap: str, topic: str) -> Report:
    """Alter, grow, delete records, delete."""
    with _closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        wanted = {"max.message.bytes": workload.CHANGED_CONFIG["max.message.bytes"]}
        admin.alter_configs([ConfigResource("TOPIC", topic, configs=wanted)])
        config = eventually(
            lambda: {name: _configs(admin, topic)[name] for name in workload.CHANGED_CONFIG},
            lambda found: found == workload.CHANGED_CONFIG,
        )
        admin.create_partitions({topic: workload.PARTITION_COUNT_AFTER})
        partitions = eventually(
            lambda: _partition_count(admin, topic), lambda count: count == workload.PARTITION_COUNT_AFTER
        )
        first = TopicPartition(topic, 0)
        admin.delete_records({first: workload.DELETE_BEFORE})
        earliest = admin.list_partition_offsets({first: -2})[first].offset
        admin.delete_topics([topic])
        gone = eventually(lambda: topic not in admin.list_topics(), bool)
    return {"version": VERSION, "config": config, "partitions": partitions, "earliest": earliest, "gone": gone}
