"""Which transactions were aborted in a segment.

The file is Kafka's `.txnindex`: entries of 34 bytes, a version (0), the producer id, the
first offset of the transaction, the offset of its ABORT marker, and the last stable offset
right after that marker, all big-endian. An entry stands with the segment that holds the
marker, in the order of the markers; the transaction may have begun in an earlier segment.

Like the other indexes it lives in memory and reaches its file when the segment is sealed. A
segment without aborted transactions has no such file, so a missing one is an empty one.
"""

from struct import Struct
from typing import NamedTuple

from runnel.storage.offset_index import CorruptIndex

_VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, from its first record to its marker."""

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
        """Note an aborted transaction; one whose marker is known already is no news."""
        if not self.transactions or transaction.last_offset > self.transactions[-1].last_offset:
            self.transactions.append(transaction)

    def find(self, from_offset: int, up_to_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that reach into [from_offset, up_to_offset), and whether later segments have no more.

        Once a marker was written when everything below `up_to_offset` was decided, no later one
        can belong to a transaction that began below it.
        """
        found = []
        for transaction in self.transactions:
            if transaction.last_offset >= from_offset and transaction.first_offset < up_to_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= up_to_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions whose markers stand at `offset` or above."""
        self.transactions = [transaction for transaction in self.transactions if transaction.last_offset < offset]

    def encode(self) -> bytes:
        return b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in self.transactions)

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TransactionIndex":
        """Read an index file; raises `CorruptIndex` for one that no segment can have."""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not whole transaction index entries")
        index = cls(base_offset)
        previous = base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            transaction = AbortedTransaction(*fields)
            if version != _VERSION:
                raise CorruptIndex(f"a transaction index entry of version {version}")
            if not (0 <= transaction.first_offset < transaction.last_offset and previous < transaction.last_offset):
                raise CorruptIndex(f"impossible aborted transaction {transaction}")
            previous = transaction.last_offset
            index.transactions.append(transaction)
        return index
