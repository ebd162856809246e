"""Folders go both ways: Apache Kafka's tools read ours, and we open what Kafka wrote."""

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from bench.kafka import ApacheKafka, Unavailable, kafka_classpath
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.unit.storage.compacting import append as keyed_append
from tests.unit.storage.compacting import batches, compact, end_transaction
from tests.unit.storage.workbench import Workbench

from tailrace.base.clock import SystemClock
from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.record import Record
from tailrace.storage.checkpoint import CLEANER_FILE_NAME, read_offsets
from tailrace.storage.folder_check import check_folder_files, check_partition, find_partitions
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

pytestmark = pytest.mark.slow

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000, producer_id_expiration_ms=2**60)
TOPIC = "from-kafka"
TRANSACTIONS = "transactions"
TRANSACTION_COUNT = 18
COMPACTED = "compacted"
COMPACTED_COUNT = 3000
COMPACTED_KEYS = 40
COUNT = 2000


def open_folder(path: Path) -> LogDir:
    return LogDir.open(RealFileSystem(), str(path), SystemClock(), lambda topic: CONFIG)


def dump(*arguments: str) -> str:
    """Run Kafka's DumpLogSegments."""
    try:
        classpath = kafka_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    command = classpath.command("org.apache.kafka.tools.DumpLogSegments", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def write_folder(path: Path) -> Log:
    log_dir = open_folder(path)
    log = log_dir.create("t", 0, UUID(int=5), CONFIG)
    for number in range(200):
        builder = BatchBuilder(list(Compression)[number % 5], producer_id=7, producer_epoch=0, base_sequence=number * 3)
        for place in range(3):
            builder.append(1_700_000_000_000 + number * 10 + place, b"key", b"value" * 10)
        data = bytearray(builder.build())
        log.append(data, read_header(data), number // 50)
    log_dir.close()
    return log


def write_transactions(path: Path) -> Log:
    """Two producers whose transactions overlap, end in both ways and span two segments; one stays open."""
    log_dir = open_folder(path)
    log = log_dir.create("t", 0, UUID(int=5), CONFIG)
    for number in range(12):
        for producer_id in (1, 2):
            builder = BatchBuilder(
                producer_id=producer_id, producer_epoch=0, base_sequence=number, is_transactional=True
            )
            builder.append(1_700_000_000_000 + number, b"key", b"value" * 200)
            append(log, builder.build())
        kind = ControlType.ABORT if number % 3 else ControlType.COMMIT
        if number < 11:
            append(log, end_marker(kind, 1 + number % 2))
            append(log, end_marker(ControlType.ABORT, 2 - number % 2))
    log_dir.close()
    return log


def end_marker(kind: ControlType, producer_id: int) -> bytes:
    marker = EndTransactionMarker(kind, coordinator_epoch=4)
    return build_end_transaction_marker(
        marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1_700_000_000_000
    )


def append(log: Log, batch: bytes) -> None:
    data = bytearray(batch)
    log.append(data, read_header(data), 0)


def test_kafka_s_tool_reads_what_transactions_leave(tmp_path: Path) -> None:
    log = write_transactions(tmp_path / "data")
    assert len(log.segments) == 2
    folder = tmp_path / "data" / "t-0"
    logs, indexes, transactions = (
        ",".join(str(file) for file in sorted(folder.glob(pattern)))
        for pattern in ("*.log", "*.*[a-z]index", "*.txnindex")
    )
    snapshot = folder / "00000000000000000046.snapshot"
    text = dump("--deep-iteration", "--print-data-log", "--files", f"{logs},{transactions},{snapshot}")
    assert "isvalid: false" not in text
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 4") == 18
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 4") == 4
    found = [line for line in text.splitlines() if line.startswith("version: 0 producerId: ")]
    assert found == [
        f"version: 0 producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
        f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
        for aborted in log.aborted_transactions(0, 100)
    ]
    assert len(found) == 18
    assert "producerId: 1 producerEpoch: 0 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong[44]" in text
    checked = dump("--verify-index-only", "--files", indexes)
    assert "Found timestamp mismatch" not in checked
    assert "Index position" not in checked
    assert "Mismatches" not in checked


def test_kafka_s_tool_reads_our_files(tmp_path: Path) -> None:
    log = write_folder(tmp_path / "data")
    assert len(log.segments) == 2
    folder = tmp_path / "data" / "t-0"
    logs = ",".join(str(file) for file in sorted(folder.glob("*.log")))
    # The tool tells indexes that do not fit their log when it reads both.
    indexes = ",".join(str(file) for file in sorted(folder.glob("*index")))
    text = dump("--deep-iteration", "--files", f"{logs},{indexes}")
    assert "isvalid: false" not in text
    assert "Mismatches" not in text
    offsets = [line for line in text.splitlines() if line.startswith("| offset: ")]
    assert len(offsets) == 600
    assert offsets[-1].startswith("| offset: 599 CreateTime: 1700000001992 ")
    for segment in log.segments:
        for entry in range(len(segment.offset_index)):
            place = f"offset: {segment.offset_index.offset(entry)} position: {segment.offset_index.position(entry)}"
            assert f"\n{place}\n" in text
    checked = dump("--index-sanity-check", "--files", indexes)
    assert checked.count("passed sanity check") == 4


def test_kafka_s_tool_reads_our_snapshot(tmp_path: Path) -> None:
    write_folder(tmp_path / "data")
    text = dump("--files", str(tmp_path / "data" / "t-0" / "00000000000000000600.snapshot"))
    assert "producerId: 7 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty" in text
    assert "firstSequence: 597 lastSequence: 599 lastOffset: 599 offsetDelta: 2 timestamp: 1700000001992" in text


@pytest.fixture(scope="module")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What Apache Kafka leaves of one topic after a clean stop."""
    path = tmp_path_factory.mktemp("kafka")
    try:
        kafka = ApacheKafka({"log.cleaner.backoff.ms": "100"}, data=path).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        settings = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(60)
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "batch.num.messages": 5}
        )
        for number in range(COUNT):
            value = b"%d " % number * 200
            producer.produce(TOPIC, value, partition=0, timestamp=1_700_000_000_000 + number * 3 % 1000)
        assert producer.flush(60) == 0
        make_transactions(kafka.bootstrap_servers, admin, settings)
        make_compacted(kafka, admin, settings)
    finally:
        kafka.stop()
    yield kafka.log_folder
    shutil.rmtree(path)


def make_transactions(servers: str, admin: AdminClient, settings: dict[str, str]) -> None:
    """Transactions of two producers in turn, every third aborted, over more than one segment."""
    admin.create_topics([NewTopic(TRANSACTIONS, 1, 1, config=settings)])[TRANSACTIONS].result(60)
    producers = [
        Producer({"bootstrap.servers": servers, "transactional.id": f"p{n}", "compression.type": "lz4"}) for n in (0, 1)
    ]
    for producer in producers:
        producer.init_transactions(30)
    for number in range(TRANSACTION_COUNT):
        producer = producers[number % 2]
        producer.begin_transaction()
        for part in range(5):
            value = random.Random(number * 5 + part).randbytes(20_000)
            producer.produce(TRANSACTIONS, value, partition=0, timestamp=1_700_000_000_000 + number)
        if number % 3 == 2:
            producer.flush(30)  # or nothing of it is ever sent
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def make_compacted(kafka: ApacheKafka, admin: AdminClient, settings: dict[str, str]) -> None:
    """A topic that Kafka has compacted at least once, with whole segments of which nothing is left."""
    settings = {**settings, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([NewTopic(COMPACTED, 1, 1, config=settings)])[COMPACTED].result(60)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.num.messages": 7})
    for number in range(COMPACTED_COUNT):
        key, value = b"key %d" % (number % COMPACTED_KEYS), b"%d " % number * 300
        producer.produce(COMPACTED, value if number % 7 else None, key, partition=0)
    assert producer.flush(60) == 0
    deadline = time.monotonic() + 60
    while not compacted_offset(kafka.log_folder):
        assert time.monotonic() < deadline, "Apache Kafka did not compact the topic"
        time.sleep(0.05)


def compacted_offset(log_folder: Path) -> int:
    return read_offsets(RealFileSystem(), str(log_folder / CLEANER_FILE_NAME)).get((COMPACTED, 0), 0)


def newest_of(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def check_compacted(bench: Workbench, log: Log) -> None:
    records = bench.records(log)
    assert [record.offset for record in records] == sorted({record.offset for record in records})
    assert len(records) < COMPACTED_COUNT
    assert log.log_end_offset == COMPACTED_COUNT
    values = {b"key %d" % (n % COMPACTED_KEYS): b"%d " % n * 300 if n % 7 else None for n in range(COMPACTED_COUNT)}
    assert newest_of(records) == values


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_kafka_compacted_is_read_with_and_without_its_checkpoints(
    bench: Workbench, kafka_folder: Path, tmp_path: Path, is_lost: bool
) -> None:
    """Between the segments that Kafka compacted there are gaps, mostly, which are no lost tails.

    There are none when its cleaner ran at certain moments, so nobody can ask for them here.
    """
    data = copy_topic(kafka_folder, tmp_path / "data", COMPACTED)
    config = replace(CONFIG, cleanup_policy_compact=True)
    if is_lost:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", CLEANER_FILE_NAME):
            (data / name).unlink()
    log_dir = LogDir.open(RealFileSystem(), str(data), SystemClock(), lambda _: config)
    log = log_dir.logs[COMPACTED, 0]
    assert log.cleaner_offset == (None if is_lost else compacted_offset(kafka_folder))
    check_compacted(bench, log)
    log.roll()
    compact(log, now_ms=SystemClock().now_ms())
    check_compacted(bench, log)
    assert len(bench.records(log)) == COMPACTED_KEYS
    log_dir.close()
    check_dump(data / f"{COMPACTED}-0")


def check_dump(folder: Path) -> None:
    """Neither Kafka's tool nor ours has a complaint about what compaction left."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".log", ".index", ".timeindex", ".txnindex"))
    text = dump("--deep-iteration", "--files", ",".join(map(str, files)))
    assert "isvalid: false" not in text
    assert "Mismatches" not in text
    assert "Found timestamp mismatch" not in text
    fs = RealFileSystem()
    assert list(check_partition(fs, str(folder), lambda: None, lambda *_: None)) == []


def test_kafka_s_tool_reads_what_our_compaction_leaves(tmp_path: Path) -> None:
    config = replace(CONFIG, cleanup_policy_compact=True, segment_bytes=8000)
    log_dir = LogDir.open(RealFileSystem(), str(tmp_path / "data"), SystemClock(), lambda _: config)
    log = log_dir.create("t", 0, UUID(int=5), config)
    for number in range(300):
        pairs = [(b"%d" % (number * 2 % 14 + part), b"value" * 20 if number % 5 else None) for part in range(2)]
        producer = (number % 3, 0, number // 3 * 2)
        if number % 10 < 3:
            keyed_append(log, *pairs, compression=list(Compression)[number % 5])
        else:
            keyed_append(log, *pairs, producer=producer, is_transactional=True)
            if number % 10 > 6:
                end_transaction(log, number % 3, ControlType.ABORT if number % 20 > 10 else ControlType.COMMIT)
    for producer_id in range(3):
        end_transaction(log, producer_id, ControlType.ABORT)
    log.roll()
    for _ in range(2):
        keyed_append(log, (b"0", b"last"))
        log.roll()
        compact(log, now_ms=SystemClock().now_ms())
    assert sum(len(records) == 0 for _, records in batches(log)) > 0
    log_dir.close()
    check_dump(tmp_path / "data" / "t-0")


def copy_topic(kafka_folder: Path, target: Path, topic: str = TOPIC) -> Path:
    target.mkdir()
    for entry in kafka_folder.iterdir():
        if entry.name == f"{topic}-0":
            shutil.copytree(entry, target / entry.name)
        elif entry.is_file() and entry.name != ".lock":
            shutil.copy(entry, target / entry.name)
    return target


def check_records(bench: Workbench, log: Log) -> None:
    records = bench.records(log)
    assert [record.offset for record in records] == list(range(COUNT))
    assert all(record.value == b"%d " % record.offset * 200 for record in records)
    target = 1_700_000_000_500
    expected = next(record for record in records if record.timestamp >= target)
    found = log.offset_for_timestamp(target)
    assert found is not None
    assert (found.timestamp, found.offset) == (expected.timestamp, expected.offset)


def test_a_folder_that_kafka_closed_opens_without_a_scan(bench: Workbench, kafka_folder: Path, tmp_path: Path) -> None:
    log_dir = open_folder(copy_topic(kafka_folder, tmp_path / "data"))
    assert log_dir.was_clean
    log = log_dir.logs[TOPIC, 0]
    assert len(log.segments) > 1
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, COUNT, COUNT)
    assert log.latest_epoch == 0
    assert log_dir.topic_ids[TOPIC, 0].version is not None
    (entry,) = log.producers.entries.values()
    assert entry.last_sequence == COUNT - 1
    check_records(bench, log)
    log_dir.close()


def test_our_indexes_are_kafka_s_byte_for_byte(bench: Workbench, kafka_folder: Path, tmp_path: Path) -> None:
    data = copy_topic(kafka_folder, tmp_path / "data")
    theirs = {file.name: file.read_bytes() for file in (data / f"{TOPIC}-0").glob("*index")}
    assert sum(len(contents) for contents in theirs.values()) > 1000
    for name in theirs:
        (data / f"{TOPIC}-0" / name).unlink()
    (data / ".kafka_cleanshutdown").unlink()
    (data / "recovery-point-offset-checkpoint").unlink()
    log_dir = open_folder(data)
    assert not log_dir.was_clean
    check_records(bench, log_dir.logs[TOPIC, 0])
    log_dir.close()
    ours = {file.name: file.read_bytes() for file in (data / f"{TOPIC}-0").glob("*index")}
    assert ours == {name: contents for name, contents in theirs.items() if not name.endswith(".txnindex")}


def test_transactions_that_kafka_wrote_are_read_and_made_anew(kafka_folder: Path, tmp_path: Path) -> None:
    """What a clean start reads from Kafka's files and what a scan makes of the log are the same, and Kafka's own."""
    data = copy_topic(kafka_folder, tmp_path / "clean", TRANSACTIONS)
    theirs = {file.name: file.read_bytes() for file in (data / f"{TRANSACTIONS}-0").glob("*.txnindex")}
    log_dir = open_folder(data)
    log = log_dir.logs[TRANSACTIONS, 0]
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(log.segments) > 1
    assert len(aborted) == TRANSACTION_COUNT // 3
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    entries = producer_fields(log)
    assert len(entries) == 2
    log_dir.close()

    scanned = copy_topic(kafka_folder, tmp_path / "scanned", TRANSACTIONS)
    for file in (scanned / f"{TRANSACTIONS}-0").iterdir():
        if file.suffix in (".index", ".timeindex", ".txnindex", ".snapshot") or file.name == "leader-epoch-checkpoint":
            file.unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (scanned / name).unlink()
    log_dir = open_folder(scanned)
    again = log_dir.logs[TRANSACTIONS, 0]
    assert again.log_end_offset == log.log_end_offset
    assert again.aborted_transactions(0, again.log_end_offset) == aborted
    assert again.epochs.starts == log.epochs.starts
    assert producer_fields(again) == entries
    log_dir.close()
    ours = {file.name: file.read_bytes() for file in (scanned / f"{TRANSACTIONS}-0").glob("*.txnindex")}
    assert ours == {name: contents for name, contents in theirs.items() if contents}


def producer_fields(log: Log) -> dict[int, tuple[object, ...]]:
    """What a snapshot keeps of each producer."""
    return {
        entry.producer_id: (
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.current_txn_first_offset,
            entry.last_sequence,
        )
        for entry in log.producers.entries.values()
    }


def test_nothing_is_wrong_with_what_kafka_wrote(kafka_folder: Path) -> None:
    fs = RealFileSystem()
    partitions = find_partitions(fs, str(kafka_folder))
    names = {Path(partition).name for partition in partitions}
    assert {f"{TOPIC}-0", f"{TRANSACTIONS}-0", "__transaction_state-0", "__cluster_metadata-0"} <= names
    record_count = 0

    def tell(_size_bytes: int, count: int) -> None:
        nonlocal record_count
        record_count += count

    findings = list(check_folder_files(fs, str(kafka_folder)))
    for partition in partitions:
        findings += check_partition(fs, partition, lambda: None, tell)
    assert findings == []
    assert record_count > COUNT
