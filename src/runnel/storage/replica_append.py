"""Appending what a leader sent: its bytes as they are, at the offsets and with the epochs that they have.

Nothing about them is believed. A batch must be whole and its checksum right, it must continue the log, and
its epoch may neither fall nor be above that of the leader who sent it. Offsets may leave gaps,
because the leader may have compacted its log.
"""

from collections.abc import Iterable

from runnel.records.batch import BatchHeader, WritableBuffer, check_crc
from runnel.records.error import CorruptBatch
from runnel.records.record import read_batches
from runnel.storage.log import Log

FoundBatches = Iterable[tuple[int, BatchHeader]]
"""Batches by their position."""


def append_replicated(log: Log, data: WritableBuffer, leader_epoch: int, batches: FoundBatches | None = None) -> int:
    """Append the whole batches in `data`, and leave one that is cut off at the end. Returns how many bytes.

    `batches` are what `read_batches` finds in it, for who has looked before.
    Raises `CorruptBatch` at the first that is not as it should be; what stands before it is appended. Raises
    `StorageError` where the disk fails.
    """
    view = memoryview(data)
    taken_bytes = 0
    for position, header in read_batches(view) if batches is None else batches:
        _check(log, view, position, header, leader_epoch)
        end = position + header.size_bytes
        log.append(view[position:end], header, header.partition_leader_epoch, header.base_offset)
        taken_bytes = end
    return taken_bytes


def _check(log: Log, view: memoryview, position: int, header: BatchHeader, leader_epoch: int) -> None:
    if header.base_offset < log.log_end_offset or header.last_offset_delta < 0:
        problem = f"offsets {header.base_offset} to {header.last_offset} at the end {log.log_end_offset}"
    elif not log.latest_epoch <= header.partition_leader_epoch <= leader_epoch:
        problem = f"epoch {header.partition_leader_epoch} is not in [{log.latest_epoch}, {leader_epoch}]"
    elif not check_crc(view, position, header):
        problem = "wrong checksum"
    else:
        return
    raise CorruptBatch(f"the batch at offset {header.base_offset}: {problem}")
