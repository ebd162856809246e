"""Safeguards of replication, each taken away by a patch, so that the simulator can show that it is needed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import node_of
from tailrace.coordination.store import ANY_VERSION, Put
from tailrace.machines.controller.record import PartitionRecord, Record
from tailrace.machines.replica.follower import Position
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import FetchResponsePartition
from tailrace.records.batch import BatchHeader
from tailrace.records.record import read_batches
from tailrace.runtime.acknowledgement import PendingAcknowledgement
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.fetcher import ReplicaFetcher
from tailrace.runtime.replication.followed import Followed
from tailrace.server.handlers import fetch_read


@contextmanager
def no_epoch_check_on_fetch() -> Iterator[None]:
    """A leader serves followers by offset alone, whatever epoch they follow and whatever their logs hold."""
    with patch.object(Partition, "check_leader_epoch", lambda *_: None):
        with patch.object(fetch_read, "find_divergence", lambda *_: None):
            yield


@contextmanager
def truncation_to_the_high_watermark() -> Iterator[None]:
    """A follower of a new epoch cuts its log at its own high watermark, as Kafka did before KIP-101."""
    follow = Partition.follow

    def cut(partition: Partition, record: PartitionRecord) -> None:
        is_news = record.leader_epoch != partition.leader_epoch
        follow(partition, record)
        if is_news and not partition.is_retired:
            partition.truncate_to(partition.high_watermark)

    with patch.object(Partition, "follow", cut):
        yield


@contextmanager
def no_compare_and_set() -> Iterator[None]:
    """A leader writes its ISR over whatever is there."""
    commit = ClusterMetadata.commit

    async def overwrite(metadata: ClusterMetadata, records: Sequence[Record], guards: Sequence[Any] = ()) -> None:
        if guards or any(not isinstance(record, PartitionRecord) for record in records):
            await commit(metadata, records, guards)
        else:
            await metadata.store.commit([Put(*node_of(record), ANY_VERSION) for record in records])  # type: ignore[arg-type]

    with patch.object(ClusterMetadata, "commit", overwrite):
        yield


@contextmanager
def reply_before_the_isr_has_it() -> Iterator[None]:
    """A leader acknowledges what it has written itself."""
    with patch.object(Partition, "high_watermark_reached", lambda *_: None):
        yield


@contextmanager
def fetch_before_the_append() -> Iterator[None]:
    """A follower asks ahead whatever is committed, so that it acknowledges what it has not written yet."""

    def find(
        _: ReplicaFetcher, followed: Followed, answer: FetchResponsePartition
    ) -> list[tuple[int, BatchHeader]] | None:
        batches = list(read_batches(answer.records or b""))  # type: ignore[arg-type]
        if batches:
            last = batches[-1][1]
            followed.expect(Position(last.next_offset, last.partition_leader_epoch))
        return batches or None

    with patch.object(ReplicaFetcher, "_find_ahead", find):
        yield


@contextmanager
def no_lease_after_the_wait() -> Iterator[list[str]]:
    """A leader does not look at its lease after it has waited for its followers; yields where that made a difference.

    Unlike the others this one loses nothing, see "When a leader acknowledges" in docs/DESIGN.md.
    """
    rule = PendingAcknowledgement.code
    different: list[str] = []

    def code(pending: PendingAcknowledgement) -> ErrorCode:
        found: ErrorCode = rule.__get__(pending)
        partition = pending._partition
        is_replicated = pending.reached is not None and pending.reached.done() and pending.reached.result() is None
        is_same_epoch = partition.is_leader and partition.leader_epoch == pending._leader_epoch
        if found is ErrorCode.NOT_LEADER_OR_FOLLOWER and is_replicated and is_same_epoch:
            different.append(partition.name)
            return ErrorCode.NONE
        return found

    with patch.object(PendingAcknowledgement, "code", property(code)):
        yield different


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no epoch check on fetch": no_epoch_check_on_fetch,
    "truncation to the high watermark": truncation_to_the_high_watermark,
    "no compare-and-set": no_compare_and_set,
    "reply before the ISR has it": reply_before_the_isr_has_it,
    "fetch before the append": fetch_before_the_append,
}
