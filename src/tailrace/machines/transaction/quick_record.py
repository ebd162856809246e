"""A fast encoder of `__transaction_state` records, of which each transaction needs three.

The declared messages in `record` define the format, and a test compares the two.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, pack

from tailrace.base.limits import TRANSACTIONAL_ID_CACHE_COUNT
from tailrace.machines.transaction.state import TransactionState
from tailrace.machines.transaction.transaction import TopicPartition, Transaction
from tailrace.protocol.primitive import encode_varint
from tailrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_KEY_TYPE = b"\0\0"
_HEAD = Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES = Struct(">qq")
_VALUE_VERSION = 1
_NO_PARTITIONS = b"\0"
_LONG_SIZE, _SHORT_SIZE = b"\x08", b"\x02"


@lru_cache(TRANSACTIONAL_ID_CACHE_COUNT)
def encode_key(transactional_id: str) -> bytes:
    """Encode the key of a record."""
    name = transactional_id.encode()
    return _KEY_TYPE + len(name).to_bytes(2, "big") + name


def encode_value(transaction: Transaction) -> bytes:
    """Encode the value of a record, in version 1."""
    head = _HEAD.pack(
        _VALUE_VERSION,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
    )
    is_empty = transaction.state is TransactionState.EMPTY
    partitions = _NO_PARTITIONS if is_empty else _encode_partitions(transaction.partitions)
    times = _TIMES.pack(transaction.update_ms, transaction.start_ms)
    return head + partitions + times + _encode_tagged(transaction)


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    pieces = [encode_varint(len(topics) + 1)]
    for topic, indexes in topics.items():
        name = topic.encode()
        pieces += [encode_varint(len(name) + 1), name, encode_varint(len(indexes) + 1)]
        pieces += [pack(f">{len(indexes)}i", *indexes), b"\0"]
    return b"".join(pieces)


def _encode_tagged(transaction: Transaction) -> bytes:
    """Encode the tagged fields that differ from their defaults, in tag order."""
    fields = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        fields.append(b"\0" + _LONG_SIZE + transaction.previous_producer_id.to_bytes(8, "big", signed=True))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        fields.append(b"\1" + _LONG_SIZE + transaction.next_producer_id.to_bytes(8, "big", signed=True))
    if transaction.client_version:
        fields.append(b"\2" + _SHORT_SIZE + transaction.client_version.to_bytes(2, "big", signed=True))
    if transaction.next_producer_epoch != NO_PRODUCER_EPOCH:
        fields.append(b"\3" + _SHORT_SIZE + transaction.next_producer_epoch.to_bytes(2, "big", signed=True))
    return bytes([len(fields)]) + b"".join(fields)
