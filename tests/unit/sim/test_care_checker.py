"""Each anomaly of a log that is shortened, made by hand, is found, and what only looks like one is not."""

import pytest
from tests.unit.sim.care_event import WEEK_MS, KeptStory
from tests.unit.sim.care_event import CareStory as Story

from tailrace.sim.check import CARE_CHECKERS

LATEST, MAX_TIMESTAMP = -1, -3


def kept(**configs: int) -> Story:
    """A log without compaction that has three records."""
    return KeptStory(**configs).put(0, "a").put(1, "b").put(2, "c")


def doubtful() -> Story:
    """A compacted log with a value, and a newer one with an unknown outcome."""
    return Story().put(0, "a").put(1, "a", outcome="info")


def pair(**configs: int) -> Story:
    """A compacted log with two values of one key."""
    return Story(**configs).put(0, "a").put(1, "a")


CLEAN = {
    "nothing at all": Story(),
    "everything is there": pair().put(2, "b").finish((0, "a"), (1, "a"), (2, "b")),
    "only the newest is there": pair().finish((1, "a")),
    "a newer one was not acknowledged, but is there": doubtful().finish((1, "a")),
    "a newer one was not acknowledged, and is not there": Story()
    .put(0, "a")
    .put(1, "a", outcome="info")
    .finish((0, "a")),
    "gone below a tombstone": Story().put(0, "a").put(1, "a", is_tombstone=True).finish((1, "a", None)),
    "gone with the tombstone": Story(delete_retention_ms=500).put(0, "a").put(1, "a", is_tombstone=True).finish(),
    "gone below a tombstone with an unknown outcome": Story(delete_retention_ms=500)
    .put(0, "a")
    .put(1, "a", is_tombstone=True, outcome="info")
    .finish(),
    "a newer one is being written": doubtful().scan(end=1),
    "not read so far": pair().scan(end=0),
    "below the start of the scan": kept(retention_ms=500).retain(0, 2).start(2).finish((2, "c"), start=2, end=3),
    "deleted, and nothing more": kept().delete(1).start(1).finish((1, "b"), (2, "c"), start=1, end=3),
    "a new leader has not applied retention": kept(retention_ms=500).retain(0, 2).start(2, epoch=1).start(1, epoch=2),
    "a deposed leader knows nothing of a deletion": kept().delete(2).start(0, epoch=1),
    "old records are removed": kept(retention_ms=500).retain(0, 2, clock_ms=601).start(2),
    "too many bytes are removed": kept(retention_bytes=300).retain(0, 2, left_bytes=300).start(2),
    "the first that is recent enough": kept().lookup(100, 1, 100).lookup(101, 2, 200).start(0),
    "no record is that recent": kept().lookup(201, -1, is_final=True).start(0),
    "the end and the newest": kept()
    .lookup(LATEST, 3, is_final=True)
    .lookup(MAX_TIMESTAMP, 2, 200, is_final=True)
    .start(0),
    "a deposed leader knows less": kept().lookup(200, -1).lookup(LATEST, 1).lookup(MAX_TIMESTAMP, 0, 0).start(0),
    "passed over, because it may be gone": kept(retention_ms=500).lookup(0, 1, 100).retain(0, 1).start(1),
    "a policy that the topic had before": kept()
    .reform("compact")
    .compact()
    .put(3, "a")
    .scan((1, "b"), (2, "c"), (3, "a")),
    "retention for a while": pair(retention_ms=500).reform("compact,delete").retain(0, 1, policy="compact,delete"),
    "young, but compaction may have removed it": pair(retention_ms=500).reform("delete").retain(0, 1, clock_ms=200),
    "passed over, because a newer one took its place": pair().lookup(0, 1, 100).start(0),
}

BROKEN = {
    "swept": Story().put(0, "a").put(1, "b").scan((1, "b")),
    "returned": pair().finish((0, "a"), end=1),
    "altered": Story().put(0, "a").scan((0, "a", "v0", 7)).scan((0, "a")),
    "stalled": Story().put(0, "a").scan(end=0, is_final=True, stalled=True),
    "start-falls": kept(retention_ms=500).retain(0, 2).start(2).start(1),
    "start-unasked": kept().delete(1).start(2),
    "greedy-retention": kept(retention_ms=500).retain(0, 2, clock_ms=600),
    "wrong-lookup": kept().lookup(50, 2, 200).start(0),
    "uncalled-care": kept().compact(),
}

