"""Safeguards of log care, each taken away by a patch, so that the simulator can show that it is needed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tailrace.machines.controller.record import PartitionRecord
from tailrace.records.batch import BatchHeader, Buffer
from tailrace.records.offset_map import PythonOffsetMap
from tailrace.records.rewrite import empty_batch, rewrite_batch
from tailrace.runtime.log.care import LogCare
from tailrace.runtime.partition import Partition
from tailrace.server.handlers import fetch
from tailrace.sim.care.shape import RETAINED
from tailrace.storage import batch_filter, compaction, replica_append, retention, timestamp_lookup
from tailrace.storage.batch_filter import BatchFilter
from tailrace.storage.compaction_plan import CompactionPlan
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.timestamp_lookup import TimestampLookup


@contextmanager
def last_batch_is_swept() -> Iterator[None]:
    """Compaction drops the last batch of what it cleans, although its records are the newest of their keys."""
    keep = BatchFilter.filter

    def drop(found: BatchFilter, header: BatchHeader, batch: Buffer, *, is_needed: bool) -> Buffer | None:
        if header.next_offset == found._up_to_offset and not header.is_control:
            return empty_batch(header)
        return keep(found, header, batch, is_needed=is_needed)

    with patch.object(BatchFilter, "filter", drop):
        yield


@contextmanager
def tombstones_go_at_once() -> Iterator[None]:
    """Compaction removes tombstones before `delete.retention.ms` is over."""
    make = BatchFilter.__init__

    def hurry(found: BatchFilter, *arguments: Any, **options: Any) -> None:
        make(found, *arguments, **{**options, "delete_retention_ms": 0})

    with patch.object(BatchFilter, "__init__", hurry):
        yield


class _FirstOffsets(PythonOffsetMap):
    """Keeps the first offset of each key, and every record up to that."""

    def put(self, key: bytes, offset: int) -> bool:
        return self.get(key) >= 0 or super().put(key, offset)

    def _is_kept(self, record: Any, offset: int, keep_tombstones: bool) -> bool:
        return record.key is not None and offset <= self.get(record.key)


@contextmanager
def compaction_keeps_the_first() -> Iterator[None]:
    """Compaction keeps the oldest record of a key instead of the newest."""

    def make(plan: CompactionPlan, map_bytes: int, load_factor: float) -> PythonOffsetMap:
        return _FirstOffsets(min(map_bytes, 65_536), load_factor)

    with patch.object(compaction, "_make_map", make):
        yield


@contextmanager
def timestamps_move() -> Iterator[None]:
    """Compaction rewrites a batch with another base timestamp, and leaves the deltas of its records as they are."""

    def move(header: BatchHeader, body: Buffer, kept: Any, delete_horizon_ms: int | None) -> bytearray:
        return rewrite_batch(header._replace(base_timestamp=header.base_timestamp + 1), body, kept, delete_horizon_ms)

    with patch.object(batch_filter, "rewrite_batch", move):
        yield


@contextmanager
def sessions_keep_records_secret() -> Iterator[None]:
    """A reply in a fetch session names only partitions whose offsets have moved, not those with more records."""

    def select(context: Any, reads: Sequence[Any]) -> list[Any]:
        found = []
        for read in reads:
            asked, reply = read.asked, read.reply
            is_moved = asked.has_news(reply.error_code, 0, reply.high_watermark, reply.log_start_offset)
            if not context.incremental or is_moved or reply.preferred_read_replica >= 0:
                read.told()
                found.append(read)
        return found

    with patch.object(fetch, "select_named", select):
        yield


@contextmanager
def followers_serve_everything() -> Iterator[None]:
    """A follower serves consumers up to its log end offset instead of its high watermark."""
    locate = fetch._locate

    def locate_all(ctx: Any, request: Any, read: Any, left_bytes: int, nothing_yet: bool) -> None:
        locate(ctx, request, read, left_bytes, nothing_yet)
        partition, wanted = read.partition, read.asked.wanted
        if not partition.is_leader and read.reply.preferred_read_replica < 0:
            limit = min(wanted.partition_max_bytes, left_bytes)
            end_offset = partition.log.log_end_offset
            read.range = partition.log.locate(wanted.fetch_offset, limit, end_offset, nothing_yet)

    with patch.object(fetch, "_locate", locate_all):
        yield


@contextmanager
def new_leaders_begin_earlier() -> Iterator[None]:
    """A new leader has its log start at its first segment, whatever was deleted before."""
    lead = Partition._lead

    def forget(partition: Partition, record: PartitionRecord, *rest: Any) -> None:
        if not partition.is_leader:
            partition.log.log_start_offset = partition.log.segments[0].base_offset
        lead(partition, record, *rest)

    with patch.object(Partition, "_lead", forget):
        yield


@contextmanager
def log_starts_fall_back() -> Iterator[None]:
    """A leader's log start falls back to its first segment from time to time: it is kept in memory only."""
    apply = Partition.apply_retention

    def forget(partition: Partition, now_ms: int) -> int:
        count = apply(partition, now_ms)
        partition.log.log_start_offset = partition.log.segments[0].base_offset
        return count

    with patch.object(Partition, "apply_retention", forget):
        yield


@contextmanager
def one_record_more_is_deleted() -> Iterator[None]:
    """DeleteRecords deletes the record at the offset, too."""
    delete = Partition.delete_records

    def more(partition: Partition, before_offset: int) -> int:
        offset = before_offset
        if 0 <= before_offset < partition.high_watermark:
            offset = before_offset + 1
        delete(partition, offset)
        return before_offset

    with patch.object(Partition, "delete_records", more):
        yield


