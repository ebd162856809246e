"""Producer snapshots in Kafka's format."""

import pytest
from crc32c import crc32c
from tests.unit.storage.workbench import Workbench

from tailrace.base.sentinel import INT32_MAX
from tailrace.storage.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    load_newest_snapshot,
    remove_snapshots,
    snapshot_offsets,
    write_snapshot,
)
from tailrace.storage.producer_state import ProducerState

DIRECTORY = "/data/t-0"


@pytest.fixture
def state(bench: Workbench) -> ProducerState:
    state = ProducerState(expiration_ms=10_000)
    state.replay(bench.header(0, count=3, producer_id=9), 100, b"")
    state.replay(bench.header(3, count=2, producer_id=9), 103, b"")
    return state


def test_the_bytes_are_kafka_s(state: ProducerState) -> None:
    body = bytes.fromhex(
        "00000001"  # one producer
        "0000000000000009 0000"  # id and epoch
        "00000004 0000000000000068 00000001"  # last sequence 4, last offset 104, delta 1
        "00000000000f4240 ffffffff ffffffffffffffff"  # timestamp, no coordinator, no transaction
    )
    assert encode_snapshot(state) == b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body


def test_the_last_batch_of_each_producer_comes_back(bench: Workbench, state: ProducerState) -> None:
    loaded = ProducerState(expiration_ms=10_000)
    loaded.entries = {entry.producer_id: entry for entry in decode_snapshot(encode_snapshot(state))}
    duplicate = loaded.check(bench.header(3, count=2, producer_id=9))
    assert duplicate is not None
    assert (duplicate.base_offset, duplicate.last_offset) == (103, 104)
    assert loaded.check(bench.header(5, producer_id=9)) is None
    assert encode_snapshot(loaded) == encode_snapshot(state)


def test_a_wrapped_sequence_comes_back(bench: Workbench) -> None:
    state = ProducerState(expiration_ms=10_000)
    state.replay(bench.header(INT32_MAX, count=3), 0, b"")
    (entry,) = decode_snapshot(encode_snapshot(state))
    assert entry.batches[0].base_sequence == INT32_MAX
    assert entry.batches[0].last_sequence == 1


def test_an_open_transaction_comes_back(bench: Workbench) -> None:
    state = ProducerState(expiration_ms=10_000)
    _, header = bench.batch(b"v", producer_id=2, producer_epoch=5, base_sequence=0, is_transactional=True)
    state.replay(header, 77, b"")
    (entry,) = decode_snapshot(encode_snapshot(state))
    assert (entry.producer_epoch, entry.current_txn_first_offset) == (5, 77)


def test_no_producers_make_ten_bytes() -> None:
    data = encode_snapshot(ProducerState(expiration_ms=1))
    assert len(data) == 10
    assert decode_snapshot(data) == []


def test_every_prefix_and_every_flipped_bit_is_noticed(state: ProducerState) -> None:
    data = encode_snapshot(state)
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:size])
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(flipped))
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(data + b"\0")


def test_the_newest_good_snapshot_in_range_is_loaded(bench: Workbench, state: ProducerState) -> None:
    now_ms = bench.clock.time_ms
    for offset in (10, 20, 30, 40):
        write_snapshot(bench.fs, DIRECTORY, offset, state)
    bench.fs.write_file(f"{DIRECTORY}/{30:020d}.snapshot", b"torn")
    loaded = ProducerState(expiration_ms=10_000)
    assert load_newest_snapshot(bench.fs, DIRECTORY, loaded, first=10, last=39, now_ms=now_ms) == 20
    assert list(loaded.entries) == [9]
    assert snapshot_offsets(bench.fs, DIRECTORY) == [10, 20, 40]
    empty = ProducerState(expiration_ms=10_000)
    assert load_newest_snapshot(bench.fs, DIRECTORY, empty, first=11, last=15, now_ms=now_ms) == 11
    assert empty.entries == {}


def test_a_snapshot_at_the_start_of_a_log_is_loaded(bench: Workbench, state: ProducerState) -> None:
    """It has the producers whose batches are all deleted. They were forgotten when a log with records was truncated."""
    write_snapshot(bench.fs, DIRECTORY, 10, state)
    loaded = ProducerState(expiration_ms=10_000)
    assert load_newest_snapshot(bench.fs, DIRECTORY, loaded, first=10, last=15, now_ms=bench.clock.time_ms) == 10
    assert list(loaded.entries) == [9]


def test_a_snapshot_at_the_end_of_an_empty_log_is_loaded(bench: Workbench, state: ProducerState) -> None:
    now_ms = bench.clock.time_ms
    for offset in (10, 20):
        write_snapshot(bench.fs, DIRECTORY, offset, state)
    for first, known in ((20, [9]), (21, [])):
        loaded = ProducerState(expiration_ms=10_000)
        assert load_newest_snapshot(bench.fs, DIRECTORY, loaded, first=first, last=first, now_ms=now_ms) == first
        assert list(loaded.entries) == known


def test_expired_producers_are_not_loaded(bench: Workbench, state: ProducerState) -> None:
    write_snapshot(bench.fs, DIRECTORY, 10, state)
    loaded = ProducerState(expiration_ms=10_000)
    later_ms = bench.clock.time_ms + 10_000
    assert load_newest_snapshot(bench.fs, DIRECTORY, loaded, first=0, last=10, now_ms=later_ms) == 10
    assert loaded.entries == {}


def test_snapshots_out_of_range_are_removed(bench: Workbench, state: ProducerState) -> None:
    for offset in (10, 20, 30, 40):
        write_snapshot(bench.fs, DIRECTORY, offset, state)
    remove_snapshots(bench.fs, DIRECTORY, below=20, above=30)
    assert snapshot_offsets(bench.fs, DIRECTORY) == [20, 30]
