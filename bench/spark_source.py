"""The Spark source and sink: rows a second from topics to nowhere, from rows to topics, and from topic to topic.

    python -m bench.spark_source [--records 5000000] [--rounds 3] [--cores 2]

One broker, one topic of records with keys of 16 bytes and values of 100, one Spark session. Every job
runs once uncounted and then once in each round; what is reported is the median of the rounds. Where
Maven Central can be reached, Spark's own Kafka connector does the same reads. Writes
`docs/benchmarks/spark_source.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import tailrace
import tailrace.spark
from bench import machine
from bench.broker import TailraceBroker, cpu_seconds
from bench.cache import CHECKOUT, Unavailable
from bench.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_COUNT = 2
KEY_BYTES, VALUE_BYTES = 16, 100
DISTINCT_ROWS = 10_000
FEW_COLUMNS = "key,value"
TOPIC = "rows"
AT_LEAST_ONCE = "copy as a stream, batches of a tenth, at least once"
EXACTLY_ONCE = "copy as a stream, batches of a tenth, exactly once"


class Jobs:
    """Return the measured jobs by name."""

    def __init__(self, spark: SparkSession, servers: str, record_count: int, has_kafka: bool) -> None:
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": servers}
        self._count = record_count
        self.by_name: dict[str, Callable[[], None]] = {
            "read all 8 columns to noop": lambda: self._read("tailrace", includeHeaders="true"),
            "read the 7 default columns to noop": lambda: self._read("tailrace"),
            "read key and value to noop": lambda: self._read("tailrace", columns=FEW_COLUMNS),
            "stream to noop, batches of a tenth": self._stream,
            "write rows that Spark makes": self._write,
            "copy a topic": self._copy,
            AT_LEAST_ONCE: lambda: self._copy_stream("at-least-once"),
            EXACTLY_ONCE: lambda: self._copy_stream("exactly-once"),
        }
        if has_kafka:
            self.by_name["read all 8 columns to noop, format kafka"] = lambda: self._read(
                "kafka", includeHeaders="true"
            )

    def _read(self, name: str, **options: str) -> None:
        frame = self._spark.read.format(name).options(**self._servers, subscribe=TOPIC, **options).load()
        frame.write.format("noop").mode("overwrite").save()

    def _stream(self) -> None:
        self._run(self._read_stream().writeStream.format("noop"))

    def _read_stream(self, **options: str) -> Any:
        reader = self._spark.readStream.format("tailrace").options(**self._servers, subscribe=TOPIC, **options)
        return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(self._count // 10)).load()

    def _run(self, writer: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
            writer.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()

    def _write(self) -> None:
        value = f"rpad(cast(id AS STRING), {VALUE_BYTES}, 'x')"
        rows = self._spark.range(self._count).selectExpr(f"lpad(cast(id AS STRING), {KEY_BYTES}, '0') AS key", value)
        self._save(rows.toDF("key", "value"))

    def _copy(self) -> None:
        reader = self._spark.read.format("tailrace").options(**self._servers, subscribe=TOPIC, columns=FEW_COLUMNS)
        self._save(reader.load())

    def _copy_stream(self, delivery: str) -> None:
        with self._new_topic() as topic:
            writer = self._read_stream(columns=FEW_COLUMNS).writeStream.format("tailrace").options(**self._servers)
            self._run(writer.options(topic=topic, delivery=delivery))

    def _save(self, frame: Any) -> None:
        with self._new_topic() as topic:
            frame.write.format("tailrace").options(**self._servers, topic=topic).mode("append").save()

    @contextmanager
    def _new_topic(self) -> Iterator[str]:
        topic = f"copy-{uuid.uuid4().hex[:8]}"
        create_topic(self._servers["kafka.bootstrap.servers"], topic)
        yield topic
        delete_topic(self._servers["kafka.bootstrap.servers"], topic)


def create_topic(servers: str, topic: str) -> None:
    """Create a topic with as many partitions as there are cores."""
    with tailrace.Admin(servers) as admin:
        admin.create_topics([tailrace.NewTopic(topic, PARTITION_COUNT)])


def delete_topic(servers: str, topic: str) -> None:
    """Delete what a job wrote, so that the disk does not fill up."""
    with tailrace.Admin(servers) as admin:
        admin.delete_topics([topic])


def fill(servers: str, count: int) -> None:
    """Write the records that the jobs read."""
    create_topic(servers, TOPIC)
    keys, values = ([os.urandom(size) for _ in range(DISTINCT_ROWS)] for size in (KEY_BYTES, VALUE_BYTES))
    table = pa.table({"key": keys, "value": values})
    with tailrace.Producer(servers, linger_ms=5) as producer:
        for _ in range(count // DISTINCT_ROWS):
            producer.send_table(TOPIC, table)


def measure(jobs: Jobs, broker_pid: int, record_count: int, rounds: int) -> list[dict[str, Any]]:
    """Return the rows per second of each job in each round, after a warm-up round."""
    seconds: dict[str, list[float]] = {}
    broker_s: dict[str, list[float]] = {}
    for number in range(-1, rounds):
        for name, run in jobs.by_name.items():
            used, started = cpu_seconds(broker_pid), time.perf_counter()
            run()
            taken = time.perf_counter() - started
            seconds.setdefault(name, []).append(taken)
            broker_s.setdefault(name, []).append(cpu_seconds(broker_pid) - used)
            label = "warm-up" if number < 0 else f"round {number + 1}"
            print(f"{label:8} {name:52} {record_count / taken:12,.0f} rows/s", flush=True)
    return [
        {
            "job": name,
            "rows_per_s": {
                "median": round(statistics.median(record_count / one for one in found[1:])),
                "rounds": [round(record_count / one) for one in found[1:]],
                "first": round(record_count / found[0]),
            },
            "broker_cpu_s": round(statistics.median(broker_s[name][1:]), 3),
        }
        for name, found in seconds.items()
    ]


def _cost_of_exactly_once(results: list[dict[str, Any]]) -> str:
    """Return a sentence that compares both deliveries round by round, because they differ less than rounds do."""
    rounds = {row["job"]: row["rows_per_s"]["rounds"] for row in results}
    shares = [once / least for once, least in zip(rounds[EXACTLY_ONCE], rounds[AT_LEAST_ONCE], strict=True)]
    return (
        f"Copying exactly once reaches {statistics.median(shares):.2f} of the rate of at least once, in the median of "
        f"{len(shares)} rounds ({min(shares):.2f} to {max(shares):.2f})."
    )


def page(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = "".join(
        f"| {row['job']} | {row['rows_per_s']['median']:,} | {min(row['rows_per_s']['rounds']):,}"
        f" | {row['rows_per_s']['first']:,} | {row['broker_cpu_s']:.2f} |\n"
        for row in result["results"]
    )
    left_out = "".join(f"\n{sentence}\n" for sentence in result["missing"])
    return f"""# Spark source and sink

