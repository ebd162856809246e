"""What `bench.connectors` measures: a flow, the system's own client alone, and what one would use instead of a flow."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import tailrace
from bench.cache import Unavailable
from bench.kafka_connect import KafkaConnect
from bench.maven import Classpath
from tailrace.client.offset import LATEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id bigint, cents bigint, name string, at timestamp"
TOPIC = "rows"
PARTITION_COUNT = 2
_CONNECT_HEAP_MB = 1024
_WATCH_INTERVAL_S = 0.005
_WATCH_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Instead:
    """Something else that moves the same rows: its name, and a run that returns its seconds."""

    name: str
    run: Callable[[], float]


@dataclass(frozen=True)
class Job:
    """A flow to measure, by its source and its sink, and the same with the system's own client."""

    name: str
    source: dict[str, Any]
    make_sink: Callable[[], dict[str, Any]]
    """Returns a sink that is empty."""
    row_count: int
    alone: str
    run_alone: Callable[[], None]
    prepare: Callable[[], None] = lambda: None
    instead: tuple[Instead, ...] = ()
    document: dict[str, Any] = field(default_factory=dict)
    """Keys of the pipeline file in place of those that follow from the source and the sink; None leaves a key out."""
    feed: Callable[[dict[str, Any]], None] | None = None
    """Sends the rows to the source, which is given, while the flow runs; then the time begins with the first one."""


class Rows:
    """The rows of all jobs, in the forms that clients take."""

    def __init__(self, count: int) -> None:
        ids = np.arange(count)
        self.count = count
        self.table = pa.table(
            {
                "id": pa.array(ids),
                "cents": pa.array(ids * 7),
                "name": pa.array([f"customer {number % 5000}" for number in range(count)]),
                "at": pa.array(ids * 1_000_000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
            }
        )
        texts = zip(
            *(self.table.column(name).to_pylist() for name in ("id", "cents", "name")),
            [str(at)[:19].replace(" ", "T") + "Z" for at in self.table.column("at").to_pylist()],
            strict=True,
        )
        self.objects = [{"id": a, "cents": b, "name": c, "at": d} for a, b, c, d in texts]
        self.lines = [json.dumps(each).encode() for each in self.objects]


@dataclass
class Place:
    """Where jobs run: one broker, one Spark session, the rows, and a Kafka Connect worker if a job asks for it."""

    spark: SparkSession
    servers: str
    folder: Path
    rows: Rows
    stack: ExitStack
    jdbc_jar: Path | None = None
    """The JDBC driver of PostgreSQL on the class path of Spark; None if it could not be downloaded."""
    debezium: Classpath | None = None
    """Debezium's connector for PostgreSQL; None if it could not be downloaded."""
    _connects: list[KafkaConnect | None] = field(default_factory=list)

    def connect(self) -> KafkaConnect | None:
        """Return a Kafka Connect worker, which runs to the end; None if it cannot be downloaded."""
        if not self._connects:
            plugins = [] if self.debezium is None else [self.debezium]
            try:
                worker = KafkaConnect(self.servers, plugins=plugins, heap_mb=_CONNECT_HEAP_MB)
                self._connects.append(self.stack.enter_context(worker))
            except Unavailable as reason:
                print(f"Kafka Connect is left out: {reason}")
                self._connects.append(None)
        return self._connects[0]

    def create_topic(self) -> str:
        """Create an empty topic, and return its name."""
        name = f"out-{uuid.uuid4().hex[:8]}"
        with tailrace.Admin(self.servers) as admin:
            admin.create_topics([tailrace.NewTopic(name, PARTITION_COUNT)])
        return name

    def watch_topic(self, name: str) -> float:
        """Return the seconds in which a topic gets all rows."""
        with tailrace.Admin(self.servers) as admin:
            ends = dict.fromkeys(range(PARTITION_COUNT), LATEST)
            return watch(lambda: sum(each.offset for each in admin.list_offsets(name, ends).values()), self.rows.count)


JobsOf = Callable[[Place], Iterator[Job]]


def watch(progress: Callable[[], int], total: int) -> float:
    """Return the seconds from the first progress to the total, without the start of what makes it."""
    begun_s = time.perf_counter()
    deadline_s = begun_s + _WATCH_TIMEOUT_S
    while (found := progress()) < total:
        if time.perf_counter() > deadline_s:
            raise RuntimeError(f"{found} of {total} came within {_WATCH_TIMEOUT_S:.0f} s")
        time.sleep(_WATCH_INTERVAL_S)
        if not found:
            begun_s = time.perf_counter()
    return time.perf_counter() - begun_s


def topic_source(**more: Any) -> dict[str, Any]:
    """The topic that is filled before."""
    return {"connector": "topic", "name": TOPIC, "schema": SCHEMA, **more}


def topic_sink() -> dict[str, Any]:
    """A topic of its own for each run."""
    return {"connector": "topic", "name": f"out-{uuid.uuid4().hex[:8]}", "partitions": PARTITION_COUNT}


def raw_topic_sink() -> dict[str, Any]:
    """The same, for rows that are records."""
    return {**topic_sink(), "format": "raw"}
