"""A Delta table in an object store, over the API of S3."""

from __future__ import annotations

from pathlib import Path

import pytest

for package in ("deltalake", "obstore", "moto", "pyiceberg"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from tests.s3_server import S3Server  # noqa: E402
from tests.unit.spark.lake.lake_run import LakeRun, order  # noqa: E402

from tailrace.spark.connector.delta.delta import delta  # noqa: E402
from tailrace.spark.connector.lake.maintenance import compact  # noqa: E402
from tailrace.spark.error import PipelineError, SparkSourceError  # noqa: E402


def test_rows_are_replaced_and_deleted_in_an_object_store(tmp_path: Path) -> None:
    with S3Server() as server:
        url = f"s3://{server.create_bucket()}/lake/orders"
        run = LakeRun(delta(url, key="id", options=server.options), tmp_path)
        run.sink.connect_sink(run.place)
        run.create()
        run.write(0, [order(1), order(2)])
        run.write(1, [order(1, "Rome"), {"id": 2, "delete": True}])
        run.write(2, [order(3)])
        assert run.rows() == [order(1, "Rome"), order(3)]
        stale = run.open()
        run.write(3, [order(4)])
        compact(stale, files_min=2)  # the store keeps two writers from the same version
        assert run.rows() == [order(1, "Rome"), order(3), order(4)]
        assert run.open().expire(0) > 0
        assert run.rows() == [order(1, "Rome"), order(3), order(4)]


def test_a_bucket_that_is_missing_or_used_by_others_is_one_line(tmp_path: Path) -> None:
    import obstore

    from tailrace.spark.connector.s3.store import open_store

    with S3Server() as server:
        missing = LakeRun(delta("s3://missing/orders", options=server.options), tmp_path)
        with pytest.raises(SparkSourceError, match="the bucket does not exist"):
            missing.sink.connect_sink(missing.place)
        sink = delta(f"s3://{server.create_bucket()}/orders", options=server.options)
        run = LakeRun(sink, tmp_path)
        obstore.put(open_store(sink.store(run.place)), "part-0.parquet", b"half")
        with pytest.raises(PipelineError, match="the place has files, but no table"):
            sink.connect_sink(run.place)
