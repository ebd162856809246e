"""`tailrace log dump` and `tailrace log verify`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from struct import pack
from uuid import UUID

import pytest

from tailrace.base.clock import SystemClock
from tailrace.cli.main import main
from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.record import read_batches
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

Call = Callable[..., tuple[int, str, str]]
CONFIG = LogConfig(index_interval_bytes=1)
LOG = "00000000000000000000.log"
HOSTILE = b"\x1b[2J\x07\xff\xc2\x9b"


@pytest.fixture
def call(capfdbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Run a command that needs no broker."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capfdbinary.readouterr()
        return status, captured.out.decode(), captured.err.decode()

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one partition: a compressed batch, one with odd bytes, an aborted transaction."""
    folder = LogDir.open(RealFileSystem(), str(tmp_path / "data"), SystemClock(), lambda _topic: CONFIG)
    log = folder.create("t", 0, UUID(int=5), CONFIG)
    plain = BatchBuilder(Compression.GZIP)
    plain.append(1000, b"k", b"first")
    plain.append(1001, None, None, headers=[("h", b"1"), ("n", None)])
    odd = BatchBuilder()
    odd.append(1002, HOSTILE, HOSTILE)
    transactional = BatchBuilder(producer_id=9, producer_epoch=1, base_sequence=4, is_transactional=True)
    transactional.append(1003, None, b"gone")
    marker = build_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 6), producer_id=9, producer_epoch=1, timestamp_ms=1004
    )
    for batch in (plain.build(), odd.build(), transactional.build(), marker):
        buffer = bytearray(batch)
        log.append(buffer, read_header(buffer), 3)
    folder.close()
    return tmp_path / "data"


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def damage(path: Path, position: int, data: bytes) -> None:
    contents = bytearray(path.read_bytes())
    contents[position : position + len(data)] = data
    path.write_bytes(contents)


# --- dump


def test_batches_are_lines(call: Call, data: Path) -> None:
    status, output, error = call("log", "dump", data / "t-0" / LOG)
    assert (status, error) == (0, "")
    size = (data / "t-0" / LOG).stat().st_size
    lines = output.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("batch base_offset=0 last_offset=1 count=2 base_sequence=-1 last_sequence=-1 ")
    assert " position=0 create_time=1001 " in lines[0]
    assert " compression=gzip " in lines[0]
    assert "producer_id=9 producer_epoch=1 partition_leader_epoch=3 is_transactional=true is_control=true" in lines[3]
    assert all(line.endswith(" is_valid=true") for line in lines)
    assert sum(int(line.split("size_bytes=")[1].split()[0]) for line in lines) == size


def test_records_are_printed_safely(call: Call, data: Path) -> None:
    status, output, _ = call("log", "dump", "--records", data / "t-0" / LOG)
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    assert status == 0
    assert lines[0] == '| offset=0 timestamp=1000 key="k" value="first" headers=[]'
    assert lines[1] == '| offset=1 timestamp=1001 key=none value=none headers=["h": "1", "n": none]'
    assert lines[2] == r'| offset=2 timestamp=1002 key="\x1b[2J\x07\xff\x9b" value="\x1b[2J\x07\xff\x9b" headers=[]'
    assert lines[3].startswith("| offset=3 timestamp=1003 sequence=4 ")
    assert lines[4] == "| offset=4 timestamp=1004 control_type=ABORT coordinator_epoch=6"
    assert output.replace("\n", "").isprintable()


def test_json_is_an_object_a_line(call: Call, data: Path) -> None:
    path = data / "t-0" / LOG
    status, output, _ = call("log", "dump", "--records", "--json", path)
    found = objects(output)
    assert status == 0
    assert [entry["kind"] for entry in found] == ["batch"] * 4
    assert found[0]["file"] == str(path)
    assert found[0]["records"] == [
        {"offset": 0, "timestamp": 1000, "key": "k", "value": "first", "headers": []},
        {
            "offset": 1,
            "timestamp": 1001,
            "key": None,
            "value": None,
            "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
        },
    ]
    assert "key_base64" in found[1]["records"][0]  # type: ignore[index]


def test_every_other_kind_of_file_is_understood(call: Call, data: Path) -> None:
    partition = data / "t-0"
    (data / "meta.properties").write_text("# a comment\nversion=1\nnode.id=7\n")
    expected = {
        partition / "00000000000000000000.index": "offset_index_entry offset=2 position=",
        partition / "00000000000000000000.timeindex": "time_index_entry timestamp=1002 offset=2",
        partition / "00000000000000000000.txnindex": "aborted_transaction version=0 producer_id=9 first_offset=3 "
        "last_offset=4 last_stable_offset=5",
        partition / "00000000000000000005.snapshot": "producer producer_id=9 producer_epoch=1 coordinator_epoch=6 "
        "current_txn_first_offset=none last_timestamp=",
        partition / "leader-epoch-checkpoint": "leader_epoch epoch=3 start_offset=0",
        partition / "partition.metadata": "property name=version value=0",
        data / "recovery-point-offset-checkpoint": "offset topic=t partition=0 offset=5",
        data / "meta.properties": "property name=version value=1",
        data / ".kafka_cleanshutdown": "clean_stop version=0 brokerEpoch=-1",
    }
    for path, line in expected.items():
        status, output, error = call("log", "dump", path)
        assert (status, error) == (0, ""), path
        assert output.splitlines()[0].startswith(line)
        if path.suffix == ".snapshot":  # the records are much older than their writing, so its time is there
            assert output.splitlines()[0].endswith(" first_sequence=4 last_sequence=4 last_offset=3")
    status, output, _ = call("log", "dump", *expected)
    assert [line for line in output.splitlines() if line.endswith(":")] == [f"{path}:" for path in expected]


