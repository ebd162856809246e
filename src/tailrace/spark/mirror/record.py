"""Records in the formats of MirrorMaker 2: offset syncs, checkpoints and heartbeats. Pure.

They are written with Kafka's primitive types: big-endian integers, and strings after a length of 16 bits. Values of
checkpoints and heartbeats begin with a version.
"""

import struct
from typing import NamedTuple

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.translation import Span

_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PAIR = struct.Struct(">qq")
COUNT_HEADER = "tailrace.count"
"""The header with the number of records of a sync that follow each other without gaps. MirrorMaker 2 ignores it."""

Headers = tuple[tuple[str, bytes | None], ...]


class Encoded(NamedTuple):
    """The key, the value and the headers of a record."""

    key: bytes
    value: bytes
    headers: Headers = ()


class UnreadableSync(ValueError):
    """A record is not in the format of its topic."""


class Checkpoint(NamedTuple):
    """The offset of a group in a partition of the source, and its translation. The partition is the target's."""

    group_id: str
    partition: TopicPartition
    source_offset: int
    target_offset: int
    metadata: str = ""


class Heartbeat(NamedTuple):
    """A sign of life of a mirror between two clusters."""

    source: str
    target: str
    timestamp_ms: int


def encode_sync(partition: TopicPartition, span: Span) -> Encoded:
    """Return the offset sync of a span; the partition is the source's."""
    key = _string(partition.topic) + _INT32.pack(partition.partition)
    return Encoded(key, _PAIR.pack(span.source, span.target), ((COUNT_HEADER, _INT64.pack(span.record_count)),))


def decode_sync(key: bytes | None, value: bytes | None, headers: Headers) -> tuple[TopicPartition, Span]:
    """Return the partition and the span of an offset sync; one of MirrorMaker 2 has one record."""
    reader = _Reader(key)
    partition = TopicPartition(reader.string(), reader.int32())
    reader.end()
    reader = _Reader(value)
    source, target = reader.int64(), reader.int64()
    reader.end()
    given = next((text for name, text in headers if name == COUNT_HEADER), None)
    count = 1 if given is None or len(given) != _INT64.size else _INT64.unpack(given)[0]
    if source < 0 or target < 0 or count < 1:
        raise UnreadableSync(f"a sync of {partition} has the offsets {source} and {target} for {count} records")
    return partition, Span(source, target, count)


def encode_checkpoint(checkpoint: Checkpoint) -> Encoded:
    """Return the record of a checkpoint."""
    topic, partition = checkpoint.partition
    key = _string(checkpoint.group_id) + _string(topic) + _INT32.pack(partition)
    offsets = _PAIR.pack(checkpoint.source_offset, checkpoint.target_offset)
    return Encoded(key, _INT16.pack(_VERSION) + offsets + _string(checkpoint.metadata))


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    """Return the checkpoint of a record."""
    reader = _Reader(key)
    group_id, partition = reader.string(), TopicPartition(reader.string(), reader.int32())
    reader.end()
    reader = _Reader(value)
    reader.version()
    found = Checkpoint(group_id, partition, reader.int64(), reader.int64(), reader.string())
    reader.end()
    return found


def encode_heartbeat(heartbeat: Heartbeat) -> Encoded:
    """Return the record of a heartbeat."""
    key = _string(heartbeat.source) + _string(heartbeat.target)
    return Encoded(key, _INT16.pack(_VERSION) + _INT64.pack(heartbeat.timestamp_ms))


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat:
    """Return the heartbeat of a record."""
    reader = _Reader(key)
    source, target = reader.string(), reader.string()
    reader.end()
    reader = _Reader(value)
    reader.version()
    found = Heartbeat(source, target, reader.int64())
    reader.end()
    return found


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


class _Reader:
    """Reads fields in order; raises `UnreadableSync` if bytes are missing or left."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise UnreadableSync("a record has no key or no value")
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if size < 0 or len(part) < size:
            raise UnreadableSync(f"a record of {len(self._data)} bytes is too short")
        self._at += size
        return part

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(_INT16.size))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(_INT32.size))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(_INT64.size))[0])

    def string(self) -> str:
        try:
            return self._take(self.int16()).decode()
        except UnicodeDecodeError:
            raise UnreadableSync("a record has a string that is not UTF-8") from None

    def version(self) -> None:
        version = self.int16()
        if version != _VERSION:
            raise UnreadableSync(f"a record has the unknown version {version}")

    def end(self) -> None:
        if self._at != len(self._data):
            raise UnreadableSync(f"a record has {len(self._data) - self._at} bytes too many")
