"""Rows a second through each connector of a pipeline, next to the system's own client alone, and to what replaces it.

    python -m bench.connectors [--rows 200000] [--rounds 3] [--only files,redis] [--output docs/benchmarks]

One broker, one Spark session on two cores. A sink writes the rows of a topic, a source is read into a topic, each as a
pipeline file with its default delivery. What counts is the time of the batches as Spark reports it, so neither the
start of Spark nor that of the flow; for a webhook that listens, that from the first request to the end of the last
batch. The client alone does the same with rows that are ready in memory, in this process:
it is the ceiling of the system, not of a pipeline. What one would use instead of a flow (Debezium and FileStream in a
Kafka Connect worker, Spark's JDBC source) moves the same rows through the same broker; a connector of Kafka Connect is
measured from its first record on. Each job runs once uncounted, and then once in each round; the median counts. Systems
that are not installed are left out. Writes `connectors.json` and `connectors.md` into the folder of `--output`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.postgres_server import Unavailable as PostgresUnavailable

import tailrace
import tailrace.spark
from bench import machine
from bench.broker import TailraceBroker
from bench.cache import CHECKOUT, Unavailable
from bench.connector_jobs.file import file_jobs, line_jobs
from bench.connector_jobs.jdbc import jdbc_jobs
from bench.connector_jobs.job import PARTITION_COUNT, TOPIC, Job, JobsOf, Place, Rows
from bench.connector_jobs.lake import delta_jobs, iceberg_jobs
from bench.connector_jobs.postgres import postgres_jobs
from bench.connector_jobs.service import redis_jobs, s3_jobs, webhook_jobs
from bench.connector_jobs.table import table_jobs
from bench.debezium import debezium_classpath
from bench.jdbc import jdbc_classpath
from bench.maven import Classpath
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import plan_flow
from tailrace.spark.pipeline.run import SESSION_CONFIG, PipelineRun
from tailrace.spark.pipeline.topic_check import create_sinks

SYSTEMS: dict[str, JobsOf] = {
    "files": file_jobs,
    "lines": line_jobs,
    "s3": s3_jobs,
    "redis": redis_jobs,
    "webhook": webhook_jobs,
    "postgres": postgres_jobs,
    "jdbc": jdbc_jobs,
    "delta": delta_jobs,
    "iceberg": iceberg_jobs,
    "table": table_jobs,
}


def fill_topic(place: Place) -> None:
    """Write the rows to the topic that sinks read."""
    with tailrace.Admin(place.servers) as admin:
        admin.create_topics([tailrace.NewTopic(TOPIC, PARTITION_COUNT)])
    with tailrace.Producer(place.servers, linger_ms=20) as producer:
        producer.send_table(TOPIC, pa.table({"value": pa.array(place.rows.lines, pa.binary())}))


def build_flow(place: Place, job: Job, source: dict[str, Any]) -> PipelineRun:
    """Return a flow that can be started."""
    path = place.folder / f"{uuid.uuid4().hex}.yaml"
    document = {"name": "flow", "source": source, "sink": job.make_sink()} | job.document
    path.write_text(yaml.safe_dump({key: each for key, each in document.items() if each is not None}))
    client = {"bootstrap.servers": place.servers}
    pipeline = load_pipeline(path)
    plans = [plan_flow(each, client, path.with_suffix(""), place.folder) for each in pipeline.flows]
    running = PipelineRun(place.spark, pipeline, plans)
    running.build()
    create_sinks(plans, client)
    return running


def run_fed(place: Place, job: Job, feed: Callable[[dict[str, Any]], None]) -> float:
    """Run a flow whose source listens, and return the seconds from the first request to the end of the last batch."""
    source = job.source | {"topic": f"in-{uuid.uuid4().hex[:8]}"}
    running = build_flow(place, job, source)
    running.start()
    try:
        begun_s = time.perf_counter()
        feed(source)
        while running.snapshot()[0].rows_in < job.row_count:
            running.check()
            time.sleep(0.005)
        return time.perf_counter() - begun_s
    finally:
        running.stop()


def run_flow(place: Place, job: Job) -> float:
    """Run a flow from the start to the end of its source, and return the seconds of its batches."""
    if job.feed is not None:
        return run_fed(place, job, job.feed)
    running = build_flow(place, job, job.source)
    running.start(once=True)
    try:
        while running.check():
            time.sleep(0.05)
        (query,) = running._queries.values()
        batches = [each.durationMs for each in query.recentProgress if "addBatch" in each.durationMs]
    finally:
        running.stop()
    tally = running.snapshot()[0]
    if job.row_count not in (tally.rows_in, tally.rows_out):  # for jdbc, Spark counts one row in for each batch
        raise RuntimeError(f"{job.name}: {tally.rows_out} rows of {job.row_count} came through")
    return float(sum(each["triggerExecution"] for each in batches)) / 1000


def measure(place: Place, job: Job, rounds: int) -> dict[str, Any]:
    """Return the rows a second of a job, of the client alone, and of what one would use instead."""
    seconds: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        job.prepare()
        found = {"flow": run_flow(place, job)}
        begun_s = time.perf_counter()
        job.run_alone()
        found["alone"] = time.perf_counter() - begun_s
        found |= {each.name: each.run() for each in job.instead}
        if number:  # the first round is not counted
            for name, taken_s in found.items():
                seconds.setdefault(name, []).append(taken_s)
    rates = {name: round(job.row_count / statistics.median(taken)) for name, taken in seconds.items()}
    print(f"{job.name:<40} {rates['flow']:>10,} rows/s   {job.alone}: {rates['alone']:,}", flush=True)
    for each in job.instead:
        print(f"    {each.name:<36} {rates[each.name]:>10,} rows/s", flush=True)
    return {
        "job": job.name,
        "rows_per_s": rates["flow"],
        "alone": job.alone,
        "alone_rows_per_s": rates["alone"],
        "instead": [{"name": each.name, "rows_per_s": rates[each.name]} for each in job.instead],
    }


def downloaded(what: str, find: Callable[[], Classpath]) -> Classpath | None:
    """Return the jars of something to compare with; None if they cannot be downloaded."""
    try:
        return find()
    except Unavailable as reason:
        print(f"{what} is left out: {reason}")
        return None


@contextmanager
def opened(row_count: int) -> Iterator[Place]:
    """A broker, a Spark session and rows."""
    debezium = downloaded("Debezium", debezium_classpath)
    driver = downloaded("spark.read.jdbc", jdbc_classpath)
    jar = None if driver is None else next(driver.folder.glob("*.jar"))
    config = SESSION_CONFIG | ({"spark.jars": str(jar)} if jar else {})
    with TailraceBroker() as broker, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        spark = tailrace.spark.session("connectors", master="local[2]", config=config, log_level="off")
        stack.callback(spark.stop)
        place = Place(spark, broker.bootstrap_servers, Path(name), Rows(row_count), stack, jar, debezium)
        fill_topic(place)
        yield place


def report_lines(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows of the table."""
    for each in found:
        yield f"| {each['job']} | {each['rows_per_s']:,} | {each['alone']} | {each['alone_rows_per_s']:,} |"
        for other in each["instead"]:
            yield f"| – instead: {other['name']} | {other['rows_per_s']:,} | | |"


