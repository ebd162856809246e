"""Which member of a consumer group may commit and read offsets, and for which partitions."""

from collections.abc import Callable

import pytest
from tests.unit.machines.group.consumer.consumer_script import GROUP, Script

from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.record.consumer import ConsumerGroupCurrentMemberAssignmentKey
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError

NEW_VERSION, OLD_VERSION = 9, 8


def group_of(script: Script) -> ConsumerGroup:
    group = script.coordinator.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    return group


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiError as error:
        return error.code.name
    return "NONE"


@pytest.fixture
def script() -> Script:
    """Member a with foo:0,1 since epoch 2 and foo:2,3 to let go; member b with nothing yet in epoch 3."""
    script = Script(foo=4)
    script.join("a", "foo")
    script.wait(1_000)
    script.join("b", "foo")
    script.beat("a", 2)
    return script


def commit(script: Script, member: str, epoch: int, index: int = 0, **fields: bool) -> str:
    group = group_of(script)
    topic_id = script.topic_id("foo")

    def check() -> None:
        partition = group.check_offset_commit(member, None, epoch, NEW_VERSION, **fields)
        if partition is not None:
            partition("foo", topic_id, index)

    return error_of(check)


def test_a_member_commits_in_its_epoch(script: Script) -> None:
    assert commit(script, "a", 2) == "NONE"
    assert commit(script, "a", 3) == "STALE_MEMBER_EPOCH"
    assert commit(script, "nobody", 2) == "UNKNOWN_MEMBER_ID"
    assert commit(script, "", -1) == "UNKNOWN_MEMBER_ID", "only members commit while there are some"
    assert commit(script, "", -1, in_transaction=True) == "NONE"


def test_a_member_commits_in_an_older_epoch_what_it_has_had_since_then(script: Script) -> None:
    script.beat("a", 2, owned={"foo": [0, 1]})
    script.beat("b", 3)
    assert commit(script, "a", 2, 0) == "NONE", "it has not heard of epoch 3 yet"
    assert commit(script, "a", 1, 0) == "STALE_MEMBER_EPOCH"
    assert commit(script, "a", 2, 2) == "STALE_MEMBER_EPOCH", "it is another's by now"
    assert commit(script, "b", 2, 2) == "STALE_MEMBER_EPOCH", "it has it since epoch 3"


def test_a_member_commits_what_it_has_to_let_go(script: Script) -> None:
    assert commit(script, "a", 2, 3) == "NONE"


def test_members_need_a_version_that_knows_epochs(script: Script) -> None:
    group = group_of(script)
    assert error_of(lambda: group.check_offset_commit("a", None, 2, OLD_VERSION)) == "UNSUPPORTED_VERSION"


def test_a_member_reads_offsets_in_its_epoch(script: Script) -> None:
    group = group_of(script)
    assert error_of(lambda: group.check_offset_fetch(None, -1)) == "NONE", "an administrator"
    assert error_of(lambda: group.check_offset_fetch("a", 2)) == "NONE"
    assert error_of(lambda: group.check_offset_fetch("a", 1)) == "STALE_MEMBER_EPOCH"
    assert error_of(lambda: group.check_offset_fetch("x", 1)) == "UNKNOWN_MEMBER_ID"


def test_anybody_commits_in_an_empty_group_which_can_be_deleted(script: Script) -> None:
    group = group_of(script)
    assert error_of(group.check_delete) == "NON_EMPTY_GROUP"
    assert group.is_subscribed_to("foo")
    script.leave("a")
    script.leave("b")
    assert commit(script, "", -1) == "NONE"
    assert error_of(group.check_delete) == "NONE"
    assert not group.is_subscribed_to("foo")
    assert [script.show(record) for record in group.tombstones()] == [
        "target-epoch gone",
        "partition-metadata gone",
        "epoch gone",
    ]


def test_partitions_without_an_epoch_of_their_own_count_from_the_members() -> None:
    """Kafka before 4.3 wrote none."""
    script = Script(foo=2)
    script.join("a", "foo")
    member = group_of(script).members["a"]
    topic_id = script.topic_id("foo")
    assert member.assigned == {topic_id: {0: 2, 1: 2}}
    record = next(
        record
        for record in map(script.record_of, script.log)
        if isinstance(record.key, ConsumerGroupCurrentMemberAssignmentKey)
    )
    value = record.value
    value.assigned_partitions[0].assignment_epochs = None  # type: ignore[union-attr]
    value.member_epoch = 5  # type: ignore[union-attr]
    script.coordinator.replay(Record(record.key, value))
    assert group_of(script).members["a"].assigned == {topic_id: {0: 5, 1: 5}}
