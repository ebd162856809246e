"""The log of one partition: segments in offset order, appended to at the end, read anywhere, deleted from the start.

Theory of operation. Offsets run from `log_start_offset` to just before `log_end_offset`.
Everything below the recovery point is on the disk; everything above it may be only in the page
cache, which survives a crash of the process. Each segment begins with the offset at which the
previous one ended when it was sealed, so a gap between two unflushed segments means that the
disk lost the end of the first.

An append changes memory only after the bytes are written. If the write fails, the bytes are truncated, so a log never
holds part of a batch. All methods belong to one thread. Work that may run on another thread is returned as a value:
`FileRange.read`, `Flush.run` and `TimestampLookup.run`.
"""

from collections.abc import Callable, Sequence

from tailrace.base.clock import Clock
from tailrace.base.invariant import invariant
from tailrace.base.sentinel import INT64_MAX
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import LOG_OVERHEAD, BatchHeader, WritableBuffer, assign_offsets
from tailrace.storage import retention, transaction_lookup
from tailrace.storage.epoch_cache import EpochCache
from tailrace.storage.error import StorageError, passing_over_shortage
from tailrace.storage.file_range import EMPTY_RANGE, FileRange
from tailrace.storage.flush import Flush
from tailrace.storage.folder import Folder
from tailrace.storage.fs import Buffer
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producer_handover import install_snapshot, load_snapshot_at, prepare_snapshot
from tailrace.storage.producer_replay import rebuild_producers
from tailrace.storage.producer_snapshot import remove_snapshots, snapshot_path, write_snapshot
from tailrace.storage.producer_state import ProducerEntry, ProducerState
from tailrace.storage.roll import must_roll
from tailrace.storage.segment.file import LOG_SUFFIX
from tailrace.storage.segment.row import segment_number
from tailrace.storage.segment.segment import Segment
from tailrace.storage.segment.swap import SegmentSwaps
from tailrace.storage.timestamp_lookup import TimestampLookup, TimestampOffset
from tailrace.storage.transaction_index import AbortedTransaction, TransactionIndex


