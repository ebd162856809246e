"""Produce: where records may go, and how they are acknowledged."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from tests.clients.ask.asker import Asker, produce_fields, produce_summary, question
from tests.clients.raw import CLOSED, batch


def then_stored(asker: Asker, records: bytes | None, *, version: int = 8, acks: int = -1, **configs: str) -> Any:
    """The answer to a batch on a topic of its own, and what the topic holds afterwards."""
    topic = asker.topic(partitions=1, **configs)
    answer = asker.produce(topic, records, version=version, acks=acks)
    return {"answer": answer, "stored": [list(found) for found in asker.stored(topic)]}


@question
def good(asker: Asker) -> Any:
    """One batch of three records. `stored` lists [base offset, last delta, attributes, count] in all questions here."""
    return then_stored(asker, batch([b"a", b"b", b"c"]))


@question
def good_v3(asker: Asker) -> Any:
    """The oldest version that is served."""
    return then_stored(asker, batch(), version=3)


@question
def good_log_append_time(asker: Asker) -> Any:
    """A good batch to a topic with LogAppendTime (a log_append_time_ms of 0 here stands for any real time)."""
    return then_stored(asker, batch(), message_timestamp_type="LogAppendTime")


@question
def by_topic_id(asker: Asker) -> Any:
    """Produce v13 to a known id, to an unknown one and to zero: the error codes."""
    known = asker.topic_id(asker.topic())
    codes = []
    for topic_id in (known, uuid.UUID(int=12345), uuid.UUID(int=0)):
        fields = produce_fields("", batch(), -1, 0)
        fields["topic_data"] = [{"topic_id": topic_id, "partition_data": fields["topic_data"][0]["partition_data"]}]
        codes.append(produce_summary(asker.ask("Produce", 13, **fields)))
    return codes


@question
def no_batch(asker: Asker) -> Any:
    """Records of zero bytes."""
    return then_stored(asker, b"")


@question
def null_records(asker: Asker) -> Any:
    """Records of null: is there an answer within ten seconds?"""
    with asker.wire(10) as wire:
        return produce_summary(wire.ask("Produce", 8, **produce_fields(asker.topic(), None, -1, 0)))


@question
def acks_2(asker: Asker) -> Any:
    """acks=2."""
    return then_stored(asker, batch(), acks=2)


@question
def acks_minus_2(asker: Asker) -> Any:
    """acks=-2."""
    return then_stored(asker, batch(), acks=-2)


@question
def acks_0_good(asker: Asker) -> Any:
    """acks=0 and a good batch: is there a reply, is the connection usable?"""
    return _acks_0(asker, asker.topic(), batch())


@question
def acks_0_bad(asker: Asker) -> Any:
    """acks=0 and a batch with a bad checksum."""
    return _acks_0(asker, asker.topic(), batch(crc_change=1))


@question
def acks_0_unknown_topic(asker: Asker) -> Any:
    """acks=0 to a topic that does not exist."""
    return _acks_0(asker, "no-such-topic", batch())


def _acks_0(asker: Asker, topic: str, records: bytes) -> Any:
    with asker.wire() as wire:
        wire.send_frame(wire.frame("Produce", 8, produce_fields(topic, records, 0, 0)))
        wire.send_frame(wire.frame("ApiVersions", 0, {}))
        received = wire.receive()
        if isinstance(received, str):
            return received
        return "no reply, connection usable" if struct.unpack_from(">i", received)[0] == 2 else "a reply to Produce"


@question
def unknown_partition(asker: Asker) -> Any:
    """Produce to partition 9 of a topic with one."""
    return asker.produce(asker.topic(), batch(), partition=9)


@question
def negative_partition(asker: Asker) -> Any:
    """Produce to partition -1."""
    return asker.produce(asker.topic(), batch(), partition=-1)


@question
def unknown_topic(asker: Asker) -> Any:
    """Produce to a topic that does not exist."""
    return asker.produce("no-such-topic", batch())


@question
def invalid_topic(asker: Asker) -> Any:
    """Produce to the topics `..`, the empty name, `a/b` and 250 characters: the error codes."""
    answers = [asker.produce(name, batch()) for name in ("..", "", "a/b", "x" * 250)]
    return [answer if answer == CLOSED else answer["error_code"] for answer in answers]


@question
def no_topics(asker: Asker) -> Any:
    """Produce with no topics at all."""
    answer = asker.ask("Produce", 8, transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[])
    return answer if isinstance(answer, str) else answer["responses"]


@question
def same_partition_twice(asker: Asker) -> Any:
    """One request with two entries for partition 0: what comes back, and what is stored?"""
    topic = asker.topic()
    entries = [{"index": 0, "records": batch([value])} for value in (b"a", b"b")]
    fields = {**produce_fields(topic, None, -1, 0), "topic_data": [{"name": topic, "partition_data": entries}]}
    answer = asker.ask("Produce", 8, **fields)
    if isinstance(answer, str):
        return answer
    found = [p for t in answer["responses"] for p in t["partition_responses"]]
    return {
        "answers": [[partition["error_code"], partition["base_offset"]] for partition in found],
        "stored": [list(stored) for stored in asker.stored(topic)],
    }