Written by `{result["command"]}`; the figures of every round are in `spark_source.json`.

One broker process with default settings and one Spark session (`local[{result["cores"]}]`) share the machine. The topic
has {result["records"]:,} records in {PARTITION_COUNT} partitions, with keys of {KEY_BYTES} and values of {VALUE_BYTES}
bytes, without compression. Every job runs over all of them: once uncounted, in which Spark starts its Python workers,
and then in {result["rounds"]} rounds. A row a second counts rows read or written, and copying reads and writes each.

| job | rows/s, median | slowest round | uncounted first run | broker CPU s |
| --- | ---: | ---: | ---: | ---: |
{rows}
{_cost_of_exactly_once(result["results"])}
{left_out}
## The machine

{machine.table(result["conditions"])}"""


def _connector() -> tuple[dict[str, str], list[str]]:
    """Return the config with the official connector for the session, or a sentence that says why there is none."""
    import pyspark

    try:
        return {"spark.jars": ",".join(map(str, connector_jars(pyspark.__version__)))}, []
    except Unavailable as reason:
        return {}, [f"Spark's own Kafka connector was left out: {reason}."]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_source", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=5_000_000, help="records in the topic (default 5000000)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (default 3)")
    parser.add_argument("--cores", type=int, default=2, help="cores of the session (default 2)")
    parser.add_argument("--only", default="", help="run only jobs whose names contain this, and write nothing")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "pyspark", "pyarrow")
    settings, missing = _connector()
    with TailraceBroker() as broker:
        fill(broker.bootstrap_servers, arguments.records)
        spark = tailrace.spark.session("bench", master=f"local[{arguments.cores}]", config=settings)
        jobs = Jobs(spark, broker.bootstrap_servers, arguments.records, bool(settings))
        jobs.by_name = {name: run for name, run in jobs.by_name.items() if arguments.only in name}
        results = measure(jobs, broker.pid, arguments.records, arguments.rounds)
        spark.stop()
    if arguments.only:
        return 0
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line("bench.spark_source", records=arguments.records, rounds=arguments.rounds),
        "records": arguments.records,
        "rounds": arguments.rounds,
        "cores": arguments.cores,
        "conditions": conditions,
        "missing": missing,
        "results": results,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "spark_source.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "spark_source.md").write_text(page(result))
    print(f"written: spark_source.json, spark_source.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