UNCALLED = {
    "a policy without retention": pair(retention_ms=500).reform("delete").retain(0, 1, policy="compact"),
    "a policy without compaction": kept().reform("compact").compact("delete"),
    "a policy that comes later": kept().compact("compact").reform("compact"),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_history_is_clean(name: str) -> None:
    assert CLEAN[name].anomalies() == []


@pytest.mark.parametrize("name", BROKEN)
def test_each_anomaly_is_found_by_its_name_alone(name: str) -> None:
    assert set(BROKEN[name].anomalies()) == {name}


def test_every_checker_is_tried() -> None:
    """A checker that no history here wakes could as well be missing."""
    awake = {checker for checker in CARE_CHECKERS for story in BROKEN.values() if list(checker(story.history()))}
    assert awake == set(CARE_CHECKERS)


def test_a_tombstone_stays_until_its_time_is_over() -> None:
    story = Story(delete_retention_ms=WEEK_MS).put(0, "a").put(1, "a", is_tombstone=True)
    assert set(story.finish().anomalies()) == {"swept"}


def test_what_only_a_lost_value_could_replace_is_still_missed_at_the_end() -> None:
    assert set(doubtful().finish().anomalies()) == {"swept"}


def test_a_value_that_a_tombstone_has_deleted_does_not_return() -> None:
    story = Story(delete_retention_ms=WEEK_MS).put(0, "a").put(1, "a", is_tombstone=True)
    assert "returned" in story.finish((0, "a")).anomalies()


def test_if_tombstones_go_soon_a_replica_that_was_away_may_keep_a_value() -> None:
    story = Story(delete_retention_ms=500).put(0, "a").put(1, "a", is_tombstone=True)
    assert story.finish((0, "a")).anomalies() == []


@pytest.mark.parametrize(
    "story",
    [
        Story().put(0, "a", outcome="fail").scan((0, "a")),
        Story().scan((0, "a")).put(0, "a"),
        Story().put(1, "a").put(2, "b").scan((2, "b"), (1, "a")),
        Story().put(1, "a").put(2, "b").scan((1, "b", "v2", 200), (2, "b")),
        Story().put(1, "a", outcome="info").scan((1, "a")).scan((2, "a", "v1", 100)),
    ],
)
def test_records_that_differ_are_found(story: Story) -> None:
    assert "altered" in story.anomalies()


def test_a_deletion_holds_on_every_later_leader_in_the_end() -> None:
    assert kept().delete(2).start(1, epoch=7, is_final=True).anomalies() == ["start-falls"]


@pytest.mark.parametrize("configs", [{"retention_bytes": 300}, {"retention_ms": -1, "retention_bytes": 300}, {}])
def test_retention_by_size_leaves_enough(configs: dict[str, int]) -> None:
    assert kept(**configs).retain(0, 2, left_bytes=299).anomalies() == ["greedy-retention"]


@pytest.mark.parametrize(
    "story",
    [
        kept().lookup(100, 1, 99),
        kept().lookup(100, 0, 0),
        kept().lookup(100, 1, 150),
        kept().lookup(200, -1, is_final=True).start(0),
        kept().lookup(LATEST, 2, is_final=True).start(0),
        kept().lookup(MAX_TIMESTAMP, 1, 100, is_final=True).start(0),
        pair().lookup(100, -1, is_final=True).start(0),
    ],
)
def test_answers_by_time_that_are_wrong_are_found(story: Story) -> None:
    assert story.anomalies() == ["wrong-lookup"]


def test_what_a_tombstone_deleted_may_be_left_on_a_replica_that_was_away() -> None:
    """The tombstone goes at once. A replica that was away then still has the first of two values that it deleted."""
    story = Story(delete_retention_ms=0).put(0, "a").put(1, "a").put(2, "a", is_tombstone=True).put(3, "b")
    assert "returned" not in story.finish((0, "a"), (3, "b")).anomalies()
    story = Story(delete_retention_ms=0).put(0, "a").put(1, "a", is_tombstone=True).put(2, "a").put(3, "b")
    assert "returned" in story.finish((0, "a"), (3, "b")).anomalies()


@pytest.mark.parametrize("name", UNCALLED)
def test_care_that_no_policy_calls_for_is_found(name: str) -> None:
    assert UNCALLED[name].anomalies() == ["uncalled-care"]
