"""Two brokers and mirrors between them, whose tasks run in threads of the test instead of Spark."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import tailrace
from tailrace.spark.mirror.copy_task import run_copy
from tailrace.spark.mirror.job import ClusterConfig, CopyJob, CopyReport
from tailrace.spark.mirror.name import MirrorName
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.run import MirrorRun
from tailrace.testing import Broker


def in_threads(jobs: Sequence[CopyJob]) -> list[CopyReport]:
    """Run the tasks of a round, each in a thread."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run_copy, jobs))


def options(source: Broker, target: Broker, topics: str, **more: Any) -> MirrorOptions:
    """The options of a mirror from one broker to another, called `a` and `b` unless `name` says otherwise."""
    name = MirrorName(*more.pop("name", ("a", "b")))
    return MirrorOptions(name, config_of(source), config_of(target), re.compile(topics), **more)


def config_of(broker: Broker) -> ClusterConfig:
    """The client configs for a broker."""
    return ClusterConfig((("bootstrap.servers", broker.bootstrap_servers),))


@contextmanager
def running(chosen: MirrorOptions, *, once: bool = False) -> Iterator[MirrorRun]:
    """A mirror that has started."""
    run = MirrorRun(chosen, lambda _: None)
    try:
        run.start(once=once)
        yield run
    finally:
        run.close()


def copy_once(chosen: MirrorOptions) -> MirrorRun:
    """Copy everything that there is."""
    with running(chosen, once=True) as run:
        run.run(in_threads, lambda _: False, once=True)
    return run


def committed(broker: Broker, topic: str) -> list[tuple[Any, ...]]:
    """All committed records in the order of their partitions, without their offsets."""
    table = tailrace.read_table(
        broker.bootstrap_servers,
        topic,
        columns=["partition", "key", "value", "timestamp", "headers"],
        isolation_level="read_committed",
    )
    rows = table.to_pylist()
    return [(row["partition"], row["key"], row["value"], row["timestamp"], str(row["headers"])) for row in rows]
