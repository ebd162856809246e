"""A broker that may have few descriptors serves many more segments than that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.ask.asker import Asker
from tests.clients.raw import batch

pytestmark = pytest.mark.slow

SEGMENTS = 3
START_TIMEOUT_S = 60
NOW_MS = 1_700_000_000_000


class Shortage:
    """A broker in a process of its own that may have `descriptor_count` descriptors."""

    def __init__(self, folder: Path, descriptor_count: int) -> None:
        self._folder = folder
        command = f"ulimit -n {descriptor_count} && exec {sys.executable} -m tailrace.cli.main start"
        # The records have the time of another year.
        command += f" --data {folder / 'data'} --listen 127.0.0.1:0 --set log.retention.ms=-1"
        with (folder / "stderr.txt").open("a") as log:
            self._process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "ready on" in line, self.log
        self.asker = Asker(line.split()[-1])

    @property
    def log(self) -> str:
        return (self._folder / "stderr.txt").read_text()

    def open_count(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self._process.wait(START_TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


def produce(asker: Asker, topic: str, count: int, number: int) -> None:
    """One batch to each partition, so much later than the last that each begins a segment."""
    data = batch([b"%d" % number], timestamp_ms=NOW_MS + number * 10_000)
    partitions = [{"index": index, "records": data} for index in range(count)]
    with asker.wire(60) as wire:
        answer: Any = wire.ask(
            "Produce",
            8,
            transactional_id=None,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[{"name": topic, "partition_data": partitions}],
        )
    replies = answer["responses"][0]["partition_responses"]
    assert {(reply["error_code"], reply["base_offset"]) for reply in replies} == {(0, number)}
    assert len(replies) == count


def fetched(asker: Asker, topic: str, count: int, offset: int) -> Iterator[bytes]:
    """What one request for every partition brings from an offset on."""
    partitions = [
        {
            "partition": index,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "log_start_offset": -1,
            "partition_max_bytes": 1000,
        }
        for index in range(count)
    ]
    with asker.wire(60) as wire:
        answer: Any = wire.ask(
            "Fetch",
            11,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=2**30,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": partitions}],
            forgotten_topics_data=[],
            rack_id="",
        )
    for reply in answer["responses"][0]["partitions"]:
        assert reply["error_code"] == 0
        yield reply["records"]


# The long way takes a minute, nearly all of it the folders of a thousand partitions.
@pytest.mark.parametrize(
    ("partition_count", "descriptor_count"), [(150, 160), pytest.param(1000, 400, marks=pytest.mark.slow)]
)
def test_many_segments_are_served_with_few_descriptors(
    tmp_path: Path, partition_count: int, descriptor_count: int
) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    broker = Shortage(tmp_path, descriptor_count)
    try:
        topic = broker.asker.topic(partitions=partition_count, segment_ms="1000")
        for number in range(SEGMENTS):
            produce(broker.asker, topic, partition_count, number)
            assert broker.open_count() < descriptor_count
        for how in (signal.SIGKILL, signal.SIGTERM):
            for offset in (0, SEGMENTS - 1, 1):
                records = list(fetched(broker.asker, topic, partition_count, offset))
                assert [data[-2:-1] for data in records] == [b"%d" % offset] * partition_count
                assert broker.open_count() < descriptor_count
            broker.end(how)
            broker = Shortage(tmp_path, descriptor_count)
        assert len(list((tmp_path / "data" / f"{topic}-0").glob("*.log"))) == SEGMENTS
        for problem in ("Too many open files", "offline", "ERROR"):
            assert problem not in broker.log
    finally:
        broker.end()
