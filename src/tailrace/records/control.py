"""Control batches, which a broker writes to end transactions.

A control record's key is a version and a type; its value depends on the type. Later versions of
both may have more fields, and a reader of version 0 then reads the fields that it knows.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from tailrace.base.invariant import invariant
from tailrace.records.builder import BatchBuilder
from tailrace.records.error import CorruptBatch
from tailrace.records.record import Record

_KEY = Struct(">hh")
_END_TRANSACTION = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """Kafka's control types. Those after COMMIT belong to KRaft and never appear in a client's topic."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KNOWN_TYPES = {int(control_type): control_type for control_type in ControlType}


class EndTransactionMarker(NamedTuple):
    """The outcome of a transaction, and the epoch of the coordinator that decided it."""

    control_type: ControlType
    coordinator_epoch: int


def build_end_transaction_marker(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """Return the batch, with base offset 0, that ends a producer's transaction in one partition."""
    invariant(marker.control_type in (ControlType.ABORT, ControlType.COMMIT), "a transaction commits or aborts")
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
    builder.append(
        timestamp_ms,
        _KEY.pack(_VERSION, marker.control_type),
        _END_TRANSACTION.pack(_VERSION, marker.coordinator_epoch),
    )
    return builder.build()


def read_control_type(key: bytes | None) -> ControlType:
    """Return the type in a control record's key; UNKNOWN for types that this version does not know."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record has no type")
    version, type_id = _KEY.unpack_from(key)
    if version < _VERSION:
        raise CorruptBatch(f"a control record has the unknown version {version}")
    return _KNOWN_TYPES.get(type_id, ControlType.UNKNOWN)


def read_end_transaction_marker(record: Record) -> EndTransactionMarker:
    """Return the marker in a control record whose type is COMMIT or ABORT."""
    control_type = read_control_type(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise CorruptBatch(f"a control record of type {control_type.name} ends no transaction")
    if record.value is None or len(record.value) < _END_TRANSACTION.size:
        raise CorruptBatch("a transaction marker has no coordinator epoch")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value)
    if version < _VERSION:
        raise CorruptBatch(f"a transaction marker has the unknown version {version}")
    return EndTransactionMarker(control_type, coordinator_epoch)
