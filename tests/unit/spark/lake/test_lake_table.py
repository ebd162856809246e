"""Tables of both formats: rows are added, replaced and deleted, exactly once, and found by offset."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.spark.lake.lake_run import COLUMNS, FORMATS, PARTITION, LakeRun, make_sink, order

from tailrace.spark.connector.batch_plan import read_plan
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.lake.maintenance import Schedule, compact, maintain, merge_here
from tailrace.spark.connector.lake.note import BatchNote, Noted, find_plan, find_version, read_note
from tailrace.spark.connector.lake.sink import TableWrite
from tailrace.spark.error import ConnectorError, RetriableConnectorError, RowRefused

for package in ("deltalake", "obstore", "pyiceberg", "sqlalchemy", "pyspark"):
    pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_run(format: str, folder: Path, **arguments: Any) -> LakeRun:
    run = LakeRun(make_sink(format, **arguments), folder)
    run.create()
    return run


def test_rows_are_added(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path)
    run.write(0, [order(1), order(2)], [order(3)])
    run.write(1, [order(1)])
    assert [row["id"] for row in run.rows()] == [1, 1, 2, 3]


def test_a_batch_that_comes_again_is_recognised(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path)
    assert run.open().last_batch("flow", run.query_id) is None
    run.write(0, [order(1)])
    assert run.open().last_batch("flow", run.query_id) == 0
    assert run.open().last_batch("flow", "another query") is None
    stale = run.open()
    run.write(1, [order(2)])
    # Another driver of the same flow, believed dead, commits the same batch: its rows are not added.
    before = run.rows()
    described = run.open().list_files()[0].description
    stale.commit([described], [], BatchNote("flow", run.query_id, 1), is_merge=False)
    assert run.rows() == before


def write_plan(run: LakeRun, batch_id: int, end: int) -> str | None:
    """Write a plan to the checkpoint as Spark does; returns its fingerprint."""
    checkpoint = run.place.checkpoint
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": run.query_id}))
    (checkpoint / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"orders":{{"0":{end}}}}}')
    return read_plan(checkpoint, batch_id)


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The batches that were computed without being written."""
    found: list[Any] = []
    monkeypatch.setattr("tailrace.spark.connector.lake.sink.compute_only", found.append)
    return found


def test_another_batch_of_the_same_number_is_an_error(format: str, tmp_path: Path, left_out: list[Any]) -> None:
    """It was left out as a repeated one, although an older copy of the checkpoint had been put back."""
    run = make_run(format, tmp_path)
    run.write(0, [order(0)])
    run.plan = write_plan(run, 1, 20)
    run.write(1, [order(1)])
    LakeRun(run.sink, tmp_path).write(1, [order(9)])  # another query
    compact(run.open(), files_min=2)
    sink, batch = TableWrite(run.sink, run.open(), run.sink.sink), cast(Any, None)
    sink.write(batch, 1, run.place)
    write_plan(run, 1, 25)
    with pytest.raises(ConnectorError, match=r"batch 1 anew, and .* has another batch 1"):
        sink.write(batch, 1, run.place)
    assert left_out == [batch]


def test_a_batch_without_a_plan_is_a_repeated_one(format: str, tmp_path: Path, left_out: list[Any]) -> None:
    run, batch = make_run(format, tmp_path), cast(Any, None)
    run.write(0, [order(0)])  # by an earlier version
    write_plan(run, 0, 20)
    TableWrite(run.sink, run.open(), run.sink.sink).write(batch, 0, run.place)
    assert left_out == [batch]


def test_the_note_of_a_batch_has_its_plan() -> None:
    noted = [Noted(9 - each, 0, BatchNote("flow", "q", 9 - each, {}, f"{9 - each}:a")) for each in range(3)]
    other = Noted(10, 0, BatchNote("flow", "other", 9, {}, "9:b"))
    assert find_plan([other, *noted], "flow", "q", 9) == "9:a"
    assert find_plan([other, *noted[1:]], "flow", "q", 9) is None, "the note has expired"
    for plan in ("9:a", None):
        note = BatchNote("flow", "q", 9, {PARTITION: 5}, plan)
        assert read_note(note.to_properties()) == note


