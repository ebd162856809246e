"""The demo: a short run of all of it, and its parts."""

import json
import subprocess
import sys
import threading
from collections import Counter

import pytest

from tailrace.cli.demo.activity import ORDERS, PAGE_VIEWS, TOPICS, Activity
from tailrace.cli.demo.scoreboard import Rate, Scoreboard
from tailrace.client.fetch.request import Fetched
from tailrace.client.produce.writer import Delivery
from tailrace.client.topic_partition import TopicPartition
from tailrace.records.batch import assign_offsets
from tailrace.records.builder import BatchBuilder


def test_the_demo_runs_ends_and_finds_everything_again() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", "demo", "--no-spark", "--for", "1s"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("tailrace demo: every acknowledged event was read back\n")


@pytest.mark.parametrize("duration", ["soon", "-1s", "1d"])
def test_a_duration_that_is_none_exits_with_2(duration: str) -> None:
    command = [sys.executable, "-m", "tailrace", "demo", "--for", duration]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 2


def test_activity_has_keys_headers_late_events_and_duplicates() -> None:
    now_ms = 1_700_000_000_000
    events = list(Activity(seed=1).events(now_ms, 5000))
    assert {event.topic for event in events} == set(TOPICS)
    assert all(event.key.startswith(b"user-") and dict(event.headers)["event-id"] for event in events)
    assert 0 < sum(event.timestamp_ms < now_ms for event in events) < 500
    twice = [count for count in Counter(dict(event.headers)["event-id"] for event in events).values() if count == 2]
    assert len(events) == 5000 + len(twice)
    assert twice
    assert events == list(Activity(seed=1).events(now_ms, 5000))


def fetched(topic: str, base_offset: int, *bodies: dict[str, object]) -> Fetched:
    builder = BatchBuilder()
    for index, body in enumerate(bodies):
        builder.append(1000, b"k", json.dumps(body).encode(), [("event-id", str(body.get("id", index)).encode())])
    data = bytearray(builder.build())
    assign_offsets(data, 0, base_offset, 0)
    return Fetched(topic, 0, base_offset, base_offset + len(bodies), 100, data, ())


def test_the_board_counts_and_compares() -> None:
    board = Scoreboard()
    board.delivered(Delivery(TopicPartition(ORDERS, 0), 3, base_offset=0))
    board.delivered(Delivery(TopicPartition(PAGE_VIEWS, 0), 1, base_offset=0))
    assert (board.lag, board.lag_of(ORDERS)) == (4, 3)
    board.fetched(fetched(ORDERS, 0, {"id": 1, "cents": 100}, {"id": 2, "cents": 250}, {"id": 2, "cents": 250}))
    assert (board.lag, board.order_count, board.order_cents, board.duplicate_count) == (1, 2, 350, 1)
    board.fetched(fetched(PAGE_VIEWS, 0, {"id": 3, "page": "/"}))
    assert (board.lag, board.pages["/"], board.problems) == (0, 1, [])
    assert "4 events written, 4 read back, 1 duplicates; 2 orders worth 3.50; top pages: / 1" in board.line()


def test_the_board_notices_gaps_and_refusals() -> None:
    board = Scoreboard()
    board.fetched(fetched(ORDERS, 5, {"cents": 1}))
    board.delivered(Delivery(TopicPartition(ORDERS, 0), 2, error=ValueError("no")))
    assert board.problems == ["orders-0: offset 5 after -1", "orders-0: 2 events were refused: no"]


def test_a_rate_is_shown_while_another_thread_counts() -> None:
    """The demo ended with "deque mutated during iteration" when an event was acknowledged while the rate was shown."""
    rate = Rate()
    stopping = threading.Event()

    def count() -> None:
        while not stopping.is_set():
            rate.add(1)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    counting = threading.Thread(target=count)
    counting.start()
    try:
        for _ in range(300):
            rate.per_second()
    finally:
        stopping.set()
        counting.join()
        sys.setswitchinterval(before)


def test_a_rate_is_of_the_last_seconds() -> None:
    now_s = 0.0
    rate = Rate(lambda: now_s)
    rate.add(100)
    now_s = 2.0
    assert rate.per_second() == 50
    now_s = 6.0
    rate.add(10)
    assert rate.per_second() == 2
