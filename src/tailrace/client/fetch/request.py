"""Fetch requests, and the data of one partition in a reply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tailrace.base.limits import FETCH_BYTES_MAX
from tailrace.client.fetch.assignment import LeaderEpochs
from tailrace.client.fetch.isolation import Isolation, visible_batches
from tailrace.client.metadata import Topic
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponseAbortedTransaction,
    FetchResponsePartition,
)
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.records.batch import Buffer
from tailrace.records.error import CorruptBatch, RecordError
from tailrace.records.record import Record, read_batches, read_records

_NAMES_VERSION_MAX = 12  # the last version that has topic names instead of ids


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Kafka's configs of fetches: fetch.max.wait.ms and the like."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes_max: int = 1024 * 1024
    max_bytes: int = FETCH_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Fetched:
    """The data of one partition from one fetch: whole batches, of which the isolation level may hide some."""

    topic: str
    partition: int
    offset: int  # the first requested; its batch may start before it
    next_offset: int
    high_watermark: int
    data: Buffer
    aborted: Sequence[FetchResponseAbortedTransaction]
    leader_epochs: LeaderEpochs = ()

    @property
    def target(self) -> TopicPartition:
        """The partition that the data is of."""
        return TopicPartition(self.topic, self.partition)

    def records(self) -> Iterator[Record]:
        """Iterate over the visible records; raises `RecordError` if the data is damaged."""
        try:
            for position, _ in visible_batches(self.data, self.aborted):
                for record in read_records(self.data, position):
                    if record.offset >= self.offset:
                        yield record
        except RecordError as error:
            raise error.at(self.target) from error


def build_fetch(topic: Topic, offsets: Mapping[int, int], options: FetchOptions) -> FetchRequest:
    """Return the request for partitions of one topic from these offsets."""
    targets = {TopicPartition(topic.name, partition): offset for partition, offset in offsets.items()}
    return build_fetches({topic.name: topic}, targets, options)


def build_fetches(
    topics: Mapping[str, Topic], offsets: Mapping[TopicPartition, int], options: FetchOptions
) -> FetchRequest:
    """Return the request for partitions of several topics, in this order.

    It carries the leader epoch, so that a former leader, or one that does not know of its election yet, rejects it
    (KIP-320). Otherwise such a broker could answer that a valid offset is out of range.
    """
    by_topic: dict[str, list[FetchRequestPartition]] = {}
    for target, offset in offsets.items():
        by_topic.setdefault(target.topic, []).append(
            FetchRequestPartition(
                partition=target.partition,
                current_leader_epoch=topics[target.topic].leader_epoch(target.partition),
                fetch_offset=offset,
                partition_max_bytes=options.partition_bytes_max,
            )
        )
    return FetchRequest(
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=options.isolation,
        topics=[
            FetchRequestTopic(topic=name, topic_id=topics[name].topic_id, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )


def fetch_version_max(*topics: Topic) -> int | None:
    """Return the highest version for these topics: if an id is unknown, one that has topic names."""
    return _NAMES_VERSION_MAX if any(topic.topic_id == ZERO_UUID for topic in topics) else None


def readable_end(answer: FetchResponsePartition, isolation: Isolation) -> int:
    """Return the end of the readable records; old brokers do not send the last stable offset."""
    if isolation is Isolation.READ_COMMITTED and answer.last_stable_offset >= 0:
        return answer.last_stable_offset
    return answer.high_watermark


def read_fetched(topic: str, offset: int, answer: FetchResponsePartition) -> Fetched | None:
    """Return the data of an answer without an error; None if it has none."""
    data = _join(answer.records)
    if not data:
        return None
    data, next_offset, leader_epochs = _cut_at_damage(data, offset, answer.high_watermark)
    if next_offset is None:
        raise RemoteProtocolError(f"{topic}-{answer.partition_index}: a fetch returned less than one batch")
    return Fetched(
        topic,
        answer.partition_index,
        offset,
        max(offset, next_offset),
        answer.high_watermark,
        data,
        tuple(answer.aborted_transactions or ()),
        leader_epochs,
    )


def _cut_at_damage(data: Buffer, offset: int, high_watermark: int) -> tuple[Buffer, int | None, LeaderEpochs]:
    """Return the bytes before the first damage, the offset after them, and the starts of leader epochs in them.

    The batches before the damage can be read, and the next fetch gets the broker's own error for the rest. Offsets
    that decrease, or that jump above the high watermark, are damage that no checksum covers. Without a jump they may
    be above it: Kafka reads the high watermark before the records, and it can advance in between.
    Raises `CorruptBatch` for damage at the start.
    """
    next_offset = None
    end = 0
    epochs: list[tuple[int, int]] = []
    try:
        for position, header in read_batches(data):
            expected = offset if next_offset is None else next_offset
            jumps = header.base_offset > expected and header.last_offset >= high_watermark
            if (next_offset is not None and header.base_offset < next_offset) or jumps:
                raise CorruptBatch(f"a batch has the invalid offsets {header.base_offset} to {header.last_offset}")
            next_offset, end = header.next_offset, position + header.size_bytes
            if not epochs or header.partition_leader_epoch > epochs[-1][1]:
                epochs.append((header.base_offset, header.partition_leader_epoch))
    except CorruptBatch:
        if next_offset is None:
            raise
        return memoryview(data)[:end], next_offset, tuple(epochs)
    return data, next_offset, tuple(epochs)


def _join(records: Buffer | list[Buffer] | None) -> Buffer:
    if records is None:
        return b""
    return b"".join(records) if isinstance(records, list) else records
