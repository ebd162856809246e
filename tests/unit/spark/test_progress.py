"""How far a stream is behind, from what Spark reports of it."""

from types import SimpleNamespace

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.progress import offsets_behind_latest

END, LATEST = '{"t": {"0": 5, "1": 10}}', '{"t": {"0": 8, "1": 10, "2": 4}}'


def test_what_is_there_and_not_read_is_counted() -> None:
    behind = offsets_behind_latest({"endOffset": END, "latestOffset": LATEST})
    assert behind.by_partition == {
        TopicPartition("t", 0): 3,
        TopicPartition("t", 1): 0,
        TopicPartition("t", 2): 4,  # a new partition, of which nothing was read
    }
    assert behind.total == 7
    assert behind.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "4",
        "avgOffsetsBehindLatest": str(7 / 3),
    }


def test_reports_come_as_objects_and_as_parsed_json() -> None:
    expected = offsets_behind_latest({"endOffset": END, "latestOffset": LATEST})
    assert offsets_behind_latest(SimpleNamespace(endOffset=END, latestOffset=LATEST)) == expected
    parsed = {"endOffset": {"t": {"0": 5, "1": 10}}, "latestOffset": {"t": {"0": 8, "1": 10, "2": 4}}}
    assert offsets_behind_latest(parsed) == expected


def test_a_report_of_another_source_tells_nothing() -> None:
    assert offsets_behind_latest({"endOffset": "5", "latestOffset": None}).metrics == {}
    assert offsets_behind_latest({}).total == 0