class Log:
    """The log of one partition. `recovery.open_log` creates it."""

    def __init__(
        self,
        folder: Folder,
        directory: str,
        clock: Clock,
        config: LogConfig,
        *,
        segments: list[Segment],
        epochs: EpochCache,
        producers: ProducerState,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        cleaner_offset: int | None = None,
        is_saved: bool = False,
    ) -> None:
        """Create a log; `is_saved` means that the files are already as `close` would leave them."""
        invariant(segments, "a log has at least one segment")
        self.directory = directory
        self.config = config
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        # All files of the segments below are on the disk; of the others perhaps only the batches.
        self._sealed_offset = segments[segment_number(segments, recovery_point)].base_offset
        # The end of the newest flush, done or in progress, and whether flush.messages records were appended since.
        self._flush_offset = recovery_point
        self.is_flush_wanted = False
        self.cleaner_offset = cleaner_offset  # the end of the last compaction; None if there was none
        self.checkpointed_start_offset = log_start_offset  # see `retention.durable_start_offset`
        self.truncation_count = 0
        self.flushed_ms = clock.monotonic_ms()
        # Called before a truncation, to lower offsets in the checkpoints that would be above the log end offset.
        self.on_truncation: Callable[[], None] = lambda: None
        self.swaps = SegmentSwaps(folder, directory)
        self._folder = folder
        self._clock = clock
        self._active = segments[-1]
        # How often names were added to the folder, and the value of that count at the last sync of the folder.
        self._name_count = 1
        self._synced_name_count = 0
        self.is_closed = False
        self._saved = (segments[-1], log_end_offset) if is_saved else None
        folder.unflushed.note(self)

    def reconfigure(self, config: LogConfig) -> None:
        """Use another config from the next append on."""
        self.config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        self._folder.unflushed.note(self)

    # Appending

    def append(
        self, batch: WritableBuffer, header: BatchHeader, leader_epoch: int, at_offset: int | None = None
    ) -> int:
        """Append one valid batch at the end of the log and return the offset of its first record.

        The offsets and the leader epoch are written into `batch` itself, unless it comes from a leader and has
        them already, from `at_offset` on. When this returns, the kernel has the bytes; when it raises `StorageError`,
        the log is unchanged. The batch is not flushed; `is_flush_wanted` says whether a flush is due.
        """
        base_offset = self.log_end_offset if at_offset is None else at_offset
        last_offset = base_offset + header.last_offset_delta
        size_bytes = header.batch_length + LOG_OVERHEAD
        invariant(len(batch) == size_bytes, "one whole batch is appended")
        if self._folder.failure is not None or self.is_closed:
            self._refuse_append()
        try:
            segment = self._active
            if must_roll(self.config, segment, self._clock, size_bytes, last_offset, header.max_timestamp, at_offset):
                segment = self.roll()
            if leader_epoch != self.epochs.latest:
                self.epochs.assign(leader_epoch, base_offset)
            if header.is_control:
                # A read error of the index must be raised before the batch is written.
                self._transaction_index(len(self.segments) - 1)
            if at_offset is None:
                assign_offsets(batch, 0, base_offset, leader_epoch)
            segment.append(batch, size_bytes, last_offset, header.max_timestamp)
        except StorageError as error:
            self._folder.note(error)
            raise
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            aborted = self.producers.replay(header, base_offset, batch, self._clock.now_ms())
            if aborted is not None:
                segment.transaction_index.append(aborted)
        self.is_flush_wanted = self.log_end_offset - self._flush_offset >= self.config.flush_messages
        return base_offset

    def check(self) -> None:
        """Raise the error that took the folder offline, if it is offline."""
        self._folder.check()

    def _refuse_append(self) -> None:
        invariant(not self.is_closed, f"the log {self.directory} is closed")
        self._folder.check()

    def roll(self) -> Segment:
        """Seal the active segment and create another. A segment without batches stays active."""
        old = self._active
        if old.size_bytes == 0:
            return old
        if old.is_torn:
            old.cut_tail()
            old.file.sync()  # recovery from the new segment on does not scan this one
        fs = self._folder.fs
        old.write_indexes()
        write_snapshot(fs, self.directory, self.log_end_offset, self.producers)
        segment = self._create_segment(self.log_end_offset)
        old.seal()
        self._name_count += 1
        self.segments.append(segment)
        self._active = segment
        self._folder.unflushed.note(self)
        return segment

    def _create_segment(self, base_offset: int) -> Segment:
        interval_bytes, now_ms = self.config.index_interval_bytes, self._clock.now_ms()
        return Segment.create(self._folder, self.directory, base_offset, interval_bytes, now_ms)

    # Reading

    def locate(self, offset: int, size_bytes_max: int, up_to_offset: int, min_one_batch: bool) -> FileRange:
        """Locate the bytes from the batch that holds `offset` on, without reading them.

        The range has at most `size_bytes_max` bytes and may end inside a batch, but not inside the first one:
        a first batch that is too large is left out, or included whole with `min_one_batch`, because clients
        treat a reply without a whole batch as an error. The range includes no batch that reaches
        `up_to_offset`, and never spans segments. Raise `ApiError` with OFFSET_OUT_OF_RANGE.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            message = f"offset {offset} is outside the log, which has [{self.log_start_offset}, {self.log_end_offset}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if self._folder.failure is not None:
            self._folder.check()
        if offset >= up_to_offset or offset == self.log_end_offset:
            return EMPTY_RANGE
        try:
            return self._locate(offset, size_bytes_max, up_to_offset, min_one_batch)
        except StorageError as error:
            # The files of a deleted partition are gone, which is not a disk failure.
            if not self.is_closed:
                self._folder.note(error)
            raise

    def _locate(self, offset: int, size_bytes_max: int, up_to_offset: int, min_one_batch: bool) -> FileRange:
        segments = self.segments
        for number in range(self._floor(offset), len(segments)):
            segment = segments[number]
            found = segment.find(offset)
            if found is None:
                continue  # the segment ends before the offset, because compaction removed its last batches
            position, header = found
            if header.last_offset >= self._end_offset(number):
                message = f"{segment.path(LOG_SUFFIX)} at {position}: offset {header.last_offset} is not in the segment"
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, message)
            end = segment.size_bytes
            if up_to_offset < self._end_offset(number):
                beyond = segment.find(up_to_offset)
                end = beyond[0] if beyond is not None else end
            if header.size_bytes > size_bytes_max:
                if not min_one_batch:
                    return EMPTY_RANGE
                size_bytes_max = header.size_bytes
            size_bytes = min(size_bytes_max, end - position)
            return FileRange(segment, position, size_bytes, self._folder) if size_bytes > 0 else EMPTY_RANGE
        return EMPTY_RANGE

    def read(self, offset: int, size_bytes_max: int, up_to_offset: int, min_one_batch: bool) -> Buffer:
        """Locate and read, waiting for the disk if necessary."""
        return self.locate(offset, size_bytes_max, up_to_offset, min_one_batch).read()

    def _floor(self, offset: int) -> int:
        """Return the number of the segment that contains `offset`."""
        return segment_number(self.segments, offset)

    def _end_offset(self, number: int) -> int:
        """Return the end offset of the segment with this number."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else self.log_end_offset

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is `timestamp_ms` or later."""
        return self.begin_lookup(timestamp_ms).run()

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp in the log."""
        return self.begin_lookup(None).run()

    def begin_lookup(self, timestamp_ms: int | None) -> TimestampLookup:
        """Return a search by timestamp, or for the newest record with None. It may run on any thread."""
        with self._folder.judging():
            # The active segment changes during a search on another thread, so load its indexes first.
            self._active.maximum, self._active.offset_index  # noqa: B018
        return TimestampLookup(self._folder, tuple(self.segments), self.log_start_offset, timestamp_ms)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the first offset of the oldest transaction that is open or not replicated, or the high watermark."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, from_offset: int, up_to_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with a record or the marker in [from_offset, up_to_offset)."""
        with self._folder.judging():
            indexes = map(self._transaction_index, range(self._floor(from_offset), len(self.segments)))
            return transaction_lookup.find_aborted(indexes, from_offset, up_to_offset)

    def aborted_in(self, offset: int, found: FileRange) -> list[AbortedTransaction]:
        """Return the aborted transactions for a reader that fetched from `offset` and got `found`."""
        if found.source is None:
            return []
        number = self._floor(offset)
        while number + 1 < len(self.segments) and self.segments[number] is not found.source:
            number += 1
        end_offset = self.segments[number].offset_above(found.position + found.size_bytes)
        return self.aborted_transactions(offset, self._end_offset(number) if end_offset is None else end_offset)

    def _transaction_index(self, number: int) -> TransactionIndex:
        fs, directory, end_offset = self._folder.fs, self.directory, self._end_offset(number)
        return transaction_lookup.load_transaction_index(fs, directory, self.segments, number, end_offset)

    @property
    def folder(self) -> Folder:
        """The log folder that this log is in."""
        return self._folder

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, -1 if there is none."""
        return self.epochs.latest

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above `leader_epoch` and its end offset; (-1, -1) if it is unknown."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # Durability

    @property
    def has_unflushed_segment(self) -> bool:
        """Whether a sealed segment is not flushed yet. Kafka starts a flush at each roll."""
        return self._sealed_offset < self._active.base_offset

    @property
    def is_flush_awaited(self) -> bool:
        """Whether a flush is due, or will become due through `flush.ms`."""
        return (self.has_unflushed_segment or self.config.flush_ms != INT64_MAX) and not self.is_closed

    @property
    def checkpoint_offset(self) -> int:
        """The recovery point for the checkpoint: recovery scans the segment that contains it.

        It stays inside the first segment whose index files are not synced. That segment may be sealed just
        after its last batch was flushed, and only a scan can tell whether its index files are complete.
        """
        # Another thread may call this, so read the values that may grow first.
        sealed_offset, end_offset, segments = self._sealed_offset, self.log_end_offset, tuple(self.segments)
        following = segment_number(segments, sealed_offset) + 1
        if following < len(segments):
            end_offset = segments[following].base_offset
        return min(self.recovery_point, max(sealed_offset, end_offset - 1))

    def begin_flush(self, *, sealed_only: bool = False) -> Flush:
        """Return what has to be synced. Run it on any thread, then pass it to `end_flush`."""
        segments = self.segments
        if self._folder.deletions.is_leaving(self.directory):
            segments = [*self._folder.deletions.leaving(self.directory), *segments]
        segments = segments[segment_number(segments, min(self.recovery_point, self._sealed_offset)) :]
        paths = [path for segment in segments[:-1] for path in segment.index_paths()]
        paths += [snapshot_path(self.directory, segment.base_offset) for segment in segments[1:]]
        if sealed_only:
            segments.pop()
        end_offset = self._active.base_offset if sealed_only else self.log_end_offset
        self._flush_offset = max(self._flush_offset, end_offset)
        self.is_flush_wanted = False
        return Flush(
            self._folder,
            self.directory,
            tuple(segment for segment in segments if segment.is_unsynced),
            tuple(paths),
            end_offset,
            self._active.base_offset,
            self.truncation_count,
            self._name_count,
            self._name_count > self._synced_name_count,
        )

    def end_flush(self, flush: Flush) -> None:
        """Record that a flush ran. A flush overtaken by a truncation is ignored."""
        if flush.truncation_count == self.truncation_count:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
            self._sealed_offset = max(self._sealed_offset, flush.sealed_offset)
            self._synced_name_count = max(self._synced_name_count, flush.name_count)
        self.flushed_ms = self._clock.monotonic_ms()

    def flush(self) -> None:
        """Flush everything appended so far."""
        flush = self.begin_flush()
        flush.run()
        self.end_flush(flush)

    def is_flush_due(self) -> bool:
        """Return whether flush.ms have passed since the last flush and the log has unflushed records."""
        waited_ms = self._clock.monotonic_ms() - self.flushed_ms
        return self.log_end_offset > self.recovery_point and waited_ms >= self.config.flush_ms

    # Cutting

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that reaches `offset`, as a follower does to agree with its leader.

        Unlike Kafka's, the log then ends at its last batch: recovery would take a gap for a lost tail.
        """
        if offset >= self.log_end_offset:
            with self._folder.judging():
                self.epochs.truncate_end(self.log_end_offset)  # an epoch of which no record could be appended
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully(offset, load_snapshot_at(self._folder, self.directory, offset))
            return
        self.swaps.finish()
        cleaned_offset = self.cleaner_offset or 0
        with self._folder.judging(is_fatal=True):
            keep = self._floor(offset) + 1
            self._lower_checkpoints(self.segments[keep - 1].end_before(offset)[1])
            # Remove the last segment first, so that a crash leaves no gap.
            while len(self.segments) > keep:
                removed = self.segments.pop()
                self._active = self.segments[-1]
                self.log_end_offset = removed.base_offset
                removed.delete(is_final=cleaned_offset > 0)
            self._active.unseal()
            self._transaction_index(keep - 1)
            self.log_end_offset = self._active.truncate_to(offset)
            self._after_truncation()
            if self._active.base_offset < cleaned_offset:
                # After gaps, recovery takes a missing segment for another gap, so create it before any record.
                self.roll()
                self._folder.fs.sync_directory(self.directory)

    def truncate_fully(self, offset: int, producers: Sequence[ProducerEntry] = ()) -> None:
        """Remove all records and continue at `offset`, with these producers of the deleted records below it."""
        self.swaps.finish()
        prepare_snapshot(self._folder, self.directory, offset, producers, self.producers.expiration_ms)
        with self._folder.judging(is_fatal=True):
            self._folder.deletions.finish(self.directory)
            # Low enough that recovery after a crash sees the gap before segments that survived.
            self._lower_checkpoints(min(offset, self.segments[0].base_offset))
            for segment in reversed(self.segments):
                segment.delete(is_final=self.cleaner_offset is not None)
            self._name_count += 1
            # Before there is a segment again that the snapshots could be taken for.
            install_snapshot(self._folder.fs, self.directory, offset, producers)
            self._folder.fs.sync_directory(self.directory)
            self.segments = [self._create_segment(offset)]
            self._active = self.segments[0]
            self.log_start_offset = self.log_end_offset = offset
            self.epochs.clear()
            self._after_truncation()
            self.producers.restore(producers, self.producers.ended)  # the snapshot has only the last batch of each

    def _lower_checkpoints(self, end_offset: int) -> None:
        """Lower every checkpoint above `end_offset` before the log is truncated to it.

        A recovery point above it would cover records appended later; a start above it would drop them.
        """
        self.truncation_count += 1
        self._flush_offset = min(self._flush_offset, end_offset)
        is_cleaned = self.cleaner_offset is not None and end_offset < self.cleaner_offset
        if is_cleaned:
            self.cleaner_offset = end_offset
        if is_cleaned or end_offset < self.recovery_point or end_offset < self.log_start_offset:
            self.recovery_point = min(self.recovery_point, end_offset)
            self.log_start_offset = min(self.log_start_offset, end_offset)
            self.on_truncation()

    def _after_truncation(self) -> None:
        fs, end_offset, now_ms = self._folder.fs, self.log_end_offset, self._clock.now_ms()
        self.recovery_point = min(self.recovery_point, end_offset)
        self._sealed_offset = min(self._sealed_offset, self._active.base_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_end(end_offset)
        remove_snapshots(fs, self.directory, above=end_offset)
        fs.sync_directory(self.directory)
        rebuild_producers(fs, self.directory, self.producers, self.segments, end_offset=end_offset, now_ms=now_ms)

    def advance_log_start(self, offset: int) -> None:
        """Set the log start offset, which must be in the log. Retention later deletes whole segments below it."""
        invariant(offset <= self.log_end_offset, "the log start offset is at most the log end offset")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def apply_retention(self, now_ms: int, up_to_offset: int | None = None) -> int:
        """Delete old segments below `up_to_offset`, the high watermark. Return how many; see `retention`."""
        if self.swaps.is_busy:
            return 0  # the next run does it
        with self._folder.judging():
            end_offset = self.log_end_offset if up_to_offset is None else up_to_offset
            return retention.apply_retention(self, now_ms, end_offset)

    # Ending

    def close(self) -> None:
        """Write and sync everything, so that the next start need not scan the log."""
        if self.is_closed:
            return
        self.swaps.finish()
        with passing_over_shortage():
            retention.delete_files(self)
            self._folder.deletions.finish(self.directory)
        if self._has_no_news():
            self._sealed_offset = self.log_end_offset
            self.abandon()
            return
        with self._folder.judging():
            if self._active.is_torn:
                self._active.cut_tail()
            self._active.write_indexes()
            write_snapshot(self._folder.fs, self.directory, self.log_end_offset, self.producers)
            flush = self.begin_flush()
            paths = (*flush.paths, *self._active.index_paths(), snapshot_path(self.directory, self.log_end_offset))
            flush = flush._replace(paths=paths, has_new_names=True, sealed_offset=self.log_end_offset)
            flush.run()
            self.end_flush(flush)
            self.abandon()

    def _has_no_news(self) -> bool:
        """Return whether nothing was written since the log was opened, so that idle logs close at once."""
        untouched = self._saved == (self._active, self.log_end_offset)
        return untouched and self.truncation_count == 0 and not self._active.is_torn

    def abandon(self) -> None:
        """Reject further appends and close the files without writing."""
        self._retire()
        for segment in self.segments:
            segment.close()

    def leave(self) -> None:
        """Reject further appends, because the folder is about to be deleted. Readers keep their open files."""
        self._retire()
        for segment in self.segments:
            segment.release()

    def _retire(self) -> None:
        self.is_closed = True
        self.on_truncation = lambda: None
        self.swaps.close()
