"""Fetch, its sessions and its epochs."""

from __future__ import annotations

import uuid
from typing import Any

from tests.clients.ask.asker import NO_ID, Asker, filled, question
from tests.clients.raw import Answer, batch


def fetch_fields(
    topic: str | uuid.UUID,
    offset: int,
    *,
    partition: int = 0,
    session: tuple[int, int] = (0, -1),
    epoch: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    replica_id: int = -1,
    topics: list[dict[str, Any]] | None = None,
    forgotten: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The fields of a Fetch request for one partition, by name (up to v12) or by id."""
    wanted = {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": partition_max_bytes,
    }
    identity = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}
    return {
        "replica_id": replica_id,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{**identity, "partitions": [wanted]}] if topics is None else topics,
        "forgotten_topics_data": forgotten or [],
        "rack_id": "",
    }


def fetch(asker: Asker, topic: str | uuid.UUID, offset: int, *, version: int | None = None, **options: Any) -> Any:
    """Fetch from one partition on a connection of its own."""
    version = version or (11 if isinstance(topic, str) else 13)
    return asker.fields("Fetch", version, **fetch_fields(topic, offset, **options))


def summary(answer: Answer) -> Any:
    """What matters of a Fetch answer."""
    if isinstance(answer, str):
        return answer
    return {
        "error_code": answer["error_code"],
        "has_session": answer["session_id"] != 0,
        "partitions": [
            {
                "error_code": partition["error_code"],
                "high_watermark": partition["high_watermark"],
                "last_stable_offset": partition["last_stable_offset"],
                "log_start_offset": partition["log_start_offset"],
                "records": "null" if partition["records"] is None else bool(partition["records"]),
            }
            for topic in answer["responses"]
            for partition in topic["partitions"]
        ],
    }


@question
def good(asker: Asker) -> Any:
    """Fetch from offset 0 of a topic with ten records."""
    return summary(fetch(asker, filled(asker), 0))


@question
def middle_of_batch(asker: Asker) -> Any:
    """Fetch offset 2 of a batch that holds 0 to 4: the base offset of the first batch that comes back."""
    topic = asker.topic()
    asker.produce(topic, batch([b"a", b"b", b"c", b"d", b"e"]))
    data = fetch(asker, topic, 2)["responses"][0]["partitions"][0]["records"]
    return int.from_bytes(bytes(data[:8]), "big")


@question
def at_end(asker: Asker) -> Any:
    """Fetch at the log end with no wait."""
    return summary(fetch(asker, filled(asker), 10))


@question
def beyond_end(asker: Asker) -> Any:
    """Fetch at an offset after the log end."""
    return summary(fetch(asker, filled(asker), 11))


@question
def negative_offset(asker: Asker) -> Any:
    """Fetch at offset -1."""
    return summary(fetch(asker, filled(asker), -1))


@question
def below_start(asker: Asker) -> Any:
    """Fetch at offset 0 after the records before 5 were deleted."""
    topic = filled(asker)
    partitions = [{"partition_index": 0, "offset": 5}]
    asker.fields("DeleteRecords", 1, topics=[{"name": topic, "partitions": partitions}], timeout_ms=60_000)
    return summary(fetch(asker, topic, 0))


@question
def unknown_topic(asker: Asker) -> Any:
    """Fetch v11 from a topic that does not exist."""
    return summary(fetch(asker, "no-such-topic", 0))


@question
def unknown_partition(asker: Asker) -> Any:
    """Fetch from partition 7 of a topic with one."""
    return summary(fetch(asker, asker.topic(), 0, partition=7))


@question
def unknown_topic_id(asker: Asker) -> Any:
    """Fetch v13 from a topic id that does not exist."""
    return summary(fetch(asker, uuid.UUID(int=12345), 0))


@question
def zero_topic_id(asker: Asker) -> Any:
    """Fetch v13 from the all-zero topic id."""
    return summary(fetch(asker, NO_ID, 0))


@question
def known_topic_id(asker: Asker) -> Any:
    """Fetch v13 from a topic by its id."""
    return summary(fetch(asker, asker.topic_id(filled(asker)), 0))


@question
def invalid_topic_name(asker: Asker) -> Any:
    """Fetch v11 from the topic `..`."""
    return summary(fetch(asker, "..", 0))


@question
def fenced_epoch(asker: Asker) -> Any:
    """Fetch with a current leader epoch below the leader's (-1 means none, so there is none below 0: use 0 and 7)."""
    topic = filled(asker)
    return {"epoch 0": summary(fetch(asker, topic, 0, epoch=0)), "epoch 7": summary(fetch(asker, topic, 0, epoch=7))}


@question
def session_lifecycle(asker: Asker) -> Any:
    """A full fetch with epoch 0 opens a session; an empty incremental one repeats it; news come; the session closes."""
    topic = filled(asker, 1)
    steps: dict[str, Any] = {}
    with asker.wire() as wire:
        opened: Any = wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(0, 0)))
        session = opened["session_id"]
        steps["open"] = summary(opened)
        steps["offset moves to the end"] = summary(
            wire.ask("Fetch", 11, **fetch_fields(topic, 1, session=(session, 1)))
        )
        steps["nothing new"] = summary(wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, 2), topics=[])))
        asker.produce(topic, batch())
        steps["something new"] = summary(
            wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, 3), topics=[]))
        )
        steps["stale epoch"] = summary(wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, 2), topics=[])))
        forget = [{"topic": topic, "partitions": [0]}]
        steps["forget"] = summary(
            wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, 4), topics=[], forgotten=forget))
        )
        steps["after forgetting all"] = summary(
            wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, 5), topics=[]))
        )
        steps["close"] = summary(wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, -1))))
        steps["after close"] = summary(wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(session, 5), topics=[])))
    return steps


