"""The offsets that a request sets, checked as Kafka Connect checks them, with its messages."""

import re
from collections.abc import Mapping
from typing import Any

from tailrace.client.topic_partition import TopicPartition
from tailrace.connect.core.error import ConnectError

FILE_PARTITION = "filename"
_POSITION = "position"
_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_sink_offset(given: Mapping[str, Any]) -> tuple[TopicPartition, int | None]:
    """Return a partition of a topic and its offset; raises `ConnectError`."""
    partition, offset = given.get("partition"), given.get("offset")
    if partition is None:
        raise ConnectError(400, "The partition for a sink connector offset cannot be null or missing")
    if not {_TOPIC, _PARTITION} <= partition.keys():
        raise ConnectError(
            400, f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'"
        )
    if partition[_TOPIC] is None:
        raise ConnectError(400, "Kafka topic names must be valid strings and may not be null")
    if partition[_PARTITION] is None:
        raise ConnectError(400, "Kafka partitions must be valid numbers and may not be null")
    index = _integer(partition[_PARTITION], "partition")
    target = TopicPartition(str(partition[_TOPIC]), index)
    if offset is None:
        return target, None
    if _OFFSET not in offset:
        raise ConnectError(
            400,
            "The offset for a sink connector should either be null or contain "
            f"the key '{_OFFSET}' whose value is the desired offset",
        )
    number = _integer(offset[_OFFSET], "offset")
    if number < 0:
        raise ConnectError(400, f"The offset {number} of {target} is below 0")
    return target, number


def read_file_offset(given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, int] | None]:
    """Return the file of a FileStream source, and the position in it; raises `ConnectError`."""
    partition, offset = given.get("partition"), given.get("offset")
    if partition is None:
        raise ConnectError(400, "Partition objects cannot be null")
    if FILE_PARTITION not in partition:
        raise ConnectError(400, f"Partition objects should contain the key '{FILE_PARTITION}'")
    file = {FILE_PARTITION: str(partition[FILE_PARTITION])}
    if offset is None:
        return file, None
    if _POSITION not in offset:
        raise ConnectError(400, f"Offset objects should either be null or contain the key '{_POSITION}'")
    position = offset[_POSITION]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectError(400, f"The value for the '{_POSITION}' key in the offset is expected to be a Long value")
    if position < 0:
        raise ConnectError(400, f"The value for the '{_POSITION}' key in the offset should be a non-negative value")
    return file, {_POSITION: position}


def _integer(value: Any, what: str) -> int:
    text = ("true" if value else "false") if isinstance(value, bool) else "null" if value is None else str(value)
    if not _INTEGER.fullmatch(text):
        raise ConnectError(
            400,
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. "
            f"{what.capitalize()} values for sink connectors need to be integers.",
        )
    return int(text)
