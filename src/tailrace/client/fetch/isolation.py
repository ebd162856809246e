"""Isolation levels, and the batches of a fetch that they show."""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from tailrace.protocol.messages.fetch import FetchResponseAbortedTransaction
from tailrace.records.batch import BatchHeader, Buffer, check_crc
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_batches
from tailrace.records.transaction_filter import TransactionFilter


class Isolation(IntEnum):
    """Whether records of transactions that are open or aborted are read."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def visible_batches(
    buffer: Buffer, aborted: Sequence[FetchResponseAbortedTransaction], *, check_crcs: bool = True
) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over position and header of each visible batch; raises `CorruptBatch` for a wrong checksum."""
    transactions = TransactionFilter(aborted)
    for position, header in read_batches(buffer):
        if check_crcs and not check_crc(buffer, position, header):
            raise CorruptBatch(
                f"the batch of offsets {header.base_offset} to {header.last_offset} has a wrong checksum"
            )
        if not transactions.hides(buffer, position, header):
            yield position, header