def write_report(folder: Path, found: list[dict[str, Any]], row_count: int, conditions: dict[str, str]) -> None:
    """Write what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "connectors.json").write_text(json.dumps({"conditions": conditions, "jobs": found}, indent=2) + "\n")
    lines = [
        "# Rows a second through each connector",
        "",
        f"`python -m bench.connectors`: {row_count:,} rows of four columns (two numbers, a text, a time), one broker,",
        "one Spark session on two cores, with the default delivery of each connector. The time is that of the batches.",
        "The client alone writes or reads rows that are ready in memory, in one process: the ceiling of the system.",
        "What one would use instead moves the same rows through the same broker; a connector of Kafka Connect is",
        "measured from its first record on, and delivers at least once. For a webhook that listens, the time is",
        "that from the first request to the end of the last batch, with four connections.",
        "",
        "| flow | rows/s | the client alone | rows/s |",
        "| --- | ---: | --- | ---: |",
        *report_lines(found),
        "",
        "Conditions: " + ", ".join(f"{name} {text}" for name, text in conditions.items()) + ".",
        "",
    ]
    (folder / "connectors.md").write_text("\n".join(lines))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(SYSTEMS), help="systems, separated by commas")
    parser.add_argument(
        "--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the folder of the report"
    )
    options = parser.parse_args()
    conditions = machine.conditions("pyspark", "pyarrow")
    found = []
    with opened(options.rows) as place:
        for system in options.only.split(","):
            try:
                found += [measure(place, job, options.rounds) for job in SYSTEMS[system](place)]
            except (pytest.skip.Exception, PostgresUnavailable) as reason:
                print(f"{system} is left out: {reason}")
    write_report(options.output, found, options.rows, conditions)


if __name__ == "__main__":
    main()
