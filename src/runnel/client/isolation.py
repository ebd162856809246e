"""Which batches of a fetch a reader may see (KIP-98).

A reader of committed records gets, beside the batches, the list of aborted transactions in
them. A producer's batches are skipped from the first offset of its aborted transaction until
the marker that ends it. Markers themselves are never shown to anybody.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from runnel.protocol.messages.fetch import FetchResponseAbortedTransaction
from runnel.records.batch import BatchHeader, Buffer, check_crc
from runnel.records.control import ControlType, read_control_type
from runnel.records.error import CorruptBatch
from runnel.records.record import read_batches, read_records


class Isolation(IntEnum):
    """Whether records of transactions that are open or aborted are read."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def visible_batches(
    buffer: Buffer, aborted: Sequence[FetchResponseAbortedTransaction]
) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of each batch that the reader may see; raises `CorruptBatch` for a wrong checksum."""
    upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    skipped_producers: set[int] = set()
    for position, header in read_batches(buffer):
        if not check_crc(buffer, position, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
        while upcoming and upcoming[-1].first_offset <= header.last_offset:
            skipped_producers.add(upcoming.pop().producer_id)
        if header.is_control:
            if _ends_aborted(buffer, position):
                skipped_producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped_producers):
            yield position, header


def _ends_aborted(buffer: Buffer, position: int) -> bool:
    record = next(read_records(buffer, position), None)
    return record is not None and read_control_type(record.key) is ControlType.ABORT
