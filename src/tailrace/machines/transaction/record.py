"""The records of `__transaction_state`, byte for byte as Kafka writes them.

A record holds the whole state of one transactional id. Any broker that knows version 1 of the value can read it,
because later fields are tagged.
"""

from dataclasses import dataclass, replace

from tailrace.machines.log_record import CorruptRecord, Record, RecordFormat
from tailrace.machines.transaction.quick_record import encode_key, encode_value
from tailrace.machines.transaction.state import COMPLETE, PREPARED, STORED_STATES, TransactionState
from tailrace.machines.transaction.transaction import (
    CLIENT_VERSION_2,
    PRODUCER_EPOCH_MAX,
    Transaction,
)
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT8, INT16, INT32, INT64, STRING, Buffer, array

VALUE_VERSION = 1


@message(versions="0")
class TransactionLogKey(Message):
    """The key: a transactional id."""

    transactional_id: str = wire(STRING, "0")


class TransactionLogPartitions(Message):
    """Partitions of one topic."""

    topic: str = wire(STRING, "0+")
    partition_ids: list[int] = wire(array(INT32), "0+")


@message(versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    """The state of a transactional id; in state EMPTY its partitions are None."""

    producer_id: int = wire(INT64, "0+")
    previous_producer_id: int = wire(INT64, "1+", default=-1, tag=0, tagged="1+", ignorable=True)
    next_producer_id: int = wire(INT64, "1+", default=-1, tag=1, tagged="1+", ignorable=True)
    producer_epoch: int = wire(INT16, "0+")
    next_producer_epoch: int = wire(INT16, "1+", default=-1, tag=3, tagged="1+", ignorable=True)  # KIP-939
    transaction_timeout_ms: int = wire(INT32, "0+")
    transaction_status: int = wire(INT8, "0+")
    transaction_partitions: list[TransactionLogPartitions] | None = wire(
        array(TransactionLogPartitions), "0+", nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = wire(INT64, "0+")
    transaction_start_timestamp_ms: int = wire(INT64, "0+")
    client_transaction_version: int = wire(INT16, "1+", default=0, tag=2, tagged="1+", ignorable=True)  # KIP-890


_FORMAT = RecordFormat({0: (TransactionLogKey, TransactionLogValue)}, lambda _: VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The new state of a transactional id, or None for a tombstone."""

    transactional_id: str
    transaction: Transaction | None


class TransactionRecordFormat:
    """The encoding of records as keys and values."""

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        value = None if record.transaction is None else encode_value(record.transaction)
        return encode_key(record.transactional_id), value

    def encode_as_declared(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        """Encode with the declared messages; twice as slow, and the reference for `encode`."""
        value = None if record.transaction is None else to_value(record.transaction)
        return _FORMAT.encode(Record(TransactionLogKey(transactional_id=record.transactional_id), value))

    def decode(self, key: Buffer, value: Buffer | None) -> TransactionRecord:
        """Decode a record; raise UnknownRecord or CorruptRecord if the bytes are not one."""
        decoded = _FORMAT.decode(key, value)
        transactional_id = decoded.key.transactional_id  # type: ignore[attr-defined]
        if not isinstance(decoded.value, TransactionLogValue):
            return TransactionRecord(transactional_id, None)
        return TransactionRecord(transactional_id, from_value(transactional_id, decoded.value))


TRANSACTION_RECORDS = TransactionRecordFormat()


def to_value(transaction: Transaction) -> TransactionLogValue:
    """Return the value of a transactional id in the log."""
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=transaction.next_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_group_partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )


def _group_partitions(transaction: Transaction) -> list[TransactionLogPartitions] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [TransactionLogPartitions(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def from_value(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the transactional id of a value; raise CorruptRecord if its state is invalid."""
    if value.transaction_status not in STORED_STATES:
        raise CorruptRecord(f"transactional id {transactional_id} has the unknown state {value.transaction_status}")
    transaction = Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        client_version=value.client_transaction_version,
    )
    return replace(transaction, last_producer_epoch=_last_epoch(transaction))


def _last_epoch(transaction: Transaction) -> int:
    """Return the previous epoch if the record determines it: each end of KIP-890 raised it by one."""
    if transaction.client_version < CLIENT_VERSION_2 or transaction.state not in PREPARED | COMPLETE:
        return -1
    if transaction.state in PREPARED and transaction.next_producer_epoch < 0:
        return transaction.producer_epoch - 1
    epoch = transaction.identity.producer_epoch
    return epoch - 1 if epoch > 0 else PRODUCER_EPOCH_MAX - 1