@contextmanager
def one_segment_more_is_deleted() -> Iterator[None]:
    """Retention removes the segment after the last one that it may remove."""
    with _one_more("_count_expired"), _one_more("_count_oversize"):
        yield


@contextmanager
def _one_more(name: str) -> Iterator[None]:
    count = getattr(retention, name)

    def more(log: Any, *rest: Any) -> int:
        found: int = count(log, *rest)
        return found + 1 if 0 < found < len(log.segments) else found

    with patch.object(retention, name, more):
        yield


@contextmanager
def lookups_begin_a_segment_later() -> Iterator[None]:
    """A lookup by time passes over the first segment that has a record as recent."""
    find = timestamp_lookup._offset_for_timestamp

    def later(log: TimestampLookup, timestamp_ms: int) -> Any:
        left = [segment for segment in log.segments if segment.maximum[0] >= timestamp_ms]
        return find(log._replace(segments=tuple(left[1:] or left)), timestamp_ms)

    with patch.object(timestamp_lookup, "_offset_for_timestamp", later):
        yield


@contextmanager
def logs_begin_with_batches() -> Iterator[None]:
    """A follower takes no batch that begins before its log, even if the leader's log starts inside it."""
    check = replica_append._check

    def refuse(log: Any, view: memoryview, position: int, header: BatchHeader, leader_epoch: int) -> None:
        with patch.object(log, "log_start_offset", -1) if header.base_offset < log.log_end_offset else _nothing():
            check(log, view, position, header, leader_epoch)

    with patch.object(replica_append, "_check", refuse):
        yield


@contextmanager
def retention_ignores_the_policy() -> Iterator[None]:
    """Retention removes the old records of a topic that is only compacted, too."""
    apply = retention.apply_retention

    def apply_always(log: Any, *rest: Any) -> int:
        with patch.object(log, "config", replace(log.config, cleanup_policy_delete=True)):
            return apply(log, *rest)

    with patch.object(retention, "apply_retention", apply_always):
        yield


@contextmanager
def compaction_ignores_the_policy() -> Iterator[None]:
    """The log cleaner compacts a topic that only has retention, too."""
    compacted = LogCare.compacted

    def yield_more(care: LogCare) -> Iterator[Partition]:
        yield from (partition for partition in compacted(care) if partition.topic != RETAINED)
        for partition in care._replicas.all():
            if partition.topic == RETAINED and not partition.is_offline:
                config = replace(partition.log.config, cleanup_policy_compact=True, min_cleanable_dirty_ratio=0.01)
                with patch.object(partition.log, "config", config):
                    yield partition

    with patch.object(LogCare, "compacted", yield_more):
        yield


@contextmanager
def policies_stay() -> Iterator[None]:
    """A log keeps its cleanup.policy until its broker starts again."""
    reconfigure = Log.reconfigure

    def keep(log: Log, config: LogConfig) -> None:
        policies = ("cleanup_policy_compact", "cleanup_policy_delete")
        reconfigure(log, replace(config, **{name: getattr(log.config, name) for name in policies}))

    with patch.object(Log, "reconfigure", keep):
        yield


@contextmanager
def high_watermarks_stay_behind() -> Iterator[None]:
    """A follower that begins again at the start of its leader's log keeps its high watermark below."""
    truncate_to = Partition.truncate_to

    def truncate(partition: Partition, offset: int, **options: Any) -> None:
        before = partition.high_watermark
        truncate_to(partition, offset, **options)
        partition.high_watermark = min(before, partition.high_watermark)

    with patch.object(Partition, "truncate_to", truncate):
        yield


@contextmanager
def _nothing() -> Iterator[None]:
    yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "last batch is swept": last_batch_is_swept,
    "tombstones go at once": tombstones_go_at_once,
    "compaction keeps the first": compaction_keeps_the_first,
    "timestamps move": timestamps_move,
    "sessions keep records secret": sessions_keep_records_secret,
    "followers serve everything": followers_serve_everything,
    "new leaders begin earlier": new_leaders_begin_earlier,
    "log starts fall back": log_starts_fall_back,
    "one record more is deleted": one_record_more_is_deleted,
    "one segment more is deleted": one_segment_more_is_deleted,
    "lookups begin a segment later": lookups_begin_a_segment_later,
    "logs begin with batches": logs_begin_with_batches,
    "retention ignores the policy": retention_ignores_the_policy,
    "compaction ignores the policy": compaction_ignores_the_policy,
    "policies stay": policies_stay,
    "high watermarks stay behind": high_watermarks_stay_behind,
}

FOUND = {
    "last batch is swept": frozenset({"swept"}),
    "tombstones go at once": frozenset({"swept"}),
    "compaction keeps the first": frozenset({"returned"}),
    "timestamps move": frozenset({"altered"}),
    "sessions keep records secret": frozenset({"stalled"}),
    "followers serve everything": frozenset({"a consumer gets records"}),
    "new leaders begin earlier": frozenset({"start-falls"}),
    "log starts fall back": frozenset({"start-falls"}),
    "one record more is deleted": frozenset({"start-unasked"}),
    "one segment more is deleted": frozenset({"greedy-retention"}),
    "lookups begin a segment later": frozenset({"wrong-lookup"}),
    "logs begin with batches": frozenset({"not all replicas are in sync"}),
    "retention ignores the policy": frozenset({"uncalled-care"}),
    "compaction ignores the policy": frozenset({"uncalled-care"}),
    "policies stay": frozenset({"lost-config"}),
    "high watermarks stay behind": frozenset({"but its log begins at"}),
}
"""The first words of the problems that each of them causes."""
