"""Members are killed and others started while records flow: none is skipped, and no commit goes back."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

import tailrace
from tailrace.client.backoff import Deadline

pytestmark = pytest.mark.slow

PARTITIONS = 4
KILLS = 2
PATIENCE_MS = 60_000
GROUP = cast("tailrace.ResourceType", 32)  # Kafka's number; our client has no name for it
WORKER = Path(__file__).with_name("group_worker.py")


class Workers:
    """Processes that share a topic, and what they wrote down."""

    def __init__(self, address: str, group_id: str, topic: str, settings: dict[str, str], folder: Path) -> None:
        self._arguments = [address, group_id, topic]
        self._settings = json.dumps({**settings, "auto_commit_interval_ms": "20"})
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def start(self) -> None:
        self._started += 1
        path = self._path(self._started)
        command = [sys.executable, str(WORKER), *self._arguments, str(path), self._settings]
        self._processes.append(subprocess.Popen(command))

    def kill_oldest(self) -> None:
        process = self._processes.pop(0)
        process.kill()
        process.wait()

    def kill_all(self) -> None:
        while self._processes:
            self.kill_oldest()

    def has_begun(self, number: int) -> bool:
        path = self._path(number)
        return path.exists() and path.stat().st_size > 0

    def _path(self, number: int) -> Path:
        return self._folder / f"worker-{number}"

    def written(self) -> list[list[tuple[int, int, int]]]:
        """Partition, offset and number of each record, in the order of each worker."""
        found = []
        for path in sorted(self._folder.glob("worker-*")):
            lines = path.read_text().splitlines()
            found.append([tuple(map(int, line.split())) for line in lines if len(line.split()) == 3])
        return found  # type: ignore[return-value]

    def seen(self) -> set[int]:
        return {number for records in self.written() for _, _, number in records}


@pytest.fixture
def commits(group_broker: str) -> Iterator[Callable[[str], list[str]]]:
    """Watches what a group commits, and tells where that went back."""
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def watch(group_id: str) -> list[str]:
        wrong: list[str] = []

        def look() -> None:
            last: dict[tailrace.TopicPartition, int] = {}
            with tailrace.Admin(group_broker) as admin:
                while not stopping.wait(0.01):
                    for target, found in admin.list_group_offsets(group_id).items():
                        if found.offset < last.get(target, 0):
                            wrong.append(f"{target} from {last[target]} to {found.offset}")
                        last[target] = found.offset

        threads.append(threading.Thread(target=look))
        threads[-1].start()
        return wrong

    yield watch
    stopping.set()
    for thread in threads:
        thread.join()


class Publisher:
    """Writes numbers, each to the partition that is next, until it is told to stop."""

    def __init__(self, address: str, topic: str) -> None:
        self.count = 0
        self._address = address
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Publisher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with tailrace.Producer(self._address) as producer:
            while not self._stopping.wait(0.01):
                for _ in range(2 * PARTITIONS):
                    producer.send(self._topic, b"%d" % self.count, partition=self.count % PARTITIONS)
                    self.count += 1


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = Deadline(PATIENCE_MS)
    while not is_so():
        assert not deadline.is_over, f"it never came to that: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("membership", ["cooperative", "consumer"], indirect=True)
def test_no_record_is_skipped_when_members_are_killed(
    group_broker: str,
    shared: Callable[..., str],
    membership: dict[str, str],
    commits: Callable[[str], list[str]],
    tmp_path: Path,
) -> None:
    topic = shared(PARTITIONS)
    group_id = f"kill-{uuid.uuid4().hex[:12]}"
    # Those who are killed are noticed soon. Others who are taken for dead at times do no harm here.
    quick = {"session_timeout_ms": "1000"} if "session_timeout_ms" in membership else {}
    if not quick:
        with tailrace.Admin(group_broker) as admin:
            admin.alter_configs(GROUP, group_id, {"consumer.session.timeout.ms": "1000"})
    workers = Workers(group_broker, group_id, topic, membership | quick, tmp_path)
    wrong = commits(group_id)
    try:
        with Publisher(group_broker, topic) as publisher:
            for _ in range(2):
                workers.start()
            wait_until(lambda: workers.has_begun(1) and workers.has_begun(2), "both began to read")
            for kill in range(KILLS):
                workers.kill_oldest()
                workers.start()
                wait_until(partial(workers.has_begun, 3 + kill), "another took over")
        count = publisher.count
        wait_until(lambda: len(workers.seen()) >= count, "everything was read")
    finally:
        workers.kill_all()
    assert workers.seen() == set(range(count))
    assert wrong == []
    for partition, offset, number in (record for records in workers.written() for record in records):
        assert number == offset * PARTITIONS + partition
