"""Batches in a store: each row once for a reader of the manifests, however an attempt ends."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.s3.commit import BatchCommit
from tailrace.spark.connector.s3.listing import list_committed, list_objects
from tailrace.spark.connector.s3.name import BatchName, Written, is_object_of_batch
from tailrace.spark.connector.s3.object_format import ObjectFormat
from tailrace.spark.connector.s3.object_read import read_object
from tailrace.spark.connector.s3.position import Order
from tailrace.spark.connector.s3.s3 import s3
from tailrace.spark.connector.s3.store import StoreSettings, open_store
from tailrace.spark.connector.s3.task_writer import TaskWriter
from tailrace.spark.error import ConnectorError

obstore = pytest.importorskip("obstore", reason="obstore is not installed")

SETTINGS = StoreSettings("s3://bucket/prefix")
BATCH = BatchName("orders", "0123456789abcdef0123", 7)
SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def store() -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


def rows(*numbers: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})


def write(store: Any, token: str, *tasks: list[int], batch: BatchName = BATCH) -> list[Written]:
    """Write a batch in some tasks, without the commit."""
    writer = TaskWriter(SETTINGS, batch, token, ObjectFormat.PARQUET, "snappy", 1 << 20)
    return [
        each
        for task, numbers in enumerate(tasks)
        for each in writer.write_objects(rows(*numbers), store, task, attempt=0)
    ]


def names(store: Any) -> list[str]:
    return sorted(each["path"] for each in obstore.list(store).collect() if is_object_of_batch(each["path"]))


def seen(store: Any) -> list[int]:
    """The numbers that the documented reader sees."""
    found = [
        number
        for each in list_committed(SETTINGS, store)
        for batch in read_object(SETTINGS, store, each, ObjectFormat.PARQUET, SCHEMA)
        for number in batch.column("n").to_pylist()
    ]
    return sorted(found)


def test_nothing_is_visible_before_the_commit_and_a_repeated_batch_replaces_what_was_there(store: Any) -> None:
    """The driver dies between the objects and the manifest; the batch comes again with another split of its rows."""
    commit = BatchCommit(SETTINGS, store, BATCH)
    write(store, "aaaaaaaa", [1, 2], [3])
    assert seen(store) == []
    assert not commit.is_committed()

    objects = write(store, "bbbbbbbb", [3, 1, 2])
    assert commit.commit(objects)
    assert seen(store) == [1, 2, 3]
    commit.delete_strays()
    assert names(store) == [each.name for each in objects]
    assert commit.is_committed()
    assert seen(store) == [1, 2, 3]


def test_a_checkpoint_that_was_put_back_is_an_error(store: Any) -> None:
    """The batches that the store had were left out in silence, although they had other rows then."""
    for batch_id in (7, 12):
        batch = replace(BATCH, batch_id=batch_id)
        BatchCommit(SETTINGS, store, batch).commit(write(store, "aaaaaaaa", [batch_id], batch=batch))
    other = replace(BATCH, flow="others", batch_id=99)
    BatchCommit(SETTINGS, store, other).commit(write(store, "aaaaaaaa", [1], batch=other))
    assert BatchCommit(SETTINGS, store, replace(BATCH, batch_id=12)).is_committed()
    with pytest.raises(ConnectorError, match=r"of flow orders is older .* batch 7, and s3://.* has batch 12"):
        BatchCommit(SETTINGS, store, BATCH).is_committed()


def test_a_checkpoint_that_is_older_than_a_batch_without_rows_is_an_error(store: Any) -> None:
    """Such a batch has no manifest. It was written anew with the rows of the later batch, which were there twice."""
    later = replace(BATCH, batch_id=8)
    BatchCommit(SETTINGS, store, later, "8:a").commit(write(store, "aaaaaaaa", [1], batch=later))
    with pytest.raises(ConnectorError, match=r"of flow orders is older .* batch 7, and s3://.* has batch 8"):
        BatchCommit(SETTINGS, store, BATCH, "7:a").is_committed()


def test_another_batch_of_the_same_number_is_an_error(store: Any) -> None:
    """It was left out as a repeated one, although an older copy of the checkpoint had been put back."""
    assert BatchCommit(SETTINGS, store, BATCH, "7:a").commit(objects := write(store, "aaaaaaaa", [1]))
    assert BatchCommit(SETTINGS, store, BATCH, "7:a").is_committed()
    with pytest.raises(
        ConnectorError, match=r"of flow orders is older .* batch 7 anew, and s3://.* has another batch 7"
    ):
        BatchCommit(SETTINGS, store, BATCH, "7:b").is_committed()
    BatchCommit(SETTINGS, store, BATCH, "7:a").delete_strays()
    assert names(store) == [each.name for each in objects]


def test_a_manifest_of_an_earlier_version_is_that_of_a_repeated_batch(store: Any) -> None:
    BatchCommit(SETTINGS, store, BATCH).commit(write(store, "aaaaaaaa", [1]))
    assert set(json.loads(bytes(obstore.get(store, BATCH.manifest).bytes()))) == {"version", "batch", "objects"}
    assert BatchCommit(SETTINGS, store, BATCH, "7:a").is_committed()


def test_a_sink_notes_the_plan_of_its_batch(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text(json.dumps({"id": BATCH.query_id}))
    (tmp_path / "offsets" / "7").write_text('v1\n{}\n{"orders":{"0":7}}')
    sink = s3((tmp_path / "out").as_uri())
    settings = sink.settings.with_environment()
    (tmp_path / "out").mkdir()
    BatchCommit(settings, open_store(settings), BATCH, "7:a").commit([Written("a", 1, 1)])
    rows: Any = None
    with pytest.raises(ConnectorError, match="batch 7 anew"):
        sink.write_batch(rows, 7, FlowPlace(BATCH.flow, tmp_path, tmp_path))


def test_of_two_attempts_at_once_the_first_commit_counts(store: Any) -> None:
    commit = BatchCommit(SETTINGS, store, BATCH)
    first, second = write(store, "aaaaaaaa", [1, 2], [3]), write(store, "bbbbbbbb", [3, 1], [2])
    assert commit.commit(second)
    assert not commit.commit(first)
    assert commit.commit(second)  # as a retry of the request does whose reply was lost
    commit.delete_strays()
    assert names(store) == sorted(each.name for each in second)
    assert seen(store) == [1, 2, 3]


def test_objects_that_an_old_attempt_writes_too_late_are_deleted_with_the_next_batch(store: Any) -> None:
    BatchCommit(SETTINGS, store, BATCH).commit(kept := write(store, "aaaaaaaa", [1]))
    write(store, "bbbbbbbb", [1])
    after = replace(BATCH, batch_id=8)
    commit = BatchCommit(SETTINGS, store, after)
    commit.commit(more := write(store, "cccccccc", [2], batch=after))
    commit.delete_strays()
    assert names(store) == sorted(each.name for each in [*kept, *more])
    assert seen(store) == [1, 2]


def test_a_flow_deletes_nothing_of_another_flow_or_of_a_checkpoint_that_was_reset(store: Any) -> None:
    others = [replace(BATCH, query_id="f" * 20), replace(BATCH, flow="orders2"), replace(BATCH, batch_id=5)]
    for number, other in enumerate(others):
        BatchCommit(SETTINGS, store, other).commit(write(store, "aaaaaaaa", [number], batch=other))
    BatchCommit(SETTINGS, store, BATCH).delete_strays()
    assert seen(store) == [0, 1, 2]


def test_objects_are_rolled_by_size(store: Any) -> None:
    writer = TaskWriter(SETTINGS, BATCH, "aaaaaaaa", ObjectFormat.PARQUET, "none", 1_000)
    batches = [pa.RecordBatch.from_pydict({"n": pa.array(range(3_000_000), pa.int64())}) for _ in range(2)]
    written = list(writer.write_objects(iter(batches), store, 3, attempt=1))
    assert [each.name[-14:] for each in written] == ["3-1-000.parquet"[-14:], "3-1-001.parquet"[-14:]]
    assert [each.rows for each in written] == [3_000_000, 3_000_000]
    assert [each.bytes for each in written] == [obstore.head(store, each.name)["size"] for each in written]


def test_foreign_objects_are_data_and_hidden_ones_are_not(store: Any) -> None:
    for name in ("2026/a.parquet", "_SUCCESS", "_temporary/b.parquet", ".c.parquet"):
        obstore.put(store, name, b"1")
    obstore.put(store, "empty", b"")
    assert [each.name for each in list_objects(SETTINGS, store, Order.NAME)] == ["2026/a.parquet"]
    BatchCommit(SETTINGS, store, BATCH).commit(write(store, "aaaaaaaa", [1]))
    with pytest.raises(ConnectorError, match='use order="modified"'):
        list_objects(SETTINGS, store, Order.NAME)


def test_a_damaged_manifest_is_named(store: Any) -> None:
    obstore.put(store, BATCH.manifest, b'{"objects": 1}')
    with pytest.raises(ConnectorError, match=r"_tailrace/orders-0123456789ab/000000007.json is not a manifest"):
        BatchCommit(SETTINGS, store, BATCH).is_committed()


def test_a_manifest_is_readable_without_tailrace(store: Any) -> None:
    BatchCommit(SETTINGS, store, BATCH).commit(write(store, "aaaaaaaa", [1, 2]))
    manifest = json.loads(bytes(obstore.get(store, BATCH.manifest).bytes()))
    (listed,) = manifest["objects"]
    content = bytes(obstore.get(store, listed["name"]).bytes())
    assert pq.read_table(io.BytesIO(content)).column("n").to_pylist() == [1, 2]
    assert (manifest["version"], manifest["batch"], listed["rows"], listed["bytes"]) == (1, 7, 2, len(content))
