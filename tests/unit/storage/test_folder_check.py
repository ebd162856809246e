"""`check_partition`: says nothing of a good folder, and finds what is wrong with a bad one."""

from struct import pack
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.record import read_batches
from tailrace.storage.finding import Finding
from tailrace.storage.folder_check import check_folder_files, check_partition, find_partitions
from tailrace.storage.fs import FileSystem
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.transaction_index import ENTRY_SIZE

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=100)


class Clock:
    def now_ms(self) -> int:
        return 1000

    def monotonic_ms(self) -> int:
        return 1000


def append(log: Log, data: bytes, leader_epoch: int) -> None:
    batch = bytearray(data)
    log.append(batch, read_header(batch), leader_epoch)


def write(log: Log, number: int, leader_epoch: int) -> None:
    """A batch of its kind: plain, compressed, idempotent, and of transactions that end in both ways."""
    codec = list(Compression)[number % 5]
    builder = BatchBuilder(codec, producer_id=7, producer_epoch=0, base_sequence=number * 2)
    if number % 4 == 1:
        builder = BatchBuilder(producer_id=9, producer_epoch=0, base_sequence=number, is_transactional=True)
    for place in range(2):
        builder.append(5000 + number * 7 % 40 + place, b"k", b"v" * 20)
    append(log, builder.build(), leader_epoch)
    if number % 4 == 2:
        kind = ControlType.ABORT if number % 8 == 2 else ControlType.COMMIT
        marker = build_end_transaction_marker(
            EndTransactionMarker(kind, 0), producer_id=9, producer_epoch=0, timestamp_ms=5000
        )
        append(log, marker, leader_epoch)


