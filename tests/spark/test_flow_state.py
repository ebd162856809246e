"""Flows that remember: windows in SQL, and a state of the user's own with `transformWithState`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import CHECKOUT
from tests.spark.one_run import run_pipeline

from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

GUIDE = CHECKOUT / "docs" / "PIPELINES.md"


def send(broker: Broker, topic: str, *values: Any) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, json.dumps(value).encode())


def values(broker: Broker, topic: str) -> list[Any]:
    rows = read_table(broker.bootstrap_servers, topic, columns=["value"], isolation_level="read_committed")
    return [json.loads(value) for value in rows.column("value").to_pylist()]


def example(language: str, word: str) -> str:
    """Return the example of the guide that has a word."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return next(block for block in blocks if word in block)


def test_a_state_of_ones_own_goes_on_after_a_restart(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink, path = new_topic(2), new_topic(), tmp_path / "state.py"
    text = example("python", "transformWithState(")
    path.write_text(text.replace('"orders"', f'"{source}"').replace('"limits"', f'"{sink}"'))
    send(broker, source, {"user": "ann", "cents": 600}, {"user": "bob", "cents": 10}, {"user": "ann", "cents": 300})

    pipeline, client = load_pipeline(path), {"bootstrap.servers": broker.bootstrap_servers}
    (plan,) = (plan_flow(flow, client, checkpoints_of(path), tmp_path) for flow in pipeline.flows)
    running = PipelineRun(spark, pipeline, [plan])
    running.build()
    assert running.sample(plan, 5).columns == {"user": "string", "cents": "bigint"}

    run_pipeline(spark, broker, path)
    assert values(broker, sink) == []
    send(broker, source, {"user": "ann", "cents": 200}, {"user": "bob", "cents": 20})
    run_pipeline(spark, broker, path)
    send(broker, source, {"user": "ann", "cents": 5})
    run_pipeline(spark, broker, path)
    assert values(broker, sink) == [{"user": "ann", "cents": 1100}]


def test_a_check_refuses_a_store_that_cannot_hold_the_state(spark: SparkSession, tmp_path: Path) -> None:
    """The flow failed only when it started, after its topics had been created."""
    path = tmp_path / "state.py"
    path.write_text(example("python", "transformWithState(").replace("@flow(", '@flow(state="memory", '))
    pipeline = load_pipeline(path)
    (plan,) = (plan_flow(flow, {"bootstrap.servers": "h:1"}, checkpoints_of(path), tmp_path) for flow in pipeline.flows)
    with pytest.raises(FlowError, match='transformWithState needs state="disk"'):
        PipelineRun(spark, pipeline, [plan]).build()


def test_a_query_has_windows(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink, path = new_topic(), new_topic(), tmp_path / "windows.yaml"
    text = example("yaml", "WATERMARK")
    path.write_text(text.replace("name: page_views", f"name: {source}").replace("name: views_by_page", f"name: {sink}"))
    at = "2026-01-01T10:00:{:02d}Z".format
    send(broker, source, *({"page": "/", "at": at(second)} for second in (1, 2, 12, 59)))
    run_pipeline(spark, broker, path)
    rows = values(broker, sink)
    assert sorted((row["start"][17:19], row["views"]) for row in rows) == [("00", 2), ("10", 1)]
