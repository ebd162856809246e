"""Records in MirrorMaker 2's formats, byte for byte, and damaged ones."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.record import (
    Checkpoint,
    Heartbeat,
    UnreadableSync,
    decode_checkpoint,
    decode_heartbeat,
    decode_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_sync,
)
from tailrace.spark.mirror.translation import Span

names = st.text(st.characters(codec="utf-8"), max_size=30)
offsets = st.integers(0, 2**63 - 1)


def test_a_sync_has_the_bytes_of_mirrormaker() -> None:
    record = encode_sync(TopicPartition("ab", 3), Span(258, 7, 5))
    assert record.key == b"\x00\x02ab\x00\x00\x00\x03"
    assert record.value == b"\0\0\0\0\0\0\x01\x02" + b"\0\0\0\0\0\0\0\x07"
    assert record.headers == (("tailrace.count", b"\0\0\0\0\0\0\0\x05"),)


def test_a_checkpoint_has_the_bytes_of_mirrormaker() -> None:
    record = encode_checkpoint(Checkpoint("g", TopicPartition("a.t", 1), 9, 8, "m"))
    assert record.key == b"\x00\x01g\x00\x03a.t\x00\x00\x00\x01"
    assert record.value == b"\0\0" + b"\0\0\0\0\0\0\0\x09" + b"\0\0\0\0\0\0\0\x08" + b"\x00\x01m"


def test_a_heartbeat_has_the_bytes_of_mirrormaker() -> None:
    record = encode_heartbeat(Heartbeat("a", "b", 1))
    assert (record.key, record.value) == (b"\x00\x01a\x00\x01b", b"\0\0" + b"\0\0\0\0\0\0\0\x01")


@given(names, st.integers(0, 2**31 - 1), offsets, offsets, st.integers(1, 2**40))
def test_a_sync_is_read_back(topic: str, partition: int, source: int, target: int, count: int) -> None:
    place, span = TopicPartition(topic, partition), Span(source, target, count)
    record = encode_sync(place, span)
    assert decode_sync(record.key, record.value, record.headers) == (place, span)
    assert decode_sync(record.key, record.value, ()) == (place, span._replace(record_count=1))


@given(names, names, st.integers(0, 2**31 - 1), offsets, offsets, names)
def test_a_checkpoint_is_read_back(
    group_id: str, topic: str, partition: int, source: int, target: int, metadata: str
) -> None:
    checkpoint = Checkpoint(group_id, TopicPartition(topic, partition), source, target, metadata)
    record = encode_checkpoint(checkpoint)
    assert decode_checkpoint(record.key, record.value) == checkpoint


@given(names, names, offsets)
def test_a_heartbeat_is_read_back(source: str, target: str, timestamp_ms: int) -> None:
    heartbeat = Heartbeat(source, target, timestamp_ms)
    record = encode_heartbeat(heartbeat)
    assert decode_heartbeat(record.key, record.value) == heartbeat


def test_every_prefix_is_refused() -> None:
    record = encode_checkpoint(Checkpoint("group", TopicPartition("topic", 1), 9, 8, "m"))
    for size in range(len(record.key)):
        with pytest.raises(UnreadableSync):
            decode_checkpoint(record.key[:size], record.value)
    for size in range(len(record.value)):
        with pytest.raises(UnreadableSync):
            decode_checkpoint(record.key, record.value[:size])
    with pytest.raises(UnreadableSync):
        decode_checkpoint(record.key, record.value + b"x")
    with pytest.raises(UnreadableSync):
        decode_checkpoint(None, record.value)


def test_a_sync_with_impossible_offsets_is_refused() -> None:
    record = encode_sync(TopicPartition("t", 0), Span(5, 5, 1))
    with pytest.raises(UnreadableSync, match="offsets -1"):
        decode_sync(record.key, b"\xff" * 8 + record.value[8:], ())


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    for decode in (lambda: decode_sync(key, value, ()), lambda: decode_checkpoint(key, value)):
        with contextlib.suppress(UnreadableSync):
            decode()
