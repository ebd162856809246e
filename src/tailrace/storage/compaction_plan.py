"""The plan of a compaction: which part of a log is compacted, decided without reading records.

A log has a clean part, up to the offset where the last compaction ended, and a dirty part
after it. The dirty part ends at a segment boundary: before the active segment, before any record
whose transaction is undecided, that is not replicated or not flushed, and before records younger
than `min.compaction.lag.ms`. A log is due for compaction when enough of it is dirty, or when a
record has waited longer than `max.compaction.lag.ms`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tailrace.base.limits import COMPACTION_GROUP_SEGMENTS_MAX
from tailrace.records.batch import HEADER_SIZE
from tailrace.storage.batch_filter import LastBatch, last_batches
from tailrace.storage.folder import Folder
from tailrace.storage.log_config import LogConfig
from tailrace.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.segment.file import LOG_SUFFIX
from tailrace.storage.segment.segment import Segment
from tailrace.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from tailrace.storage.transaction_index import AbortedTransaction


class CompactedLog(Protocol):
    """The part of `Log` that compaction uses."""

    directory: str
    config: LogConfig
    segments: list[Segment]
    producers: ProducerState
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    cleaner_offset: int | None
    truncation_count: int

    @property
    def folder(self) -> Folder: ...

    def aborted_transactions(self, from_offset: int, up_to_offset: int) -> list[AbortedTransaction]: ...


class Dirt(NamedTuple):
    """The dirty part of a log: the offsets from `first_offset` up to, but not including, `end_offset`."""

    first_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int = 0  # how long the oldest record has waited beyond max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0


class Source(NamedTuple):
    """A segment as seen by compaction, which runs on another thread than the log."""

    path: str
    base_offset: int
    size_bytes: int
    created_ms: int


class CompactionPlan(NamedTuple):
    """All inputs of one compaction of a log."""

    folder: Folder
    directory: str
    config: LogConfig
    dirt: Dirt
    sources: tuple[Source, ...]
    dirty_position: int  # of the first dirty batch in its segment
    high_watermark: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, LastBatch]
    now_ms: int
    truncation_count: int


def measure_dirt(log: CompactedLog, up_to_offset: int, now_ms: int) -> Dirt:
    """Measure the dirty part of a log below `up_to_offset`, the last stable offset."""
    cleaned = log.cleaner_offset
    # Ignore a checkpoint that lies outside the log.
    first_offset = cleaned if cleaned is not None and log.log_start_offset <= cleaned <= log.log_end_offset else None
    first_offset = log.log_start_offset if first_offset is None else first_offset
    end_offset = _end_offset(log, first_offset, min(up_to_offset, log.recovery_point), now_ms)
    clean_bytes = dirty_bytes = 0
    overdue_ms = 0
    for segment, following in _sealed(log.segments):
        if segment.base_offset < first_offset:
            clean_bytes += segment.size_bytes
        if following > first_offset and segment.base_offset < end_offset:
            dirty_bytes += segment.size_bytes
            overdue_ms = max(overdue_ms, _overdue_ms(log, segment, now_ms))
    return Dirt(first_offset, max(first_offset, end_offset), clean_bytes, dirty_bytes, overdue_ms)


def is_due(dirt: Dirt, config: LogConfig) -> bool:
    return dirt.dirty_bytes > 0 and (dirt.overdue_ms > 0 or dirt.ratio > config.min_cleanable_dirty_ratio)


def plan_compaction(log: CompactedLog, dirt: Dirt, high_watermark: int, now_ms: int) -> CompactionPlan:
    """Collect the inputs of a compaction of `dirt`, so that it can run on another thread."""
    sources = [
        Source(segment.path(LOG_SUFFIX), segment.base_offset, segment.size_bytes, segment.created_ms)
        for segment, _ in _sealed(log.segments)
        if segment.base_offset < dirt.end_offset
    ]
    start_offset = log.segments[0].base_offset
    first = max((source for source in log.segments if source.base_offset <= dirt.first_offset), key=_base_offset)
    found = first.find(dirt.first_offset)
    return CompactionPlan(
        log.folder,
        log.directory,
        log.config,
        dirt,
        tuple(sources),
        first.size_bytes if found is None else found[0],
        high_watermark,
        tuple(log.aborted_transactions(start_offset, dirt.end_offset)),
        last_batches(log.producers),
        now_ms,
        log.truncation_count,
    )


def is_overtaken(plan: CompactionPlan, log: CompactedLog) -> bool:
    """Return whether retention or a truncation has removed a segment that the compaction uses."""
    is_shorter = log.segments[0].base_offset != plan.sources[0].base_offset
    return is_shorter or log.truncation_count != plan.truncation_count


def group_sources(plan: CompactionPlan, end_offset: int) -> Iterator[tuple[Source, ...]]:
    """Yield the segments that begin before `end_offset`, in groups that fit into one segment."""
    sources = [source for source in plan.sources if source.base_offset < end_offset]
    group: list[Source] = []
    for number, source in enumerate(sources):
        following = sources[number + 1].base_offset if number + 1 < len(sources) else plan.dirt.end_offset
        if group and not _fits(group, source, following, plan.config):
            yield tuple(group)
            group = []
        group.append(source)
    if group:
        yield tuple(group)


def _fits(group: Sequence[Source], source: Source, end_offset: int, config: LogConfig) -> bool:
    size_bytes = sum(member.size_bytes for member in group) + source.size_bytes
    # An index has at most one entry for each batch, and at most one for each interval.
    entry_count = size_bytes // max(config.index_interval_bytes, HEADER_SIZE) + 1
    return (
        len(group) < COMPACTION_GROUP_SEGMENTS_MAX
        and size_bytes <= config.segment_bytes
        and entry_count * max(OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE) <= config.segment_index_bytes
        and end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
    )


def _sealed(segments: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    """Yield each segment except the last, with its end offset."""
    for number in range(len(segments) - 1):
        yield segments[number], segments[number + 1].base_offset


def _end_offset(log: CompactedLog, first_offset: int, limit: int, now_ms: int) -> int:
    """Return the end offset of the last segment that may be compacted, at most `limit`."""
    end_offset = log.segments[0].base_offset
    lag_ms = log.config.min_compaction_lag_ms
    for segment, following in _sealed(log.segments):
        is_young = lag_ms > 0 and following > first_offset and segment.maximum[0] > now_ms - lag_ms
        if following > limit or is_young:
            break
        end_offset = following
    return end_offset


def _overdue_ms(log: CompactedLog, segment: Segment, now_ms: int) -> int:
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    return max(0, oldest_ms - segment.first_timestamp) if oldest_ms > 0 and segment.first_timestamp > 0 else 0


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
