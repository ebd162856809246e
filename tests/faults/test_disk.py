"""A broker whose disk is full, read-only or broken: it stays up, says so, and loses nothing it acknowledged."""

from __future__ import annotations

import errno
import logging
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.clients.ask.asker import Asker, creatable
from tests.clients.ask.fetch import fetch_fields
from tests.clients.raw import batch
from tests.faults.faulty_fs import READS, SYNCS, FaultyFileSystem
from tests.faults.live import Live

from tailrace.protocol.errors import ErrorCode
from tailrace.records.record import read_batches, read_records
from tailrace.storage.error import StorageError

pytestmark = pytest.mark.slow

STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
SEGMENT_BYTES = str(1 << 20)


class Disks:
    """A broker with a good folder and a bad one, and a partition in each."""

    def __init__(self, good: Path, bad: Path) -> None:
        self.good = good
        self.bad = bad
        self.fs = FaultyFileSystem(str(bad))
        self.acknowledged: dict[int, list[bytes]] = {0: [], 1: []}
        self.topic = "disk"
        self.on_good = self.on_bad = -1

    def live(self) -> Live:
        options = {
            "log.dirs": f"{self.good},{self.bad}",
            "log.segment.bytes": SEGMENT_BYTES,
            "log.index.size.max.bytes": "4096",
        }
        return Live(self.good, options, fs=self.fs)

    def create(self, live: Live) -> None:
        live.asker.topic(self.topic, partitions=2)
        self.on_good = next(index for index in (0, 1) if (self.good / f"{self.topic}-{index}").exists())
        self.on_bad = 1 - self.on_good
        assert (self.bad / f"{self.topic}-{self.on_bad}").exists()

    def produce(self, live: Live, partition: int, value: bytes, **options: Any) -> int:
        """Produce one record, and remember it if it was acknowledged."""
        answer = live.asker.produce(self.topic, batch([value]), partition=partition, **options)
        code: int = answer["error_code"]
        if code == 0:
            assert answer["base_offset"] == len(self.acknowledged[partition])
            self.acknowledged[partition].append(value)
        return code

    def assert_nothing_is_lost(self, live: Live) -> None:
        for partition, values in self.acknowledged.items():
            assert consume(live.asker, self.topic, partition) == values


