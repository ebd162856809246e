"""Folders go both ways: Apache Kafka's tools read ours, and we open what Kafka wrote."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from bench.kafka import ApacheKafka, Unavailable, kafka_classpath
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from runnel.base.clock import SystemClock
from runnel.records.batch import read_header
from runnel.records.builder import BatchBuilder
from runnel.records.compression import Compression
from runnel.storage.fs import RealFileSystem
from runnel.storage.log import Log
from runnel.storage.log_config import LogConfig
from runnel.storage.log_dir import LogDir

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000, producer_id_expiration_ms=2**60)
TOPIC = "from-kafka"
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
        kafka = ApacheKafka(data=path).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        settings = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(30)
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "batch.num.messages": 5}
        )
        for number in range(COUNT):
            value = b"%d " % number * 200
            producer.produce(TOPIC, value, partition=0, timestamp=1_700_000_000_000 + number * 3 % 1000)
        assert producer.flush(60) == 0
    finally:
        kafka.stop()
    yield kafka.log_folder
    shutil.rmtree(path)


def copy_topic(kafka_folder: Path, target: Path) -> Path:
    target.mkdir()
    for entry in kafka_folder.iterdir():
        if entry.name == f"{TOPIC}-0":
            shutil.copytree(entry, target / entry.name)
        elif entry.is_file() and entry.name != ".lock":
            shutil.copy(entry, target / entry.name)
    return target


def check_records(bench, log: Log) -> None:
    records = bench.records(log)
    assert [record.offset for record in records] == list(range(COUNT))
    assert all(record.value == b"%d " % record.offset * 200 for record in records)
    target = 1_700_000_000_500
    expected = next(record for record in records if record.timestamp >= target)
    found = log.offset_for_timestamp(target)
    assert found is not None
    assert (found.timestamp, found.offset) == (expected.timestamp, expected.offset)


def test_a_folder_that_kafka_closed_opens_without_a_scan(bench, kafka_folder: Path, tmp_path: Path) -> None:
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


def test_our_indexes_are_kafka_s_byte_for_byte(bench, kafka_folder: Path, tmp_path: Path) -> None:
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
