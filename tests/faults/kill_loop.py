"""kill -9 on a broker under load, round after round, on a real disk.

Several idempotent producers, librdkafka's and our own, write numbered records to topics with
different flush settings and to a compacted one, in small segments, and never stop. In each
round the broker is killed at a random moment and started again, in some rounds also killed
while it starts and recovers. After each round a consumer reads what is new: every acknowledged
record is at the offset that was told, each record is there once, and those of a producer are in
its order. At the end everything is read once more from the beginning.

    python -m tests.faults.kill_loop --rounds 200 --seed 1
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.broker_process import BrokerProcess
from tests.faults.kill_load import ConfluentLoad, Load, Numbered, Place, TailraceLoad, decode

PARTITION_COUNT = 2
SEGMENT_MS = "400"  # rolls several times a second or so, because segment.bytes may not be small
TOPICS = {
    "default": {"segment.ms": SEGMENT_MS},
    "each": {"segment.ms": SEGMENT_MS, "flush.messages": "1"},
    "some": {"segment.ms": SEGMENT_MS, "flush.messages": "200", "flush.ms": "100"},
}
COMPACTED = "compacted"
COMPACTED_OPTIONS = {"cleanup.policy": "compact", "segment.ms": SEGMENT_MS, "min.cleanable.dirty.ratio": "0.05"}
BROKER_OPTIONS = {
    "log.segment.bytes": "1048576",
    "log.retention.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.cleaner.backoff.ms": "100",
}
STEP_TIMEOUT_S = 60.0
START_KILL_SHARE = 0.25
RUNNING_S = (0.05, 0.8)


class LoopFailure(AssertionError):
    """A promise that was not kept."""


class Check:
    """What a consumer has seen, from the beginning on."""

    def __init__(self) -> None:
        self.records: defaultdict[Place, list[Numbered]] = defaultdict(list)  # by offset
        self._last: dict[tuple[Place, int], int] = {}  # the last number of each producer

    def has(self, place: Place, record: Numbered) -> bool:
        return record.number <= self._last.get((place, record.producer), -1)

    def end(self, place: Place) -> int:
        return len(self.records[place])

    def take(self, place: Place, offset: int, value: bytes) -> None:
        if offset != self.end(place):
            raise LoopFailure(f"{place} goes on at {offset} where {self.end(place)} comes next")
        record = decode(value)
        before = self._last.get((place, record.producer), -1)
        if record.number != before + 1:
            raise LoopFailure(f"{place} at {offset}: record {record.number} of {record.producer} after {before}")
        self._last[place, record.producer] = record.number
        self.records[place].append(record)


class Loop:
    """A broker, its producers and a consumer."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.broker = BrokerProcess(folder, BROKER_OPTIONS)
        self.places: list[Place] = [(topic, index) for topic in TOPICS for index in range(PARTITION_COUNT)]
        self.loads: list[Load] = []
        self.check = Check()
        self.checked_count = 0
        self.start_kill_count = 0
        self.start_seconds: list[float] = []

    @property
    def acknowledged_count(self) -> int:
        return sum(load.count for load in self.loads)

    def run(self, rounds: int, progress: Progress) -> None:
        self._start()
        try:
            self._create()
            self._begin()
            for number in range(1, rounds + 1):
                self._round()
                progress.show(number, self.acknowledged_count, self.start_kill_count)
            for load in self.loads:
                load.stop()
            self._complain()
            self._finish()
        finally:
            self.broker.kill()

    def _create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        topics = [NewTopic(name, PARTITION_COUNT, 1, config=options) for name, options in TOPICS.items()]
        topics.append(NewTopic(COMPACTED, 1, 1, config=COMPACTED_OPTIONS))
        for outcome in admin.create_topics(topics).values():
            outcome.result(STEP_TIMEOUT_S)

    def _begin(self) -> None:
        address = self.broker.address
        self.loads = [
            ConfluentLoad(address, 0, self.places, COMPACTED, "lz4"),
            ConfluentLoad(address, 1, self.places, COMPACTED, "none"),
            TailraceLoad(address, 2, self.places, COMPACTED, "zstd"),
        ]
        for load in self.loads:
            load.start()
        self._consumer = self._assign(self.places)

    def _assign(self, places: list[Place]) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for topic, index in places])
        return consumer

    def _round(self) -> None:
        wanted = self.acknowledged_count + self.random.randrange(1, 600)
        self._wait_for(lambda: self.acknowledged_count >= wanted, "the producers get on")
        time.sleep(self.random.uniform(*RUNNING_S))
        self.broker.kill()
        if self.random.random() < START_KILL_SHARE:
            self.broker.launch()
            if not self.broker.wait_until_ready(self.random.uniform(0, self.start_seconds[-1])):
                self.start_kill_count += 1
            self.broker.kill()
        self._start()
        self._complain()
        self._read_on()

    def _start(self) -> None:
        started = time.monotonic()
        self.broker.start()
        self.start_seconds.append(time.monotonic() - started)

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not condition():
            self._complain()
            if time.monotonic() > deadline:
                raise LoopFailure(f"not within {STEP_TIMEOUT_S:g} s: {what}")
            time.sleep(0.005)

    def _complain(self) -> None:
        for load in self.loads:
            if load.failures:
                raise LoopFailure(f"producer {load.producer} was refused: {load.failures[0]}")
        if "Traceback" in self.broker.log:
            raise LoopFailure(self.broker.log[-4000:])

    def _read_on(self) -> None:
        """Read up to everything that is acknowledged now, and compare."""
        news = [load.news.popleft() for load in self.loads for _ in range(len(load.news))]
        self._read(self._consumer, self.check, lambda: [told for told in news if not _is_read(self.check, told)])
        self.checked_count += len(news)
        for place, offset, record in news:
            found = record if offset is None else self.check.records[place][offset]
            if found != record:
                raise LoopFailure(f"{place} at {offset}: {record} was acknowledged, {found} is there")

    def _read(self, consumer: Consumer, check: Check, missing: Callable[[], list[Any]]) -> None:
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while left := missing():
            if time.monotonic() > deadline:
                raise LoopFailure(f"{len(left)} acknowledged records or places cannot be read, such as {left[0]}")
            for message in consumer.consume(2000, 0.1):
                error = message.error()
                if error is None:
                    place = (message.topic() or "", message.partition() or 0)
                    check.take(place, message.offset() or 0, message.value() or b"")
                elif error.code() >= 0 and not error.retriable():  # below 0 are librdkafka's own: a lost connection
                    raise LoopFailure(f"the consumer was refused: {error}")

    def _finish(self) -> None:
        """Everything was acknowledged: read all of it again and compare each offset."""
        self._read_on()
        self._consumer.close()
        consumer = self._assign(self.places)
        ends = {}
        for topic, index in self.places:
            ends[topic, index] = consumer.get_watermark_offsets(TopicPartition(topic, index), STEP_TIMEOUT_S)[1]
        again = Check()
        self._read(consumer, again, lambda: [(place, end) for place, end in ends.items() if again.end(place) < end])
        consumer.close()
        if again.records != self.check.records:
            raise LoopFailure("what was read before and what is there at the end differ")
        stored = sum(ends.values())
        if stored != self.checked_count:
            raise LoopFailure(f"{self.checked_count} records were acknowledged, {stored} are there")
        self._finish_compacted()

    def _finish_compacted(self) -> None:
        consumer = self._assign([(COMPACTED, 0)])
        end = consumer.get_watermark_offsets(TopicPartition(COMPACTED, 0), STEP_TIMEOUT_S)[1]
        newest: dict[bytes, int] = {}
        position = 0
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while position < end:
            if time.monotonic() > deadline:
                raise LoopFailure(f"the compacted topic cannot be read behind {position} of {end}")
            for message in consumer.consume(2000, 0.1):
                if message.error() is not None:
                    continue
                key, record = message.key() or b"", decode(message.value() or b"")
                if record.number <= newest.get(key, -1):
                    raise LoopFailure(f"{key!r}: {record.number} after {newest[key]}")
                newest[key] = record.number
                position = (message.offset() or 0) + 1
        consumer.close()
        acknowledged = {key: number for load in self.loads for key, number in load.newest.items()}
        if newest != acknowledged:
            raise LoopFailure("the last value of a key in the compacted topic is not the one acknowledged last")


