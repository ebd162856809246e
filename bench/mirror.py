"""A mirror next to Kafka's MirrorMaker 2: records a second, and for a second of CPU time, between two brokers.

python -m bench.mirror [--records 2000000] [--rounds 3] [--output docs/benchmarks]

Two Tailrace brokers with a topic of four partitions, filled with records of 100 bytes. Each program copies the topic to
a cluster of its own, with its default settings. The time and the CPU time of the program and all its children are
counted from the first copied record to the last, so starting Java and Spark is left out. Each runs once in each round;
the median counts. Writes `mirror.json` into the folder of `--output`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pyarrow as pa

import tailrace
from bench import machine
from bench.broker import TailraceBroker
from bench.cache import CHECKOUT, Unavailable
from bench.mirrormaker import mirrormaker_classpath

TOPIC = "records"
PARTITION_COUNT = 4
VALUE_BYTES = 100
CHUNK = 100_000
TIMEOUT_S = 1_200.0
_WATCH_S = 0.05
_PROPERTIES = """\
clusters = a, b
a.bootstrap.servers = {source}
b.bootstrap.servers = {target}
a->b.enabled = true
a->b.topics = {topic}
b->a.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
tasks.max = 2
"""


class Figures(NamedTuple):
    """What one copy took."""

    records: int
    seconds: float
    cpu_seconds: float


def fill(servers: str, record_count: int) -> None:
    """Write the records of the source."""
    with tailrace.Admin(servers) as admin:
        admin.create_topics([tailrace.NewTopic(TOPIC, PARTITION_COUNT, 1)])
    with tailrace.Producer(servers) as producer:
        for start in range(0, record_count, CHUNK):
            numbers = range(start, min(start + CHUNK, record_count))
            values = pa.array([b"%0*d" % (VALUE_BYTES, number) for number in numbers], pa.binary())
            producer.send_table(TOPIC, pa.table({"key": values, "value": values})).result()


def mirrormaker_command(source: str, target: str, folder: Path) -> list[str]:
    """Return the command that runs MirrorMaker 2 on its own."""
    classpath = mirrormaker_classpath()
    properties = folder / "mm2.properties"
    properties.write_text(_PROPERTIES.format(source=source, target=target, topic=TOPIC))
    return classpath.command("org.apache.kafka.connect.mirror.MirrorMaker", str(properties), options=["-Xmx1g"])


def mirror_command(source: str, target: str, _folder: Path) -> list[str]:
    """Return the command that runs the mirror."""
    command = [sys.executable, "-m", "tailrace.cli.main", "mirror", "run"]
    return [*command, "--from", f"a={source}", "--to", f"b={target}", "--topics", TOPIC]


PROGRAMS = {"mirror": mirror_command, "MirrorMaker 2": mirrormaker_command}


@contextmanager
def started(command: list[str], log: Path) -> Iterator[psutil.Process]:
    """Run a program in a session of its own, all of which ends with the block."""
    with log.open("w") as output:
        environment = os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        yield psutil.Process(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process and all its children so far, with those that have ended."""
    total = 0.0
    for one in [process, *process.children(recursive=True)]:
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def end_offset(consumer: tailrace.Consumer) -> int:
    """Return how far the copy is written."""
    return sum(consumer.end_offsets([(TOPIC, partition) for partition in range(PARTITION_COUNT)]).values())


def copy(name: str, source: str, record_count: int) -> Figures:
    """Copy the topic to a new broker with one of the programs."""
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as folder, TailraceBroker() as target:
        command = PROGRAMS[name](source, target.bootstrap_servers, Path(folder))
        with tailrace.Admin(target.bootstrap_servers) as admin:
            admin.create_topics([tailrace.NewTopic(TOPIC, PARTITION_COUNT, 1)])
        log = Path(folder) / "log"
        with started(command, log) as process, tailrace.Consumer(target.bootstrap_servers) as consumer:
            deadline_s = time.monotonic() + TIMEOUT_S
            begun: tuple[float, float, int] | None = None
            while (end := end_offset(consumer)) < record_count:
                if begun is None and end:
                    begun = time.monotonic(), cpu_seconds(process), end
                if not process.is_running() or time.monotonic() > deadline_s:
                    raise RuntimeError(f"{name} did not copy everything: {log.read_text()[-2000:]}")
                time.sleep(_WATCH_S)
            if begun is None:
                raise RuntimeError(f"{name} was too fast to be measured; use more records")
            started_at_s, cpu_before_s, copied = begun
            taken_s, cpu_s = time.monotonic() - started_at_s, cpu_seconds(process) - cpu_before_s
            return Figures(record_count - copied, taken_s, cpu_s)


def main() -> None:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    names = [options.only] if options.only else list(PROGRAMS)
    found: dict[str, list[Figures]] = {name: [] for name in names}
    with TailraceBroker() as source:
        fill(source.bootstrap_servers, options.records)
        for _ in range(options.rounds):
            for name in names:
                try:
                    figures = copy(name, source.bootstrap_servers, options.records)
                except Unavailable as reason:
                    print(f"{name} is left out: {reason}")
                    continue
                found[name].append(figures)
                print(
                    f"{name}: {figures.records / figures.seconds:,.0f} records/s, "
                    f"{figures.records / max(figures.cpu_seconds, 0.01):,.0f} records for a CPU second",
                    flush=True,
                )
    if options.output is not None:
        report = {
            name: {
                "records_per_s": statistics.median(one.records / one.seconds for one in rounds),
                "records_per_cpu_s": statistics.median(one.records / max(one.cpu_seconds, 0.01) for one in rounds),
            }
            for name, rounds in found.items()
            if rounds
        }
        text = json.dumps({"machine": machine.conditions(), "records": options.records, "programs": report}, indent=2)
        (options.output / "mirror.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
