"""Arguments and places of tables that are wrong: one line each, and nothing is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.lake.lake_run import COLUMNS, LakeRun, make_sink

from tailrace.spark.connector.delta.delta import delta
from tailrace.spark.connector.iceberg.iceberg import iceberg
from tailrace.spark.error import ConnectorError, PipelineError, SparkSourceError

for package in ("deltalake", "obstore", "pyiceberg", "sqlalchemy"):
    pytest.importorskip(package, reason=f"{package} is not installed")

BOTH = pytest.mark.parametrize("format", ["delta", "iceberg"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"mode": "replace"}, "mode='replace' is not one of upsert, append"),
        ({"mode": "upsert"}, 'mode="upsert" needs key='),
        ({"delete_when": "x"}, "delete_when= needs key="),
        ({"delete_when": " ", "key": "id"}, "delete_when=' ' is not a condition"),
        ({"changes": "debezium"}, "changes= needs key="),
        ({"changes": "avro", "key": "id"}, "changes='avro' is not one of debezium"),
        ({"changes": "debezium", "delete_when": "x", "key": "id"}, "changes= and delete_when= exclude each other"),
        ({"key": "id", "exclude": "id"}, "exclude= has the column id"),
        ({"compact": "often"}, "compact='often' is not a duration"),
        ({"keep": 7}, "keep=7 is not a duration"),
        ({"evolve": 1}, "evolve=1 is neither True nor False"),
    ],
)
@BOTH
def test_a_wrong_argument_is_named(format: str, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(PipelineError) as error:
        make_sink(format, **arguments).check_sink()
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_arguments_of_one_format_are_checked() -> None:
    for wrong in ("", 7):
        with pytest.raises(PipelineError, match="delta\\(\\) needs the path of a table"):
            delta(wrong)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="options= is for the URL of a store"):
        delta("orders", options={"endpoint": "x"})
    with pytest.raises(PipelineError, match="needs a URL such as s3://"):
        delta("ftp://x/y")
    with pytest.raises(PipelineError, match="needs the name of a table, such as orders"):
        iceberg("shop.")
    with pytest.raises(PipelineError, match="is neither a folder nor a mapping"):
        iceberg("orders", catalog="http://localhost")


@BOTH
def test_a_folder_with_other_files_is_refused_and_left_alone(format: str, tmp_path: Path) -> None:
    run = LakeRun(make_sink(format), tmp_path)
    folder = tmp_path / "orders" if format == "delta" else tmp_path / "warehouse" / "default" / "orders"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"half")
    with pytest.raises(PipelineError) as error:
        run.sink.connect_sink(run.place)
    assert str(error.value) == f"{run.sink} cannot be created: the place has files, but no table; name another place"
    with pytest.raises(PipelineError, match="the place has files, but no table"):
        run.create()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["part-0.parquet"]


@BOTH
def test_a_place_that_is_no_folder_is_refused(format: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sink = delta("file/orders") if format == "delta" else iceberg("orders", catalog="file/lake")
    run = LakeRun(sink, tmp_path)
    with pytest.raises(PipelineError, match=r"cannot be created: \S+/file is not a folder"):
        run.sink.connect_sink(run.place)


@BOTH
def test_a_folder_without_rights_is_refused(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LakeRun(make_sink(format), tmp_path)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PipelineError, match=rf"cannot be created: the folder {tmp_path} cannot be written"):
        run.sink.connect_sink(run.place)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_table_that_must_not_be_created_is_refused(tmp_path: Path) -> None:
    run = LakeRun(delta("orders", create=False), tmp_path)
    with pytest.raises(PipelineError, match="delta table orders does not exist, and create= is False"):
        run.sink.connect_sink(run.place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"add": 1}\n'])
def test_a_delta_log_that_is_damaged_is_one_line(content: bytes, tmp_path: Path) -> None:
    run = LakeRun(delta("orders"), tmp_path)
    log = tmp_path / "orders" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_bytes(content)
    with pytest.raises(SparkSourceError) as error:
        run.sink.connect_sink(run.place)
    assert "\n" not in str(error.value)
    assert "orders" in str(error.value)


def test_an_empty_delta_log_is_no_table(tmp_path: Path) -> None:
    run = LakeRun(delta("orders"), tmp_path)
    (tmp_path / "orders" / "_delta_log").mkdir(parents=True)
    with pytest.raises(PipelineError, match="the place has files, but no table"):
        run.sink.connect_sink(run.place)


def test_an_iceberg_table_whose_metadata_is_gone_is_one_line(tmp_path: Path) -> None:
    run = LakeRun(iceberg("orders"), tmp_path)
    run.create()
    for path in tmp_path.rglob("*.metadata.json"):
        path.unlink()
    with pytest.raises(ConnectorError) as error:
        run.sink.connect_sink(run.place)
    assert str(error.value).startswith("iceberg table default.orders: open: ")
    assert "\n" not in str(error.value)


def test_a_delta_table_with_rules_that_are_not_known_is_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable, TableFeatures

    run = LakeRun(delta("orders"), tmp_path)
    run.create()
    table = DeltaTable(str(tmp_path / "orders"))
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(PipelineError, match="has the feature deletionVectors, which is not supported"):
        run.open()


def test_a_delta_table_for_new_rows_only_keeps_its_rows(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable.create(str(tmp_path / "orders"), COLUMNS, configuration={"delta.appendOnly": "true"})
    run = LakeRun(delta("orders", key="id"), tmp_path)
    run.write(0, [{"id": 1}])
    with pytest.raises(ConnectorError, match="takes only new rows"):
        run.write(1, [{"id": 1}])
    assert len(run.rows()) == 1


def test_credentials_are_in_no_text_of_a_table() -> None:
    sinks = (
        delta("s3://lake/orders", options={"secret_access_key": "hush"}),
        iceberg("orders", catalog={"type": "rest", "uri": "http://localhost", "credential": "id:hush"}),
    )
    assert "hush" not in "".join(f"{sink} {sink!r}" for sink in sinks)
