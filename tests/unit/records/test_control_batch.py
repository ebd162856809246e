"""Transaction markers as Kafka writes them."""

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.records.batch import check_crc, read_header
from tailrace.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    read_control_type,
    read_end_transaction_marker,
)
from tailrace.records.error import CorruptBatch
from tailrace.records.record import Record, read_records

COMMIT = EndTransactionMarker(ControlType.COMMIT, 12)


@pytest.mark.parametrize("control_type", [ControlType.COMMIT, ControlType.ABORT])
def test_marker_round_trip(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 12)
    batch = build_end_transaction_marker(marker, producer_id=4, producer_epoch=2, timestamp_ms=1_000)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, -1)
    (record,) = read_records(batch)
    assert record.timestamp == 1_000
    assert read_end_transaction_marker(record) == marker


def test_marker_bytes() -> None:
    batch = build_end_transaction_marker(COMMIT, producer_id=4, producer_epoch=2, timestamp_ms=0)
    (record,) = read_records(batch)
    assert record.key == bytes.fromhex("0000 0001")
    assert record.value == bytes.fromhex("0000 0000000c")


def test_other_libraries_see_a_marker() -> None:
    from aiokafka.record.default_records import DefaultRecordBatch

    batch = DefaultRecordBatch(build_end_transaction_marker(COMMIT, producer_id=4, producer_epoch=2, timestamp_ms=0))
    assert batch.is_control_batch
    assert batch.is_transactional
    assert [record.key for record in batch] == [b"\x00\x00\x00\x01"]


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(InvariantError):
        build_end_transaction_marker(
            EndTransactionMarker(ControlType.LEADER_CHANGE, 0), producer_id=4, producer_epoch=2, timestamp_ms=0
        )


def test_later_versions_are_read_for_the_fields_that_are_known() -> None:
    assert read_control_type(bytes.fromhex("0005 0001 ffff")) is ControlType.COMMIT
    record = Record(0, 0, bytes.fromhex("0005 0000"), bytes.fromhex("0007 00000009 ff"), ())
    assert read_end_transaction_marker(record) == EndTransactionMarker(ControlType.ABORT, 9)


def test_types_that_are_not_known() -> None:
    assert read_control_type(bytes.fromhex("0000 0063")) is ControlType.UNKNOWN
    assert read_control_type(bytes.fromhex("0000 0002")) is ControlType.LEADER_CHANGE


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", bytes.fromhex("ffff 0001")])
def test_keys_that_are_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read_control_type(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0000 0001", None),
        ("0000 0001", "0000 000000"),
        ("0000 0001", "ffff 00000000"),
        ("0000 0002", "0000 00000000"),
        ("0000 0063", "0000 00000000"),
    ],
)
def test_markers_that_are_corrupt(key: str, value: str | None) -> None:
    record = Record(0, 0, bytes.fromhex(key), None if value is None else bytes.fromhex(value), ())
    with pytest.raises(CorruptBatch):
        read_end_transaction_marker(record)
