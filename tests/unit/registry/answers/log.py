"""The records that a registry keeps in its topic, read back after a story."""

from __future__ import annotations

import re

from confluent_kafka import Consumer, TopicPartition

Records = list[list[str | None]]
"""The texts of key and value of each record, in order; the value of a tombstone is null."""

POLL_S = 60.0

# An association has a random GUID, unlike a schema.
_RANDOM_GUID = re.compile(r'(?<="guid":")[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}')


def read(bootstrap: str, topic: str) -> Records:
    """Return every record of a registry's topic, which has one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "answers", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=POLL_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        records: Records = []
        while len(records) < end:
            message = consumer.poll(POLL_S)
            if message is None or message.error() is not None:
                raise TimeoutError(f"{topic}-0: no record at offset {len(records)}, although the log ends at {end}")
            records.append([_text(message.key()), _text(message.value())])
        return records
    finally:
        consumer.close()


def _text(content: bytes | None) -> str | None:
    return None if content is None else _RANDOM_GUID.sub("<random>", content.decode())
