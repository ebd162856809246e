"""The stream reader of objects: listings, positions and tasks, without Spark."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.spark.connector.s3.object_format import ObjectFormat
from tailrace.spark.connector.s3.position import Found, Order
from tailrace.spark.connector.s3.store import StoreSettings, open_store

pytest.importorskip("pyspark", reason="pyspark is not installed")
obstore = pytest.importorskip("obstore", reason="obstore is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: E402

from tailrace.spark.connector.s3 import source as s3_source  # noqa: E402

SCHEMA = pa.schema([("n", pa.int64())])


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def settings_of(folder: Path, **changes: Any) -> s3_source.ReadSettings:
    given: dict[str, Any] = {"order": Order.MODIFIED, "look_back_ms": 60_000, "objects_max": 2} | changes
    return s3_source.ReadSettings(StoreSettings(f"file://{folder}"), ObjectFormat.PARQUET, SCHEMA, **given)


def put(folder: Path, name: str, *numbers: int) -> None:
    output = io.BytesIO()
    pq.write_table(pa.table({"n": numbers}), output)
    obstore.put(open_store(StoreSettings(f"file://{folder}")), name, output.getvalue())


def read_batch(reader: s3_source.ObjectStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = [] if end == start else reader.partitions(start, end)
    rows = [number for task in tasks for batch in reader.read(task) for number in batch.column("n").to_pylist()]
    return end, sorted(rows)


def test_a_store_is_listed_once_a_second_and_a_backlog_needs_no_new_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(s3_source, "time", clock)
    for number in range(3):
        put(tmp_path, f"{number}.parquet", number)
    reader = s3_source.ObjectStreamReader(settings_of(tmp_path))
    first, rows = read_batch(reader, reader.initialOffset())
    second, more = read_batch(reader, first)
    assert sorted(rows + more) == [0, 1, 2]
    assert len(rows) == 2
    put(tmp_path, "3.parquet", 3)
    assert read_batch(reader, second) == (second, [])
    clock.now_s = 1.0
    third, rows = read_batch(reader, second)
    assert rows == [3]
    # After a restart, Spark plans the last batch again, from the positions of its checkpoint.
    again = s3_source.ObjectStreamReader(settings_of(tmp_path))
    (task,) = again.partitions(second, third)
    assert [batch.column("n").to_pylist() for batch in again.read(task)] == [[3]]


def test_a_query_with_available_now_ends_although_objects_keep_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(s3_source, "time", clock)
    put(tmp_path, "0.parquet", 0)
    reader = s3_source.ObjectStreamReader(settings_of(tmp_path))
    reader.prepareForTriggerAvailableNow()
    end, rows = read_batch(reader, reader.initialOffset())
    assert rows == [0]
    put(tmp_path, "1.parquet", 1)
    clock.now_s = 100.0
    assert read_batch(reader, end) == (end, [])


def test_tasks_have_about_the_same_number_of_bytes() -> None:
    found = [Found(str(size), 0, size) for size in (*range(1, 200), 5_000)]
    tasks = s3_source.plan_tasks(found)
    assert sorted(each.name for task in tasks for each in task.value) == sorted(each.name for each in found)
    sizes = sorted(sum(each.size for each in task.value) for task in tasks)
    assert len(sizes) == 64
    assert sizes[-1] == 5_000
    assert sizes[-2] - sizes[0] < 200
