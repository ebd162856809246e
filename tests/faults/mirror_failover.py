"""A cluster is lost for good while a group reads it, and the group goes on in the mirror's target.

Writers write numbered records to one cluster, a group reads and commits them there, and a mirror copies them. Then all
brokers of the first cluster are killed at once. The group's consumers start at the target with the offsets that the
mirror has translated. In each round it is checked that no copied record is skipped: each was read in the source or is
read in the target. Repeated records, which the group had committed in the source, are counted, and so is the age of the
oldest of them: how long before the kill its commit was confirmed.

python -m tests.faults.mirror_failover --rounds 20 --brokers 3
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults.killable import running_brokers
from tests.faults.mirror_feed import PARTITION_COUNT, PLAIN, TOPICS, MirrorFeed, committed_rows, create_topics
from tests.faults.mirror_kill import add_mirror_options, mirror_program
from tests.faults.spark_kill_process import Driver

import tailrace
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError, RemoteProtocolError

GROUP = "billing"
START_TIMEOUT_S = 300.0
_FAILURES = (ClientError, ApiError, RemoteProtocolError)
_COMMIT_EVERY = 20


@dataclass
class GroupReader:
    """A member of the group in the source: what it has read, and when each record was committed."""

    servers: str
    read: set[bytes] = field(default_factory=set)
    committed_at_s: dict[bytes, float] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for a thread that may hang on dead brokers."""
        self._stopping.set()

    def _run(self) -> None:
        consumer = tailrace.Consumer(
            self.servers, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
        )
        consumer.subscribe(PLAIN)
        waiting: list[bytes] = []
        with suppress(*_FAILURES):
            for record in consumer:
                if self._stopping.is_set():
                    return
                value = record.value or b""
                self.read.add(value)
                waiting.append(value)
                if len(waiting) >= _COMMIT_EVERY:
                    consumer.commit()
                    now_s = time.monotonic()
                    self.committed_at_s.update(dict.fromkeys(waiting, now_s))
                    waiting.clear()


class Round(NamedTuple):
    """The outcome of one round."""

    copied: int
    skipped: int
    repeated: int
    oldest_s: float

    @property
    def text(self) -> str:
        return (
            f"{self.copied} records copied, {self.skipped} skipped, {self.repeated} read again, the oldest of them "
            f"committed {self.oldest_s:.2f} s before the kill"
        )


def read_target(servers: str) -> list[bytes]:
    """Return what the group reads in the target, from its committed offsets to the end."""
    with tailrace.Admin(servers) as admin:
        offsets = {place: found.offset for place, found in admin.list_group_offsets(GROUP).items()}
    found: list[bytes] = []
    for partition in range(PARTITION_COUNT):
        start = next((offset for place, offset in offsets.items() if place == (PLAIN, partition)), 0)
        table = tailrace.read_table(
            servers,
            PLAIN,
            start=start,
            partitions=[partition],
            columns=["value"],
            isolation_level="read_committed",
        )
        found += table.column("value").to_pylist()
    return found


def run_round(folder: Path, options: argparse.Namespace, chance: random.Random, tell: Callable[[str], None]) -> Round:
    """Run both clusters, lose the first, and judge what the group reads in the second."""
    folders = [folder / side for side in ("source", "target")]
    for one in folders:
        one.mkdir()
    with (
        running_brokers(options.brokers, folders[1]) as (target, _),
        running_brokers(options.brokers, folders[0]) as (source, brokers),
    ):
        create_topics(source, options.brokers)
        program = mirror_program(source, target, options)
        driver = Driver(program, {}, folder / "mirror.txt")
        feed, reader = MirrorFeed(source, seed=chance.randrange(1_000_000)), GroupReader(source)
        try:
            feed.start()
            driver.start()
            wait_for_copies(target, driver)
            reader.start()
            time.sleep(options.seconds * (0.5 + chance.random()))
            killed_at_s = time.monotonic()
            for broker in brokers:
                broker.kill()
            reader.stop()
            tell(f"lost the source after {feed.count} records, {len(reader.committed_at_s)} of them committed")
            time.sleep(2.0)  # the mirror goes on without its source, until it is ended too
        finally:
            driver.end()
            feed.abandon()
        in_target = read_target(target)
        copied = [row[2] for row in committed_rows(target, PLAIN)]
        seen = reader.read | set(in_target)
        repeated = [value for value in in_target if value in reader.committed_at_s]
        oldest_s = max((killed_at_s - reader.committed_at_s[value] for value in repeated), default=0.0)
        skipped = [value for value in copied if value not in seen]
        return Round(len(copied), len(skipped), len(repeated), oldest_s)


def wait_for_copies(target: str, driver: Driver) -> None:
    """Wait until the first records have been copied."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with suppress(*_FAILURES), tailrace.Admin(target) as admin:
            topics = {topic.name for topic in admin.list_topics()}
            if topics.issuperset(TOPICS) and admin.list_group_offsets("tailrace-mirror.east", [(PLAIN, 0)]):
                return
        assert driver.is_running, driver.errors.read_text()[-2000:]
        assert time.monotonic() < deadline_s, driver.errors.read_text()[-2000:]
        time.sleep(0.2)


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="mean time until the source is lost")
    parser.add_argument(
        "--oldest", type=float, default=5.0, help="greatest allowed age of a repeated record, in seconds"
    )
    add_mirror_options(parser)
    options = parser.parse_args()
    begun_s = time.monotonic()
    chance = random.Random(options.seed)

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun_s:7.1f} s  {line}", flush=True)

    rounds = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="tailrace-mirror-failover-") as name:
            rounds.append(run_round(Path(name), options, chance, tell))
        tell(f"round {number + 1}: {rounds[-1].text}")
    skipped = sum(one.skipped for one in rounds)
    oldest_s = max(one.oldest_s for one in rounds)
    repeated = sum(one.repeated for one in rounds)
    tell(f"{len(rounds)} rounds: {skipped} skipped, {repeated} read again, the oldest {oldest_s:.2f} s before the kill")
    return 0 if not skipped and oldest_s <= options.oldest and all(one.copied for one in rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
