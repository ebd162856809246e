"""Which part of a log compaction may and should work on, decided without reading records.

A log has a clean part, up to the offset where the last compaction ended, and a dirty part
after it. The dirty part ends before the last segment, before anything that is not decided,
replicated and flushed, and before what is younger than `min.compaction.lag.ms`; it always ends
where a segment does. A log is due when enough of it is dirty, or when some of it has waited for
`max.compaction.lag.ms`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from runnel.base.limits import COMPACTION_GROUP_SEGMENTS_MAX
from runnel.records.batch import HEADER_SIZE
from runnel.storage.batch_filter import LastBatch, last_batches
from runnel.storage.folder import Folder
from runnel.storage.log_config import LogConfig
from runnel.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from runnel.storage.offset_index import RELATIVE_OFFSET_MAX
from runnel.storage.producer_state import ProducerState
from runnel.storage.segment import Segment
from runnel.storage.segment_file import LOG_SUFFIX
from runnel.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from runnel.storage.transaction_index import AbortedTransaction


class CompactedLog(Protocol):
    """What compaction needs of a log."""

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
    """How much of a log waits for compaction, in the offsets from `first_offset` to before `end_offset`."""

    first_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int = 0  # for how much longer than max.compaction.lag.ms the oldest of it waits

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0


class Source(NamedTuple):
    """A segment as compaction reads it, on another thread than the one it belongs to."""

    path: str
    base_offset: int
    size_bytes: int
    created_ms: int


class CompactionPlan(NamedTuple):
    """Everything that one compaction of a log has to know."""

    folder: Folder
    directory: str
    config: LogConfig
    dirt: Dirt
    sources: tuple[Source, ...]
    dirty_position: int  # where in its segment the dirty part begins
    high_watermark: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, LastBatch]
    now_ms: int
    truncation_count: int


def measure_dirt(log: CompactedLog, up_to_offset: int, now_ms: int) -> Dirt:
    """Look at a log of which nothing from `up_to_offset` on, the last stable offset, may be touched."""
    cleaned = log.cleaner_offset
    # A checkpoint that is not of this log, or of more than there is, says nothing.
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
    """Take down what the compaction of that dirt needs, so that it can run elsewhere."""
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
    """Whether retention or a truncation has taken away something that the compaction works on."""
    is_shorter = log.segments[0].base_offset != plan.sources[0].base_offset
    return is_shorter or log.truncation_count != plan.truncation_count


def group_sources(plan: CompactionPlan, end_offset: int) -> Iterator[tuple[Source, ...]]:
    """The segments that begin before `end_offset`, those together that will fit into one."""
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
    # An index has at most an entry for each batch, and at most one in each interval.
    entry_count = size_bytes // max(config.index_interval_bytes, HEADER_SIZE) + 1
    return (
        len(group) < COMPACTION_GROUP_SEGMENTS_MAX
        and size_bytes <= config.segment_bytes
        and entry_count * max(OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE) <= config.segment_index_bytes
        and end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
    )


def _sealed(segments: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    """Each segment but the last, with the offset at which it ends."""
    for number in range(len(segments) - 1):
        yield segments[number], segments[number + 1].base_offset


def _end_offset(log: CompactedLog, first_offset: int, limit: int, now_ms: int) -> int:
    """Where the last segment ends that may be compacted, at most at `limit`."""
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
