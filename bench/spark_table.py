"""The time of a micro-batch that is joined with a compacted topic, by the size of the table.

    python -m bench.spark_table [--sizes 10000 100000] [--rate 1000] [--seconds 15] [--rounds 2]

One broker, one Spark session, one query at a time to nowhere: without a join, with a table that Python workers keep
(`table()` of pipelines), and with the topic read anew in each batch. A process writes records to the stream, and one
row of the table in each tenth of a second. What is reported is the median of `triggerExecution` of the batches that had
rows, without the first ones. Writes `docs/benchmarks/spark_table.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tailrace
import tailrace.spark
from bench import machine
from bench.broker import TailraceBroker
from bench.cache import CHECKOUT
from bench.spark_trigger import run
from tailrace.pipeline import FlowPlace, FlowStart, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM_PARTITIONS, TABLE_PARTITIONS = 3, 2
CHANGE_INTERVAL_S = 0.1
SCHEMA = "name string, city string, score double"
NO_JOIN, KEPT, ANEW = "no join", "kept by workers", "read anew"


def row(number: int) -> bytes:
    """Return a row of the table."""
    return b'{"name":"customer %d","city":"city %d","score":%d.5}' % (number, number % 500, number % 100)


def fill(servers: str, topic: str, size: int) -> None:
    """Write every row of a table once."""
    with tailrace.Producer(servers, linger_ms=20) as producer:
        for number in range(size):
            producer.send(topic, row(number), b"%d" % number)


def write(servers: str, stream: str, topic: str, size: int, rate: int) -> None:
    """Write `rate` records a second to the stream, and changes of the table, until the process is ended."""
    with tailrace.Producer(servers, linger_ms=5) as producer:
        started_s, sent, changed = time.monotonic(), 0, 0
        while True:
            producer.send(stream, b"x" * 100, b"%d" % (sent * 7919 % size))
            sent += 1
            now_s = time.monotonic() - started_s
            if now_s > changed * CHANGE_INTERVAL_S:
                producer.send(topic, row(changed), b"%d" % (changed * 104729 % size))
                changed += 1
            if sent / rate - now_s > 0.01:
                time.sleep(sent / rate - now_s)


def query(spark: SparkSession, servers: str, stream: str, topic: str, way: str) -> DataFrame:
    """Return the rows of a query."""
    from pyspark.sql.functions import col, from_json, max_by

    options = {"kafka.bootstrap.servers": servers, "subscribe": stream, "startingOffsets": "latest"}
    rows = spark.readStream.format("tailrace").options(**options).load()
    rows = rows.select(col("key").cast("string").alias("customer"), "value")
    if way == NO_JOIN:
        return rows
    if way == KEPT:
        place = FlowPlace("bench", Path("."), Path("."), {"bootstrap.servers": servers})
        customers = table(topic, key="customer", schema=SCHEMA).read(FlowStart(spark, place))
    else:
        whole = {"kafka.bootstrap.servers": servers, "subscribe": topic, "columns": "key,value,offset"}
        records = spark.read.format("tailrace").options(**whole).load()
        newest = records.groupBy("key").agg(max_by("value", "offset").alias("value")).where("value IS NOT NULL")
        decoded = newest.select(
            col("key").cast("string").alias("customer"), from_json(col("value").cast("string"), SCHEMA).alias("row")
        )
        customers = decoded.select("customer", "row.*")
    return rows.join(customers, "customer", "left")


def measure(spark: SparkSession, servers: str, size: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the times of each way to join at one size of the table."""
    stream, topic = f"stream-{size}", f"table-{size}"
    with tailrace.Admin(servers) as admin:
        new = [tailrace.NewTopic(stream, STREAM_PARTITIONS)]
        new.append(tailrace.NewTopic(topic, TABLE_PARTITIONS, configs={"cleanup.policy": "compact"}))
        admin.create_topics(new)
    fill(servers, topic, size)
    started = multiprocessing.get_context("spawn").Process(
        target=write, args=(servers, stream, topic, size, arguments.rate)
    )
    started.start()
    times: dict[str, list[int]] = {way: [] for way in (NO_JOIN, KEPT, ANEW)}
    try:
        for _ in range(arguments.rounds):
            for way in times:
                reports = run(query(spark, servers, stream, topic, way), arguments.seconds)
                new_times = [report["durationMs"]["triggerExecution"] for report in reports]
                times[way] += new_times
                print(f"{size:9,} rows, {way:16} {statistics.median(new_times):6.0f} ms", flush=True)
    finally:
        started.kill()
        started.join()
    return [
        {
            "size": size,
            "way": way,
            "batches": len(found),
            "median_ms": statistics.median(found),
            "p99_ms": sorted(found)[len(found) * 99 // 100],
        }
        for way, found in times.items()
    ]


def page(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = "".join(
        f"| {row['size']:,} | {row['way']} | {row['median_ms']:.0f} | {row['p99_ms']:.0f} | {row['batches']:,} |\n"
        for row in result["results"]
    )
    return f"""# The time of a micro-batch with a table

Written by `{result["command"]}`; [decision 13](../decisions/0013-table-in-workers.md) uses these numbers.

One broker and one Spark session (`local[2]`) share the machine. A process writes {result["rate"]:,} records a second
to a stream of {STREAM_PARTITIONS} partitions, and ten changes a second to a compacted topic of {TABLE_PARTITIONS}
partitions. The query joins each record with the newest row of its key and writes to nowhere. Each way runs alone,
{result["rounds"]} times for {result["seconds"]:g} s in turn; the times are those of `triggerExecution`, of batches with
rows.

| rows of the table | the table is | median ms | p99 ms | batches |
| ---: | --- | ---: | ---: | ---: |
{rows}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_table", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="rows (default 10000 100000)")
    parser.add_argument("--rate", type=int, default=1000, help="records a second (default 1000)")
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of each query (default 15)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (default 2)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "pyspark", "pyarrow")
    with TailraceBroker() as broker:
        spark = tailrace.spark.session("bench", master="local[2]", log_level="off")
        results = [
            found for size in arguments.sizes for found in measure(spark, broker.bootstrap_servers, size, arguments)
        ]
        spark.stop()
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line("bench.spark_table", seconds=arguments.seconds, rounds=arguments.rounds),
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "conditions": conditions,
        "results": results,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "spark_table.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "spark_table.md").write_text(page(result))
    print(f"written: spark_table.json, spark_table.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