@pytest.mark.parametrize("partition_by", ["", "city"])
def test_rows_are_replaced_and_deleted_by_key(format: str, partition_by: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path, key="id", partition_by=partition_by)
    run.write(0, [order(1), order(2), order(3, "Rome")])
    run.write(1, [order(1, "Rome", 7), {"id": 2, "delete": True}], [order(4), {"id": 99, "delete": True}])
    assert run.rows() == [order(1, "Rome", 7), order(3, "Rome"), order(4)]
    run.write(2, [{"id": number, "delete": True} for number in (1, 3, 4)])
    assert run.rows() == []
    run.write(3, [order(1)])
    assert run.rows() == [order(1)]


def test_a_key_may_have_several_columns(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path, key="city, id")
    run.write(0, [order(1), order(1, "Rome"), order(2, "Rome")])
    run.write(1, [order(1, "Rome", 7), {"id": 2, "city": "Rome", "delete": True}])
    assert run.rows() == [order(1), order(1, "Rome", 7)]


@pytest.mark.parametrize(("key", "partition_by"), [("id", ""), ("city, id", "city")])
def test_keys_are_searched_only_in_files_that_may_have_them(
    format: str, key: str, partition_by: str, tmp_path: Path
) -> None:
    run = make_run(format, tmp_path, key=key, partition_by=partition_by)
    for batch_id, city in enumerate(("Oslo", "Oslo", "Rome")):
        run.write(batch_id, [order(10 * batch_id + number, city) for number in range(3)])
    run.write(3, [order(11, cents=7), {"id": 99, "city": "Oslo", "delete": True}])
    assert len(run.searched) == (1 if partition_by else 2)
    run.write(4, [order(50)])
    assert run.searched == []
    run.write(5, [order(11, cents=8), order(1, cents=8)])
    assert {row["id"]: row["cents"] for row in run.rows()} == {
        **dict.fromkeys((0, 2, 10, 12, 20, 21, 22, 50), 1),
        1: 8,
        11: 8,
    }


def test_random_changes_leave_the_newest_row_of_each_key(format: str, tmp_path: Path) -> None:
    run, dice = make_run(format, tmp_path, key="id", partition_by="city"), random.Random(7)
    model: dict[int, dict[str, Any]] = {}
    for batch_id in range(12):
        changes: dict[int, dict[str, Any]] = {}
        for _ in range(60):
            number = dice.randrange(80)
            is_gone = dice.random() < 0.3
            changes[number] = {"id": number, "delete": True} if is_gone else order(number, dice.choice("abc"), batch_id)
        for number, row in changes.items():
            if row.get("delete"):
                model.pop(number, None)
            else:
                model[number] = row
        rows = list(changes.values())
        run.write(batch_id, rows[::2], rows[1::2])
        if batch_id % 4 == 3:
            compact(run.open(), files_min=2)
        assert run.rows() == [model[number] for number in sorted(model)]


def test_a_row_without_a_key_is_refused_and_the_others_are_written(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path, key="id")
    with pytest.raises(RowRefused, match="refuses a row: column id of the key is null"):
        run.write(0, [order(1), {"city": "Rome"}])
    run.errors = ErrorPolicy(OnError.SKIP)
    run.write(0, [order(1), {"city": "Rome"}])
    assert run.rows() == [order(1)]


def test_columns_are_added_and_older_rows_have_nulls_there(format: str, tmp_path: Path) -> None:
    import pyarrow as pa

    run = make_run(format, tmp_path, key="id", partition_by="city")
    run.write(0, [order(1), order(2)])
    run.open().add_columns([pa.field("note", pa.string()), pa.field("price", pa.decimal128(10, 2))])
    assert run.open().columns.names == [*COLUMNS.names, "note", "price"]
    run.write(1, [order(1) | {"note": "new"}])
    assert [(row["id"], row["note"], row["price"]) for row in run.rows()] == [(1, "new", None), (2, None, None)]


