"""The log of one partition: segments in a row, appended at the end, read anywhere, deleted from the start.

Theory of operation. Offsets run from `log_start_offset` to just before `log_end_offset`.
Below the recovery point everything is known to be on the disk; above it, only in the page
cache, which a crash of the process leaves alone. Each segment begins with the offset at
which the one before it ended when it was sealed, so a gap between two segments that were not
flushed means that the disk lost the end of the first.

An append changes memory only after the bytes are written, and the bytes are cut away again
when writing them failed, so a log is never left half way. All methods belong to one thread.
What may run elsewhere is given away as a value: `FileRange.read`, `Flush.run` and
`TimestampLookup.run`.
"""

from collections.abc import Callable

from runnel.base.clock import Clock
from runnel.base.invariant import invariant
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import LOG_OVERHEAD, BatchHeader, WritableBuffer, assign_offsets
from runnel.storage import retention, transaction_lookup
from runnel.storage.epoch_cache import EpochCache
from runnel.storage.error import StorageError, passing_over_shortage
from runnel.storage.file_range import EMPTY_RANGE, FileRange
from runnel.storage.flush import Flush
from runnel.storage.folder import Folder
from runnel.storage.fs import Buffer
from runnel.storage.log_config import INT64_MAX, LogConfig
from runnel.storage.producer_replay import rebuild_producers
from runnel.storage.producer_snapshot import remove_snapshots, snapshot_path, write_snapshot
from runnel.storage.producer_state import ProducerState
from runnel.storage.roll import must_roll
from runnel.storage.segment import Segment
from runnel.storage.segment_file import LOG_SUFFIX
from runnel.storage.segment_row import segment_number
from runnel.storage.segment_swap import SwapDesk
from runnel.storage.timestamp_lookup import TimestampLookup, TimestampOffset
from runnel.storage.transaction_index import AbortedTransaction, TransactionIndex


