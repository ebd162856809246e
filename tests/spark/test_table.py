"""Streams joined with a compacted topic: the newest row of each key, as each batch finds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.one_run import run_pipeline, running_pipeline
from tests.spark.waiting import wait_until

from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def put(broker: Broker, topic: str, **rows: Any) -> None:
    """Write rows of the table; None deletes one."""
    records = [(key.encode(), None if row is None else json.dumps(row).encode()) for key, row in rows.items()]
    broker.produce(topic, records)


def order(broker: Broker, topic: str, *rows: tuple[str, int]) -> None:
    broker.produce(topic, [json.dumps({"customer": name, "cents": cents}).encode() for name, cents in rows])


def joined(broker: Broker, topic: str) -> dict[int, Any]:
    """The city of each order, by its cents."""
    found = [json.loads(record.value or b"") for record in broker.consume(topic)]
    assert len({row["cents"] for row in found}) == len(found)  # exactly once
    return {row["cents"]: row.get("city") for row in found}


def test_a_batch_sees_the_newest_rows(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    orders, customers, all_orders, known = new_topic(), new_topic(3, cleanup_policy="compact"), new_topic(), new_topic()
    path = tmp_path / "cities.yaml"
    sources = f"""
sources:
  orders: {{connector: topic, name: {orders}, schema: "customer string, cents bigint"}}
  customers: {{connector: table, name: {customers}, key: customer, schema: "city string, at timestamp"}}"""
    path.write_text(f"""
name: all_orders{sources}
sql: SELECT cents, city FROM orders LEFT JOIN customers USING (customer)
sink: {{connector: topic, name: {all_orders}}}
---
name: known{sources}
sql: SELECT cents, city FROM orders JOIN customers USING (customer)
sink: {{connector: topic, name: {known}}}
""")
    put(
        broker,
        customers,
        ann={"city": "Rome", "at": "2026-11-16T10:00:00Z"},
        bob={"city": "Oslo"},
        cid={"city": "Bern"},
    )
    put(broker, customers, cid={"city": "Kiel"})
    order(broker, orders, ("ann", 1), ("cid", 2), ("eve", 3))

    def wait(count: int, with_city: int) -> None:
        """Until both flows have joined these many orders: the rows of the table change afterwards."""
        wait_until(lambda: running.check() and len(joined(broker, all_orders)) >= count, 300)
        wait_until(lambda: running.check() and len(joined(broker, known)) >= with_city, 300)

    with running_pipeline(spark, broker, path) as running:
        wait(3, with_city=2)
        put(broker, customers, ann={"city": "Bonn"}, bob=None, eve={"city": "Linz"})
        order(broker, orders, ("ann", 4), ("bob", 5), ("eve", 6))
        wait(6, with_city=4)
    put(broker, customers, ann=None)  # while nothing runs
    order(broker, orders, ("ann", 7), ("cid", 8))
    run_pipeline(spark, broker, path)
    expected = {1: "Rome", 2: "Kiel", 3: None, 4: "Bonn", 5: None, 6: "Linz", 7: None, 8: "Kiel"}
    assert joined(broker, all_orders) == expected
    assert joined(broker, known) == {cents: city for cents, city in expected.items() if city is not None}

    pipeline = load_pipeline(path)
    client = {"bootstrap.servers": broker.bootstrap_servers}
    plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
    sample = PipelineRun(spark, pipeline, plans).sample(plans[1], 20)
    assert {row["cents"]: row["city"] for row in sample.rows} == {2: "Kiel", 3: "Linz", 6: "Linz", 8: "Kiel"}

    put(broker, customers, dan=["no object"])
    order(broker, orders, ("dan", 9))
    with pytest.raises(FlowError, match=f"{customers}-. offset .: value is not valid JSON for the schema"):
        run_pipeline(spark, broker, path)
