"""What is an anomaly of groups and what is none: owners in small histories, and applied commits one by one."""

from typing import Self
from uuid import UUID

from tests.unit.sim.event import P, Story

from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.group_owner import Owners as Owned
from tailrace.sim.group_watch import (
    FENCED_INSTANCE,
    LATE_COMMIT,
    OFFSET_WENT_BACK,
    OLD_OWNER,
    TWO_OWNERS,
    Applied,
    CommitOrder,
)
from tailrace.sim.process import Life, Process

PLACE = ("readers", "views", 0)
TOPIC, OTHER_TOPIC = UUID(int=1), UUID(int=2)


class Owners(Story):
    """The story of two members; one has the same name as its process, unless it is static."""

    def change(self, change: str, process: str, generation: int, member: str = "", partition: str = P) -> Self:
        who = {"group": "readers", "member": member or process, "generation": generation}
        self.recorder.invoke(process, "assign", partitions=[partition], change=change, **who).ok()
        return self

    def got(self, process: str, generation: int, member: str = "", partition: str = P) -> Self:
        return self.change("assigned", process, generation, member, partition)

    def gave_up(self, process: str, generation: int) -> Self:
        return self.change("revoked", process, generation)


def test_two_members_get_a_partition_in_one_generation() -> None:
    assert Owners().got("one", 3).got("other", 3).anomalies() == ["two-owners"]
    assert Owners().got("one", 3).gave_up("one", 3).got("other", 3).anomalies() == ["two-owners"]


def test_a_partition_changes_hands_in_a_later_generation() -> None:
    assert Owners().got("one", 3).gave_up("one", 3).got("other", 4).anomalies() == []
    assert Owners().got("one", 3).got("other", 3, partition="views-1").anomalies() == []


def test_an_expelled_member_that_does_not_know_it_keeps_its_partition() -> None:
    assert Owners().got("one", 3).got("other", 4).gave_up("one", 3).anomalies() == []
    assert Owners().got("one", 3).got("other", 4).change("lost", "one", -1).got("one", 5).anomalies() == []


def test_a_member_that_knows_the_generation_has_given_up_what_another_got_in_it() -> None:
    assert Owners().got("one", 3).got("other", 4).gave_up("one", 4).anomalies() == ["two-owners"]
    assert Owners().got("one", 3).got("other", 4).gave_up("one", 5).anomalies() == ["two-owners"]


def test_an_expelled_member_may_get_late_what_another_has_in_a_newer_generation() -> None:
    """A paused member was told of its partitions, and takes them when it continues."""
    assert Owners().got("one", 3).got("other", 2).gave_up("one", 3).anomalies() == []


def test_what_a_member_had_before_does_not_count_when_it_has_the_partition_again() -> None:
    story = Owners().got("one", 3).change("lost", "one", -1).got("other", 4).gave_up("other", 4)
    assert story.got("one", -1).gave_up("one", 6).anomalies() == []


def test_a_static_member_has_its_partitions_again_in_the_same_generation() -> None:
    assert Owners().got("one.1", 3, "first").got("one.2", 3, "first").anomalies() == []


def test_generations_that_begin_again_are_not_compared() -> None:
    assert Owners().got("one", -1).got("other", -1).anomalies() == []


def test_a_group_commits_no_more_than_its_members_have_got() -> None:
    story = Owners().send("a", 0).send("b", 1).got("one", 3).poll((0, "a"), process="one")
    assert story.applied(1).anomalies() == []
    assert story.applied(2).anomalies() == ["commit-ahead"]
    assert "commit-ahead" in story.poll((1, "b"), process="one").anomalies()


def test_what_another_consumer_got_or_was_deleted_is_told_apart() -> None:
    story = Owners().send("a", 0).send("b", 1).got("one", 3).poll((0, "a"), (1, "b"), process="stranger")
    assert "commit-ahead" in story.applied(2).anomalies()
    assert "commit-ahead" not in story.delete(2).anomalies()


