"""Flows in Spark's real-time mode, with Spark's Kafka connector against a Tailrace broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.one_run import run_pipeline, running_pipeline
from tests.spark.waiting import wait_until

from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HEAD = """
from pyspark.sql.functions import udf
from tailrace.pipeline import flow, topic
"""


@pytest.fixture(autouse=True)
def connector(kafka_jars: list[Path] | str) -> None:
    """Skips the tests where Spark's connector cannot be had."""
    if isinstance(kafka_jars, str):
        pytest.skip(kafka_jars)


def values(broker: Broker, topic: str) -> list[Any]:
    return [json.loads(record.value or b"") for record in broker.consume(topic)]


def send(broker: Broker, topic: str, *rows: Any) -> None:
    broker.produce(topic, [json.dumps(row).encode() for row in rows])


def has_written(running: PipelineRun, broker: Broker, topic: str, count: int) -> bool:
    return running.check() and len(values(broker, topic)) >= count


def test_records_are_written_while_the_batch_goes_on(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The batch lasts for an hour, so what arrives in the sink has not waited for its end."""
    source, sink = new_topic(), new_topic()
    path = tmp_path / "fast.yaml"
    path.write_text(f"""
name: fast
latency: realtime
every: 1 hour
source: {{connector: topic, name: {source}, schema: "user string, n int", include: [offset]}}
sql: SELECT user, n * 2 AS doubled, offset FROM source WHERE n > 0
sink: {{connector: topic, name: {sink}, key: user}}
expect: {{small: {{rule: "doubled < 1000", on_fail: drop}}}}
""")
    with running_pipeline(spark, broker, path) as running:
        for number in range(1, 4):
            send(broker, source, {"user": "ann", "n": number}, {"user": "bob", "n": -1}, {"user": "eve", "n": 5000})
            wait_until(partial(has_written, running, broker, sink, number))
    assert values(broker, sink)[:3] == [{"user": "ann", "doubled": 2 * n, "offset": 3 * n - 3} for n in (1, 2, 3)]
    assert {record.key for record in broker.consume(sink)} == {b"ann"}
    # The batch was not finished, so all of it comes again: at least once.
    running = run_pipeline(spark, broker, path)
    assert [row["doubled"] for row in values(broker, sink)][-3:] == [2, 4, 6]
    (tally,) = running.snapshot()
    assert (tally.state, tally.rows_in, tally.rows_out, tally.broken) == ("finished", 9, 3, {"small": 3})
    assert sum(tally.position.values()) == 9


def test_what_realtime_mode_cannot_run_is_refused_before_the_start(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, wide, sink = new_topic(), new_topic(3), new_topic()
    path = tmp_path / "fast.py"
    declared = f'@flow(source=topic({source!r}, schema="k string"), sink=topic({sink!r}), latency="realtime")\n'
    two = f'@flow(source=[topic({source!r}), topic({sink!r})], sink=topic("x"), latency="realtime")\n'
    wrong = {
        declared + 'def f(rows): return rows.select(udf(str.upper)("k").alias("k"))': "cannot run a Python function",
        declared + 'def f(rows): return rows.mapInArrow(lambda rows: rows, "k string")': "cannot run a Python function",
        declared + "def f(rows): return rows.limit(5)": "Limits are not supported",
        two + 'def f(a, b): return a.join(b, "key").selectExpr("1 AS x")': "cannot run a join of two streams",
        declared.replace(source, wide) + "def f(rows): return rows": "needs a core of Spark for each partition",
    }
    for text, reason in wrong.items():
        path.write_text(HEAD + text)
        with pytest.raises(FlowError, match=reason), running_pipeline(spark, broker, path):
            pass
