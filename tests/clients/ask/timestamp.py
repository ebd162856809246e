"""Which timestamps a topic takes, whose they are, and what is found by them."""

from __future__ import annotations

import time
from typing import Any

from tests.clients.ask.asker import Asker, produce_fields, question
from tests.clients.raw import batch

MINUTE_MS = 60_000


def _taken(asker: Asker, age_ms: int | None, **configs: str) -> list[Any]:
    """The code of two records of that age, None for no timestamp at all, and which records are blamed."""
    timestamp_ms = -1 if age_ms is None else int(time.time() * 1000) - age_ms
    records = batch([b"a", b"b"], timestamp_ms=timestamp_ms)
    topic = asker.topic(partitions=1, **configs)
    answer = asker.fields("Produce", 8, **produce_fields(topic, records, -1, 0))
    partition = answer["responses"][0]["partition_responses"][0]
    return [partition["error_code"], [error["batch_index"] for error in partition["record_errors"]]]


@question
def before_max(asker: Asker) -> Any:
    """With message.timestamp.before.max.ms of an hour: records of 1 and of 120 minutes, of none, and future ones."""
    configs = {"message_timestamp_before_max_ms": str(60 * MINUTE_MS)}
    ages = {"1": MINUTE_MS, "120": 120 * MINUTE_MS, "none": None, "-120": -120 * MINUTE_MS}
    return {name: _taken(asker, age_ms, **configs) for name, age_ms in ages.items()}


@question
def after_max(asker: Asker) -> Any:
    """With a message.timestamp.after.max.ms of an hour and of none at all: records up to 120 minutes ahead and back."""
    ages = {"-1": -MINUTE_MS, "-120": -120 * MINUTE_MS, "none": None, "120": 120 * MINUTE_MS}
    return {
        str(limit_ms): {
            name: _taken(asker, age_ms, message_timestamp_after_max_ms=str(limit_ms)) for name, age_ms in ages.items()
        }
        for limit_ms in (60 * MINUTE_MS, 0)
    }


@question
def append_time_has_no_bounds(asker: Asker) -> Any:
    """With LogAppendTime and bounds of an hour: records of 120 minutes ago, ahead, and without a timestamp."""
    bounds = {f"message_timestamp_{side}_max_ms": str(60 * MINUTE_MS) for side in ("before", "after")}
    ages = {"120": 120 * MINUTE_MS, "-120": -120 * MINUTE_MS, "none": None}
    return {
        name: _taken(asker, age_ms, message_timestamp_type="LogAppendTime", **bounds) for name, age_ms in ages.items()
    }


@question
def found_by_append_time(asker: Asker) -> Any:
    """LogAppendTime: which offsets are found for the time 0, the newest, the producer's time, and an hour from now."""
    topic = asker.topic(message_timestamp_type="LogAppendTime")
    old_ms = int(time.time() * 1000) - 120 * MINUTE_MS
    for _ in range(2):
        asker.produce(topic, batch([b"a", b"b", b"c"], timestamp_ms=old_ms))
        # The next batch must not come within the same millisecond.
        while int(time.time() * 1000) <= asker.list_offsets(topic, -3, version=7)["timestamp"]:
            pass
    asked = {"0": 0, "newest": -3, "producer's": old_ms, "ahead": old_ms + 180 * MINUTE_MS}
    return {name: asker.list_offsets(topic, timestamp, version=7)["offset"] for name, timestamp in asked.items()}


@question
def none_at_all(asker: Asker) -> Any:
    """Records without timestamps: what is found for the time 0 and for the newest."""
    topic = asker.topic()
    for _ in range(2):
        asker.produce(topic, batch([b"a", b"b"], timestamp_ms=-1))
    found = [asker.list_offsets(topic, timestamp, version=7) for timestamp in (0, -3)]
    return [[one["error_code"], one["timestamp"], one["offset"]] for one in found]


@question
def type_changes(asker: Asker) -> Any:
    """What the newest is when a topic goes from old CreateTime records to LogAppendTime and old records come again."""
    topic = asker.topic()
    old_ms = 1_700_000_000_000
    asker.produce(topic, batch([b"a"], timestamp_ms=old_ms))
    configs = [{"name": "message.timestamp.type", "config_operation": 0, "value": "LogAppendTime"}]
    resources = [{"resource_type": 2, "resource_name": topic, "configs": configs}]
    asker.fields("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    deadline = time.monotonic() + 5
    while asker.produce(topic, batch([b"b"], timestamp_ms=old_ms))["log_append_time_ms"] < 0:
        if time.monotonic() > deadline:
            return "the change never came"
    newest = asker.list_offsets(topic, -3, version=7)
    first = asker.list_offsets(topic, old_ms + 1, version=7)
    return [newest["timestamp"] > old_ms, newest["offset"] == first["offset"], first["offset"] > 0]