def _is_read(check: Check, told: tuple[Place, int | None, Numbered]) -> bool:
    place, offset, record = told
    return check.has(place, record) if offset is None else offset < check.end(place)


class Progress:
    """A bar where there is a terminal, a line now and then where there is none."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._is_terminal = sys.stderr.isatty()

    def show(self, number: int, count: int, start_kill_count: int) -> None:
        text = f"round {number}/{self._rounds}, {count} acknowledged, {start_kill_count} kills while starting"
        if self._is_terminal:
            done = 30 * number // self._rounds
            print(f"\r[{'#' * done}{'.' * (30 - done)}] {text}", end="", file=sys.stderr, flush=True)
        elif number % 10 == 0:
            print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--folder", type=Path, help="where the disk is; a temporary folder unless told")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        loop = Loop(Path(name), given.seed)
        try:
            loop.run(given.rounds, Progress(given.rounds))
        except LoopFailure as failure:
            sys.exit(f"seed {given.seed}: {failure}")
    starts = sorted(loop.start_seconds)
    taken_s = time.monotonic() - started
    print(
        f"\n{given.rounds} rounds in {taken_s:.0f} s: {loop.acknowledged_count} records acknowledged, "
        f"{loop.start_kill_count} more kills before the broker was ready; "
        f"start and recovery {starts[len(starts) // 2]:.2f} s in the middle, {starts[-1]:.2f} s at most; "
        "none lost, none twice, none out of order"
    )


if __name__ == "__main__":
    main()
