"""Pipelines as users run them: a file, a broker, and Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import CHECKOUT
from tests.spark.one_run import run_pipeline
from tests.spark.waiting import wait_until

from tailrace.cli.demo.check import read_parquet
from tailrace.client.admin.sync import Admin
from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = """
from pyspark.sql.functions import col, expr, udf, window
from tailrace.pipeline import files, flow, topic
"""


def send(broker: Broker, topic: str, *values: Any) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value if isinstance(value, bytes) else json.dumps(value).encode())


def values(broker: Broker, topic: str) -> list[Any]:
    found = read_table(broker.bootstrap_servers, topic, columns=["value"]).column("value").to_pylist()
    return [json.loads(value) for value in found]


@pytest.fixture
def run_file(spark: SparkSession, broker: Broker) -> Callable[[Path], PipelineRun]:
    """Runs a file over what is there now, in the session of all tests."""

    return lambda path: run_pipeline(spark, broker, path)


@pytest.fixture
def run_once(run_file: Callable[[Path], PipelineRun], tmp_path: Path) -> Callable[[str], PipelineRun]:
    """Runs the text of a file likewise."""

    def run(text: str) -> PipelineRun:
        path = tmp_path / "pipe.py"
        path.write_text(HEAD + text)
        return run_file(path)

    return run


# --- what flows do


def test_rows_are_decoded_changed_and_encoded(
    run_once: Callable[[str], PipelineRun],
    broker: Broker,
    new_topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    source, sink = new_topic(2), new_topic()
    send(broker, source, {"user": "ann", "n": 1}, {"user": "bob", "n": 2}, b"no JSON", {"user": "ann", "n": 3})
    running = run_once(f"""
@udf("string")
def shout(text):
    return text.upper()

@flow(source=topic({source!r}, schema="user string, n int"), sink=topic({sink!r}, key="user"), errors="skip")
def loud(rows):
    return rows.select(shout("user").alias("user"), "n")

@flow(source=topic({source!r}), sink=files("raw", partition_by="topic"))
def raw(rows):
    return rows.select("topic", "offset", col("value").cast("string"))

@flow(source=topic({source!r}, schema="user string, n int", malformed="null"), sink=topic({sink + "-sums"!r}),
      mode="update")
def sums(rows):
    return rows.where("user is not null").groupBy("user").agg(expr("sum(n)").alias("total"))
""")
    found = read_table(broker.bootstrap_servers, sink, columns=["key", "value"]).to_pylist()
    assert Counter((row["key"], json.loads(row["value"])["n"]) for row in found) == Counter(
        [(b"ANN", 1), (b"BOB", 2), (b"ANN", 3)]
    )
    assert sorted(row["total"] for row in values(broker, f"{sink}-sums")) == [2, 4]
    assert read_parquet(tmp_path / "raw")[1].num_rows == 4
    tallies = running.tallies
    assert [(tally.rows_in, tally.rows_out, tally.state) for tally in tallies.values()] == [
        (4, 3, "finished"),
        (4, 4, "finished"),
        (4, 2, "finished"),
    ]
    assert [tally.rejected for tally in tallies.values()] == [{"value is not valid JSON for the schema": 1}, {}, {}]
    assert (tallies["raw"].lag, sum(tallies["raw"].position.values())) == (0, 4)
    with Admin(config={"bootstrap.servers": broker.bootstrap_servers}) as admin:
        partitions = [TopicPartition(source, 0), TopicPartition(source, 1)]
        groups = [admin.list_group_offsets(f"pipeline-pipe-{name}", partitions) for name in tallies]
    assert [sum(each.offset for each in group.values()) for group in groups] == [4, 4, 4]
    assert "FileSystemBased" in str(spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", ""))


def test_windows_and_joins_of_streams(
    run_once: Callable[[str], PipelineRun], broker: Broker, new_topic: Callable[..., str]
) -> None:
    orders, searches, counts, joined = (new_topic() for _ in range(4))
    at = "2026-01-01T10:00:{:02d}Z".format
    send(broker, searches, *({"event": n, "user": "ann", "at": at(n), "query": f"q{n}"} for n in (1, 1, 3, 9, 50)))
    send(
        broker, orders, {"user": "ann", "at": at(5), "product": "mug"}, {"user": "bob", "at": at(55), "product": "pen"}
    )
    running = run_once(f"""
searches = topic({searches!r}, schema="event int, user string, at timestamp, query string")
orders = topic({orders!r}, schema="user string, at timestamp, product string")

def once(rows):
    return rows.withWatermark("at", "10 seconds").dropDuplicatesWithinWatermark(["event"])

@flow(source=searches, sink=topic({counts!r}))
def counts(searches):
    return once(searches).groupBy(window("at", "5 seconds")).count().select(col("window.start").alias("start"), "count")

@flow(source=[orders, searches], sink=topic({joined!r}))
def joined(orders, searches):
    asked = once(searches).select(col("user").alias("asker"), "query", col("at").alias("asked_at"))
    placed = orders.withWatermark("at", "10 seconds")
    return placed.join(asked, expr("user = asker AND asked_at BETWEEN at - INTERVAL 3 SECONDS AND at"))
