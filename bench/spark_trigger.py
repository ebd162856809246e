"""The time of a micro-batch with little to do: our source next to Spark's own Kafka connector.

    python -m bench.spark_trigger [--partitions 3 48] [--rate 1000] [--seconds 20] [--rounds 3]

One broker, one Spark session, one query at a time to nowhere, with and without deduplication and a window. A process
writes so many records a second all the while. Each round runs each query with each connector in turn; what is reported
is the median of `triggerExecution` of the batches that had rows, without the first ones of a query. Where Maven Central
cannot be reached, Spark's connector is left out. Writes `docs/benchmarks/spark_trigger.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tailrace
import tailrace.spark
from bench import machine
from bench.broker import TailraceBroker, cpu_seconds
from bench.cache import CHECKOUT, Unavailable
from bench.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM_BATCHES = 5
VALUE = b"x" * 100
PLAIN = "topic to nowhere"
STATEFUL = "deduplication and a window"
OURS, THEIRS = "tailrace", "kafka"


def write(servers: str, topic: str, rate: int) -> None:
    """Write `rate` records a second until the process is ended."""
    with tailrace.Producer(servers, linger_ms=5) as producer:
        started, sent = time.monotonic(), 0
        while True:
            producer.send(topic, VALUE, b"%d" % sent)
            sent += 1
            ahead_s = sent / rate - (time.monotonic() - started)
            if ahead_s > 0.01:
                time.sleep(ahead_s)


def query(spark: SparkSession, connector: str, servers: str, topic: str, kind: str) -> DataFrame:
    """Return the rows of a query."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "latest"}
    rows = spark.readStream.format(connector).options(**options).load()
    if kind == PLAIN:
        return rows
    from pyspark.sql.functions import window

    unique = rows.withWatermark("timestamp", "1 second").dropDuplicatesWithinWatermark(["key"])
    return unique.groupBy(window("timestamp", "1 second"), "partition").count()


def run(rows: DataFrame, seconds: float) -> list[dict[str, Any]]:
    """Run a query to nowhere for some seconds, and return its reports on batches with rows."""
    reports: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        running = rows.writeStream.format("noop").option("checkpointLocation", folder).start()
        ends_s = None
        while ends_s is None or time.monotonic() < ends_s:
            time.sleep(0.2)
            if (failure := running.exception()) is not None:
                raise failure
            for report in running.recentProgress:
                found = json.loads(report.json)
                if found["numInputRows"]:
                    reports[found["batchId"]] = found
            if ends_s is None and len(reports) >= WARM_BATCHES:
                ends_s = time.monotonic() + seconds
        running.stop()
    return [reports[number] for number in sorted(reports)[WARM_BATCHES:]]


def measure(spark: SparkSession, servers: str, arguments: argparse.Namespace, names: list[str]) -> list[dict[str, Any]]:
    """Return the times of each query."""
    results = []
    for count in arguments.partitions:
        topic = f"rows-{count}"
        with tailrace.Admin(servers) as admin:
            admin.create_topics([tailrace.NewTopic(topic, count)])
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(servers, topic, arguments.rate))
        writer.start()
        try:
            for kind in (PLAIN, STATEFUL):
                results += _measure(spark, servers, topic, kind, count, arguments, names)
        finally:
            writer.kill()
            writer.join()
    return results


def _measure(
    spark: SparkSession,
    servers: str,
    topic: str,
    kind: str,
    count: int,
    arguments: argparse.Namespace,
    names: list[str],
) -> list[dict[str, Any]]:
    times: dict[str, list[int]] = {name: [] for name in names}
    medians: dict[str, list[float]] = {name: [] for name in names}
    parts: dict[str, dict[str, list[int]]] = {name: {} for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            reports = run(query(spark, name, servers, topic, kind), arguments.seconds)
            found = [report["durationMs"]["triggerExecution"] for report in reports]
            for report in reports:
                for part, took in report["durationMs"].items():
                    parts[name].setdefault(part, []).append(took)
            times[name] += found
            medians[name].append(statistics.median(found))
            print(f"{count:3} partitions, {kind:28} {name:9} {medians[name][-1]:6.0f} ms", flush=True)
    return [
        {
            "partitions": count,
            "query": kind,
            "connector": name,
            "batches": len(times[name]),
            "median_ms": statistics.median(times[name]),
            "rounds_ms": medians[name],
            "p99_ms": sorted(times[name])[len(times[name]) * 99 // 100],
            "parts_ms": {part: statistics.median(found) for part, found in parts[name].items()},
        }
        for name in names
    ]


def page(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    theirs = {
        (row["partitions"], row["query"]): row["median_ms"] for row in result["results"] if row["connector"] == THEIRS
    }
    rows = "".join(
        f"| {row['partitions']} | {row['query']} | {row['connector']} | {row['median_ms']:.0f} | {row['p99_ms']:.0f}"
        f" | {_ratio(row, theirs)} |\n"
        for row in result["results"]
    )
    left_out = "".join(f"\n{sentence}\n" for sentence in result["missing"])
    return f"""# The time of a small micro-batch

Written by `{result["command"]}`; the parts of each time are in `spark_trigger.json`.

One broker and one Spark session (`local[2]`) share the machine, and a process writes {result["rate"]:,} records a
second. Each query runs alone, {result["rounds"]} times for {result["seconds"]:g} s in turn with the others; the times
are those of `triggerExecution`, of batches with rows. `kafka` is Spark's own connector, on the JVM.

| partitions | query | format | median ms | p99 ms | to kafka |
| ---: | --- | --- | ---: | ---: | ---: |
{rows}{left_out}
## The machine

{machine.table(result["conditions"])}"""


def _ratio(row: dict[str, Any], theirs: dict[tuple[int, str], float]) -> str:
    other = theirs.get((row["partitions"], row["query"]))
    return f"{row['median_ms'] / other:.2f}" if other else ""


def main() -> int:
    """Run the command line."""
    import pyspark

    parser = argparse.ArgumentParser(prog="python -m bench.spark_trigger", description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[3, 48], help="partitions (default 3 48)")
    parser.add_argument("--rate", type=int, default=1000, help="records a second (default 1000)")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each query (default 20)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "pyspark", "pyarrow")
    settings, names, missing = {}, [OURS], []
    try:
        settings["spark.jars"] = ",".join(map(str, connector_jars(pyspark.__version__)))
        names.append(THEIRS)
    except Unavailable as reason:
        missing.append(f"Spark's own Kafka connector was left out: {reason}.")
    with TailraceBroker() as broker:
        spark = tailrace.spark.session("bench", master="local[2]", config=settings)
        results = measure(spark, broker.bootstrap_servers, arguments, names)
        print(f"broker: {cpu_seconds(broker.pid):.1f} s of CPU", flush=True)
        spark.stop()
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line("bench.spark_trigger", seconds=arguments.seconds, rounds=arguments.rounds),
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "conditions": conditions,
        "missing": missing,
        "results": results,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "spark_trigger.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "spark_trigger.md").write_text(page(result))
    print(f"written: spark_trigger.json, spark_trigger.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
