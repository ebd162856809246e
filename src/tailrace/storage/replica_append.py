"""Appends of a follower: the leader's bytes as they are, with their offsets and epochs.

The data is not trusted. A batch must be whole and have the right checksum. It must continue the log.
Its epoch must not be lower than the last one, or above the epoch of the leader that sent it. Offsets
may leave gaps, because the leader may have compacted its log.

The leader's log may start inside a batch, after DeleteRecords. A log that begins there takes the whole batch, as in
Kafka: it begins at the first offset of the batch, and its log start stays inside.
"""

from collections.abc import Iterable

from tailrace.records.batch import BatchHeader, WritableBuffer, check_crc
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_batches
from tailrace.storage.log import Log

FoundBatches = Iterable[tuple[int, BatchHeader]]
"""Batches with their positions."""


def append_replicated(log: Log, data: WritableBuffer, leader_epoch: int, batches: FoundBatches | None = None) -> int:
    """Append the whole batches in `data`, ignoring a partial one at the end. Return the number of bytes appended.

    `batches` is the result of `read_batches` on `data`, if the caller has it already.
    Raise `CorruptBatch` at the first invalid batch, after appending those before it. Raise
    `StorageError` if the disk fails.
    """
    view = memoryview(data)
    taken_bytes = 0
    for position, header in read_batches(view) if batches is None else batches:
        _check(log, view, position, header, leader_epoch)
        end, start_offset = position + header.size_bytes, log.log_start_offset
        begins_inside = header.base_offset < log.log_end_offset
        if begins_inside:
            log.truncate_fully(header.base_offset, list(log.producers.entries.values()))
        log.append(view[position:end], header, header.partition_leader_epoch, header.base_offset)
        if begins_inside:
            log.advance_log_start(start_offset)
        taken_bytes = end
    return taken_bytes


def _check(log: Log, view: memoryview, position: int, header: BatchHeader, leader_epoch: int) -> None:
    may_begin_inside = log.log_start_offset == log.log_end_offset <= header.last_offset
    if (header.base_offset < log.log_end_offset and not may_begin_inside) or header.last_offset_delta < 0:
        problem = f"offsets {header.base_offset} to {header.last_offset} at log end offset {log.log_end_offset}"
    elif not log.latest_epoch <= header.partition_leader_epoch <= leader_epoch:
        problem = f"leader epoch {header.partition_leader_epoch} is not in [{log.latest_epoch}, {leader_epoch}]"
    elif not check_crc(view, position, header):
        problem = "wrong checksum"
    else:
        return
    raise CorruptBatch(f"cannot append the batch at offset {header.base_offset} from the leader: {problem}")
