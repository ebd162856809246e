"""Batches of another cluster's log, made fit for the log of a topic that keeps their offsets.

A batch keeps its bytes but for three fields. The leader epoch becomes this leader's, because replicas find by it where
their logs part. The producer id gets a bit that no producer of this cluster has: the same number may be given to
another producer here, whose batches must not be taken for repeated ones. The checksum covers the producer id, so it is
written again.
"""

from collections.abc import Iterator

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader, assign_offsets, check_crc, read_header, set_producer
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_batches
from tailrace.storage.log import Log
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX

MIRRORED_PRODUCER_BIT = 1 << 62


def new_batches(log: Log, data: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the batches in `data` that the log does not have yet; each must be appended before the next is asked for.

    Raises `CorruptBatch` at the first batch that is not whole or not valid, and `ApiError` with INVALID_RECORD at one
    that is not in its place, which would not be better if it were sent again.
    """
    end = 0
    for position, header in read_batches(data):
        end = position + header.size_bytes
        if header.last_offset < log.log_end_offset and header.last_offset_delta >= 0:
            continue
        _check(log, data, position, header)
        yield data[position:end], header
    if end != len(data):
        raise CorruptBatch(f"{len(data) - end} bytes at the end are not a whole batch")


def _check(log: Log, data: memoryview, position: int, header: BatchHeader) -> None:
    if not check_crc(data, position, header):
        raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
    if header.base_offset < log.log_end_offset or header.last_offset_delta < 0:
        problem = f"it ends at {header.last_offset}, and the log ends at {log.log_end_offset}"
    elif header.last_offset - log.log_end_offset > RELATIVE_OFFSET_MAX:
        problem = f"it is too far behind the end of the log, which is {log.log_end_offset}: fill the gap first"
    else:
        return
    raise ApiError(ErrorCode.INVALID_RECORD, f"the batch at offset {header.base_offset} cannot be appended: {problem}")


def adopt(batch: memoryview, header: BatchHeader, leader_epoch: int) -> BatchHeader:
    """Write the leader epoch and the producer id of this cluster into a batch; return its header."""
    assign_offsets(batch, 0, header.base_offset, leader_epoch)
    if header.has_producer_id:
        producer_id = header.producer_id | MIRRORED_PRODUCER_BIT
        set_producer(batch, 0, producer_id, header.producer_epoch, header.base_sequence)
    return read_header(batch)
