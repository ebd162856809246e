"""One fetch as data: the request for some partitions, and what its reply brought from each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runnel.base.limits import FETCH_BYTES_MAX
from runnel.client.assignment import LeaderEpochs
from runnel.client.isolation import Isolation, visible_batches
from runnel.client.metadata import Topic
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponseAbortedTransaction,
    FetchResponsePartition,
)
from runnel.protocol.primitive import ZERO_UUID
from runnel.records.batch import Buffer
from runnel.records.error import CorruptBatch
from runnel.records.record import Record, read_batches, read_records

_NAMES_VERSION_MAX = 12  # the last version that names topics instead of giving their ids


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How a reader fetches, in Kafka's words: fetch.max.wait.ms and its neighbours."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes_max: int = 1024 * 1024
    max_bytes: int = FETCH_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch brought from one partition: whole batches, of which some may be hidden from this reader."""

    topic: str
    partition: int
    offset: int  # the first that was asked for; its batch may begin before
    next_offset: int
    high_watermark: int
    data: Buffer
    aborted: Sequence[FetchResponseAbortedTransaction]
    leader_epochs: LeaderEpochs = ()

    def records(self) -> Iterator[Record]:
        """The records that the reader may see; raises `RecordError` where the data is damaged."""
        for position, _ in visible_batches(self.data, self.aborted):
            for record in read_records(self.data, position):
                if record.offset >= self.offset:
                    yield record


def build_fetch(topic: Topic, offsets: Mapping[int, int], options: FetchOptions) -> FetchRequest:
    """The request that reads these partitions of a topic from these offsets on."""
    targets = {TopicPartition(topic.name, partition): offset for partition, offset in offsets.items()}
    return build_fetches({topic.name: topic}, targets, options)


def build_fetches(
    topics: Mapping[str, Topic], offsets: Mapping[TopicPartition, int], options: FetchOptions
) -> FetchRequest:
    """The request that reads partitions of several topics, in this order.

    It says which leader it is meant for: one that was succeeded, or that has not heard of its election yet, refuses
    (KIP-320). Else it could tell that an offset is out of range which others have.
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
    """The highest version to fetch topics in: without the id of each only those that carry names."""
    return _NAMES_VERSION_MAX if any(topic.topic_id == ZERO_UUID for topic in topics) else None


def readable_end(answer: FetchResponsePartition, isolation: Isolation) -> int:
    """The offset behind what a reader may see; old brokers do not know where open transactions begin."""
    if isolation is Isolation.READ_COMMITTED and answer.last_stable_offset >= 0:
        return answer.last_stable_offset
    return answer.high_watermark


def read_fetched(topic: str, offset: int, answer: FetchResponsePartition) -> Fetched | None:
    """What an answer without an error brought; None when it brought nothing."""
    data = _join(answer.records)
    if not data:
        return None
    data, next_offset, leader_epochs = _cut_at_damage(data, answer.high_watermark)
    if next_offset is None:
        raise RemoteProtocolError(f"{topic}-{answer.partition_index}: a fetch brought less than one batch")
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


def _cut_at_damage(data: Buffer, high_watermark: int) -> tuple[Buffer, int | None, LeaderEpochs]:
    """The bytes before the first that are no batch, the offset after them, and where leader epochs begin in them.

    What stands before the damage can be read, and the next fetch hears from the broker what is
    wrong behind it. Offsets that fall, or that nobody may read yet, are damage that no checksum covers.
    Raises `CorruptBatch` for damage at the start.
    """
    next_offset = None
    end = 0
    epochs: list[tuple[int, int]] = []
    try:
        for position, header in read_batches(data):
            if (next_offset is not None and header.base_offset < next_offset) or header.last_offset >= high_watermark:
                raise CorruptBatch(f"a batch with offsets {header.base_offset} to {header.last_offset}")
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