def consume(asker: Asker, topic: str, partition: int) -> list[bytes | None]:
    """Every value of a partition."""
    values: list[bytes | None] = []
    while True:
        fields = fetch_fields(topic, len(values), partition=partition, max_bytes=1 << 24, partition_max_bytes=1 << 24)
        answer = asker.fields("Fetch", 11, **fields)["responses"][0]["partitions"][0]
        assert answer["error_code"] == 0, answer["error_code"]
        data = answer["records"] or b""
        found = [record for position, _ in read_batches(data) for record in read_records(data, position)]
        assert [record.offset for record in found] == list(range(len(values), len(values) + len(found)))
        if not found:
            return values
        values += [record.value for record in found]


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks(tmp_path / "good", tmp_path / "bad")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT], ids=errno.errorcode.get)
def test_a_disk_that_takes_no_writes_for_a_while(disks: Disks, code: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with disks.live() as live:
        disks.create(live)
        for number in range(20):
            for partition in (0, 1):
                assert disks.produce(live, partition, b"before %d" % number) == 0
        disks.fs.fail(code)
        for number in range(20):
            assert disks.produce(live, disks.on_bad, b"lost %d" % number) == STORAGE_ERROR
            assert disks.produce(live, disks.on_good, b"during %d" % number) == 0
        disks.assert_nothing_is_lost(live)
        (line,) = errors(caplog)
        assert f"{disks.topic}-{disks.on_bad} cannot be written" in line
        disks.fs.heal()
        for number in range(20):
            for partition in (0, 1):
                assert disks.produce(live, partition, b"after %d" % number) == 0
        disks.assert_nothing_is_lost(live)
        again = [record.getMessage() for record in caplog.records if "can be written again" in record.getMessage()]
        assert again == [f"{disks.topic}-{disks.on_bad} can be written again"]
    with disks.live() as live:
        disks.assert_nothing_is_lost(live)


def test_a_disk_that_is_full_when_a_segment_must_be_rolled(disks: Disks) -> None:
    with disks.live() as live:
        disks.create(live)
        for number in range(5):
            assert disks.produce(live, disks.on_bad, b"%d" % number + bytes(200_000)) == 0
        disks.fs.fail(errno.ENOSPC, frozenset({"create", "write_file"}))
        codes = [disks.produce(live, disks.on_bad, b"x" + bytes(200_000)) for _ in range(3)]
        assert codes == [STORAGE_ERROR] * 3
        disks.fs.heal()
        assert disks.produce(live, disks.on_bad, b"y" + bytes(200_000)) == 0
        disks.assert_nothing_is_lost(live)
    assert len(list((disks.bad / f"{disks.topic}-{disks.on_bad}").glob("*.log"))) == 2
    with disks.live() as live:
        disks.assert_nothing_is_lost(live)


def test_a_stop_while_the_disk_is_full_loses_nothing(disks: Disks) -> None:
    with disks.live() as live:
        disks.create(live)
        for number in range(20):
            assert disks.produce(live, disks.on_bad, b"%d" % number) == 0
        disks.fs.fail(errno.ENOSPC)
        assert disks.produce(live, disks.on_bad, b"lost") == STORAGE_ERROR
    disks.fs.heal()
    with disks.live() as live:
        disks.assert_nothing_is_lost(live)
        assert disks.produce(live, disks.on_bad, b"again") == 0


@pytest.mark.parametrize("code", [errno.EIO, errno.ENODEV], ids=errno.errorcode.get)
def test_a_broken_disk_takes_its_folder_offline_until_a_restart(
    disks: Disks, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    with disks.live() as live:
        disks.create(live)
        for number in range(10):
            for partition in (0, 1):
                assert disks.produce(live, partition, b"before %d" % number) == 0
        disks.fs.fail(code)
        assert disks.produce(live, disks.on_bad, b"lost") == STORAGE_ERROR
        disks.fs.heal()
        assert disks.produce(live, disks.on_bad, b"a disk that failed once is not believed") == STORAGE_ERROR
        assert disks.produce(live, disks.on_good, b"after") == 0
        live.assert_serves()
        assert len([line for line in errors(caplog) if "cannot be written" in line]) == 1
    with disks.live() as live:
        disks.assert_nothing_is_lost(live)
        assert disks.produce(live, disks.on_bad, b"again") == 0


def test_a_disk_that_cannot_be_read(disks: Disks, caplog: pytest.LogCaptureFixture) -> None:
    with disks.live() as live:
        disks.create(live)
        for partition in (0, 1):
            assert disks.produce(live, partition, b"before") == 0
        disks.fs.fail(errno.EIO, READS)
        answer = live.asker.fields("Fetch", 11, **fetch_fields(disks.topic, 0, partition=disks.on_bad))
        assert answer["responses"][0]["partitions"][0]["error_code"] == STORAGE_ERROR
        assert consume(live.asker, disks.topic, disks.on_good) == [b"before"]
        (line,) = errors(caplog)
        assert line.startswith(f"log folder {disks.bad} is offline until the broker restarts")
        disks.fs.heal()
    with disks.live() as live:
        disks.assert_nothing_is_lost(live)


def test_a_failed_fsync_takes_its_folder_offline(disks: Disks) -> None:
    """After it, the kernel may have dropped what it could not write; only a restart shows what is there."""
    with disks.live() as live:
        disks.create(live)
        for index in (0, 1):
            assert disks.produce(live, index, b"before") == 0
        disks.fs.fail(errno.ENOSPC, SYNCS)
        partition = live.server.broker.replicas.get(disks.topic, disks.on_bad)
        with pytest.raises(StorageError):
            live.call(partition.log.flush)
        disks.fs.heal()
        assert disks.produce(live, disks.on_bad, b"lost") == STORAGE_ERROR
        assert disks.produce(live, disks.on_good, b"after") == 0
    with disks.live() as live:
        disks.assert_nothing_is_lost(live)


def test_a_new_topic_goes_to_the_folder_that_takes_it(disks: Disks) -> None:
    with disks.live() as live:
        disks.create(live)
        disks.fs.fail(errno.ENOSPC)
        for _ in range(3):
            live.assert_serves()
        disks.fs.heal()
    with disks.live() as live:
        live.assert_serves()


def test_what_a_failed_folder_kept_of_a_log_does_not_hide_the_real_one(disks: Disks) -> None:
    """The folder fails after the partition's folder was made in it, so that after a restart there are two of them."""
    with disks.live() as live:
        disks.create(live)
        disks.fs.fail(errno.EIO, frozenset({"create", "write_file"}))
        topic = live.asker.topic(partitions=2)
        for partition in (0, 1):
            assert live.asker.produce(topic, batch([b"kept"]), partition=partition)["error_code"] == 0
        assert sorted(path.name for path in disks.good.glob(f"{topic}-*")) == [f"{topic}-0", f"{topic}-1"]
        assert list(disks.bad.glob(f"{topic}-*")) != [], "or the test shows nothing"
    disks.fs.heal()
    with disks.live() as live:
        for partition in (0, 1):
            assert consume(live.asker, topic, partition) == [b"kept"]


def test_a_topic_that_was_created_when_no_folder_took_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fs = FaultyFileSystem(str(tmp_path))
    with Live(tmp_path, fs=fs) as live:
        fs.fail(errno.ENOSPC)
        assert live.asker.create(creatable("new"))[0]["error_code"] == 0, "it exists, though its log does not yet"
        assert live.asker.produce("new", batch())["error_code"] == STORAGE_ERROR
        for _ in range(3):
            live.wait_for(live.server.broker.care.checkpoint())
            live.wait_for(live.server.broker.replicas.settled())
        assert live.asker.produce("new", batch())["error_code"] == STORAGE_ERROR
        assert len([line for line in errors(caplog) if "new-0 could not be opened" in line]) == 1
        fs.heal()
        live.wait_for(live.server.broker.care.checkpoint())
        live.wait_for(live.server.broker.replicas.settled())
        assert live.asker.produce("new", batch())["error_code"] == 0


# --- a real disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = os.geteuid() == 0 and _mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder))
    if not mounted:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


def _fill(live: Live, topic: str, values: list[bytes]) -> None:
    """Produce until the disk is full."""
    for number in range(200):
        value = b"%d " % number + os.urandom(90_000)
        answer = live.asker.produce(topic, batch([value]))
        if answer["error_code"]:
            assert answer["error_code"] == STORAGE_ERROR
            return
        values.append(value)
    raise AssertionError("the disk never got full")


def test_a_disk_that_is_really_full(small_disk: Path, tmp_path: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    data = small_disk / "data"
    values: list[bytes] = []
    options = {"log.segment.bytes": SEGMENT_BYTES}
    with Live(data, options) as live:
        topic, other = live.asker.topic(), live.asker.topic()
        _fill(live, topic, values)
        assert consume(live.asker, topic, 0) == values
        for _ in range(10):
            assert live.asker.produce(other, batch([os.urandom(90_000)]))["error_code"] == STORAGE_ERROR
        assert live.asker.metadata(topic)["topics"][0]["error_code"] == 0
        ballast.unlink()
        value = os.urandom(90_000)
        assert live.asker.produce(topic, batch([value]))["error_code"] == 0
        values.append(value)
        assert consume(live.asker, topic, 0) == values
        assert live.asker.produce(other, batch([b"other"]))["error_code"] == 0
    with Live(data, options) as live:
        assert consume(live.asker, topic, 0) == values
        assert consume(live.asker, other, 0) == [b"other"]


def test_a_restart_on_a_full_disk(small_disk: Path) -> None:
    """Stopping and starting both want to write; what was acknowledged is served all the same."""
    data, ballast, rest = small_disk / "data", small_disk / "ballast", small_disk / "rest"
    ballast.write_bytes(bytes(2 << 20))
    values: list[bytes] = []
    options = {"log.segment.bytes": SEGMENT_BYTES}
    with Live(data, options) as live:
        topic = live.asker.topic()
        _fill(live, topic, values)
        with rest.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
    with Live(data, options) as live:
        assert consume(live.asker, topic, 0) == values
        assert live.asker.produce(topic, batch([bytes(90_000)]))["error_code"] == STORAGE_ERROR
        ballast.unlink()
        assert live.asker.produce(topic, batch([bytes(90_000)]))["error_code"] == 0
        assert consume(live.asker, topic, 0) == [*values, bytes(90_000)]


def test_a_start_on_a_read_only_disk_is_refused_with_the_reason(small_disk: Path) -> None:
    data = small_disk / "data"
    values: list[bytes] = []
    with Live(data) as live:
        topic = live.asker.topic()
        assert live.asker.produce(topic, batch([b"before"]))["error_code"] == 0
        values.append(b"before")
    assert _mount("-o", "remount,ro", str(small_disk))
    with pytest.raises(StorageError, match=re.escape(str(data))), Live(data):
        pass
    assert _mount("-o", "remount,rw", str(small_disk))
    with Live(data) as live:
        assert consume(live.asker, topic, 0) == values
