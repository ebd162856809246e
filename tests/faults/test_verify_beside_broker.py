"""A log is checked while a broker writes, rolls and deletes: nothing is found, because nothing is wrong."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.clients.raw import batch
from tests.faults.live import Live

from tailrace.storage.finding import Finding
from tailrace.storage.folder_check import check_folder_files, check_partition, find_partitions
from tailrace.storage.fs import ReadOnlyFileSystem

COUNT = 500
OPTIONS = {
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "3000000",
    "log.retention.check.interval.ms": "20",
    "log.index.interval.bytes": "1000",
}


def test_a_busy_log_has_no_findings(tmp_path: Path) -> None:
    with Live(tmp_path, OPTIONS) as live:
        live.asker.topic("busy")
        done = threading.Event()
        writer = threading.Thread(target=produce, args=(live, done))
        writer.start()
        findings: list[Finding] = []
        run_count = 0
        while not done.is_set():
            findings += check(tmp_path)
            run_count += 1
        writer.join()
    assert [str(finding) for finding in findings] == []
    assert run_count > 3
    first = min(path.name for path in (tmp_path / "busy-0").glob("*.log"))
    assert int(first[:20]) > 0, "nothing was deleted meanwhile"
    assert check(tmp_path) == []


def produce(live: Live, done: threading.Event) -> None:
    try:
        for number in range(COUNT):
            assert live.asker.produce("busy", batch([b"%04d" % number * 5000]))["error_code"] == 0
    finally:
        done.set()


def check(folder: Path) -> list[Finding]:
    fs = ReadOnlyFileSystem()
    findings = list(check_folder_files(fs, str(folder)))
    for partition in find_partitions(fs, str(folder)):
        findings += check_partition(fs, partition, lambda: time.sleep(0.05), lambda *_: None)
    return findings
