"""Committed offsets below which the log was truncated."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import pytest

import tailrace
from tailrace.client.cluster import Cluster
from tailrace.client.error import OffsetMissing
from tailrace.client.fetch import locator
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.locator import Located, Locator, Outcome
from tailrace.client.fetch.truncation import EpochEnd, find_epoch_ends
from tailrace.client.group.offset import OffsetAndMetadata
from tailrace.client.place import AT_COMMITTED, AT_EARLIEST, Place
from tailrace.client.topic_partition import TopicPartition

PLACE = TopicPartition("t", 0)


def locate(
    monkeypatch: pytest.MonkeyPatch, committed: OffsetAndMetadata, end: EpochEnd | None, reset: Place | None
) -> Outcome | None:
    """Where a group goes on that has committed this, when its leader tells that end."""

    async def find_ends(_: Cluster, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        assert asked == {PLACE: committed.leader_epoch}
        return {} if end is None else {PLACE: end}

    async def find_committed(_: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {PLACE: committed}

    async def find_offsets(*_: object) -> dict[int, int]:
        return {0: 77}

    monkeypatch.setattr(locator, "find_epoch_ends", find_ends)
    monkeypatch.setattr(locator, "find_offsets", find_offsets)
    found = Locator(Cluster("localhost:1"), Isolation.READ_UNCOMMITTED, reset)
    found.find_committed = find_committed
    return asyncio.run(found.locate({PLACE: AT_COMMITTED}, {})).get(PLACE)


def test_a_log_that_was_not_cut_goes_on_at_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = OffsetAndMetadata(10, "", 3)
    for end in (EpochEnd(3, 10), EpochEnd(3, 500), None):
        assert locate(monkeypatch, committed, end, AT_EARLIEST) == Located(10, 3)
    assert locate(monkeypatch, OffsetAndMetadata(10), None, AT_EARLIEST) == Located(10, -1)


def test_a_log_that_was_cut_goes_on_at_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate(monkeypatch, OffsetAndMetadata(10, "", 3), EpochEnd(2, 8), AT_EARLIEST) == Located(8, 2)
    assert locate(monkeypatch, OffsetAndMetadata(10, "", 3), EpochEnd(-1, -1), AT_EARLIEST) == Located(77)
    outcome = locate(monkeypatch, OffsetAndMetadata(10, "", 3), EpochEnd(2, 8), None)
    assert isinstance(outcome, OffsetMissing)
    assert "t-0 was truncated: it no longer has offset 10 of leader epoch 3; seek to an offset" in str(outcome)


@pytest.mark.parametrize(
    ("at", "end", "found"),
    [
        (Located(100, 5), EpochEnd(5, 120), Located(100, 5)),
        (Located(100, 5), EpochEnd(5, 80), Located(77)),  # 80 to 99 would be skipped
        (Located(100, 5), EpochEnd(-1, -1), Located(77)),
        (Located(100, 5), None, Located(77)),
        (Located(100), None, Located(77)),
        (Located(70, 5), None, Located(77)),
    ],
)
def test_a_refused_position_is_kept_if_the_leader_has_what_was_read_before_it(
    at: Located, end: EpochEnd | None, found: Located, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was cut by an unclean election, and has grown since, has other records before the position."""

    async def find_ends(_: Cluster, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        assert asked == {PLACE: 5}
        return {} if end is None else {PLACE: end}

    async def find_offsets(*_: object) -> dict[int, int]:
        return {0: 77}

    monkeypatch.setattr(locator, "find_epoch_ends", find_ends)
    monkeypatch.setattr(locator, "find_offsets", find_offsets)
    finder = Locator(Cluster("localhost:1"), Isolation.READ_UNCOMMITTED, AT_EARLIEST)
    assert asyncio.run(finder.locate({PLACE: AT_EARLIEST}, {PLACE: at})) == {PLACE: found}


def test_leaders_tell_where_epochs_end(bootstrap: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    with tailrace.Producer(bootstrap) as producer:
        producer.send(topic, b"x", partition=1).result(60)

    async def ask() -> dict[TopicPartition, EpochEnd]:
        async with Cluster(bootstrap) as cluster:
            return await find_epoch_ends(cluster, {TopicPartition(topic, 1): 0})

    assert asyncio.run(ask()) == {(topic, 1): (0, 1)}
