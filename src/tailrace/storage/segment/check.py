"""A read-only check of every batch and every index entry of a segment."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tailrace.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tailrace.base.sentinel import NO_EPOCH
from tailrace.records.batch import HEADER_SIZE, BatchHeader, Buffer
from tailrace.records.compression import Compression, decompress
from tailrace.records.control import ControlType, read_control_type
from tailrace.records.error import RecordError
from tailrace.records.record import read_records
from tailrace.records.walk import WalkError, walk_records
from tailrace.storage.epoch_cache import EpochCache
from tailrace.storage.finding import Finding
from tailrace.storage.fs import File, FileSystem
from tailrace.storage.index_check import OffsetIndexCheck, TimeIndexCheck, TransactionIndexCheck
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.salvage import Stretch, walk_stretches
from tailrace.storage.segment.file import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)

Tell = Callable[[int, int], None]
"""A callback that gets the number of bytes and records checked."""


class Place(NamedTuple):
    """The place of a segment in its log: its offsets, and whether its index files are complete."""

    base_offset: int
    end_offset: int | None
    is_last: bool
    is_indexed: bool


class LogTrail:
    """The state carried from segment to segment during the check of a log."""

    def __init__(self, fs: FileSystem, directory: str, producers: ProducerState, next_offset: int) -> None:
        self.fs = fs
        self.directory = directory
        self.producers = producers
        self.start_offset = self.next_offset = next_offset
        self.has_gap = False
        self.has_damage = False
        self._epochs = EpochCache.load(fs, directory)
        self._latest_epoch = NO_EPOCH

    @property
    def has_epochs(self) -> bool:
        """Whether any batch has a leader epoch."""
        return self._latest_epoch != NO_EPOCH

    def check_epoch(self, header: BatchHeader) -> str:
        """Return the problem with the leader epoch of a batch, or an empty string."""
        epoch = header.partition_leader_epoch
        if epoch < self._latest_epoch:
            return f"leader epoch {epoch} follows leader epoch {self._latest_epoch}"
        if epoch != NO_EPOCH and self._epochs.epoch_for(header.base_offset) != epoch:
            # A live broker may have started a new epoch since.
            self._epochs = EpochCache.load(self.fs, self.directory)
            known = self._epochs.epoch_for(header.base_offset)
            # The cache has no entry for epochs that DeleteRecords removed.
            if known not in (epoch, NO_EPOCH):
                return f"leader epoch {epoch}, but leader-epoch-checkpoint has {known}"
        self._latest_epoch = epoch
        return ""


class SegmentCheck:
    """The check of one segment."""

    def __init__(self, trail: LogTrail, place: Place, settle: Callable[[], None], tell: Tell) -> None:
        self._trail = trail
        self._place = place
        self._settle = settle
        self._tell = tell
        self._is_damaged = False
        self.path = segment_path(trail.directory, place.base_offset, LOG_SUFFIX)
        offsets, times, transactions = (self._read(suffix) for suffix in _SUFFIXES)
        self._missing = [suffix for suffix, data in zip(_SUFFIXES[:2], (offsets, times), strict=True) if data is None]
        self._offsets = OffsetIndexCheck(self._path(OFFSET_INDEX_SUFFIX), offsets or b"", place.base_offset)
        self._times = TimeIndexCheck(self._path(TIME_INDEX_SUFFIX), times or b"", place.base_offset)
        self._transactions = TransactionIndexCheck(self._path(TRANSACTION_INDEX_SUFFIX), transactions or b"")

    def _path(self, suffix: str) -> str:
        return segment_path(self._trail.directory, self._place.base_offset, suffix)

    def _read(self, suffix: str) -> bytes | None:
        return self._trail.fs.read_file(self._path(suffix)) if self._place.is_indexed else None

    def run(self) -> Iterator[Finding]:
        """Check everything. The file is opened here and may have been deleted."""
        file = self._trail.fs.open(self.path)
        if self._place.is_indexed:
            yield from (Finding(self._path(suffix), "missing") for suffix in self._missing)
            yield from self._offsets.begin()
            yield from self._times.begin()
            yield from self._transactions.begin(self._place.base_offset)
        if self._trail.next_offset > self._place.base_offset:
            text = f"begins inside the previous segment, which ends at {self._trail.next_offset}"
            yield Finding(self.path, text, 0, self._place.base_offset)
        self._trail.has_gap |= self._trail.next_offset != self._place.base_offset
        self._trail.next_offset = self._place.base_offset
        size_bytes = file.size_bytes()
        for stretch in self._stretches(file, size_bytes):
            yield from self._look(file, stretch)
        if self._is_damaged and self._place.end_offset is not None:
            # The damaged batches may be the last ones.
            self._trail.next_offset = self._place.end_offset
        if self._place.is_indexed:
            yield from self._offsets.end(size_bytes)
            yield from self._times.end(is_complete=TIME_INDEX_SUFFIX not in self._missing)
            yield from self._transactions.end(has_gap=self._trail.has_gap)

    def _stretches(self, file: File, size_bytes: int) -> Iterator[Stretch]:
        """Yield the contents of the file. Read the end of the last segment twice: a broker may be writing it."""
        position, is_settled = 0, not self._place.is_last
        while position < size_bytes:
            walk = walk_stretches(file, position, size_bytes, self._trail.next_offset, self._place.base_offset)
            for stretch in walk:
                is_end = stretch.position + stretch.size_bytes == size_bytes
                if stretch.problem and is_end and not is_settled:
                    self._settle()
                    is_settled, size_bytes = True, file.size_bytes()
                    break
                position = stretch.position + stretch.size_bytes
                yield stretch

    def _look(self, file: File, stretch: Stretch) -> Iterator[Finding]:
        header = stretch.header
        self._tell(stretch.size_bytes, 0 if header is None else header.record_count)
        if header is None or stretch.problem:
            offset = stretch.expected_offset if header is None else header.base_offset
            yield Finding(self.path, stretch.problem, stretch.position, offset)
            yield from self._pass(stretch)
            return
        end_offset = self._place.end_offset
        if end_offset is not None and header.next_offset > end_offset:
            text = f"offsets {header.base_offset} to {header.last_offset} are in a segment that ends at {end_offset}"
            yield Finding(self.path, text, stretch.position, stretch.expected_offset)
            yield from self._pass(stretch)
            return
        self._trail.has_gap |= header.base_offset != self._trail.next_offset
        self._trail.next_offset = header.next_offset
        batch = file.read_at(stretch.position, stretch.size_bytes)
        for problem in (check_records(batch, header), self._trail.check_epoch(header)):
            if problem:
                yield Finding(self.path, problem, stretch.position, header.base_offset)
        yield from self._offsets.batch(stretch.position, header)
        yield from self._times.batch(header)
        aborted = self._trail.producers.replay(header, header.base_offset, batch)
        if self._trail.has_damage:
            aborted = None  # a marker or the first batch of a transaction may be lost
        if header.is_control and self._place.is_indexed:
            is_abort = _is_abort(batch)
            has_gap = self._trail.has_gap or (aborted is not None and aborted.first_offset < self._trail.start_offset)
            yield from self._transactions.marker(header, aborted, is_abort=is_abort, has_gap=has_gap)

    def _pass(self, stretch: Stretch) -> Iterator[Finding]:
        """Continue after damaged bytes, whose contents cannot be told from what compaction removes."""
        self._trail.has_gap = self._trail.has_damage = self._is_damaged = True
        self._times.damage()
        yield from self._offsets.damage(stretch.position, stretch.position + stretch.size_bytes)


_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def check_records(batch: Buffer, header: BatchHeader) -> str:
    """Return the problem with the records of a batch with a right checksum, or an empty string."""
    try:
        payload: Buffer = memoryview(batch)[HEADER_SIZE : header.size_bytes]
        if header.compression is not Compression.NONE:
            payload = decompress(header.compression, payload, DECOMPRESSED_BATCH_BYTES_MAX)
        if header.record_count < 0:
            return f"invalid record count {header.record_count}"
        walk = walk_records(payload, 0, len(payload), header.record_count, header.base_timestamp)
        if walk.error is WalkError.NONE:
            return ""
        if walk.error is not WalkError.OFFSET_DELTA:
            return f"record {walk.error_index}: {walk.error.text}"
        # Compaction keeps the offsets of the remaining records.
        previous = header.base_offset - 1
        for record in read_records(batch):
            if not previous < record.offset <= header.last_offset:
                return f"a record has offset {record.offset} after offset {previous}"
            previous = record.offset
    except RecordError as error:
        return str(error)
    return ""


def _is_abort(batch: Buffer) -> bool:
    try:
        record = next(read_records(batch), None)
        return record is not None and read_control_type(record.key) is ControlType.ABORT
    except RecordError:
        return False
