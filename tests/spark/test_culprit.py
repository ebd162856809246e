"""Records for which the function of a flow fails: they are left out or become dead letters, and the others arrive."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.one_run import run_pipeline, running_pipeline
from tests.spark.waiting import wait_until

from tailrace import Producer, read_table
from tailrace.cli.main import main
from tailrace.spark.pipeline.culprit import REASON
from tailrace.spark.pipeline.error import FlowError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FLOW = """
from pyspark.sql.functions import udf
from tailrace.pipeline import flow, topic

@udf("bigint")
def halved(n):
    if n % 2:
        raise ValueError(f"{{n}} is odd")
    return n // 2

@flow(source=topic({source!r}, schema="n bigint"), sink=topic({sink!r}), errors={errors!r})
def halves(rows):
    return rows.select(halved("n").alias("n"))
"""

QUERY = """
name: numbers
source: {{connector: topic, name: {source}, schema: "text string"}}
sql: WITH numbers AS (SELECT CAST(text AS bigint) AS n FROM source) SELECT n FROM numbers
sink: {{connector: topic, name: {sink}}}
errors: skip
"""

COUNT = """
name: count
source: {{connector: topic, name: {source}, schema: "text string"}}
sql: SELECT text, raise_error(concat(count(*), ' is not a number of rows')) AS n FROM source GROUP BY text
sink: {{connector: topic, name: {sink}}}
mode: update
errors: skip
"""
"""Its query counts, so no single record is to blame."""


def send(broker: Broker, topic: str, *values: dict[str, Any]) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, json.dumps(value).encode(), b"k", [("trace", b"7")], partition=number % 2)


def rows_of(broker: Broker, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_table(
        broker.bootstrap_servers, topic, columns=["key", "value", "headers"], isolation_level="read_committed"
    ).to_pylist()
    return found


def numbers_in(broker: Broker, topic: str) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in rows_of(broker, topic))


def test_dead_letters_have_the_record_its_place_and_the_error(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink, path = new_topic(2), new_topic(), tmp_path / "halves.py"
    dead = f"{sink}-dead"
    path.write_text(FLOW.format(source=source, sink=sink, errors={"to": dead}))
    send(broker, source, *({"n": n} for n in (0, 2, 4, 5, 6, 8, 10, 11, 12)))
    running = run_pipeline(spark, broker, path)
    assert numbers_in(broker, sink) == [0, 1, 2, 3, 4, 5, 6]
    assert running.snapshot()[0].rejected == {REASON: 2}
    letters = rows_of(broker, dead)
    assert sorted(row["value"] for row in letters) == [b'{"n": 11}', b'{"n": 5}']
    headers = {each["key"]: each["value"] for row in letters if b"11" in row["value"] for each in row["headers"]}
    assert headers["trace"] == b"7"
    assert headers["__connect.errors.topic"] == source.encode()
    assert (headers["__connect.errors.partition"], headers["__connect.errors.offset"]) == (b"1", b"3")
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.exception.message"] == b"halves.py:8: ValueError: 11 is odd"
    assert b"raise ValueError" in headers["__connect.errors.exception.stacktrace"]

    send(broker, source, {"n": 14}, {"n": 15})
    run_pipeline(spark, broker, path)
    assert numbers_in(broker, sink) == [0, 1, 2, 3, 4, 5, 6, 7]
    path.write_text(path.read_text().replace("if n % 2:", "if False:"))
    replay = ["pipeline", "errors", "replay", str(path), "--bootstrap-server", broker.bootstrap_servers, "--yes"]
    assert main(replay) in (0, None)
    run_pipeline(spark, broker, path)
    assert numbers_in(broker, sink) == [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 7]


def test_an_error_of_a_query_is_skipped(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink, path = new_topic(2), new_topic(), tmp_path / "numbers.yaml"
    path.write_text(QUERY.format(source=source, sink=sink))
    send(broker, source, *({"text": text} for text in ("1", "2", "three", "4")))
    running = run_pipeline(spark, broker, path)
    assert numbers_in(broker, sink) == [1, 2, 4]
    assert running.snapshot()[0].rejected == {REASON: 1}


def test_an_error_without_a_culprit_stops_the_flow(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink, path = new_topic(2), new_topic(), tmp_path / "count.yaml"
    path.write_text(COUNT.format(source=source, sink=sink))
    send(broker, source, {"text": "1"})
    with pytest.raises(FlowError, match="is not a number of rows"):
        run_pipeline(spark, broker, path)


BLOCKING = """
import time
from pathlib import Path
from pyspark.sql.functions import udf
from tailrace.pipeline import flow, topic

@udf("bigint")
def blocked(n):
    folder = Path({folder!r})
    if not (folder / "failed").exists():
        (folder / "failed").touch()
        raise ValueError("the first time")
    (folder / "searching").touch()
    for _ in range(3000):
        time.sleep(0.1)

@flow(source=topic({source!r}, schema="n bigint"), sink=topic({sink!r}), errors="skip")
def slow(rows):
    return rows.select(blocked("n").alias("n"))
"""
"""Fails at first, and blocks in the search."""


def test_a_search_ends_when_the_pipeline_is_stopped(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A signal was seen only after the search, whose queries nothing cancelled."""
    source, sink, path = new_topic(), new_topic(), tmp_path / "slow.py"
    path.write_text(BLOCKING.format(folder=str(tmp_path), source=source, sink=sink))
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(source, b'{"n": 1}')
    stopping = threading.Event()

    def stop() -> None:
        wait_until((tmp_path / "searching").exists, timeout_s=200)
        stopping.set()

    signalling = threading.Thread(target=stop)
    signalling.start()
    with running_pipeline(spark, broker, path, stopping=stopping) as running:
        wait_until(lambda: running.check() and stopping.is_set(), timeout_s=200)  # the function blocks for longer
    signalling.join()
    assert [tally.state for tally in running.snapshot()] == ["stopped"]
    assert running.snapshot()[0].cause.endswith("ValueError: the first time")
