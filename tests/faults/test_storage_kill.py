"""kill -9 on a real process with real files: nothing acknowledged is lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.base.clock import SystemClock
from tailrace.records.record import read_batches, read_records
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

pytestmark = pytest.mark.exact

CONFIG = LogConfig(segment_bytes=20_000)

WRITER = """
import sys
from uuid import UUID
from tailrace.base.clock import SystemClock
from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

config = LogConfig(segment_bytes=20_000)
log_dir = LogDir.open(RealFileSystem(), sys.argv[1], SystemClock(), lambda topic: config)
log = log_dir.logs.get(("t", 0)) or log_dir.create("t", 0, UUID(int=1), config)
while True:
    builder = BatchBuilder()
    value = b"%d " % log.log_end_offset * 20
    builder.append(1000, None, value)
    data = bytearray(builder.build())
    offset = log.append(data, read_header(data), 0)
    if offset % 50 == 0:
        log_dir.checkpoint()
    print(offset, flush=True)
"""


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    acknowledged = -1
    for count in (1, 40, 150):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(count):
                acknowledged = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            rest = process.stdout.read().splitlines(keepends=True)
            acknowledged = max([acknowledged, *(int(line) for line in rest if line.endswith("\n"))])
        log_dir = LogDir.open(RealFileSystem(), path, SystemClock(), lambda topic: CONFIG)
        assert not log_dir.was_clean
        log = log_dir.logs["t", 0]
        assert log.log_end_offset in (acknowledged + 1, acknowledged + 2)
        offset = 0
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20, log.log_end_offset, min_one_batch=True)
            for position, header in read_batches(data):
                (record,) = read_records(data, position)
                assert (record.offset, record.value) == (offset, b"%d " % offset * 20)
                offset = header.next_offset
        log_dir.close(clean=False)
