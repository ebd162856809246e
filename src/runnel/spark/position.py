"""Offsets by partition, and the JSON in which options and checkpoints hold them: `{"topic": {"0": 123}}`.

The shape is that of Spark's Kafka connector. Spark compares the positions of a query as text, so
the order in which topics and partitions are written is always the same.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from runnel.client.topic_partition import TopicPartition
from runnel.spark.error import OptionError

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetJson: TypeAlias = dict[str, dict[str, int]]

OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMES_EXAMPLE = '{"topicA":{"0":1700000000000}}'
PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[2,4]}'


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Offsets as Spark stores them; equal offsets are equal text."""
    found: OffsetJson = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def from_json(stored: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets as Spark hands them back; raises `ValueError` for what is none."""
    offsets = {}
    for topic, partitions in stored.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"{topic!r} has no partitions but {partitions!r}")
        for partition, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise ValueError(f"{topic}-{partition} has {offset!r}, which is no number")
            offsets[TopicPartition(topic, _partition(partition))] = offset
    return offsets


def parse_offsets(option: str, text: str, example: str = OFFSETS_EXAMPLE) -> Offsets:
    """The offsets (or times) that an option holds for partitions."""
    try:
        return from_json(_json_object(text))
    except ValueError as error:
        raise OptionError(option, f"expected JSON such as {example}, not {text!r} ({error})") from None


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions that an option lists, in their order and each once."""
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
    """Partitions for people, in order."""
    return ", ".join(str(partition) for partition in sorted(partitions))


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


def _json_list(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError(f"{found!r} is no list of partitions")
    return found


def _partition(found: object) -> int:
    """A partition's number, as a key of JSON or as a number."""
    if isinstance(found, str) and found.isascii() and found.isdigit():
        return int(found)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    raise ValueError(f"{found!r} is no partition")
