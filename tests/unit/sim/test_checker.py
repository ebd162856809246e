"""Each anomaly made by hand is found, and what only looks like one is not."""

from typing import Any

import pytest
from tests.unit.sim.event import P, Story

from tailrace.sim.check import LOG_CHECKERS

OWNED: dict[str, Any] = {"group": "readers", "change": "assigned", "generation": 3}

CLEAN = {
    "nothing at all": Story(),
    "sent, read, drained": Story().send("a", 0).send("b", 1).poll((0, "a"), (1, "b")).drain(),
    "a time-out that was written": Story().doubtful("a").send("b", 1).poll((0, "a"), (1, "b")).drain(),
    "a time-out that was not": Story().doubtful("a").send("b", 0).poll((0, "b")).drain(),
    "an acknowledgement without an offset": Story().send("a", -1).poll((0, "a")).drain(),
    "gaps where nothing is": Story().send("a", 0).send("b", 5).poll((0, "a"), (5, "b")).drain(),
    "unread because nobody read to the end": Story().send("a", 0).send("b", 1).poll((0, "a")),
    "two consumers, each by itself": Story().send("a", 0).poll((0, "a")).poll((0, "a"), process="other").drain(),
    "read again after being moved": Story().send("a", 0).poll((0, "a")).assign().poll((0, "a")).drain(),
    "twice without idempotence": Story().send("a", 0, idempotent=False).poll((0, "a"), (1, "a")).drain(),
    "two producers in any order": Story().send("a", 1).send("b", 0, "other").poll((0, "b"), (1, "a")).drain(),
    "epochs that rise": Story().send("a", 0).send("b", 1).poll((0, "a", 3), (1, "b", 5)).drain(),
    "commits that rise": Story().commit(3).committed(3).commit(3).commit(7).committed(7),
    "deleted on request": Story().send("a", 0).send("b", 1).delete(1).log_start(1).poll((1, "b")).drain(),
    "perhaps deleted": Story().send("a", 0).send("b", 1).delete_lost(1).poll((1, "b")).drain(),
    "a deletion that was not carried out": Story().send("a", 0).delete_lost(1).log_start(0).poll((0, "a")).drain(),
    "skipped because it was deleted": Story()
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .poll((0, "a"))
    .delete(2)
    .poll((2, "c"))
    .drain(),
    "gone by a short retention": Story().send("a", 0).send("b", 1).retention(1).log_start(1).poll((1, "b")).drain(),
    "kept in spite of a short retention": Story().send("a", 0).retention(1).log_start(0).poll((0, "a")).drain(),
    "deleted, at an offset that is not known": Story().send("a", -1).send("b", 1).delete(1).poll((1, "b")).drain(),
    "a lost commit that arrived late": Story().commit_lost(3).commit(7).committed(3),
}


def _undeleted() -> Story:
    story = Story().send("a", 0).send("b", 1).delete(1)
    drain = story.recorder.invoke("last", "drain", partitions=[P])
    story.poll((0, "a"), (1, "b"), process="last")
    drain.ok()
    return story