@question
def session_unknown(asker: Asker) -> Any:
    """An incremental fetch in a session that was never opened."""
    return summary(fetch(asker, asker.topic(), 0, session=(12345, 1)))


@question
def session_epoch_without_id(asker: Asker) -> Any:
    """Session id 0 with epoch 5."""
    return summary(fetch(asker, asker.topic(), 0, session=(0, 5)))


@question
def session_id_with_epoch_zero(asker: Asker) -> Any:
    """A full fetch request (epoch 0) that names an unknown session."""
    return summary(fetch(asker, filled(asker, 1), 0, session=(999, 0)))


@question
def session_error_partition_repeats(asker: Asker) -> Any:
    """In a session, is a partition that had an error sent again by an empty incremental fetch?"""
    topic = filled(asker, 1)
    with asker.wire() as wire:
        opened: Any = wire.ask("Fetch", 11, **fetch_fields(topic, 99, session=(0, 0)))
        again = wire.ask("Fetch", 11, **fetch_fields(topic, 0, session=(opened["session_id"], 1), topics=[]))
        return {"first": summary(opened), "again": summary(again)}


@question
def first_batch_over_limit(asker: Asker) -> Any:
    """Fetch with partition and total limits of 1 byte: does the first batch come anyway?"""
    topic = filled(asker, 3)
    answer = fetch(asker, topic, 0, max_bytes=1, partition_max_bytes=1)
    data = answer["responses"][0]["partitions"][0]["records"]
    return {"whole_batches": len(data) // (12 + int.from_bytes(bytes(data[8:12]), "big")), "rest": 0}


@question
def negative_limits(asker: Asker) -> Any:
    """Fetch with max bytes of -1."""
    return summary(fetch(asker, filled(asker, 1), 0, max_bytes=-1, partition_max_bytes=-1))


@question
def replica_fetch_without_membership(asker: Asker) -> Any:
    """Fetch v11 that claims to come from replica 5, which does not exist."""
    return summary(fetch(asker, filled(asker, 1), 0, replica_id=5))


@question
def same_partition_twice(asker: Asker) -> Any:
    """Fetch that names partition 0 twice, at offsets 0 and 1: which high watermarks and how many entries?"""
    topic = filled(asker, 2)
    one = fetch_fields(topic, 0)["topics"][0]["partitions"][0]
    topics = [{"topic": topic, "partitions": [one, {**one, "fetch_offset": 1}]}]
    return summary(fetch(asker, topic, 0, topics=topics))


def _epoch_end(asker: Asker, topic: str, leader_epoch: int, current: int = -1, partition: int = 0) -> Any:
    wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
    answer = asker.fields("OffsetForLeaderEpoch", 3, replica_id=-1, topics=[{"topic": topic, "partitions": [wanted]}])
    found = answer["topics"][0]["partitions"][0]
    return [found["error_code"], found["leader_epoch"], found["end_offset"]]


@question
def offset_for_leader_epoch(asker: Asker) -> Any:
    """OffsetForLeaderEpoch v3, as [error, epoch, end offset], in several cases."""
    topic = filled(asker)
    return {
        "epoch 0": _epoch_end(asker, topic, 0),
        "epoch 5 (future)": _epoch_end(asker, topic, 5),
        "epoch -1": _epoch_end(asker, topic, -1),
        "current epoch 9": _epoch_end(asker, topic, 0, current=9),
        "unknown partition": _epoch_end(asker, topic, 0, partition=4),
        "unknown topic": _epoch_end(asker, "no-such-topic", 0),
        "empty log": _epoch_end(asker, asker.topic(), 0),
    }
