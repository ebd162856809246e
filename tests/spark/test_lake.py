"""Delta and Iceberg tables as sinks: flows from topics, changes of keys, repeated batches, new columns, bad input."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.one_run import run_pipeline
from tests.table_reader import duckdb_rows, polars_rows, require_tables

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.delta.delta import delta
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.iceberg.iceberg import iceberg
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.note import find_version
from tailrace.spark.error import ConnectorError, PipelineError
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.record_place import ORIGIN
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

require_tables()
pytestmark = pytest.mark.slow
FLOWS = """\
name: to_delta
source: {{connector: topic, name: {topic}, schema: "city string, cents bigint", include: [key, value]}}
sql: SELECT string(key) AS id, city, cents, value FROM source
sink: {{connector: delta, path: orders, key: id, delete_when: value IS NULL, exclude: value}}
---
name: to_iceberg
source: {{connector: topic, name: {topic}, schema: "city string, cents bigint"}}
sink: {{connector: iceberg, table: shop.orders, partition_by: city}}
"""


@pytest.fixture(params=["delta", "iceberg"])
def make_sink(request: pytest.FixtureRequest) -> Callable[..., LakeEndpoint]:
    if request.param == "delta":
        return lambda **arguments: delta("orders", **arguments)
    return lambda **arguments: iceberg("orders", **arguments)


def new_place(folder: Path, **given: Any) -> FlowPlace:
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return FlowPlace("flow", folder, folder, **given)


def set_up(sink: LakeEndpoint, spark: SparkSession, place: FlowPlace, rows: DataFrame) -> None:
    """Do what happens before the first batch of a flow."""
    sink.check_sink()
    sink.connect_sink(place)
    start = FlowStart(spark, place)
    sink.prepare(rows, start)
    start.settle()


def rows_of(sink: LakeEndpoint, place: FlowPlace) -> list[tuple[Any, ...]]:
    """What Polars reads, and DuckDB must read the same."""
    table = sink.open_table(place)
    assert table is not None
    rows = polars_rows(table)
    assert [tuple(map(str, row)) for row in duckdb_rows(table)] == [tuple(map(str, row)) for row in rows]
    return rows


def test_flows_write_topics_to_tables_that_others_read(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, file = new_topic(2, cleanup_policy="compact"), tmp_path / "flows.yaml"
    file.write_text(FLOWS.format(topic=topic))
    first = [(b"%d" % (n % 5), json.dumps({"city": "abc"[n % 3], "cents": n}).encode()) for n in range(20)]
    broker.produce(topic, first)
    run_pipeline(spark, broker, file)
    broker.produce(topic, [(b"1", None), (b"2", b'{"city": "d", "cents": 99}')])
    run_pipeline(spark, broker, file)
    run_pipeline(spark, broker, file)  # there is nothing new

    place = FlowPlace("check", tmp_path, tmp_path)
    changed = delta("orders").open_table(place)
    added = iceberg("shop.orders").open_table(place)
    assert changed is not None
    assert added is not None
    assert duckdb_rows(changed, "id, city, cents") == [("0", "a", 15), ("2", "d", 99), ("3", "a", 18), ("4", "b", 19)]
    assert duckdb_rows(added, "count(*), count(cents)") == [(22, 21)]
    versions = [each.version for each in changed.list_notes()]
    assert len(versions) == 2
    last = [broker_end(broker, topic, partition) for partition in range(2)]
    for partition, end in enumerate(last):
        found_version = find_version(changed.list_notes(), TopicPartition(topic, partition), end - 1)
        assert found_version is not None
        assert find_version(changed.list_notes(), TopicPartition(topic, partition), end) is None


def broker_end(broker: Broker, topic: str, partition: int) -> int:
    from tailrace.client.admin.sync import Admin
    from tailrace.client.offset import LATEST

    with Admin(config={"bootstrap.servers": broker.bootstrap_servers}) as admin:
        return int(admin.list_offsets(topic, {partition: LATEST})[partition].offset)


def test_the_last_change_of_a_key_in_a_batch_wins_whatever_the_order_of_tasks(
    spark: SparkSession, make_sink: Callable[..., LakeEndpoint], tmp_path: Path
) -> None:
    sink, place = make_sink(key="id", delete_when="op = 'd'", exclude="op"), new_place(tmp_path)
    form = f"id bigint, cents bigint, op string, {ORIGIN} string"
    rows = spark.createDataFrame(
        [(1, 3, "u", "t 0 12"), (1, 2, "u", "t 0 9"), (2, 1, "d", "t 1 5"), (2, 1, "u", "t 1 4"), (3, 1, "u", "t 1 6")],
        form,
    ).repartition(3)
    set_up(sink, spark, place, rows)
    sink.write_batch(rows, 0, place)
    assert rows_of(sink, place) == [(1, 3), (3, 1)]
    more = spark.createDataFrame([(1, 0, "d", "t 0 13"), (3, 9, "u", "t 1 7"), (4, 4, "u", "t 1 8")], form)
    sink.write_batch(more, 1, place)
    assert rows_of(sink, place) == [(3, 9), (4, 4)]
    sink.write_batch(more, 1, place)  # Spark repeats the last batch
    assert rows_of(sink, place) == [(3, 9), (4, 4)]
    with pytest.raises(ConnectorError, match="the checkpoint of flow flow is older"):
        sink.write_batch(rows, 0, place)
    assert rows_of(sink, place) == [(3, 9), (4, 4)]


def test_a_batch_whose_commit_was_interrupted_is_written_once(
    spark: SparkSession, make_sink: Callable[..., LakeEndpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, place, rows = make_sink(), new_place(tmp_path), spark.range(50)
    set_up(sink, spark, place, rows)
    table = sink.open_table(place)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(table), "commit", die)
        with pytest.raises(KeyboardInterrupt):
            sink.write_batch(rows, 0, place)
    assert rows_of(sink, place) == []
    sink.write_batch(rows.repartition(3), 0, place)
    sink.write_batch(rows, 0, place)
    assert sorted(number for (number,) in rows_of(sink, place)) == list(range(50))


def test_changes_in_debeziums_envelope_are_followed(
    spark: SparkSession, make_sink: Callable[..., LakeEndpoint], tmp_path: Path
) -> None:
    sink, place = make_sink(key="id", changes="debezium"), new_place(tmp_path)
    row = "struct<id bigint, name string>"
    form = f"op string, before {row}, after {row}, ts_ms bigint"
    first = [("r", None, (1, "a"), 1), ("c", None, (2, "b"), 2), ("c", None, (3, "c"), 3), (None, None, None, None)]
    rows = spark.createDataFrame(first, form)
    set_up(sink, spark, place, rows)
    sink.write_batch(rows, 0, place)
    assert rows_of(sink, place) == [(1, "a"), (2, "b"), (3, "c")]
    second = [("u", None, (1, "z"), 4), ("d", (2, None), None, 5), ("m", None, None, 6)]
    sink.write_batch(spark.createDataFrame(second, form), 1, place)
    assert rows_of(sink, place) == [(1, "z"), (3, "c")]
    with pytest.raises(Exception, match="the source table was truncated"):
        sink.write_batch(spark.createDataFrame([("t", None, None, 7)], form), 2, place)
    with pytest.raises(PipelineError, match="before and after are not structs with the same columns"):
        sink.prepare(spark.sql("SELECT 'c' AS op, '{}' AS before, '{}' AS after"), FlowStart(spark, place))


def test_new_columns_are_added_when_the_flow_starts_and_others_refused(
    spark: SparkSession, make_sink: Callable[..., LakeEndpoint], tmp_path: Path
) -> None:
    sink, place = make_sink(key="id"), new_place(tmp_path)
    rows = spark.sql("SELECT 1L AS id, 'a' AS name")
    set_up(sink, spark, place, rows)
    sink.write_batch(rows, 0, place)
    wider = spark.sql("SELECT 2 AS id, 'b' AS name, 1.5BD AS price, array('x') AS tags, timestamp'2026-01-01' AS at")
    set_up(sink, spark, place, wider)
    sink.write_batch(wider, 1, place)
    assert [row[:2] for row in rows_of(sink, place)] == [(1, "a"), (2, "b")]
    narrower = spark.sql("SELECT 3L AS id")
    set_up(sink, spark, place, narrower)
    sink.write_batch(narrower, 2, place)
    assert rows_of(sink, place)[2] == (3, None, None, None, None)
    files = sorted(str(path) for path in tmp_path.rglob("*"))
    for query, reason in (
        ("SELECT 1L AS id, 5 AS name", "column name is string, and cannot take int32 of the result"),
        ("SELECT 1L AS id, 'a' AS Name", "column Name is name in the table; rename it"),
        ("SELECT 'a' AS name", "needs a column 'id', and the result has name"),
    ):
        with pytest.raises(PipelineError) as error:
            sink.prepare(spark.sql(query), FlowStart(spark, place))
        assert reason in str(error.value)
    with pytest.raises(PipelineError, match="has no column extra, and evolve= is False"):
        make_sink(key="id", evolve=False).prepare(spark.sql("SELECT 1L AS id, 1 AS extra"), FlowStart(spark, place))
    with pytest.raises(PipelineError, match="is partitioned by nothing, and partition_by= says otherwise"):
        make_sink(key="id", partition_by="name").prepare(rows, FlowStart(spark, place))
    assert sorted(str(path) for path in tmp_path.rglob("*")) == files


def test_a_refused_row_is_counted_and_the_others_are_written(
    spark: SparkSession, make_sink: Callable[..., LakeEndpoint], tmp_path: Path
) -> None:
    sink, place = make_sink(key="id"), new_place(tmp_path, errors=ErrorPolicy(OnError.SKIP))
    rows = spark.sql("SELECT * FROM VALUES (1L, 'a'), (null, 'b'), (null, 'c'), (2L, 'd') AS t(id, name)")
    set_up(sink, spark, place, rows)
    sink.write_batch(rows, 0, place)
    assert rows_of(sink, place) == [(1, "a"), (2, "d")]
    assert place.refused.counts() == {f"{sink} refuses a row: column id of the key is null": 2}


def test_a_schema_that_the_table_cannot_take_stops_the_flow_with_one_line(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, file = new_topic(), tmp_path / "flows.yaml"
    source = 'source: {{connector: topic, name: {topic}, schema: "{schema}"}}'
    text = f"name: f\n{source}\nsink: {{{{connector: delta, path: t}}}}\n"
    file.write_text(text.format(topic=topic, schema="cents bigint"))
    run_pipeline(spark, broker, file)
    file.write_text(text.format(topic=topic, schema="cents string"))
    with pytest.raises(FlowError) as error:
        run_pipeline(spark, broker, file)
    assert str(error.value) == (
        "flow f: delta table t: column cents is int64, and cannot take string of the result; "
        "cast it, or give it another name"
    )


def test_new_rows_of_tables_become_records(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, file, place = new_topic(), tmp_path / "flows.yaml", new_place(tmp_path)
    sources = {"from_delta": "connector: delta, path: orders", "from_iceberg": "connector: iceberg, table: orders"}
    sink_text = f"sink: {{connector: topic, name: {topic}}}"
    file.write_text("---\n".join(f"name: {name}\nsource: {{{text}}}\n{sink_text}\n" for name, text in sources.items()))
    tables = (delta("orders"), iceberg("orders"))
    with pytest.raises(FlowError, match="flow from_delta: delta table orders does not exist"):
        run_pipeline(spark, broker, file)
    rows = spark.sql("SELECT id, date'2026-01-01' AS day, array(id) AS tags FROM range(3)")
    for sink in tables:
        set_up(sink, spark, place, rows)
        sink.write_batch(rows, 0, place)
    run_pipeline(spark, broker, file)
    assert len(broker.consume(topic)) == 6
    for sink in tables:
        sink.write_batch(rows.where("id = 2"), 1, place)
    run_pipeline(spark, broker, file)
    values = sorted(json.loads(record.value or b"")["id"] for record in broker.consume(topic))
    assert values == [0, 0, 1, 1, 2, 2, 2, 2]
    assert tables[0].sample(FlowStart(spark, place)).columns == ["id", "day", "tags"]
