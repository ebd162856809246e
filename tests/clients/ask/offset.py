"""ListOffsets and DeleteRecords."""

from __future__ import annotations

from typing import Any

from tests.clients.ask.asker import Asker, filled, question
from tests.clients.raw import batch

START_MS = 1_700_000_000_000


def _short(found: dict[str, Any]) -> list[int]:
    return [found["error_code"], found["timestamp"], found["offset"], found["leader_epoch"]]


@question
def timestamps(asker: Asker) -> Any:
    """ListOffsets v5 on ten records a second apart, as [error, timestamp, offset, leader epoch]."""
    topic = filled(asker)
    asked = {
        "earliest": -2,
        "latest": -1,
        "exact": START_MS + 3000,
        "between": START_MS + 3001,
        "before all": 0,
        "after all": START_MS + 10_000,
    }
    return {label: _short(asker.list_offsets(topic, timestamp)) for label, timestamp in asked.items()}


@question
def special_timestamps(asker: Asker) -> Any:
    """ListOffsets v11 (v5 where it says so) for the special and some meaningless negative timestamps."""
    topic = filled(asker)
    answers = {str(number): _short(asker.list_offsets(topic, number, version=11)) for number in range(-9, 0)}
    answers["-3 in v5"] = _short(asker.list_offsets(topic, -3))
    answers["-9 in v5"] = _short(asker.list_offsets(topic, -9))
    answers["-4 in v7"] = _short(asker.list_offsets(topic, -4, version=7))
    answers["-3 in v7"] = _short(asker.list_offsets(topic, -3, version=7))
    return answers


@question
def empty_log(asker: Asker) -> Any:
    """ListOffsets v7 on an empty partition: earliest, latest, max timestamp, a time."""
    topic = asker.topic()
    return [_short(asker.list_offsets(topic, timestamp, version=7)) for timestamp in (-2, -1, -3, START_MS)]


@question
def max_timestamp_is_not_last(asker: Asker) -> Any:
    """ListOffsets v7 max timestamp (-3) when the largest timestamp is in the middle, twice."""
    topic = asker.topic()
    for step in (1, 9, 5, 9, 2):
        asker.produce(topic, batch(timestamp_ms=START_MS + step))
    return _short(asker.list_offsets(topic, -3, version=7))


@question
def out_of_order(asker: Asker) -> Any:
    """Timestamps 5, 1, 9, 3: the offsets for the times 0, 2, 5, 6, 9, 10."""
    topic = asker.topic()
    for step in (5, 1, 9, 3):
        asker.produce(topic, batch(timestamp_ms=START_MS + step))
    return [_short(asker.list_offsets(topic, START_MS + step))[1:3] for step in (0, 2, 5, 6, 9, 10)]


@question
def duplicates(asker: Asker) -> Any:
    """ListOffsets v5 that names partition 0 twice: the codes."""
    topic = filled(asker, 2)
    one = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": topic, "partitions": [one, one]}]
    answer = asker.fields("ListOffsets", 5, replica_id=-1, isolation_level=0, topics=topics)
    return [_short(partition) for topic in answer["topics"] for partition in topic["partitions"]]


@question
def unknown(asker: Asker) -> Any:
    """ListOffsets v5 for an unknown topic, an unknown partition, a negative one and a bad name."""
    topic = asker.topic()
    return {
        "topic": _short(asker.list_offsets("no-such-topic", -1)),
        "partition": _short(asker.list_offsets(topic, -1, index=5)),
        "negative partition": _short(asker.list_offsets(topic, -1, index=-1)),
        "bad name": _short(asker.list_offsets("..", -1)),
        "future epoch": _short(asker.list_offsets(topic, -1, epoch=9)),
        "epoch 0": _short(asker.list_offsets(topic, -1, epoch=0)),
    }


def _delete(asker: Asker, topic: str, offset: int, partition: int = 0) -> list[int]:
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
    answer = asker.fields("DeleteRecords", 1, topics=topics, timeout_ms=60_000)
    found = answer["topics"][0]["partitions"][0]
    return [found["error_code"], found["low_watermark"]]


@question
def delete_records(asker: Asker) -> Any:
    """DeleteRecords v1 on ten records, in this order, as [error, low watermark]."""
    topic = filled(asker)
    return {
        "to 3": _delete(asker, topic, 3),
        "to 1, before the start": _delete(asker, topic, 1),
        "to 11, beyond the end": _delete(asker, topic, 11),
        "to -2": _delete(asker, topic, -2),
        "to -1, the high watermark": _delete(asker, topic, -1),
        "to 10, the end": _delete(asker, topic, 10),
        "unknown topic": _delete(asker, "no-such-topic", 1),
        "unknown partition": _delete(asker, topic, 1, 7),
        "bad name": _delete(asker, "..", 1),
        "earliest afterwards": _short(asker.list_offsets(topic, -2)),
        "next append": asker.produce(topic, batch())["base_offset"],
    }


@question
def delete_records_on_compacted(asker: Asker) -> Any:
    """DeleteRecords v1 on a topic that is compacted only."""
    return _delete(asker, filled(asker, 3, cleanup_policy="compact"), 1)


@question
def delete_records_in_middle_of_batch(asker: Asker) -> Any:
    """Delete before 2 in a batch of five: the start offset, and the base offset of the batch that is still read."""
    topic = asker.topic()
    asker.produce(topic, batch([b"v"] * 5))
    return [_delete(asker, topic, 2), _short(asker.list_offsets(topic, -2)), _first_base(asker, topic)]


def _first_base(asker: Asker, topic: str) -> int:
    from tests.clients.ask.fetch import fetch

    data = fetch(asker, topic, 2)["responses"][0]["partitions"][0]["records"]
    return int.from_bytes(bytes(data[:8]), "big")