class Log:
    """The log of one partition. `recovery.open_log` makes one."""

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
        """`is_saved` says that the files are already as `close` would leave them."""
        invariant(segments, "a log has at least one segment")
        self.directory = directory
        self.config = config
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        # Segments below are on the disk with all their files, of the others perhaps only the batches.
        self._sealed_offset = segments[segment_number(segments, recovery_point)].base_offset
        # Up to where the newest flush reaches or will reach, and whether flush.messages were appended since.
        self._flush_offset = recovery_point
        self.is_flush_wanted = False
        # Up to where the log was compacted last, None if it never was.
        self.cleaner_offset = cleaner_offset
        self.truncation_count = 0
        self.flushed_ms = clock.monotonic_ms()
        # Called before a truncation: the offsets in the checkpoints must not stay above the log's end.
        self.on_truncation: Callable[[], None] = lambda: None
        self.swaps = SwapDesk(folder, directory)
        self._folder = folder
        self._clock = clock
        self._active = segments[-1]
        # How often names came into the folder, and how many of these times a flush has synced it since.
        self._name_count = 1
        self._synced_name_count = 0
        self._is_closed = False
        self._saved = (segments[-1], log_end_offset) if is_saved else None
        folder.unflushed.note(self)

    def reconfigure(self, config: LogConfig) -> None:
        """Live by other settings from the next append on."""
        self.config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        self._folder.unflushed.note(self)

    # Appending

    def append(
        self, batch: WritableBuffer, header: BatchHeader, leader_epoch: int, at_offset: int | None = None
    ) -> int:
        """Write one valid batch at the end of the log and return the offset of its first record.

        The offsets and the leader epoch are put into `batch` itself, unless it comes from a leader and has them
        already, from `at_offset` on. When this returns, the kernel has the bytes; when it raises `StorageError`, the
        log is as it was. Nothing is flushed here; `is_flush_wanted` tells whether something should be.
        """
        base_offset = self.log_end_offset if at_offset is None else at_offset
        last_offset = base_offset + header.last_offset_delta
        size_bytes = header.batch_length + LOG_OVERHEAD
        invariant(len(batch) == size_bytes, "one whole batch is appended")
        if self._folder.failure is not None or self._is_closed:
            self._refuse_append()
        try:
            segment = self._active
            if must_roll(self.config, segment, self._clock, size_bytes, last_offset, header.max_timestamp):
                segment = self.roll()
            if leader_epoch != self.epochs.latest:
                self.epochs.assign(leader_epoch, base_offset)
            if header.is_control:
                # A disk that cannot be read must say so before the batch is written.
                self._transaction_index(len(self.segments) - 1)
            if at_offset is None:
                assign_offsets(batch, 0, base_offset, leader_epoch)
            segment.append(batch, size_bytes, last_offset, header.max_timestamp)
        except StorageError as error:
            self._folder.note(error)
            raise
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            aborted = self.producers.replay(header, base_offset, batch)
            if aborted is not None:
                segment.transaction_index.append(aborted)
        self.is_flush_wanted = self.log_end_offset - self._flush_offset >= self.config.flush_messages
        return base_offset

    def check(self) -> None:
        """Raise what took the folder offline, if something did."""
        self._folder.check()

    def _refuse_append(self) -> None:
        invariant(not self._is_closed, f"the log {self.directory} is closed")
        self._folder.check()

    def roll(self) -> Segment:
        """Seal the last segment and begin another. One without batches stays the last."""
        old = self._active
        if old.size_bytes == 0:
            return old
        if old.is_torn:
            old.cut_tail()
            old.file.sync()  # a start from here on would not look at this segment
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
        """Find the bytes from the batch that holds `offset` on, without reading them.

        They end at most `size_bytes_max` later, perhaps inside a batch, but never inside the first:
        it is left out, or with `min_one_batch` whole however large it is, because clients take a
        reply without a single whole batch for an error. No batch that reaches `up_to_offset` is in
        them. They never span segments. Raises `ApiError` with OFFSET_OUT_OF_RANGE.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            message = f"offset {offset} is not in [{self.log_start_offset}, {self.log_end_offset}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if self._folder.failure is not None:
            self._folder.check()
        if offset >= up_to_offset or offset == self.log_end_offset:
            return EMPTY_RANGE
        try:
            return self._locate(offset, size_bytes_max, up_to_offset, min_one_batch)
        except StorageError as error:
            # The files of a deleted partition are gone, and that is nobody's failure.
            if not self._is_closed:
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
        """Locate and read, waiting for the disk."""
        return self.locate(offset, size_bytes_max, up_to_offset, min_one_batch).read()

    def _floor(self, offset: int) -> int:
        """The number of the segment that `offset` belongs to."""
        return segment_number(self.segments, offset)

    def _end_offset(self, number: int) -> int:
        """The offset at which the segment of that number ends."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else self.log_end_offset

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose timestamp is `timestamp_ms` or later."""
        return self.begin_lookup(timestamp_ms).run()

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp in the log."""
        return self.begin_lookup(None).run()

    def begin_lookup(self, timestamp_ms: int | None) -> TimestampLookup:
        """What it takes to search by time, for the newest record with None. Run it anywhere."""
        with self._folder.judging():
            # The segment in use changes while others search; what it knows must be known before.
            self._active.maximum, self._active.offset_index  # noqa: B018
        return TimestampLookup(self._folder, tuple(self.segments), self.log_start_offset, timestamp_ms)

    def last_stable_offset(self, high_watermark: int) -> int:
        """How far a reader of committed records may go: to the first transaction that is not ended and replicated."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, from_offset: int, up_to_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions of which a record or the marker may be in [from_offset, up_to_offset)."""
        with self._folder.judging():
            indexes = map(self._transaction_index, range(self._floor(from_offset), len(self.segments)))
            return transaction_lookup.find_aborted(indexes, from_offset, up_to_offset)

    def aborted_in(self, offset: int, found: FileRange) -> list[AbortedTransaction]:
        """The aborted transactions that a reader needs to know who asked for `offset` and got `found`."""
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
        """The newest leader epoch that wrote here, -1 if none did."""
        return self.epochs.latest

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and where it ends; (-1, -1) if that is unknown."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # Durability

    @property
    def has_unflushed_segment(self) -> bool:
        """Whether a sealed segment waits for its flush, which Kafka starts at each roll."""
        return self._sealed_offset < self._active.base_offset

    @property
    def is_flush_awaited(self) -> bool:
        """Whether a flush is due, or time alone may make it so."""
        return (self.has_unflushed_segment or self.config.flush_ms != INT64_MAX) and not self._is_closed

    @property
    def checkpoint_offset(self) -> int:
        """The recovery point to be written down: a start scans the segment that it is in.

        It stays inside the first segment whose index files are not synced. That one may be sealed a moment
        after its last batch was flushed, and without a scan nobody would know whether they are whole.
        """
        # Another thread may ask, so what may grow is looked at first.
        sealed_offset, end_offset, segments = self._sealed_offset, self.log_end_offset, tuple(self.segments)
        following = segment_number(segments, sealed_offset) + 1
        if following < len(segments):
            end_offset = segments[following].base_offset
        return min(self.recovery_point, max(sealed_offset, end_offset - 1))

    def begin_flush(self, *, sealed_only: bool = False) -> Flush:
        """What has to be synced. Run it anywhere, then give it to `end_flush`."""
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
        """Take note that a flush ran. One that a truncation overtook says nothing any more."""
        if flush.truncation_count == self.truncation_count:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
            self._sealed_offset = max(self._sealed_offset, flush.sealed_offset)
            self._synced_name_count = max(self._synced_name_count, flush.name_count)
        self.flushed_ms = self._clock.monotonic_ms()

    def flush(self) -> None:
        """Make everything appended so far survive a power loss."""
        flush = self.begin_flush()
        flush.run()
        self.end_flush(flush)

    def is_flush_due(self) -> bool:
        """Whether flush.ms have passed since the last flush and there is something to flush."""
        waited_ms = self._clock.monotonic_ms() - self.flushed_ms
        return self.log_end_offset > self.recovery_point and waited_ms >= self.config.flush_ms

    # Cutting

    def truncate_to(self, offset: int) -> None:
        """Cut away every batch that reaches `offset`, as a follower does to agree with its leader.

        Unlike in Kafka the log then ends where its last batch does, even if `offset` was inside
        the one cut away, so that no gap arises that recovery would take for a loss.
        """
        if offset >= self.log_end_offset:
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully(offset)
            return
        self.swaps.finish()
        cleaned_offset = self.cleaner_offset or 0
        with self._folder.judging(is_fatal=True):
            keep = self._floor(offset) + 1
            self._lower_checkpoints(self.segments[keep - 1].end_before(offset)[1])
            # From the end, so that a crash in between leaves no gap.
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
                # Behind gaps a start takes a missing segment for one more, so the next has to be there before records.
                self.roll()
                self._folder.fs.sync_directory(self.directory)

    def truncate_fully(self, offset: int) -> None:
        """Drop everything and begin again at `offset`."""
        self.swaps.finish()
        with self._folder.judging(is_fatal=True):
            self._folder.deletions.finish(self.directory)
            # So low that a start after a crash in between sees the gap which a few survivors leave.
            self._lower_checkpoints(min(offset, self.segments[0].base_offset))
            for segment in reversed(self.segments):
                segment.delete(is_final=self.cleaner_offset is not None)
            self._name_count += 1
            # Before there is a segment again that they could belong to.
            remove_snapshots(self._folder.fs, self.directory, above=-1)
            self._folder.fs.sync_directory(self.directory)
            self.segments = [self._create_segment(offset)]
            self._active = self.segments[0]
            self.log_start_offset = self.log_end_offset = offset
            self.epochs.clear()
            self._after_truncation()

    def _lower_checkpoints(self, end_offset: int) -> None:
        """Before the log ends at `end_offset`, see that no checkpoint is above that.

        A recovery point there would vouch for what comes next, and a start there would throw it away.
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
        fs, end_offset = self._folder.fs, self.log_end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self._sealed_offset = min(self._sealed_offset, self._active.base_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_end(end_offset)
        remove_snapshots(fs, self.directory, above=end_offset)
        fs.sync_directory(self.directory)
        start, now_ms = self.log_start_offset, self._clock.now_ms()
        rebuild_producers(
            fs, self.directory, self.producers, self.segments, start_offset=start, end_offset=end_offset, now_ms=now_ms
        )

    def advance_log_start(self, offset: int) -> None:
        """Let the log begin at `offset`, which is in it. Whole segments below go with the next retention."""
        invariant(offset <= self.log_end_offset, "a log does not begin after its end")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def apply_retention(self, now_ms: int, up_to_offset: int | None = None) -> int:
        """Let old segments leave below `up_to_offset`, the high watermark. Returns how many; see `retention`."""
        if self.swaps.is_busy:
            return 0  # there is another time for it
        with self._folder.judging():
            return retention.apply_retention(
                self, now_ms, self.log_end_offset if up_to_offset is None else up_to_offset
            )

    # Ending

    def close(self) -> None:
        """Write and sync everything, so that the next start needs to scan nothing."""
        if self._is_closed:
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
        """Whether nothing was written since the log was opened; thousands of idle logs then close at once."""
        untouched = self._saved == (self._active, self.log_end_offset)
        return untouched and self.truncation_count == 0 and not self._active.is_torn

    def abandon(self) -> None:
        """Take no more appends, write nothing and close the files."""
        self._retire()
        for segment in self.segments:
            segment.close()

    def leave(self) -> None:
        """Take no more appends, because the folder is about to go. Open files stay with those who read them."""
        self._retire()
        for segment in self.segments:
            segment.release()

    def _retire(self) -> None:
        self._is_closed = True
        self.on_truncation = lambda: None
        self.swaps.close()
