"""The flow of `tailrace table sync`: a compacted topic, the changes of a database, and plain records as tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.waiting import wait_until

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.delta.delta import delta
from tailrace.spark.connector.iceberg.iceberg import iceberg
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.load import Pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.table_sync import SyncSource, check_checkpoint, sink_arguments, sync_flow
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for package in ("deltalake", "obstore", "pyiceberg", "sqlalchemy"):
    pytest.importorskip(package, reason=f"{package} is not installed")


class Sync:
    """Runs syncs until they have read what is there."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self._spark = spark
        self._client = {"bootstrap.servers": broker.bootstrap_servers}
        self._folder = folder

    def __call__(self, source: SyncSource, key: str, make: Callable[..., LakeEndpoint]) -> list[tuple[Any, ...]]:
        sink = make(**sink_arguments(source, key))
        flow = sync_flow(source, key, sink, None, None)
        place = self._folder / flow.name
        if not key:
            check_checkpoint(sink, flow.name, checkpoints_of(place) / flow.name, self._folder)
        plan = plan_flow(flow, self._client, checkpoints_of(place), self._folder)
        running = PipelineRun(self._spark, Pipeline(place, (flow,)), [plan])
        try:
            running.build()
            running.start(once=True)
            wait_until(lambda: not running.check(), timeout_s=300)
        finally:
            running.stop()
        table = sink.open_table(FlowPlace("check", self._folder, self._folder))
        assert table is not None
        files = table.open_files()
        pieces = [piece for each in table.list_files() for piece in files.read(each.description, table.columns.names)]
        return sorted((tuple(row.values()) for piece in pieces for row in piece.to_pylist()), key=str)


@pytest.fixture
def sync(spark: SparkSession, broker: Broker, tmp_path: Path) -> Sync:
    return Sync(spark, broker, tmp_path)


def test_a_compacted_topic_with_the_key_of_its_records(
    sync: Sync, broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    source = SyncSource(topic, "city string, cents bigint")
    broker.produce(topic, [(b"%d" % n, json.dumps({"city": "x", "cents": n}).encode()) for n in range(4)])

    def make(**given: Any) -> LakeEndpoint:
        return delta("t", **given)

    assert sync(source, "id", make) == [(str(n), "x", n) for n in range(4)]
    broker.produce(topic, [(b"1", None), (b"2", b'{"city": "y", "cents": 7}')])
    assert sync(source, "id", make) == [("0", "x", 0), ("2", "y", 7), ("3", "x", 3)]


def test_a_key_in_the_values_is_found_for_a_deletion_in_that_of_the_record(
    sync: Sync, broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    source = SyncSource(topic, "id bigint, city string")
    broker.produce(topic, [(b"%d" % n, json.dumps({"id": n, "city": "x"}).encode()) for n in range(3)] + [(b"1", None)])
    assert sync(source, "id", lambda **given: iceberg("t", **given)) == [(0, "x"), (2, "x")]


def test_the_changes_of_a_database(sync: Sync, broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    def change(op: str, before: Any, after: Any) -> bytes:
        return json.dumps({"op": op, "before": before, "after": after, "ts_ms": 1, "source": {}}).encode()

    one, two = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
    broker.produce(
        topic,
        [
            (b'{"id": 1}', change("r", None, one)),
            (b'{"id": 2}', change("c", None, two)),
            (b'{"id": 2}', change("u", None, {**two, "name": "z"})),
            (b'{"id": 1}', change("d", one, None)),
            (b'{"id": 1}', None),
        ],
    )
    source = SyncSource(topic, "id bigint, name string", is_changes=True)
    assert sync(source, "id", lambda **given: delta("t", **given)) == [(2, "z")]


def test_records_as_they_are_are_added_once(
    sync: Sync, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    broker.produce(topic, [(b"k", b"v"), (None, None)])

    def make(**given: Any) -> LakeEndpoint:
        return delta("t", **given)

    for _ in range(2):
        found = sync(SyncSource(topic), "", make)
        assert [row[:5] for row in found] == [(None, None, topic, 0, 1), (b"k", b"v", topic, 0, 0)]
    (tmp_path / ".tailrace").rename(tmp_path / "lost")
    with pytest.raises(PipelineError, match="has rows of a sync whose checkpoint is not in"):
        sync(SyncSource(topic), "", make)
