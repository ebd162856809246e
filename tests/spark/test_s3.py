"""Object stores as sources and sinks, over the API of S3: flows, repeated batches, late objects, and bad input."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.s3_server import SECRET, S3Server
from tests.spark.one_run import run_pipeline
from tests.spark.waiting import run_to_end

from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.s3.listing import list_committed
from tailrace.spark.connector.s3.s3 import S3, s3
from tailrace.spark.connector.s3.store import open_store
from tailrace.spark.pipeline.error import FlowError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

obstore = pytest.importorskip("obstore", reason="obstore is not installed")
FIRST = """\
name: to_json
source: {{connector: s3, url: "s3://{bucket}/in", options: {options}}}
sink: {{connector: s3, url: "s3://{bucket}/json", format: json, compression: gzip, options: {options}}}
"""
SECOND = """\
name: to_avro
source: {{connector: s3, url: "s3://{bucket}/json", format: json, schema: "n bigint, text string", options: {options}}}
sink: {{connector: s3, url: "file://{folder}/avro", format: avro}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


def put(store: Any, name: str, **columns: Any) -> None:
    output = io.BytesIO()
    pq.write_table(pa.table(columns), output)
    obstore.put(store, name, output.getvalue())


def rows_of(spark: SparkSession, folder: Path, endpoint: S3) -> list[tuple[Any, ...]]:
    """What the documented reader sees."""
    frame = endpoint.sample(FlowStart(spark, FlowPlace("check", folder, folder)))
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.slow
def test_objects_go_from_one_format_to_another_and_each_row_arrives_once(
    spark: SparkSession, broker: Broker, server: S3Server, tmp_path: Path
) -> None:
    bucket, first, second = server.create_bucket(), tmp_path / "first.yaml", tmp_path / "second.yaml"
    given = {"bucket": bucket, "options": json.dumps(server.options), "folder": tmp_path}
    first.write_text(FIRST.format(**given))
    second.write_text(SECOND.format(**given))
    source = s3(f"s3://{bucket}/in", options=server.options)
    store = open_store(source.settings)
    put(store, "1.parquet", n=[1, 2], text=["a", None])
    run_pipeline(spark, broker, first)
    put(store, "0.parquet", n=[3], text=["late"])  # its name comes first, and it is read all the same
    run_pipeline(spark, broker, first)
    run_pipeline(spark, broker, second)

    avro = s3(f"file://{tmp_path}/avro", format="avro")
    assert rows_of(spark, tmp_path, avro) == [(1, "a"), (2, None), (3, "late")]
    lines = s3(f"s3://{bucket}/json", format="json", options=server.options)
    found = list_committed(lines.settings, open_store(lines.settings))
    assert [each.name[:8] for each in found] == ["to_json-"] * 2
    checkpoints = [file.read_bytes() for file in (tmp_path / ".tailrace").rglob("*") if file.is_file()]
    assert any(b"1.parquet" in content for content in checkpoints)
    assert not any(SECRET.encode() in content for content in checkpoints)

    put(store, "2.parquet", n=["many"], text=["a"])  # a type that changed
    with pytest.raises(FlowError) as error:
        run_pipeline(spark, broker, first)
    assert str(error.value).split(": ", 1)[1] == (
        f"object s3://{bucket}/in/2.parquet: column n is string, which does not fit int64: a text is not another type"
    )


def test_a_repeated_batch_leaves_the_same_rows_whatever_its_split(
    spark: SparkSession, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies after the objects, and again after the commit; Spark repeats the batch each time."""
    from tailrace.spark.connector.s3.commit import BatchCommit

    sink = s3(f"s3://{server.create_bucket()}/out", options=server.options)
    place = FlowPlace("flow", tmp_path, tmp_path)
    (tmp_path / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    batch = spark.range(100)

    def die(self: BatchCommit, objects: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(BatchCommit, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            sink.write_batch(batch.repartition(3), 0, place)
    store = open_store(sink.settings)
    assert len(obstore.list(store).collect()) == 3
    assert list_committed(sink.settings, store) == []
    sink.write_batch(batch.repartition(2), 0, place)
    before = obstore.list(store).collect()
    assert len(before) == 3  # two objects and a manifest
    sink.write_batch(batch.repartition(4), 0, place)
    assert obstore.list(store).collect() == before
    assert [number for (number,) in rows_of(spark, tmp_path, sink)] == list(range(100))
    sink.write_batch(batch.where("id < 0"), 1, place)
    assert obstore.list(store).collect() == before


def test_a_line_that_is_not_json_is_named_left_out_sent_away_or_null(
    spark: SparkSession,
    server: S3Server,
    broker: Broker,
    new_topic: Callable[..., str],
    read: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    url = f"s3://{server.create_bucket()}/in"
    arguments: dict[str, Any] = {"format": "json", "schema": "n int", "options": server.options}
    obstore.put(open_store(s3(url, **arguments).settings), "a.json", b'{"n": 1}\n\n{"n": "many"}\n')
    with pytest.raises(Exception, match=r"object \S+/in/a.json line 3: value is not valid JSON for the schema"):
        rows_of(spark, tmp_path, s3(url, **arguments))
    place = FlowPlace("check", tmp_path, tmp_path, errors=ErrorPolicy(OnError.SKIP))
    assert [row.n for row in s3(url, **arguments).sample(FlowStart(spark, place)).collect()] == [1]
    topic = new_topic()
    sending = FlowPlace(
        "check",
        tmp_path,
        tmp_path,
        {"bootstrap.servers": broker.bootstrap_servers},
        errors=ErrorPolicy(OnError.SEND, topic),
    )
    stream = s3(url, **arguments).read(FlowStart(spark, sending))
    run_to_end(stream.writeStream.format("memory").queryName("lines").trigger(availableNow=True).start)
    assert [row.n for row in spark.table("lines").collect()] == [1]
    (letter,) = read(subscribe=topic, includeHeaders="true").collect()
    headers = {each.key: each.value for each in letter.headers}
    assert bytes(letter.value) == b'{"n": "many"}'
    assert b"in/a.json line 3" in headers["__connect.errors.exception.message"]
    frame = s3(url, malformed="null", **arguments).sample(FlowStart(spark, FlowPlace("check", tmp_path, tmp_path)))
    assert [row.n for row in frame.collect()] == [1, None]
