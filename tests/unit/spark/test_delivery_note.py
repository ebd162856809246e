"""A flow whose delivery was changed while a batch was interrupted.

The batch was begun without the note by which the new delivery recognises it, so its rows were written twice.
"""

from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline import flow, lines, topic
from tailrace.spark.pipeline.delivery_note import note_delivery
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import FlowPlan, plan_of

AT_MOST, AT_LEAST, EXACTLY = "at-most-once", "at-least-once", "exactly-once"


def plan(delivery: str, folder: Path) -> FlowPlan:
    @flow(source=lines("a.txt"), sink=topic("out"), delivery=delivery)
    def copy(rows: Any) -> Any:
        return rows

    return plan_of(copy, {"bootstrap.servers": "localhost:1"}, folder, folder)


def run_batches(started: FlowPlan, *, begun: int, finished: int) -> None:
    """Do what the start of a flow and its batches do."""
    note_delivery(started.checkpoint, started.flow.delivery)
    for name, count in (("offsets", begun), ("commits", finished)):
        folder = started.checkpoint / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / str(number)).write_text("v1\n{}\n{}")


@pytest.mark.parametrize(
    ("before", "now"), [(AT_LEAST, EXACTLY), (AT_LEAST, AT_MOST), (AT_MOST, EXACTLY), (EXACTLY, AT_MOST)]
)
def test_an_interrupted_batch_is_finished_before_the_delivery_changes(before: str, now: str, tmp_path: Path) -> None:
    run_batches(plan(before, tmp_path), begun=3, finished=2)
    with pytest.raises(FlowError) as caught:
        plan(now, tmp_path).connect()
    assert str(caught.value) == (
        f"flow copy: delivery='{now}': batch 2 was interrupted while the delivery was {before}, and would be written "
        f"again; run the flow with delivery='{before}' and --once to finish the batch, then change the delivery"
    )
    plan(before, tmp_path).connect()
    run_batches(plan(before, tmp_path), begun=3, finished=3)
    plan(now, tmp_path).connect()


@pytest.mark.parametrize("before", [AT_MOST, EXACTLY])
def test_a_flow_that_may_write_rows_twice_writes_the_interrupted_batch_again(before: str, tmp_path: Path) -> None:
    run_batches(plan(before, tmp_path), begun=1, finished=0)
    plan(AT_LEAST, tmp_path).connect()


def test_a_flow_that_has_begun_no_batch_may_change_its_delivery(tmp_path: Path) -> None:
    run_batches(plan(AT_LEAST, tmp_path), begun=0, finished=0)
    plan(EXACTLY, tmp_path).connect()


def test_a_checkpoint_of_an_earlier_version_is_taken_as_it_is(tmp_path: Path) -> None:
    run_batches(plan(AT_LEAST, tmp_path), begun=1, finished=0)
    (tmp_path / "copy" / "delivery").unlink()
    plan(EXACTLY, tmp_path).connect()