def test_damage_is_named_and_reading_goes_on(call: Call, data: Path) -> None:
    path = data / "t-0" / LOG
    batches = list(read_batches(path.read_bytes()))
    damage(path, batches[0][0] + 61, b"\x00")  # the body of the first batch
    damage(path, batches[2][0] + 16, b"\x63")  # the magic of the third
    with path.open("ab") as file:
        file.write(path.read_bytes()[:30])
    status, output, error = call("log", "dump", "--json", path)
    found = objects(output)
    assert (status, json.loads(error)) == (1, {"error": "found 3 problems"})
    assert [entry["kind"] for entry in found] == ["batch", "batch", "damage", "batch", "damage"]
    assert (found[0]["base_offset"], found[0]["is_valid"], found[0]["problem"]) == (0, False, "wrong checksum")
    assert (found[2]["position"], found[2]["expected_offset"]) == (batches[2][0], 3)
    assert found[2]["problem"] == "invalid magic 99"
    assert "problem" not in found[3]
    assert found[4]["problem"] == "30 bytes are too few for a batch header"
    text = call("log", "dump", path)[1].splitlines()
    assert text[2].startswith(f"damage position={batches[2][0]} ")
    assert text[2].endswith('problem="invalid magic 99"')


def test_old_message_formats_get_a_clear_word(call: Call, tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(pack(">qiIbbqii", 0, 22, 0, 1, 0, 1000, -1, 0) * 4)
    status, output, _ = call("log", "dump", path)
    assert status == 1
    assert 'problem="message format 1 is not supported"' in output


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("00000000000000000000.index", b"\0\0\0\5\0\0\0\5\0"),
        ("00000000000000000000.snapshot", b"nothing"),
        ("leader-epoch-checkpoint", b"0\n2\n1 1\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 many\n"),
        (".kafka_cleanshutdown", b"\xff"),
    ],
)
def test_files_that_cannot_be_read_say_so(call: Call, tmp_path: Path, name: str, contents: bytes) -> None:
    (tmp_path / name).write_bytes(contents)
    status, output, error = call("log", "dump", tmp_path / name)
    assert (status, error) == (1, "tailrace: found 1 problem\n")
    assert "damage" in output


def test_room_for_entries_is_no_damage(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.index"
    path.write_bytes(pack(">II", 5, 4200) + bytes(80))
    assert call("log", "dump", path) == (0, "offset_index_entry offset=15 position=4200\nunused count=10\n", "")


def test_wrong_calls(call: Call, tmp_path: Path) -> None:
    status, _, error = call("log", "dump", tmp_path / "notes.txt")
    assert status == 2
    assert "notes.txt: not the name of a file in a log folder" in error
    assert call("log", "dump", tmp_path / LOG) == (1, "", f"tailrace: {tmp_path / LOG}: there is no such file\n")
    assert call("log", "dump")[0] == 2
    assert call("log", "verify", tmp_path / "x") == (1, "", f"tailrace: {tmp_path / 'x'}: there is no such folder\n")
    status, _, error = call("log", "verify", tmp_path)
    assert (status, error) == (1, f"tailrace: {tmp_path}: neither a log folder nor the folder of a partition\n")
    (tmp_path / "python3-11").mkdir()  # as in /etc, where "nothing is wrong" was said
    assert call("log", "verify", tmp_path) == (status, "", error)


def test_a_reader_that_has_had_enough_is_no_error(data: Path) -> None:
    path = data / "t-0" / LOG
    path.write_bytes(b"")
    folder = LogDir.open(RealFileSystem(), str(data), SystemClock(), lambda _topic: CONFIG)
    log = folder.logs["t", 0]
    builder = BatchBuilder()
    builder.append(1000, None, b"v" * 1000)
    for _ in range(1000):
        buffer = bytearray(builder.build())
        log.append(buffer, read_header(buffer), 0)
    folder.close()
    command = f"{sys.executable} -m tailrace.cli.main log dump --records {path} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")


# --- verify


def test_a_good_folder(call: Call, data: Path) -> None:
    size = (data / "t-0" / LOG).stat().st_size
    line = f"1 partition, 5 records, {size} bytes: nothing is wrong\n"
    assert call("log", "verify", data) == (0, line, "")
    assert call("log", "verify", data / "t-0") == (0, line, "")
    status, output, _ = call("log", "verify", data, "--json")
    assert (status, json.loads(output)) == (0, {"partitions": 1, "size_bytes": size, "records": 5, "findings": []})


def test_a_bad_folder(call: Call, data: Path) -> None:
    path = data / "t-0" / LOG
    position = list(read_batches(path.read_bytes()))[2][0]
    damage(path, position + 61, b"\x00")
    before = {file: file.stat().st_mtime_ns for file in data.rglob("*")}
    status, output, error = call("log", "verify", data)
    assert (status, error) == (1, "tailrace: found 1 problem\n")
    assert output.splitlines()[0] == f"{path}: position {position}: offset 3: wrong checksum"
    assert output.splitlines()[-1].endswith(": 1 problem")
    status, output, _ = call("log", "verify", data, "--json")
    assert (status, json.loads(output)["findings"]) == (
        1,
        [{"file": str(path), "position": position, "offset": 3, "problem": "wrong checksum"}],
    )
    assert {file: file.stat().st_mtime_ns for file in data.rglob("*")} == before


def test_a_folder_may_be_readable_only(call: Call, data: Path) -> None:
    for file in (data / "t-0").iterdir():
        file.chmod(0o444)
    assert call("log", "verify", data)[0] == 0
