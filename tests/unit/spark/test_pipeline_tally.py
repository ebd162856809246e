"""Counting by the progress that Spark reports."""

from typing import Any

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.pipeline.tally import FlowTally


def progress(rows_in: int, rows_out: int | None, **other: Any) -> dict[str, Any]:
    observed = {} if rows_out is None else {"tailrace_out": {"rows": rows_out}}
    return {
        "numInputRows": rows_in,
        "observedMetrics": observed,
        "durationMs": {"addBatch": 90, "triggerExecution": 500},
        "sink": {"description": "files", "numOutputRows": -1},
        "stateOperators": [],
        "sources": [],
    } | other


def source(end: dict[str, Any], latest: dict[str, Any]) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest}


def test_rows_batches_and_rates_add_up() -> None:
    tally = FlowTally("f")
    assert (tally.state, tally.rates(0.0)) == ("starting", (0.0, 0.0))
    tally.add(progress(100, 10), now_s=100.0)
    tally.add(progress(300, 30), now_s=101.5)
    tally.work()
    assert (tally.state, tally.rows_in, tally.rows_out, tally.batch_count) == ("running", 400, 40, 2)
    assert tally.batch_ms == 500
    assert tally.rates(101.5) == (200.0, 20.0)
    assert tally.rates(111.25) == (30.0, 3.0)
    assert tally.rates(120.0) == (0.0, 0.0)


def test_idle_reports_count_no_batch() -> None:
    tally = FlowTally("f")
    tally.add(progress(0, None, durationMs={"latestOffset": 1, "triggerExecution": 2}), now_s=1.0)
    assert (tally.batch_count, tally.batch_ms, tally.rows_out) == (0, 0, 0)


def test_a_sink_that_counts_is_believed_when_nothing_was_observed() -> None:
    tally = FlowTally("f")
    tally.add(progress(1, None, sink={"numOutputRows": 7}), now_s=1.0)
    assert tally.rows_out == 7


def test_state_late_and_duplicate_rows_come_from_the_operators() -> None:
    operators = [
        {"numRowsTotal": 5, "numRowsDroppedByWatermark": 2, "customMetrics": {"numDroppedDuplicateRows": 3}},
        {"numRowsTotal": 4, "numRowsDroppedByWatermark": 1, "customMetrics": {}},
    ]
    tally = FlowTally("f")
    tally.add(progress(9, 1, stateOperators=operators), now_s=1.0)
    tally.add(progress(9, 1, stateOperators=operators[:1]), now_s=2.0)
    assert (tally.state_rows, tally.rows_late, tally.rows_duplicate) == (5, 5, 6)


def test_the_slowest_source_of_a_topic_is_where_the_flow_is() -> None:
    tally = FlowTally("f")
    sources = [
        source({"a": {"0": 5, "1": 9}}, {"a": {"0": 8, "1": 9}}),
        source({"a": {"0": 7}, "b": {"0": 1}}, {"a": {"0": 8}, "b": {"0": 4}}),
    ]
    tally.add(progress(9, 1, sources=sources), now_s=1.0)
    first, second, other = (TopicPartition(*place) for place in (("a", 0), ("a", 1), ("b", 0)))
    assert tally.position == {first: 5, second: 9, other: 1}
    assert tally.lag == 6
    assert tally.has_reached({first: 5, second: 9})
    assert not tally.has_reached({first: 6})
    assert not tally.has_reached({TopicPartition("unread", 0): 1})


def test_positions_may_be_text_and_may_be_missing() -> None:
    tally = FlowTally("f")
    tally.add(progress(1, 1, sources=[source({}, {}) | {"endOffset": '{"a":{"0":3}}'}, {"endOffset": None}]), now_s=1.0)
    assert tally.position == {TopicPartition("a", 0): 3}


def test_rejected_records_add_up_by_reason() -> None:
    tally = FlowTally("f")
    for count in (2, 0, 3):
        observed = {"tailrace_rejected_0": {"not JSON": count, "other": 0}, "tailrace_rejected_7": {"not JSON": 1}}
        tally.add(progress(9, 1, observedMetrics=observed), now_s=1.0)
    assert tally.rejected == {"not JSON": 8}
    assert tally.copy({"not JSON": 1, "too long": 4}).rejected == {"not JSON": 9, "too long": 4}
    assert tally.rejected == {"not JSON": 8}
