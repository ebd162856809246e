"""The recovery of a log from the files in its folder.

After a clean stop nothing is scanned: the end of the log is in the recovery point checkpoint, the
producer state is in the snapshot at that offset, and indexes are used as they are. After any other
stop, the segments from the recovery point on are read batch by batch. The first byte that does
not belong to a valid batch ends the log: the rest of that segment and all later segments are
deleted. So are segments after a gap, which means that a tail never reached the disk.

Tailrace's compaction leaves no gaps between segments, but Kafka's does. A gap is accepted as one of
those if a compaction is known to have reached it: below the offset in the cleaner's checkpoint, or
after a segment that has gaps inside. If the checkpoint of recovery points is lost, and with it all
knowledge of what was flushed, every gap in a log that may be compacted is accepted.
"""

import logging
import os
from contextlib import suppress

from tailrace.base.clock import Clock
from tailrace.base.sentinel import INT64_MAX, NO_EPOCH
from tailrace.protocol.errors import ApiError
from tailrace.records.error import CorruptBatch, RecordError
from tailrace.storage.batch_walk import walk_batches
from tailrace.storage.epoch_cache import EpochCache, EpochStart
from tailrace.storage.folder import Folder
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.producer_replay import rebuild_producers
from tailrace.storage.producer_snapshot import snapshot_offsets_of, snapshot_path, write_snapshot
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.salvage import walk_stretches
from tailrace.storage.segment.file import INDEX_SUFFIXES, LOG_SUFFIX
from tailrace.storage.segment.row import segment_number
from tailrace.storage.segment.segment import Segment
from tailrace.storage.segment.swap import finish_swap

logger = logging.getLogger(__name__)

# Files of a deletion or a checkpoint that was interrupted.
_LEFTOVER_SUFFIXES = (".deleted", ".tmp")


def open_log(
    folder: Folder,
    directory: str,
    clock: Clock,
    config: LogConfig,
    *,
    log_start_offset: int = 0,
    recovery_point: int | None = None,
    cleaner_offset: int | None = None,
    is_clean: bool = False,
) -> Log:
    """Open the log in `directory`, or create an empty one.

    `log_start_offset`, `recovery_point` and `cleaner_offset` come from the folder's checkpoints, and
    `is_clean` from the clean-shutdown file.
    """
    opening = _Opening(folder, directory, clock, config, log_start_offset, cleaner_offset)
    if recovery_point is None and config.cleanup_policy_compact:
        opening.gapped_offset = INT64_MAX
    end_offset = opening.clean_end(recovery_point) if is_clean else None
    if end_offset is not None:
        opening.end_offset = end_offset
        recovery_point = end_offset
    else:
        opening.scan(recovery_point or 0)
    return opening.finish(recovery_point or 0, is_clean=end_offset is not None)


