"""Offsets by partition, and their JSON in options and checkpoints: `{"topic": {"0": 123}}`.

The format is that of Spark's Kafka connector. Spark compares positions as text, so topics and partitions are always
written in the same order.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.error import OptionError

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetJson: TypeAlias = dict[str, dict[str, int]]

OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMES_EXAMPLE = '{"topicA":{"0":1700000000000}}'
PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[2,4]}'


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Encode offsets as JSON; equal offsets are equal text."""
    found: OffsetJson = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def from_json(stored: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Decode offsets from JSON; raises `ValueError`."""
    offsets = {}
    for topic, partitions in stored.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"{topic!r} must have an object of partitions, not {partitions!r}")
        for partition, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise ValueError(f"{topic}-{partition} has {offset!r}, which is not a number")
            offsets[TopicPartition(topic, _partition(partition))] = offset
    return offsets


def reported_offsets(found: Any) -> Offsets:
    """Return the offsets in a report of Spark; none if the position is that of a source other than topics."""
    try:
        stored = json.loads(found) if isinstance(found, str) else found
        return from_json(stored) if isinstance(stored, Mapping) else {}
    except ValueError:
        return {}


def parse_offsets(option: str, text: str, example: str = OFFSETS_EXAMPLE) -> Offsets:
    """Parse an option with offsets or times by partition."""
    try:
        return from_json(_json_object(text))
    except ValueError as error:
        raise OptionError(option, f"expected JSON such as {example}, not {text!r} ({error})") from None


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse an option with a list of partitions, without duplicates."""
    try:
        found = [
            TopicPartition(topic, _partition(partition))
            for topic, partitions in _json_object(text).items()
            for partition in _json_list(partitions)
        ]
    except ValueError as error:
        raise OptionError(option, f"expected JSON such as {PARTITIONS_EXAMPLE}, not {text!r} ({error})") from None
    if not found:
        raise OptionError(option, f"no partition in {text!r}")
    return tuple(sorted(set(found)))


def shown(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as sorted text."""
    return ", ".join(str(partition) for partition in sorted(partitions))


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _json_list(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError(f"{found!r} is not a list of partitions")
    return found


def _partition(found: object) -> int:
    """Parse a partition number from a JSON key or number."""
    if isinstance(found, str) and found.isascii() and found.isdigit():
        return int(found)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    raise ValueError(f"{found!r} is not a partition")
