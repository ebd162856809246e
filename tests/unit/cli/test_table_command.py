"""`tailrace table`: the look at a table, the version of an offset, compaction, expiry, and what sync refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

for package in ("deltalake", "obstore", "pyiceberg", "sqlalchemy", "pyspark"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from tests.unit.spark.lake.lake_run import LakeRun, make_sink, order  # noqa: E402

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LakeRun, list[str]]:
    """A table with four batches, and the arguments that name it."""
    lake = LakeRun(make_sink(request.param), tmp_path)
    lake.create()
    for batch_id in range(4):
        lake.write(batch_id, [order(batch_id)])
    where = (
        [str(tmp_path / "orders")] if request.param == "delta" else [str(tmp_path / "warehouse"), "--table", "orders"]
    )
    return lake, where


def test_a_table_is_shown(run: Run, table: tuple[LakeRun, list[str]]) -> None:
    lake, where = table
    status, out, _ = run("table", "show", *where, "--json")
    found = json.loads(out)
    assert status == 0
    assert (found["rows"], found["files"], len(found["batches"])) == (4, 4, 4)
    assert found["columns"] == {"id": "int64", "city": "string", "cents": "int64"}
    assert found["batches"][0]["offsets"] == {"orders": {"0": 40}}
    status, out, _ = run("table", "show", *where)
    assert status == 0
    assert f"version {lake.open().version}, 4 rows, 4 files" in out
    assert "orders-0: 40" in out


def test_the_version_of_an_offset_is_found(run: Run, table: tuple[LakeRun, list[str]]) -> None:
    lake, where = table
    versions = [each.version for each in lake.open().list_notes()][::-1]
    place = ["--topic", "orders", "--partition", "0", "--offset"]
    assert run("table", "version", *where, *place, "15") == (0, f"{versions[1]}\n", "")
    status, out, _ = run("table", "version", *where, *place, "39", "--json")
    assert (status, json.loads(out)["version"], json.loads(out)["batch"]) == (0, versions[3], 3)
    status, _, err = run("table", "version", *where, *place, "40")
    assert status == 1
    assert f"no version of {lake.open()} that exists holds orders-0 offset 40" in err


def test_files_are_written_together_and_old_ones_deleted(run: Run, table: tuple[LakeRun, list[str]]) -> None:
    lake, where = table
    before = lake.rows()
    assert run("table", "compact", *where) == (0, "4 files were written together to 1\n", "")
    assert run("table", "compact", *where) == (0, "0 files were written together to 0\n", "")
    assert run("table", "expire", *where, "--keep", "1h") == (0, "0 files were deleted\n", "")
    assert json.loads(run("table", "compact", *where, "--json")[1]) == {"removed": 0, "added": 0}
    assert json.loads(run("table", "expire", *where, "--keep", "1h", "--json")[1]) == {"deleted": 0}
    assert lake.rows() == before


def test_a_table_that_is_missing_or_not_named_is_one_line(run: Run, tmp_path: Path) -> None:
    status, _, err = run("table", "show", str(tmp_path / "none"))
    assert (status, err.strip()) == (1, f"tailrace: there is no delta table {tmp_path}/none")
    status, _, err = run("table", "show", str(tmp_path), "--table", "none")
    assert (status, err.strip()) == (1, "tailrace: there is no iceberg table default.none")
    assert list(tmp_path.iterdir()) == []
    for wrong, reason in (
        ([], "give the path of a Delta table"),
        (["x", "--catalog", "uri=http://localhost"], "--catalog is for an Iceberg table"),
        (["--table", "orders"], "needs either the folder of a warehouse, or --catalog"),
    ):
        status, _, err = run("table", "show", *wrong)
        assert status == 2
        assert reason in err


def test_a_sync_that_cannot_work_is_refused_before_spark_starts(run: Run, tmp_path: Path) -> None:
    target = ["--path", str(tmp_path / "t")]
    for wrong, status, reason in (
        (["--to", "delta"], 2, "give the path of a Delta table"),
        (["--to", "delta", *target, "--table", "x"], 2, "--table and --catalog are for Iceberg"),
        (["--to", "delta", *target, "--key", "id"], 1, "the only key is that of the record: --key key"),
        (["--to", "iceberg", *target, "--changes"], 1, "changes of a database need --key"),
        (["--to", "delta", *target, "--keep", "long"], 1, "keep='long' is not a duration"),
    ):
        found, _, err = run("table", "sync", "orders", *wrong)
        assert found == status, err
        assert reason in err
    assert list(tmp_path.iterdir()) == []


def test_rows_that_a_sync_has_added_are_not_added_again_by_another(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailrace.spark.connector.lake.note import BatchNote

    lake = LakeRun(make_sink("delta"), tmp_path)
    lake.create()
    lake.open().commit([], [], BatchNote("sync_orders", lake.query_id, 0), is_merge=False)
    monkeypatch.chdir(tmp_path)
    status, _, err = run("table", "sync", "orders", "--to", "delta", "--path", "orders")
    assert status == 1
    assert "has rows of a sync whose checkpoint is not in" in err