""")
    assert sorted((row["start"][17:19], row["count"]) for row in values(broker, counts)) == [("00", 2), ("05", 1)]
    assert [(row["product"], row["query"]) for row in values(broker, joined)] == [("mug", "q3")]
    assert running.tallies["counts"].rows_duplicate == 1


def test_records_are_written_raw_and_results_in_full(
    run_once: Callable[[str], PipelineRun], broker: Broker, new_topic: Callable[..., str]
) -> None:
    """Mode complete writes every row of the result with each batch, and not only those that have changed."""
    source, raw, counts = new_topic(), new_topic(2), new_topic()
    with Producer(broker.bootstrap_servers) as producer:
        for number, word in enumerate([b"a", b"b", b"a", b"c"]):
            producer.send(source, word, key=b"%d" % number, headers=[("h", b"\xff")] if number == 0 else [])
    run_once(f"""
@flow(source=topic({source!r}, include=("key", "value", "headers")), sink=topic({raw!r}, format="raw"))
def raw(rows):
    return rows.withColumn("partition", expr("1"))

@flow(source=topic({source!r}, options={{"maxOffsetsPerTrigger": 2}}), sink=topic({counts!r}), mode="complete")
def counts(rows):
    return rows.groupBy(col("value").cast("string").alias("word")).count()
""")
    assert [(record.key, record.value, record.headers) for record in broker.consume(raw, [1])] == [
        (b"0", b"a", (("h", b"\xff"),)),
        (b"1", b"b", ()),
        (b"2", b"a", ()),
        (b"3", b"c", ()),
    ]
    assert Counter((row["word"], row["count"]) for row in values(broker, counts)) == Counter(
        [("a", 1), ("b", 1), ("a", 2), ("b", 1), ("c", 1)]
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return rows.select('nothing')", r"flow wrong: pipe\.py:\d+: .*`nothing` cannot be resolved"),
        ("return 7", "flow wrong: the function returned int, not a DataFrame"),
        ("return rows.groupBy('user').count()", 'flow wrong: Invalid streaming output mode.*mode="update"'),
        ("return rows.select(col('user').cast('binary'))", "flow wrong: .* column user is binary"),
        ("return rows.select(expr('raise_error(user)'))", "flow wrong: .*ann"),
    ],
)
def test_a_flow_that_fails_is_named_and_ends_the_others(
    run_once: Callable[[str], PipelineRun], broker: Broker, new_topic: Callable[..., str], body: str, message: str
) -> None:
    source = new_topic()
    sink = f"{source}-sink"
    send(broker, source, {"user": "ann"})
    with pytest.raises(FlowError, match=message) as failed:
        run_once(f"""
rows = topic({source!r}, schema="user string")

@flow(source=rows, sink=files("good"))
def good(rows):
    return rows

@flow(source=rows, sink=topic({sink!r}))
def wrong(rows):
    {body}
""")
    assert failed.value.flow == "wrong"
    assert "\n" not in str(failed.value)
    with Admin(broker.bootstrap_servers) as admin:
        is_created = not isinstance(admin.describe_topics([sink])[sink], ApiError)
    assert is_created == ("raise_error" in body), "only rows can show that this one is wrong"


# --- the command

COMMAND = """
from pyspark.sql.functions import col
from tailrace.pipeline import files, flow, topic

numbers = topic({0!r}, schema="n int", options={{"maxOffsetsPerTrigger": 50}})

@flow(source=numbers, sink=topic({1!r}, key="n"))
def copied(rows):
    return rows.withColumn("square", col("n") * col("n"))

@flow(source=numbers, sink=files("squares"))
def squares(rows):
    return rows.withColumn("square", col("n") * col("n"))
"""


@contextmanager
def command(broker: Broker, path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace.cli.main", "pipeline", "run", str(path), *options],
        # Its Java compiles nothing a second time: it ends before that pays.
        env=os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        cwd=CHECKOUT / "src",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_pipeline_stopped_in_the_middle_goes_on_and_loses_nothing(
    run_file: Callable[[Path], PipelineRun],
    broker: Broker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP_SERVER", broker.bootstrap_servers)
    source, sink = new_topic(2), new_topic()
    path = tmp_path / "pipe.py"
    path.write_text(COMMAND.format(source, sink))
    send(broker, source, *({"n": n} for n in range(20_000)))
    with command(broker, path, "--master", "local[2]") as process:
        wait_until(lambda: process.poll() is not None or len(values(broker, sink)) >= 50, timeout_s=300)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert "tailrace: stopping on SIGTERM" in err
    assert "flow copied stopped" in out
    assert len({row["n"] for row in values(broker, sink)}) < 20_000
    send(broker, source, *({"n": n} for n in range(20_000, 20_100)))
    path.write_text(COMMAND.format(source, sink).replace('"maxOffsetsPerTrigger": 50', '"maxOffsetsPerTrigger": 5000'))
    assert {tally.state for tally in run_file(path).tallies.values()} == {"finished"}
    written = Counter(row["n"] for row in values(broker, sink))
    assert written.keys() == set(range(20_100))
    # At least once into topics: only the batch that was running when it was stopped may be there twice.
    assert max(written.values()) <= 2
    assert sum(count - 1 for count in written.values()) <= 51
    _, rows = read_parquet(tmp_path / "squares")
    assert sorted(rows.column("n").to_pylist()) == list(range(20_100))
    assert (tmp_path / ".tailrace" / "checkpoints" / "pipe" / "copied" / "commits").is_dir()