BROKEN = {
    "commit-ahead": Story().send("a", 0).assign("member", group="readers").applied(1),
    "inconsistent-offsets": Story().send("a", 0).doubtful("b", "other").poll((0, "a")).poll((0, "b"), process="other"),
    "duplicate": Story().send("a", 0).poll((0, "a"), (1, "a")).drain(),
    "misplaced": Story().send("a", 0).poll((1, "a")).drain(),
    "lost-write": Story().send("a", 0).send("b", 1).poll((1, "b")),
    "unseen": Story().send("a", 0).send("b", 1).poll((0, "a")).drain(),
    "aborted-read": Story().refused("a").poll((0, "a")).drain(),
    "phantom": Story().poll((0, "a")).send("a", 0).drain(),
    "nonmonotonic-send": Story().doubtful("a").send("b", 0).poll((0, "b"), (1, "a")).drain(),
    "nonmonotonic-poll": Story().send("a", 0).poll((0, "a")).poll((0, "a")).drain(),
    "int-nonmonotonic-poll": Story().doubtful("b").send("a", 1).poll((1, "a"), (0, "b")).drain(),
    "poll-skip": Story()
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .poll((0, "a"))
    .poll((2, "c"))
    .poll((1, "b"), process="other"),
    "int-poll-skip": Story()
    .send("a", 0)
    .send("b", 1)
    .send("c", 2)
    .poll((0, "a"), (2, "c"))
    .poll((1, "b"), process="other"),
    "leader-epoch-falls": Story().send("a", 0).send("b", 1).poll((0, "a", 5), (1, "b", 3)).drain(),
    "leader-epoch-changed": Story().send("a", 0).poll((0, "a", 3)).assign().poll((0, "a", 4)).drain(),
    "excessive-deletion": Story().send("a", 0).send("b", 1).delete(1).log_start(2).poll((1, "b")).drain(),
    "log-start-falls": Story().send("a", 0).send("b", 1).delete(1).log_start(1).log_start(0).poll((1, "b")).drain(),
    "undeleted": _undeleted(),
    "group-offset-regression": Story().commit(7).committed(3),
    "lost-config": Story().alter("5").alter("6").describe("5"),
    "two-owners": Story().assign(**OWNED, member="one").assign(process="other", **OWNED, member="other"),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_history_is_clean(name: str) -> None:
    assert CLEAN[name].anomalies() == []


@pytest.mark.parametrize("name", BROKEN)
def test_each_anomaly_is_found_by_its_name_alone(name: str) -> None:
    assert BROKEN[name].anomalies() == [name]


def test_every_checker_is_tried() -> None:
    """A checker that no history here wakes could as well be missing."""
    awake = {checker for checker in LOG_CHECKERS for story in BROKEN.values() if list(checker(story.history()))}
    assert awake == set(LOG_CHECKERS)


def test_a_value_at_or_above_the_deleted_offsets_is_still_expected() -> None:
    story = Story().send("a", 0).send("b", 1).send("c", 2).delete(1).poll((2, "c")).drain()
    assert story.anomalies() == ["lost-write"]


def test_a_value_without_an_offset_behind_the_deleted_ones_is_still_expected() -> None:
    story = Story().send("a", 0).send("b", -1, "other").send("c", 3).send("d", -1).delete(2).poll((3, "c")).drain()
    assert story.anomalies() == ["unseen"]


def test_a_value_sent_after_the_short_retention_is_still_expected() -> None:
    story = Story().send("a", 0).send("b", 1).retention(1).send("c", 2).log_start(2).poll((2, "c")).drain()
    assert story.anomalies() == ["lost-write", "excessive-deletion"]


def test_a_skip_before_the_deletion_was_requested_is_still_a_skip() -> None:
    story = Story().send("a", 0).send("b", 1).send("c", 2).poll((0, "a")).poll((2, "c")).delete(2)
    assert story.anomalies() == ["poll-skip"]


def test_two_senders_told_of_one_offset_are_enough() -> None:
    story = Story().send("a", 0).send("b", 0, "other")
    assert "inconsistent-offsets" in story.anomalies()


def test_a_read_of_what_nobody_ever_sent_is_a_phantom() -> None:
    assert Story().poll((0, "a")).anomalies() == ["phantom"]


def test_a_poll_while_the_send_is_under_way_is_no_phantom() -> None:
    story = Story()
    sending = story.recorder.invoke("producer", "send", partition=P, value="a")
    story.poll((0, "a"))
    sending.ok(offset=0)
    assert story.drain().anomalies() == []


def test_a_consumer_may_be_moved_in_the_middle_of_a_poll() -> None:
    story = Story().send("a", 0).poll((0, "a"))
    poll = story.recorder.invoke("consumer", "poll")
    story.assign()
    poll.ok(records=[[P, 0, "a"]])
    assert story.drain().anomalies() == []


def test_acknowledged_without_an_offset_and_never_read_is_unseen() -> None:
    assert Story().send("a", -1).drain().anomalies() == ["unseen"]


def test_a_commit_below_an_earlier_one_is_a_regression() -> None:
    assert Story().commit(7).commit(3, process="other").anomalies() == ["group-offset-regression"]


def test_a_look_that_overlaps_a_commit_may_see_either() -> None:
    story = Story().commit(3)
    look = story.recorder.invoke("member", "committed", group="readers")
    story.commit(7)
    look.ok(offsets={P: 3})
    assert story.anomalies() == []


def test_an_order_that_only_a_time_out_explains_is_still_wrong() -> None:
    """The record whose sending timed out may be written, but never behind one that was sent after it."""
    story = Story().doubtful("a").send("b", 0).poll((0, "b"), (1, "a"))
    assert story.anomalies() == ["nonmonotonic-send"]