def test_a_record_was_got_when_the_first_poll_with_it_ended() -> None:
    """A member that is excluded and does not know it begins to poll, and another one gets the record before it does."""
    story = Owners().send("a", 0).got("one", 3)
    late = story.recorder.invoke("one", "poll")
    story.got("other", 4).poll((0, "a"), process="other").applied(1)
    late.ok(records=[[P, 0, "a"]])
    assert story.anomalies() == []


def test_each_partition_has_one_living_owner() -> None:
    owners, one, other = Owned(), TopicPartition("views", 0), TopicPartition("views", 1)
    dead = Process("dead", "host")
    first, second, third = (
        owners.join("readers", name, process) for name, process in (("a", None), ("b", None), ("c", dead))
    )
    owners.change(first, "assigned", [one])
    owners.change(third, "assigned", [one, other])
    assert len(list(owners.find_wrong("readers", [one, other]))) == 1  # both have the first
    dead.life = Life.DEAD
    assert list(owners.find_wrong("readers", [one, other])) == ["views-1 of group readers is with no member"]
    owners.change(second, "assigned", [other])
    assert not list(owners.find_wrong("readers", [one, other]))
    owners.change(first, "revoked", [one])
    owners.leave(second)
    assert len(list(owners.find_wrong("readers", [one, other]))) == 2


def commit(offset: int, member: str = "one", generation: int = 3, instance: str | None = None) -> Applied:
    return Applied(PLACE, TOPIC, offset, member, instance, generation)


def kinds(*commits: Applied) -> list[str]:
    """Return the problems of commits in the order in which one coordinator applied them."""
    order = CommitOrder()
    return [problem.kind for each in commits if (problem := order.apply(each)) is not None]


def test_an_applied_offset_never_goes_back() -> None:
    assert kinds(commit(5), commit(19), commit(19), commit(20)) == []
    assert kinds(commit(5), commit(19), commit(5)) == [OFFSET_WENT_BACK]
    assert kinds(commit(19), commit(5, "other", 4)) == [OFFSET_WENT_BACK]


def test_a_held_request_that_arrives_late_is_told_apart() -> None:
    assert kinds(commit(19), commit(5)._replace(lateness=LATE_COMMIT)) == [LATE_COMMIT]
    assert kinds(commit(5), commit(19)._replace(lateness=LATE_COMMIT)) == []


def test_an_old_owner_does_not_commit_after_the_new_one() -> None:
    assert kinds(commit(5), commit(9, "other", 4), commit(12, "one", 3)) == [OLD_OWNER]
    assert kinds(commit(5, "one", 3), commit(9, "other", 4), commit(12, "one", 5)) == []


def test_two_members_do_not_commit_in_one_generation() -> None:
    assert kinds(commit(5), commit(9, "other")) == [TWO_OWNERS]
    assert kinds(commit(5), Applied(PLACE, TOPIC, 9)) == []


def test_the_same_member_may_commit_with_an_older_epoch() -> None:
    assert kinds(commit(5, generation=4), commit(9, generation=3)) == []


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    before, after = commit(5, "one", 3, "first"), commit(9, "other", 3, "first")
    assert kinds(before, after) == []
    assert kinds(before, after, commit(12, "one", 3, "first")) == [FENCED_INSTANCE]


def test_another_topic_of_the_same_name_begins_again() -> None:
    assert kinds(commit(19), commit(5)._replace(topic_id=OTHER_TOPIC)) == []


def test_a_deleted_offset_and_a_deleted_group_begin_again() -> None:
    order = CommitOrder()
    order.apply(commit(19, generation=7))
    order.begin_again("readers")
    assert order.apply(commit(20, "other", 1)) is None
    order.forget(PLACE)
    assert order.apply(commit(5, "other", 1)) is None


def test_a_generation_that_was_never_written_may_have_the_number_of_a_later_one() -> None:
    """The members joined generation 7, and the coordinator was deposed before the leader had assigned anything."""
    order = CommitOrder()
    order.begin_generation("readers", 6)
    assert order.apply(commit(19, generation=7)) is None
    order.begin_generation("readers", 7)
    assert order.apply(commit(20, "other", 7)) is None
    problem = order.apply(commit(21, generation=7))
    assert problem is not None
    assert problem.kind == TWO_OWNERS