class _Opening:
    """The steps from a list of files to a `Log`."""

    def __init__(
        self,
        folder: Folder,
        directory: str,
        clock: Clock,
        config: LogConfig,
        log_start_offset: int,
        cleaner_offset: int | None,
    ) -> None:
        self._folder = folder
        self._fs = folder.fs
        self._directory = directory
        self._clock = clock
        self._config = config
        self._start_offset = log_start_offset
        self._cleaner_offset = cleaner_offset
        # Up to this offset segments may have gaps between them.
        self.gapped_offset = cleaner_offset or 0
        self._has_gaps = False  # inside the last scanned segment
        self._segments = self._load_segments()
        self._epochs = EpochCache.load(folder.fs, directory)
        self._producers = ProducerState(config.producer_id_expiration_ms)
        self.end_offset = log_start_offset

    def _load_segments(self) -> list[Segment]:
        entries = self._fs.list_directory(self._directory)
        if finish_swap(self._fs, self._directory, (entry.name for entry in entries)):
            entries = self._fs.list_directory(self._directory)
        sizes = {entry.name: entry for entry in entries if not entry.is_directory}
        self._snapshots = snapshot_offsets_of(sizes)
        segments = []
        for name, entry in sizes.items():
            stem, suffix = os.path.splitext(name)
            is_orphan = suffix in INDEX_SUFFIXES and stem + LOG_SUFFIX not in sizes
            if suffix in _LEFTOVER_SUFFIXES or is_orphan:
                self._fs.remove(os.path.join(self._directory, name))
            elif suffix == LOG_SUFFIX and len(stem) == 20 and stem.isdigit():
                segments.append(self._segment(int(stem), entry.size_bytes, entry.modified_ms))
        return sorted(segments, key=lambda segment: segment.base_offset)

    def _segment(self, base_offset: int, size_bytes: int, created_ms: int) -> Segment:
        interval_bytes = self._config.index_interval_bytes
        return Segment(self._folder, self._directory, base_offset, size_bytes, interval_bytes, created_ms)

    def clean_end(self, recovery_point: int | None) -> int | None:
        """Return the end offset of a log that was closed, or None if the files contradict that."""
        if not self._segments:
            return None
        last = self._segments[-1]
        if recovery_point is not None:
            is_plausible = (recovery_point > last.base_offset) == (last.size_bytes > 0)
            return recovery_point if is_plausible and recovery_point >= last.base_offset else None
        return None

    def scan(self, recovery_point: int) -> None:
        """Check every batch from the segment of the recovery point on, and truncate at the first bad byte."""
        if not self._segments:
            return
        first = segment_number(self._segments, recovery_point)
        base_offset = self._segments[first].base_offset
        self._rebuild_producers(self._segments[:first], base_offset)
        self.end_offset = base_offset
        for number in range(first, len(self._segments)):
            segment = self._segments[number]
            if self._is_gap_of_compaction(segment.base_offset):
                self.end_offset = segment.base_offset
            if segment.base_offset != self.end_offset:
                path = segment.path(LOG_SUFFIX)
                logger.warning("%s: deleted from here on, because of a gap at offset %d", path, self.end_offset)
                self._drop_from(number)
                break
            if number > first:
                self._seal(self._segments[number - 1])
            if not self._scan_segment(segment):
                self._drop_from(number + 1)
                break

    def _is_gap_of_compaction(self, base_offset: int) -> bool:
        return base_offset > self.end_offset and (base_offset <= self.gapped_offset or self._has_gaps)

    def _seal(self, segment: Segment) -> None:
        segment.write_indexes()
        segment.seal()
        write_snapshot(self._fs, self._directory, self.end_offset, self._producers)

    def _scan_segment(self, segment: Segment) -> bool:
        """Read the valid batches of a segment. Return whether the whole segment is valid."""
        file_size_bytes = segment.size_bytes
        segment.begin_scan()
        self._has_gaps = False
        transactions = segment.reset_transaction_index()
        now_ms = self._clock.now_ms()
        try:
            for position, header, batch in walk_batches(segment.file, 0, file_size_bytes):
                last_offset = header.last_offset
                if header.base_offset < self.end_offset or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                    raise CorruptBatch(f"offset {header.base_offset} follows offset {self.end_offset - 1}")
                if header.last_offset_delta < 0:
                    raise CorruptBatch(f"invalid last offset delta {header.last_offset_delta}")
                if header.base_offset > self.end_offset:
                    self._check_gap(segment, position, file_size_bytes)
                if header.partition_leader_epoch > self._epochs.latest:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset)
                elif header.partition_leader_epoch < self._epochs.epoch_for(header.base_offset):
                    # A power loss undid a truncation. The epochs after it were those of records that are lost.
                    self._epochs.forget_after(header.partition_leader_epoch)
                aborted = self._producers.replay(header, header.base_offset, batch, now_ms)
                if aborted is not None:
                    transactions.append(aborted)
                segment.note_batch(position, header.size_bytes, last_offset, header.max_timestamp)
                self._has_gaps |= (
                    header.base_offset > self.end_offset or header.record_count <= header.last_offset_delta
                )
                self.end_offset = last_offset + 1
        except RecordError as error:
            lost_bytes = file_size_bytes - segment.size_bytes
            logger.warning("%s: truncated %d bytes: %s", segment.path(LOG_SUFFIX), lost_bytes, error)
            segment.cut_tail()
            # If the bytes came back after a power loss, they could be in a segment that is no longer scanned.
            segment.file.sync()
            return False
        return True

    def _check_gap(self, segment: Segment, position: int, file_size_bytes: int) -> None:
        """Raise `CorruptBatch` if a batch after a gap is in the wrong place, judging by the batch that follows.

        Compaction leaves gaps, and the checksum does not cover the base offset.
        """
        walk = walk_stretches(segment.file, position, file_size_bytes, self.end_offset, segment.base_offset)
        problem = next(walk).problem
        if problem:
            raise CorruptBatch(problem)

    def _drop_from(self, number: int) -> None:
        """Delete the segments from `number` on, the last one first, so that a crash leaves no gap."""
        while len(self._segments) > number:
            self._segments.pop().delete(is_final=self._config.cleanup_policy_compact)
        # If the segments came back after a power loss, they could follow what is appended next.
        self._fs.sync_directory(self._directory)

    def _rebuild_producers(self, segments: list[Segment], end_offset: int) -> None:
        rebuild_producers(
            self._fs,
            self._directory,
            self._producers,
            segments,
            end_offset=end_offset,
            now_ms=self._clock.now_ms(),
            snapshots=self._snapshots,
        )

    def _restore_epochs(self, *, is_clean: bool) -> None:
        """Restore epochs that were removed for a log start offset which did not reach the checkpoint."""
        known = self._epochs.starts
        # No epoch is known if the log was being truncated below that start, or if the file is corrupt.
        end_offset = known[0].start_offset if known else self.end_offset
        if end_offset <= self._start_offset or (is_clean and not known):
            return
        found: list[EpochStart] = []
        with suppress(ApiError):
            for segment in self._segments:
                for _, header in segment.headers_from(self._start_offset):
                    if header.base_offset >= end_offset:
                        break
                    if header.partition_leader_epoch > (found[-1].epoch if found else NO_EPOCH):
                        found.append(EpochStart(header.partition_leader_epoch, header.base_offset))
        self._epochs.prepend(found)

    def _remove_stray_snapshots(self) -> None:
        """Remove the snapshots that are neither at the start of a segment nor at the end of the log."""
        wanted = {self.end_offset, *(segment.base_offset for segment in self._segments)}
        stray = [offset for offset in self._snapshots if offset not in wanted]
        if stray:
            # A power loss may undo the deletion of a segment, which then needs the snapshot at its start.
            self._fs.sync_directory(self._directory)
        for offset in stray:
            self._fs.remove(snapshot_path(self._directory, offset))

    def _create_segment(self, base_offset: int) -> None:
        now_ms, interval_bytes = self._clock.now_ms(), self._config.index_interval_bytes
        self._segments.append(Segment.create(self._folder, self._directory, base_offset, interval_bytes, now_ms))

    def _begin_behind_gaps(self) -> None:
        """Seal the last segment, because a truncation ended inside its compacted part.

        Its gaps would make the next recovery accept a gap after it, where a lost segment may be by then.
        """
        # If a kill left the truncation unsynced, a power loss would bring its records back before those that come next.
        self._segments[-1].file.sync()
        self._seal(self._segments[-1])
        self._create_segment(self.end_offset)
        self._fs.sync_directory(self._directory)

    def finish(self, recovery_point: int, *, is_clean: bool) -> Log:
        """Create the log from the recovered segments."""
        if self._segments and self.end_offset < self._start_offset:
            reason = "deleted all segments: the log ends before its start offset"
            logger.warning("%s: %s: %d < %d", self._directory, reason, self.end_offset, self._start_offset)
            self._drop_from(0)
        is_saved = is_clean or not self._segments
        if not self._segments:
            self.end_offset = self._start_offset
            self._epochs.clear()
            self._producers.restore(())
            self._create_segment(self._start_offset)
            if self._start_offset > 0:
                # The checkpoint of log starts leaves out what the name of the first segment tells.
                self._fs.sync_directory(self._directory)
        elif self._has_gaps:
            self._begin_behind_gaps()
        elif not is_clean and self._segments[-1].size_bytes == 0:
            # Its creator may have been killed before the name reached the disk, and records come next.
            self._fs.sync_directory(self._directory)
        for segment in self._segments[:-1]:
            segment.is_sealed = True
        self._segments[-1].unseal()
        self._start_offset = max(self._start_offset, self._segments[0].base_offset)
        self._epochs.truncate_end(self.end_offset)
        self._restore_epochs(is_clean=is_clean)
        self._epochs.truncate_start(self._start_offset)
        self._remove_stray_snapshots()
        if is_clean:
            self._rebuild_producers(self._segments, self.end_offset)
        log = Log(
            self._folder,
            self._directory,
            self._clock,
            self._config,
            segments=self._segments,
            epochs=self._epochs,
            producers=self._producers,
            log_start_offset=self._start_offset,
            log_end_offset=self.end_offset,
            recovery_point=min(recovery_point, self.end_offset),
            cleaner_offset=self._cleaner_offset,
            is_saved=is_saved,
        )
        if log.log_end_offset - log.recovery_point >= self._config.flush_messages:
            # Everything below the log end offset counts as flushed, also records that a kill left unflushed.
            log.flush()
        return log