def make_folder(*, is_closed: bool = True) -> tuple[MemoryFileSystem, LogDir]:
    """A folder with one log of three segments, stopped or in use."""
    fs = MemoryFileSystem()
    log_dir = LogDir.open(fs, "/data", Clock(), lambda _topic: CONFIG)
    log = log_dir.create("t", 0, UUID(int=5), CONFIG)
    for number in range(24):
        write(log, number, number // 9)
    if is_closed:
        log_dir.close()
    return fs, log_dir


def check(fs: FileSystem, directory: str = DIRECTORY) -> list[Finding]:
    return list(check_partition(fs, directory, lambda: None, lambda *_: None))


def names(fs: FileSystem, *suffixes: str) -> list[str]:
    return sorted(entry.name for entry in fs.list_directory(DIRECTORY) if entry.name.endswith(suffixes))


def flip(fs: FileSystem, name: str, position: int, bit: int) -> int:
    """Flip a bit of a file and return the position of its byte."""
    path = f"{DIRECTORY}/{name}"
    data = bytearray(fs.read_file(path) or b"")
    position %= len(data)
    data[position] ^= 1 << bit
    fs.write_file(path, data)
    return position


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_good_folder_has_no_findings(is_closed: bool) -> None:
    fs, _ = make_folder(is_closed=is_closed)
    assert len(names(fs, ".log")) == 3
    assert len(names(fs, ".txnindex")) >= 2
    assert check(fs) == []
    assert list(check_folder_files(fs, "/data")) == []


def test_what_was_looked_at_is_told() -> None:
    fs, log_dir = make_folder()
    told = []
    list(check_partition(fs, DIRECTORY, lambda: None, lambda *counts: told.append(counts)))
    log = log_dir.logs["t", 0]
    assert tuple(map(sum, zip(*told, strict=True))) == (log.size_bytes, log.log_end_offset)


@settings(max_examples=200, deadline=None)
@given(number=st.integers(0, 2), position=st.integers(0, 99_999), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_in_a_segment_is_found_by_file_and_offset(number: int, position: int, bit: int) -> None:
    fs, _ = make_folder()
    name = names(fs, ".log")[number]
    batches = list(read_batches(fs.read_file(f"{DIRECTORY}/{name}") or b""))
    position = flip(fs, name, position, bit)
    start, header = next(found for found in reversed(batches) if found[0] <= position)
    found = {(finding.path, finding.position, finding.offset) for finding in check(fs)}
    assert found == {(f"{DIRECTORY}/{name}", start, header.base_offset)}


@settings(max_examples=200, deadline=None)
@given(data=st.data(), position=st.integers(0, 99_999), bit=st.integers(0, 7))
def test_a_flipped_bit_in_an_index_or_a_snapshot_is_found(data: st.DataObject, position: int, bit: int) -> None:
    fs, _ = make_folder()
    name = data.draw(st.sampled_from(names(fs, ".timeindex", ".txnindex", ".snapshot")))
    position = flip(fs, name, position, bit)
    findings = check(fs)
    if name.endswith(".timeindex") and position % 12 == 11 and not findings:
        return  # another offset up to which nothing is newer, which is as true
    assert f"{DIRECTORY}/{name}" in [finding.path for finding in findings]


def test_offset_index_entries_have_to_be_true() -> None:
    """All but those with the last offset of a later batch, which older versions of Kafka wrote; they mislead nobody."""
    fs, _ = make_folder()
    name = names(fs, ".index")[0]
    path = f"{DIRECTORY}/{name}"
    good = fs.read_file(path) or b""
    for at in range(len(good)):
        for wrong in (good[at] ^ 0x80, good[at] ^ 0x04):
            fs.write_file(path, good[:at] + bytes([wrong]) + good[at + 1 :])
            findings = check(fs)
            if at % 8 == 3 and not findings:
                continue
            assert {finding.path for finding in findings} == {path}, (at, findings)
    fs.write_file(path, good[:-3])
    assert [str(finding) for finding in check(fs)] == [f"{path}: 5 bytes at the end are not a whole entry"]
    fs.write_file(path, good + bytes(80))  # the room that Kafka leaves for entries
    assert check(fs) == []


def test_a_lost_index_is_found_and_a_lost_time_index_that_ends_early() -> None:
    fs, _ = make_folder()
    first, time_index = names(fs, ".index")[0], names(fs, ".timeindex")[0]
    path = f"{DIRECTORY}/{time_index}"
    good = fs.read_file(path) or b""
    fs.remove(f"{DIRECTORY}/{first}")
    fs.write_file(path, good[:-12])
    assert [(finding.path, finding.text.split(",")[0]) for finding in check(fs)] == [
        (f"{DIRECTORY}/{first}", "missing"),
        (path, "ends with timestamp 5029"),
    ]


@pytest.mark.parametrize("room_count", [0, 3])
def test_an_entry_of_zeros_may_be_the_first_offset_with_timestamp_0(room_count: int) -> None:
    """It was taken for room that Kafka leaves for entries, and the index said to end too early."""
    fs = MemoryFileSystem()
    log_dir = LogDir.open(fs, "/data", Clock(), lambda _topic: CONFIG)
    log = log_dir.create("t", 0, UUID(int=5), CONFIG)
    builder = BatchBuilder()
    builder.append(0, b"k", b"v")
    append(log, builder.build(), 0)
    log_dir.close()
    (name,) = names(fs, ".timeindex")
    path = f"{DIRECTORY}/{name}"
    assert fs.read_file(path) == bytes(12)
    fs.write_file(path, bytes(12 * (1 + room_count)))
    assert check(fs) == []
    if not room_count:
        fs.write_file(path, b"")
        assert [finding.text for finding in check(fs)] == [
            "ends with timestamp -1, but the largest in the segment is 0"
        ]


def test_aborted_transactions_that_are_missing_or_made_up_are_found() -> None:
    fs, _ = make_folder()
    path = f"{DIRECTORY}/{names(fs, '.txnindex')[0]}"
    good = fs.read_file(path) or b""
    fs.write_file(path, good[ENTRY_SIZE:])
    (finding,) = check(fs)
    assert finding.path == path
    assert "is missing" in finding.text
    fs.write_file(path, good + pack(">hqqqq", 0, 9, 13, 14, 15))
    (finding,) = check(fs)
    assert (finding.path, finding.offset) == (path, 14)


def test_epochs_have_to_agree() -> None:
    fs, _ = make_folder()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    good = (fs.read_file(path) or b"").decode()
    assert good.splitlines()[1:3] == ["3", "0 0"]
    fs.write_file(path, good.replace("\n1 ", "\n5 ").encode())
    texts = [finding.text for finding in check(fs)]
    assert "epoch 2 at 40 follows epoch 5 at 20" in texts
    fs.write_file(path, b"0\n7\n0 0\n")
    assert any("not a valid checkpoint" in finding.text for finding in check(fs))
    fs.remove(path)
    assert check(fs) == [Finding(path, "missing")]


def test_names_have_to_be_those_of_segments() -> None:
    fs, _ = make_folder()
    fs.write_file(f"{DIRECTORY}/7.log", b"")
    fs.write_file(f"{DIRECTORY}/00000000000000000007.timeindex", b"")
    assert {(finding.path, finding.text) for finding in check(fs)} == {
        (f"{DIRECTORY}/7.log", "the name is not that of a segment, which is an offset of 20 digits"),
        (f"{DIRECTORY}/00000000000000000007.timeindex", "the log file of this index is missing"),
    }


def test_a_segment_under_another_name_is_found() -> None:
    fs, _ = make_folder()
    last = names(fs, ".log")[-1]
    for name in ("0" + "9" * 19, "9" * 20):
        fs.rename(f"{DIRECTORY}/{last}", f"{DIRECTORY}/{name}.log")
        last = f"{name}.log"
        assert any(finding.path == f"{DIRECTORY}/{last}" for finding in check(fs))


def test_a_torn_tail_is_found_unless_somebody_is_writing_it() -> None:
    fs, log_dir = make_folder(is_closed=False)
    path = f"{DIRECTORY}/{names(fs, '.log')[-1]}"
    file = fs.open(path)
    size = file.size_bytes()
    batch = file.read_at(list(read_batches(file.read_at(0, size)))[-1][0], size)
    whole = bytearray(batch)
    whole[:8] = log_dir.logs["t", 0].log_end_offset.to_bytes(8, "big")
    file.write_at(whole[:70], size)
    (finding,) = check(fs)
    assert (finding.path, finding.position, finding.offset) == (path, size, log_dir.logs["t", 0].log_end_offset)
    assert finding.text == f"the file holds 70 of the {len(whole)} bytes of a batch"
    writing = check_partition(fs, DIRECTORY, lambda: file.write_at(whole, size), lambda *_: None)
    assert writing == []


def test_the_files_of_the_folder_are_read() -> None:
    fs, log_dir = make_folder()
    end_offset = log_dir.logs["t", 0].log_end_offset
    point = "/data/recovery-point-offset-checkpoint"
    fs.write_file(point, f"0\n1\nt 0 {end_offset - 1}\n".encode())
    assert f"in a segment that ends at {end_offset - 1}" in check(fs)[0].text
    fs.write_file(point, f"0\n1\nt 0 {end_offset + 1}\n".encode())
    assert check(fs) == [Finding(point, f"t-0: offset {end_offset + 1} is after the end of the log at {end_offset}")]
    fs.write_file(point, b"0\n2\nt 0 5\n")
    assert [finding.path for finding in check_folder_files(fs, "/data")] == [point]
    fs.write_file(point, b"0\n1\nt 0 -5\n")
    assert [finding.path for finding in check_folder_files(fs, "/data")] == [point]


def test_partitions_are_found_in_both_kinds_of_folders() -> None:
    fs, _ = make_folder()
    fs.make_directory("/data/t-0.0123-delete")
    fs.make_directory("/data/lost+found")
    assert find_partitions(fs, "/data") == [DIRECTORY]
    assert find_partitions(fs, DIRECTORY) == [DIRECTORY]


def test_a_partition_that_is_deleted_meanwhile_is_no_finding() -> None:
    fs, _ = make_folder()
    assert check(fs, "/data/gone-0") == []


def test_gaps_of_compaction_are_no_findings() -> None:
    fs, log_dir = make_folder()
    segment = log_dir.logs["t", 0].segments[0]
    path = f"{DIRECTORY}/{names(fs, '.log')[0]}"
    data = fs.read_file(path) or b""
    kept = [found for number, found in enumerate(read_batches(data)) if number % 3 == 0 or found[1].is_transactional]
    fs.write_file(path, b"".join(data[position : position + header.size_bytes] for position, header in kept))
    segment.size_bytes = sum(header.size_bytes for _, header in kept)
    segment.forget()
    segment.rebuild_indexes()
    assert check(fs) == []


def test_what_is_found_beside_a_broker_is_looked_at_again() -> None:
    fs, _ = make_folder(is_closed=False)
    path = f"{DIRECTORY}/{names(fs, '.snapshot')[0]}"
    good = fs.read_file(path) or b""
    fs.write_file(path, b"")
    assert [finding.path for finding in check(fs)] == [path]
    assert check_partition(fs, DIRECTORY, lambda: fs.write_file(path, good), lambda *_: None) == []


def test_epochs_of_records_that_were_deleted_may_be_forgotten() -> None:
    """DeleteRecords and a truncation to the same offset leave a batch that nobody reads, and an empty checkpoint."""
    fs, log_dir = make_folder(is_closed=False)
    log = log_dir.logs["t", 0]
    log.advance_log_start(2)
    log.truncate_to(2)
    assert log.epochs.starts == ()
    assert check(fs) == []
