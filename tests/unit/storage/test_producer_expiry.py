"""A producer is forgotten when it has been silent for long, whatever the timestamps of its records are.

A producer that loads old data writes records with old timestamps. It was forgotten at the next look and in each
restart, and what it repeated after that was written twice.
"""

import pytest
from tests.unit.storage.workbench import START_MS, Workbench

from tailrace.records.batch import BatchHeader, read_header
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producer_snapshot import decode_snapshot, snapshot_path
from tailrace.storage.producer_state import ProducerState

EXPIRATION_MS = 100_000
CONFIG = LogConfig(producer_id_expiration_ms=EXPIRATION_MS)
OLD_MS = 5


def late_batch(bench: Workbench, timestamp_ms: int = OLD_MS) -> tuple[bytearray, BatchHeader]:
    return bench.batch(b"v", timestamps=(timestamp_ms,), producer_id=7, producer_epoch=0, base_sequence=0)


def written(bench: Workbench, timestamp_ms: int = OLD_MS) -> Log:
    """A log with one batch, which was written at START_MS."""
    bench.clock.time_ms = START_MS
    log = bench.open(CONFIG)
    data, header = late_batch(bench, timestamp_ms)
    log.append(data, header, 0)
    return log


def knows_producer(bench: Workbench, log: Log) -> bool:
    return log.producers.check(late_batch(bench)[1]) is not None


def test_a_producer_of_old_records_is_known_until_it_is_silent(bench: Workbench) -> None:
    log = written(bench)
    assert log.producers.expire(START_MS + EXPIRATION_MS - 1) == 0
    assert knows_producer(bench, log)
    assert log.producers.expire(START_MS + EXPIRATION_MS) == 1


def test_records_of_the_future_count_by_their_timestamps(bench: Workbench) -> None:
    log = written(bench, START_MS + 10)
    assert log.producers.expire(START_MS + EXPIRATION_MS) == 0
    assert log.producers.expire(START_MS + 10 + EXPIRATION_MS) == 1


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_producer_of_old_records_is_known_after_a_restart(bench: Workbench, is_clean: bool) -> None:
    log = written(bench)
    if is_clean:
        log.close()
    bench.clock.time_ms += EXPIRATION_MS - 1
    again = bench.open(CONFIG, recovery_point=1 if is_clean else 0, is_clean=is_clean)
    assert knows_producer(bench, again)
    assert again.producers.expire(bench.clock.time_ms) == 0


def test_a_silent_producer_of_old_records_is_not_known_after_a_restart(bench: Workbench) -> None:
    written(bench).close()
    bench.clock.time_ms += EXPIRATION_MS
    assert not knows_producer(bench, bench.open(CONFIG, recovery_point=1, is_clean=True))


def test_a_producer_of_old_records_is_known_after_a_truncation(bench: Workbench) -> None:
    log = written(bench)
    log.roll()
    data, _ = bench.batch(b"w")
    log.append(data, read_header(data), 0)
    log.truncate_to(1)
    assert knows_producer(bench, log)


@pytest.mark.parametrize(
    ("timestamp_ms", "kept_ms"),
    [(START_MS - EXPIRATION_MS // 100, START_MS - EXPIRATION_MS // 100), (OLD_MS, START_MS)],
)
def test_a_snapshot_has_kafka_s_timestamp_unless_the_batch_was_late(
    bench: Workbench, timestamp_ms: int, kept_ms: int
) -> None:
    written(bench, timestamp_ms).close()
    (entry,) = decode_snapshot(bench.fs.read_file(snapshot_path(bench.directory, 1)) or b"")
    assert entry.last_timestamp == kept_ms


def test_without_a_time_the_timestamp_counts(bench: Workbench) -> None:
    state = ProducerState(EXPIRATION_MS)
    state.replay(late_batch(bench)[1], 0, b"")
    assert state.expire(OLD_MS + EXPIRATION_MS) == 1
