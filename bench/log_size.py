"""The cost of appends and reads by the size of a log.

    python -m bench.log_size [--megabytes 10 100 1000 10000] [--rounds 5]

A partition is filled to each size. Then batches of 16 KB are appended and read with the storage layer alone, and
through a broker that is started on the same folder. The sizes take turns, round by round, so that other work on the
machine affects all of them. The figure is the CPU time, user and system, of one operation. Reads are of one batch: in
order, at random offsets, and lookups of random timestamps. Writes `docs/benchmarks/log_size.json`, `.md` and `.png`.
The folder needs disk space for all sizes together and is removed at the end.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench import machine
from bench.cache import CHECKOUT
from bench.log_size_broker import BrokerSide, Process, make_topics
from bench.log_size_report import write_report
from bench.timed_batch import BATCH_RECORDS, TimedBatches
from tailrace.base.clock import SystemClock
from tailrace.base.limits import LOOKUP_CHUNK_BYTES
from tailrace.records.batch import read_header
from tailrace.storage.fs import File, RealFileSystem
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

KINDS = ("append", "read_in_order", "read_at_random", "bare_read", "find_time")
OPERATIONS = 200
CONFIG = LogConfig(retention_ms=-1)


class StorageSide:
    """Operations on the log itself, each as a list of prepared calls."""

    def __init__(self, log: Log, batches: TimedBatches, random: Random) -> None:
        self._log = log
        self._batches = batches
        self._random = random

    def append(self) -> list[Callable[[], object]]:
        made = [self._batches.make() for _ in range(OPERATIONS)]
        headers = [read_header(batch) for batch in made]
        return [
            lambda batch=batch, header=header: self._log.append(batch, header, 0)  # type: ignore[misc]
            for batch, header in zip(made, headers, strict=True)
        ]

    def read_in_order(self) -> list[Callable[[], object]]:
        end = self._log.log_end_offset // BATCH_RECORDS
        first = self._random.randrange(max(1, end - OPERATIONS))
        return [self._read(number) for number in range(first, first + OPERATIONS)]

    def read_at_random(self) -> list[Callable[[], object]]:
        end = self._log.log_end_offset // BATCH_RECORDS
        return [self._read(self._random.randrange(end)) for _ in range(OPERATIONS)]

    def _read(self, number: int) -> Callable[[], object]:
        offset, end_offset = number * BATCH_RECORDS, self._log.log_end_offset
        return lambda: self._log.read(offset, self._batches.size_bytes, end_offset, True)

    def bare_read(self) -> list[Callable[[], object]]:
        """Return plain kernel reads of as many bytes at random positions: those of a lookup and of the batch."""
        segments = self._log.segments[:-1] or self._log.segments
        calls: list[Callable[[], object]] = []
        for _ in range(OPERATIONS):
            segment = self._random.choice(segments)
            position = self._random.randrange(max(1, segment.size_bytes - self._batches.size_bytes))
            calls.append(lambda file=segment.file, position=position: self._bare(file, position))  # type: ignore[misc]
        return calls

    def _bare(self, file: File, position: int) -> None:
        file.read_at(position, LOOKUP_CHUNK_BYTES)
        file.read_at(position, self._batches.size_bytes)

    def find_time(self) -> list[Callable[[], object]]:
        end = self._log.log_end_offset
        times = [self._batches.timestamp_of(self._random.randrange(end)) for _ in range(OPERATIONS)]
        return [lambda at=at: self._log.offset_for_timestamp(at) for at in times]  # type: ignore[misc]


def _cpu_us(calls: Sequence[Callable[[], object]]) -> float:
    started = time.process_time_ns()
    for call in calls:
        call()
    return (time.process_time_ns() - started) / len(calls) / 1e3


def _fill(log: Log, batches: TimedBatches, size_bytes: int) -> None:
    while log.size_bytes < size_bytes:
        for _ in range(64):
            batch = batches.make()
            log.append(batch, read_header(batch), 0)


def _topic(megabytes: int) -> str:
    return f"log-{megabytes}"


def _measure_storage(folder: Path, batches: dict[int, TimedBatches], rounds: int) -> dict[int, dict[str, Any]]:
    log_dir = LogDir.open(RealFileSystem(), str(folder), SystemClock(), lambda _topic: CONFIG)
    try:
        sides = {}
        for size, made in batches.items():
            log = log_dir.logs[_topic(size), 0]
            _fill(log, made, size * 1_000_000)
            log.flush()
            print(f"{size} MB: {len(log.segments)} segments", flush=True)
            sides[size] = StorageSide(log, made, Random(size))
        found: dict[int, dict[str, list[float]]] = {size: {name: [] for name in KINDS} for size in sides}
        for number in range(-1, rounds):  # the first round warms up and is not counted
            for name in KINDS:
                for size, side in sides.items():
                    value = _cpu_us(getattr(side, name)())
                    if number >= 0:
                        found[size][name].append(value)
        segments = {size: len(log_dir.logs[_topic(size), 0].segments) for size in sides}
        return {size: {"segments": segments[size], "cpu_us": _spreads(found[size])} for size in sides}
    finally:
        log_dir.close()


def _measure_broker(folder: Path, batches: dict[int, TimedBatches], rounds: int) -> dict[int, dict[str, Any]]:
    process = Process(folder)
    try:
        sides = {size: BrokerSide(process, _topic(size), made, Random(size)) for size, made in batches.items()}
        found: dict[int, dict[str, list[float]]] = {size: {} for size in sides}
        for number in range(-1, rounds):
            for name in BrokerSide.KINDS:
                for size, side in sides.items():
                    value = side.measure(name)
                    if number >= 0:
                        found[size].setdefault(name, []).append(value)
        return {size: {"cpu_us": _spreads(found[size])} for size in sides}
    finally:
        process.stop()


def _spreads(found: dict[str, list[float]]) -> dict[str, Any]:
    return {
        name: {"median": round(statistics.median(values), 2), "rounds": [round(value, 2) for value in values]}
        for name, values in found.items()
    }


def measure(megabytes: Sequence[int], rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Measure the same operations on logs of each size."""
    batches = {size: TimedBatches() for size in megabytes}
    make_topics(folder, [_topic(size) for size in megabytes])
    storage = _measure_storage(folder, batches, rounds)
    broker = _measure_broker(folder, batches, rounds)
    return [{"megabytes": size, "storage": storage[size], "broker": broker[size]} for size in megabytes]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.log_size", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100, 1000, 10_000], help="sizes of the log")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each operation (default 5)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace")
    folder = Path(tempfile.mkdtemp(prefix="tailrace-log-size-"))
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < sum(arguments.megabytes) * 1_500_000:
        print(f"not enough disk space: only {free_bytes / 1e9:.0f} GB are free", file=sys.stderr)
        return 1
    try:
        results = measure(sorted(arguments.megabytes), arguments.rounds, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    command = f"python -m bench.log_size --rounds {arguments.rounds} --megabytes"
    write_report(
        {
            "command": " ".join([command, *map(str, sorted(arguments.megabytes))]),
            "conditions": conditions | {"load after the run": machine.load()},
            "batch_bytes": TimedBatches().size_bytes,
            "operations": OPERATIONS,
            "results": results,
        },
        arguments.output,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
