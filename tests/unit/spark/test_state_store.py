"""Where the state of flows is kept."""

import pytest

from tailrace.pipeline import PipelineError, flow, topic
from tailrace.spark.pipeline.state_store import StateStore, find_store

WINDOW = "Aggregate [window#1], [count(1)]\n+- EventTimeWatermark at#2"
PROCESSOR = "TransformWithStateInPySpark handle(...)#3, [key#4]"


@pytest.mark.parametrize(
    ("chosen", "plan", "store"),
    [
        (None, WINDOW, StateStore.MEMORY),
        (StateStore.DISK, WINDOW, StateStore.DISK),
        (None, PROCESSOR, StateStore.DISK),
        (StateStore.DISK, PROCESSOR, StateStore.DISK),
    ],
)
def test_state_is_in_memory_unless_a_flow_needs_or_chooses_the_disk(
    chosen: StateStore | None, plan: str, store: StateStore
) -> None:
    assert find_store(chosen, plan) is store


def test_what_is_not_possible_is_refused() -> None:
    with pytest.raises(PipelineError, match="transformWithState needs"):
        find_store(StateStore.MEMORY, PROCESSOR)
    with pytest.raises(PipelineError, match="flow <lambda>: state='heap' is not one of memory, disk"):
        flow(source=topic("a"), sink=topic("b"), state="heap")(lambda rows: rows)
