"""Batches from other batches: what stays of the header, and what becomes of timestamps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.records.batch import (
    TimestampType,
    assign_offsets,
    check_crc,
    read_header,
    set_log_append_time,
)
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.offset_map import KeptRecords
from tailrace.records.record import read_records
from tailrace.records.rewrite import empty_batch, open_body, rewrite_batch

timestamps = st.lists(st.one_of(st.just(-1), st.integers(0, 2**62)), min_size=1, max_size=6)


def make(times: list[int], compression: Compression = Compression.NONE) -> bytearray:
    builder = BatchBuilder(compression, producer_id=7, producer_epoch=3, base_sequence=40, is_transactional=True)
    for number, timestamp in enumerate(times):
        builder.append(timestamp, b"key %d" % number, None if number % 2 else b"value", [("h", None)])
    batch = bytearray(builder.build())
    assign_offsets(batch, 0, 1000, 5)
    return batch


def rewrite(batch: bytearray, horizon_ms: int | None) -> bytearray:
    header = read_header(batch)
    kept = KeptRecords(header.record_count, True, header.max_timestamp, None)
    rewritten = rewrite_batch(header, open_body(batch, header), kept, horizon_ms)
    assert check_crc(rewritten, 0, read_header(rewritten))
    return rewritten


@given(times=timestamps, horizon_ms=st.integers(0, 2**63 - 1), compression=st.sampled_from(Compression))
def test_a_delete_horizon_changes_no_record(times: list[int], horizon_ms: int, compression: Compression) -> None:
    batch = make(times, compression)
    rewritten = rewrite(batch, horizon_ms)
    header = read_header(rewritten)
    assert header.delete_horizon_ms == horizon_ms
    assert header.max_timestamp == max(times)
    assert header.compression is compression
    assert list(read_records(rewritten)) == list(read_records(batch))


@pytest.mark.parametrize("horizon_ms", [None, 99])
def test_the_time_of_the_broker_stays(horizon_ms: int | None) -> None:
    batch = make([10, 20])
    set_log_append_time(batch, 0, 7777)
    rewritten = rewrite(batch, horizon_ms)
    header = read_header(rewritten)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 7777)
    assert [record.timestamp for record in read_records(rewritten)] == [7777, 7777]


def test_an_empty_batch_keeps_its_offsets_and_its_producer() -> None:
    batch = rewrite(make([10, 20, 30], Compression.ZSTD), 99)
    emptied = empty_batch(read_header(batch))
    header = read_header(emptied)
    assert check_crc(emptied, 0, header)
    assert list(read_records(emptied)) == []
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (1000, 1002, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 3, 40, 42)
    assert (header.is_transactional, header.max_timestamp, header.base_timestamp) == (True, 30, -1)
    assert (header.compression, header.has_delete_horizon, header.record_count) == (Compression.NONE, False, 0)