def test_small_files_are_written_together_and_old_ones_deleted(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path)
    for batch_id in range(10):
        run.write(batch_id, [order(batch_id)])
    before = run.rows()
    table = run.open()
    assert len(table.list_files()) == 10
    done = compact(table)
    assert (done.removed, done.added) == (10, 1)
    assert len(run.open().list_files()) == 1
    assert run.rows() == before
    assert run.open().last_batch("flow", run.query_id) == 9
    assert run.open().expire(3600) == 0
    assert len(parquet_files(tmp_path)) == 11
    assert run.open().expire(0) >= 10
    assert len(parquet_files(tmp_path)) == 1
    assert run.rows() == before
    assert run.open().last_batch("flow", run.query_id) == 9
    run.write(10, [order(10)])
    assert len(run.rows()) == 11


def test_a_compaction_gives_way_to_a_commit_that_replaced_its_files(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path, key="id")
    for batch_id in range(3):
        run.write(batch_id, [order(batch_id)])
    table = run.open()

    def merge(files: Any, groups: Any, stem: str) -> Any:
        from tailrace.spark.connector.lake.maintenance import merge_here

        done = merge_here(files, groups, stem)
        run.write(3, [order(0, "Rome")])
        return done

    assert compact(table, merge, files_min=2).removed == 0
    assert run.rows() == [order(0, "Rome"), order(1), order(2)]


def test_a_change_that_was_computed_from_an_older_version_is_not_committed(format: str, tmp_path: Path) -> None:
    run, other = (LakeRun(make_sink(format, key="id"), tmp_path) for _ in range(2))
    run.create()
    run.write(0, [order(1)])
    stale = run.open()
    files = [each.description for each in stale.list_files()]
    other.write(0, [order(1, "Rome")])
    with pytest.raises(RetriableConnectorError, match="was changed by another writer while a batch was written"):
        stale.commit([], files, BatchNote("flow", run.query_id, 1), is_merge=True)
    assert run.rows() == [order(1, "Rome")]


def test_the_version_that_holds_an_offset_is_found(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path, key="id")
    versions = []
    for batch_id in range(3):
        run.write(batch_id, [order(batch_id)])
        versions.append(run.open().version)
    table = run.open()
    found = [find_version(table.list_notes(), PARTITION, offset) for offset in (0, 9, 10, 29, 30)]
    assert [None if each is None else each.version for each in found] == [
        versions[0],
        versions[0],
        versions[1],
        versions[2],
        None,
    ]
    again = LakeRun(run.sink, tmp_path)
    again.write(0, [order(1)])  # after a reset, only the new run counts
    newest = again.open()
    found_again = find_version(newest.list_notes(), PARTITION, 5)
    assert found_again is not None
    assert found_again.version == newest.version
    assert find_version(newest.list_notes(), PARTITION, 15) is None


def test_an_iceberg_table_keeps_no_manifests_of_files_that_were_removed(tmp_path: Path) -> None:
    """Each commit kept a manifest of the files that it had removed, so commits became slower with their number."""
    run = make_run("iceberg", tmp_path, key="id")
    for batch_id in range(8):
        run.write(batch_id, [order(1, cents=batch_id)])
    table: Any = run.open()
    assert len(table._table.current_snapshot().manifests(table._table.io)) <= 2
    assert run.rows() == [order(1, cents=7)]


def parquet_files(folder: Path) -> list[str]:
    return [
        name
        for _, _, names in os.walk(folder / "orders" if (folder / "orders").exists() else folder)
        for name in names
        if name.endswith(".parquet") and not name.endswith(".checkpoint.parquet")
    ]


@pytest.mark.slow
def test_the_number_of_files_is_bounded_after_a_thousand_commits(format: str, tmp_path: Path) -> None:
    run = make_run(format, tmp_path, key="id", keep="1 second")
    now_s = [0.0]
    schedule = Schedule(lambda: now_s[0])
    most = 0
    for batch_id in range(1_000):
        run.write(batch_id, [order(batch_id % 50, cents=batch_id)], [{"id": (batch_id + 25) % 50, "delete": True}])
        now_s[0] += 20.0
        maintain(run.open(), run.sink.sink, merge_here, schedule)
        if batch_id % 50 == 49:
            most = max(most, sum(1 for path in tmp_path.rglob("*") if path.is_file()))
    assert most < 600
    table = run.open()
    assert len(table.list_files()) < 120
    assert [row["id"] for row in run.rows()] == sorted({(999 - age) % 50 for age in range(25)})
