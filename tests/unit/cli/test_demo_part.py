"""The parts of the demo with Spark that need no Spark."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.cli.demo.activity import TOPICS
from tailrace.cli.demo.board import DemoBoard
from tailrace.cli.demo.check import find_missing, read_parquet
from tailrace.cli.demo.publisher import Publisher
from tailrace.cli.demo.result import ORDER_SEARCHES, PAGE_COUNTS, Results
from tailrace.client.fetch.table import read_table
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.pipeline.tally import FlowTally
from tailrace.testing import Broker


def test_the_publisher_knows_what_was_acknowledged() -> None:
    with Broker() as broker:
        for topic in TOPICS:
            broker.create_topic(topic, 2)
        publisher = Publisher(broker.bootstrap_servers, seed=1)
        publisher._send(3_000, time.time_ns() // 1_000_000)
        publisher.stop()
        assert publisher.problems == []
        assert publisher.total == 3_000 + publisher.duplicate_count
        assert 0 < publisher.late_count < 300
        assert publisher.duplicate_count > 0
        for topic in TOPICS:
            table = read_table(broker.bootstrap_servers, topic, columns=["partition", "offset"])
            assert table.num_rows == publisher.acknowledged[topic]
            ends = {partition: end for partition, end in publisher.ends.items() if partition.topic == topic}
            assert find_missing(table.append_column("topic", [[topic] * table.num_rows]), ends) == []
            assert sum(ends.values()) == table.num_rows


def test_windows_are_complete_before_anybody_counts() -> None:
    with Broker() as broker:
        for topic in TOPICS:
            broker.create_topic(topic)
        publisher = Publisher(broker.bootstrap_servers, seed=1, events_per_second=10)
        publisher.publish_past(20)
        publisher.stop()
        assert publisher.total == 20 * 10 + publisher.duplicate_count
        table = read_table(broker.bootstrap_servers, "page_views", columns=["timestamp"])
        ages_s = [time.time() - at.timestamp() for at in table.column("timestamp").to_pylist()]
        assert max(ages_s) >= 20


def test_the_pace_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a minute's events in one first batch kept the first results back while Spark compiled."""
    sent: list[int] = []
    publisher = Publisher("127.0.0.1:1", seed=1, events_per_second=0)

    def send(count: int, _now_ms: int) -> None:
        sent.append(count)
        publisher.events_per_second = 100
        if sum(sent):
            publisher._stopping.set()

    monkeypatch.setattr(publisher, "_send", send)
    publisher.start()
    publisher._thread.join(60)
    publisher.stop()
    assert sent[0] == 0
    assert sum(sent) >= 1


def rows(*offsets: int) -> pa.Table:
    return pa.table({"topic": ["a"] * len(offsets), "partition": [0] * len(offsets), "offset": list(offsets)})


def test_missing_and_doubled_events_are_found() -> None:
    ends = {TopicPartition("a", 0): 4}
    assert find_missing(rows(3, 0, 2, 1, 4), ends) == []
    assert find_missing(rows(0, 3), ends) == ["a-0: 2 acknowledged events were not read, offset 1 first"]
    assert find_missing(rows(0, 1, 2, 3, 3), ends) == ["a-0: 1 events are in the files twice"]
    assert find_missing(None, ends) == ["a-0: 4 acknowledged events were not read, offset 0 first"]


def test_only_files_of_finished_batches_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    log = folder / "_spark_metadata"
    log.mkdir(parents=True)
    for number in (1, 2, 3):
        pq.write_table(rows(number), folder / f"part-{number}.parquet")

    def entry(*numbers: int) -> str:
        added = [(folder / f"part-{number}.parquet").as_uri() for number in numbers]
        return "\n".join(["v1", *(json.dumps({"path": path, "action": "add"}) for path in added)])

    (log / "0").write_text(entry(1))
    (log / "1.compact").write_text(entry(1, 2))
    (log / ".2.tmp").write_text("v1\nunfinished")
    file_count, table = read_parquet(folder)
    assert (file_count, table.column("offset").to_pylist()) == (2, [1, 2])
    assert read_parquet(tmp_path / "nothing") == (0, None)


def test_the_newest_window_is_shown() -> None:
    results = Results()
    assert results.line() == "no window of page views is complete yet; 0 orders after searches"
    early, late = "2026-01-01T10:00:00.000Z", "2026-01-01T10:00:05.000Z"
    for start, page, views in ((early, "/", 9), (late, "/", 3), (late, "/docs", 5), (early, "/blog", 99)):
        results.add(PAGE_COUNTS, {"start": start, "page": page, "views": views})
    results.add(ORDER_SEARCHES, {"ordered_at": late, "user": "u", "product": "mug", "query": "log"})
    assert results.counts == {PAGE_COUNTS: 4, ORDER_SEARCHES: 1}
    assert results.line() == "most seen from 10:00:05 on: /docs 5, / 3; 1 orders after searches"
    assert [table.row_count for table in results.tables()] == [2, 1]


def test_the_board_has_a_line_for_each_flow() -> None:
    class Running:
        def snapshot(self) -> list[FlowTally]:
            return [FlowTally("one"), FlowTally("two")]

    publisher = Publisher("127.0.0.1:1", seed=1)
    try:
        lines = DemoBoard("h:1", publisher, Running(), Results()).lines()
    finally:
        publisher.stop()
    assert [line.split()[0] for line in lines] == ["published", "one:", "two:", "no"]


def test_the_first_result_is_shown_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Running:
        def snapshot(self) -> list[FlowTally]:
            return []

    publisher: Any = Publisher("127.0.0.1:1", seed=1)
    results = Results()
    board = DemoBoard("h:1", publisher, Running(), results)
    try:
        board.refresh()
        results.add(PAGE_COUNTS, {"start": "2026-01-01T10:00:00.000Z", "page": "/", "views": 9})
        board.refresh()
        board.refresh()
    finally:
        publisher.stop()
    assert capsys.readouterr().out.count("most seen from 10:00:00 on: / 9") == 1
