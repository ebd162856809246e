"""The transaction index: the transactions that were aborted in a segment.

The file is Kafka's `.txnindex`: entries of 34 bytes, a version (0), the producer id, the first
offset of the transaction, the offset of its ABORT marker, and the last stable offset right after
that marker, all big-endian. An entry belongs to the segment that holds the marker, in the order
of the markers; the transaction may have begun in an earlier segment.

Like the other indexes, it is in memory until its segment is sealed and the file is written. A
segment without aborted transactions has no such file, so a missing file is an empty index.
"""

from struct import Struct
from typing import NamedTuple

from tailrace.storage.offset_index import CorruptIndex

_VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """An aborted transaction, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment's `.txnindex` file."""

    __slots__ = ("base_offset", "transactions")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.transactions: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self.transactions)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction, unless its marker is known already."""
        if not self.transactions or transaction.last_offset > self.transactions[-1].last_offset:
            self.transactions.append(transaction)

    def find(self, from_offset: int, up_to_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap [from_offset, up_to_offset), and whether later segments have no more.

        If the last stable offset after a marker is at or above `up_to_offset`, no later marker belongs to a
        transaction that began below it.
        """
        found = []
        for transaction in self.transactions:
            if transaction.last_offset >= from_offset and transaction.first_offset < up_to_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= up_to_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose markers are at `offset` or above."""
        self.transactions = [transaction for transaction in self.transactions if transaction.last_offset < offset]

    def encode(self) -> bytes:
        return b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in self.transactions)

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TransactionIndex":
        """Read an index file; raise `CorruptIndex` if it is invalid."""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not a multiple of the size of a transaction index entry")
        index = cls(base_offset)
        previous = base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            transaction = AbortedTransaction(*fields)
            if version != _VERSION:
                raise CorruptIndex(f"a transaction index entry has the unknown version {version}")
            if not (0 <= transaction.first_offset < transaction.last_offset and previous < transaction.last_offset):
                raise CorruptIndex(f"invalid aborted transaction {transaction}")
            previous = transaction.last_offset
            index.transactions.append(transaction)
        return index
