"""Several pipeline files in one run."""

from pathlib import Path

import pytest

from tailrace.pipeline import files, flow, lines, topic
from tailrace.spark.connector.base import Sink
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.many import check_places
from tailrace.spark.pipeline.plan import FlowPlan, plan_of


def plan(name: str, sink: Sink, output: Path) -> FlowPlan:
    def function(rows: object) -> object:
        return rows

    function.__name__ = name
    declared = flow(source=topic("a"), sink=sink)(function)  # type: ignore[arg-type] # it is never called
    return plan_of(declared, {"bootstrap.servers": "localhost:1"}, output / "checkpoints" / name, output)


def test_flows_of_two_files_do_not_write_to_one_place(tmp_path: Path) -> None:
    """Spark skipped the batches of the second flow, whose numbers the folder had, without a word."""
    for sink in (files, lines):
        with pytest.raises(FlowError, match=rf"^flow two: flow one of another file writes to {tmp_path}/out, too$"):
            check_places([plan("one", sink("out"), tmp_path), plan("two", sink(tmp_path / "out"), tmp_path / "other")])
        check_places([plan("one", sink("out"), tmp_path), plan("two", sink("out"), tmp_path / "other")])
    check_places([plan("one", topic("b"), tmp_path), plan("two", topic("b"), tmp_path)])
