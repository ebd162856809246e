"""The time of a record from topic to topic through a flow: in micro-batches, and in Spark's real-time mode.

    python -m bench.spark_realtime [--partitions 3] [--rate 1000] [--seconds 20] [--rounds 2]

One broker, one Spark session with a core for each partition and one more, one flow at a time. A process writes so many
records a second, each with the time at which it is sent; this one reads the topic of the sink, and compares that with
the time of arrival. Real-time mode needs Spark's own Kafka connector, from Maven Central. Writes
`docs/benchmarks/spark_realtime.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tailrace
import tailrace.spark
from bench import machine
from bench.broker import TailraceBroker
from bench.cache import CHECKOUT, Unavailable
from bench.spark_connector import connector_jars
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import SESSION_CONFIG, PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_S = 15.0
FIRST_RECORD_TIMEOUT_S = 120.0
_SENT_US = re.compile(rb'"sent_us":(\d+)')

FLOWS = {
    "micro-batches, exactly once": "delivery: exactly-once",
    "micro-batches, at least once": "delivery: at-least-once",
    "real-time mode, at least once": "latency: realtime",
}

FILE = """
name: copy
{choice}
source: {{connector: topic, name: {source}, schema: "sent_us bigint, text string", start: latest}}
sql: SELECT sent_us, upper(text) AS text FROM source
sink: {{connector: topic, name: {sink}}}
"""


def write(servers: str, topic: str, rate: int) -> None:
    """Write `rate` records a second until the process is ended."""
    with tailrace.Producer(servers, linger_ms=0) as producer:
        started_s, sent = time.monotonic(), 0
        while True:
            value = b'{"sent_us":%d,"text":"%s"}' % (time.time_ns() // 1000, b"x" * 80)
            producer.send(topic, value, b"%d" % sent)
            sent += 1
            ahead_s = sent / rate - (time.monotonic() - started_s)
            if ahead_s > 0.001:
                time.sleep(ahead_s)


def measure(spark: SparkSession, servers: str, choice: str, arguments: argparse.Namespace) -> list[int]:
    """Run a flow, and return the times of its records from topic to topic, in microseconds."""
    number = time.monotonic_ns()
    source, sink = f"in-{number}", f"out-{number}"
    with tailrace.Admin(servers) as admin:
        admin.create_topics([tailrace.NewTopic(name, arguments.partitions) for name in (source, sink)])
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(servers, source, arguments.rate))
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(FILE.format(choice=choice, source=source, sink=sink))
        pipeline = load_pipeline(path)
        client = {"bootstrap.servers": servers}
        plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
        running = PipelineRun(spark, pipeline, plans)
        running.build()
        writer.start()
        try:
            running.start()
            return _read(servers, sink, running, arguments.seconds)
        finally:
            running.stop()
            writer.kill()
            writer.join()


def _read(servers: str, sink: str, running: PipelineRun, seconds: float) -> list[int]:
    """Return the times of records that arrive during so many seconds, once the flow has run for a while."""
    times: list[int] = []
    started_s: float | None = None
    deadline_s = time.monotonic() + FIRST_RECORD_TIMEOUT_S
    with tailrace.Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest").subscribe(
        sink
    ) as consumer:
        while True:
            running.check()
            records = consumer.poll(timeout_s=0.1)
            now_us, now_s = time.time_ns() // 1000, time.monotonic()
            if records and started_s is None:
                started_s = now_s
            if started_s is None:
                if now_s > deadline_s:
                    raise RuntimeError("no record has arrived")
                continue
            if now_s > started_s + WARM_S + seconds:
                return times
            if now_s > started_s + WARM_S:
                times += [now_us - int(_SENT_US.search(record.value)[1]) for record in records]  # type: ignore[index,arg-type]


def page(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = "".join(
        f"| {row['flow']} | {row['p50_ms']:.1f} | {row['p90_ms']:.1f} | {row['p99_ms']:.1f} | {row['records']:,} |\n"
        for row in result["results"]
    )
    left_out = "".join(f"\n{sentence}\n" for sentence in result["missing"])
    return f"""# The time of a record from topic to topic

Written by `{result["command"]}`.

One broker and one Spark session (`local[{result["partitions"] + 1}]`) share the machine. A process writes
{result["rate"]:,} records a second to a topic of {result["partitions"]} partitions; a flow decodes them from JSON,
changes a column and writes them to another topic, which a consumer reads (`read_committed`). The time of a record is
that from the call of the producer to the consumer. Each flow runs alone, {result["rounds"]} times for
{result["seconds"]:g} s.

| flow | p50 ms | p90 ms | p99 ms | records |
| --- | ---: | ---: | ---: | ---: |
{rows}{left_out}
A batch of real-time mode lasts for ten seconds here. Between two batches Spark writes its checkpoint and plans the next
one, and the records of this time wait: they are the ones of the p99.

## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    import pyspark

    parser = argparse.ArgumentParser(prog="python -m bench.spark_realtime", description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=3, help="partitions of each topic (default 3)")
    parser.add_argument("--rate", type=int, default=1000, help="records a second (default 1000)")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each flow (default 20)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (default 2)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "pyspark", "pyarrow")
    settings, missing, flows = dict(SESSION_CONFIG), [], dict(FLOWS)
    try:
        settings["spark.jars"] = ",".join(map(str, connector_jars(pyspark.__version__)))
    except Unavailable as reason:
        missing.append(f"Real-time mode was left out: {reason}.")
        flows = {name: choice for name, choice in flows.items() if "realtime" not in choice}
    times: dict[str, list[int]] = {name: [] for name in flows}
    with TailraceBroker() as broker:
        spark = tailrace.spark.session(
            "bench", master=f"local[{arguments.partitions + 1}]", config=settings, log_level="off"
        )
        for _ in range(arguments.rounds):
            for name, choice in flows.items():
                found = measure(spark, broker.bootstrap_servers, choice, arguments)
                times[name] += found
                print(f"{name:32} p50 {statistics.median(found) / 1000:7.1f} ms of {len(found):,}", flush=True)
        spark.stop()
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line("bench.spark_realtime", seconds=arguments.seconds, rounds=arguments.rounds),
        "partitions": arguments.partitions,
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "conditions": conditions,
        "missing": missing,
        "results": [
            {
                "flow": name,
                "records": len(found),
                **{f"p{part}_ms": sorted(found)[len(found) * part // 100] / 1000 for part in (50, 90, 99)},
            }
            for name, found in times.items()
        ],
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "spark_realtime.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "spark_realtime.md").write_text(page(result))
    print(f"written: spark_realtime.json, spark_realtime.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
