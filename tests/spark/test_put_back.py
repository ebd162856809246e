"""A copy of a checkpoint that is older by one batch is put back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.one_run import run_pipeline

from tailrace.spark.connector.s3.listing import list_committed
from tailrace.spark.connector.s3.s3 import s3
from tailrace.spark.connector.s3.store import open_store
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import checkpoints_of
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.exact]

FLOW = """
from tailrace.pipeline import files, flow, s3

old, new = (files(name, format="json", schema="n int") for name in ("old", "new"))

@flow(source=[old, new], sink=s3("{out}"))
def both(old, new): return {rows}
"""


@pytest.mark.parametrize("rows", ["old.union(new)", "old.union(old.where('n < 0')).union(new)"], ids=["once", "twice"])
def test_a_batch_of_other_files_is_noticed(spark: SparkSession, broker: Broker, tmp_path: Path, rows: str) -> None:
    """Spark's file source only counts its batches, so the position of another batch of the same number is the same.

    Of a source that is read twice there are two positions and one log, so the logs are not numbered as the positions.
    """
    sink, file = s3((tmp_path / "out").as_uri()), tmp_path / "put_back.py"
    file.write_text(FLOW.format(out=sink.settings.url, rows=rows))
    used = checkpoints_of(file)
    copy, newer = used.with_name("copy"), used.with_name("newer")
    for name in ("old", "new", "out"):
        (tmp_path / name).mkdir()

    def run(name: str, number: int) -> None:
        (tmp_path / name / f"{number}.json").write_text(json.dumps({"n": number}))
        run_pipeline(spark, broker, file)

    def seen() -> list[int]:
        found = list_committed(sink.settings, open_store(sink.settings))
        tables = [pq.read_table(tmp_path / "out" / each.name) for each in found]
        return sorted(number for table in tables for number in table.column("n").to_pylist())

    (tmp_path / "new" / "0.json").write_text('{"n": 0}')
    run("old", 1)
    shutil.copytree(used, copy)
    run("new", 2)
    assert seen() == [0, 1, 2]
    used.rename(newer)
    shutil.copytree(copy, used)
    with pytest.raises(FlowError, match="both is older than what it has written: it has planned batch 1 anew"):
        run("new", 3)
    assert seen() == [0, 1, 2]

    shutil.rmtree(used)
    newer.rename(used)
    for end in (used / "both" / "commits").glob("*1*"):  # the batch is repeated, and the next one is planned
        end.unlink()
    run_pipeline(spark, broker, file)
    assert seen() == [0, 1, 2, 3]
