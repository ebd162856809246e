"""What the controller says to those who create, grow and delete topics."""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID, uuid4

import pytest

from tailrace.base.limits import PARTITIONS_PER_REQUEST_MAX
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)
from tailrace.machines.controller.topic import Defaults, NewTopic, decide_add_partitions, decide_create, decide_delete
from tailrace.protocol.errors import ApiError, ErrorCode

BROKERS = (1, 2, 3)
DEFAULTS = Defaults(partition_count=2, replication_factor=1)
TOPIC_ID = UUID(int=7)


def empty_image() -> ClusterImage:
    """A cluster of brokers without topics."""
    image = ClusterImage()
    for broker in BROKERS:
        image.replay(BrokerRecord(broker, broker))
        image.replay(BrokerAdmitted(broker, broker))
    return image


def create(image: ClusterImage, new: NewTopic) -> list[Record]:
    return decide_create(image, new, TOPIC_ID, DEFAULTS)


def refusal(decide: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        decide()
    assert caught.value.message
    return caught.value.code


def image_with(*names: str, partition_count: int = 2) -> ClusterImage:
    image = empty_image()
    for name in names:
        for record in decide_create(image, NewTopic(name, partition_count, 1), uuid4(), DEFAULTS):
            image.replay(record)
    return image


# --- create


def test_a_topic_is_its_assignment_its_configs_and_a_leader_for_each_partition() -> None:
    records = create(empty_image(), NewTopic("t", 2, 3, configs={"retention.ms": "1"}))
    assert records == [
        TopicRecord("t", TOPIC_ID, ((1, 2, 3), (2, 3, 1))),
        ConfigRecord(ConfigKind.TOPIC, "t", {"retention.ms": "1"}),
        PartitionRecord("t", 0, leader=1, leader_epoch=0, isr=(1, 2, 3)),
        PartitionRecord("t", 1, leader=2, leader_epoch=0, isr=(2, 3, 1)),
    ]


def test_minus_one_asks_for_the_defaults() -> None:
    (topic, *_) = create(empty_image(), NewTopic("t"))
    assert topic == TopicRecord("t", TOPIC_ID, ((1,), (2,)))


def test_no_configs_remove_those_that_were_left_for_the_name() -> None:
    assert ConfigRecord(ConfigKind.TOPIC, "t", {}) in create(empty_image(), NewTopic("t", configs={}))


def test_each_new_topic_starts_at_another_broker() -> None:
    (topic, *_) = create(image_with("a"), NewTopic("t", 1, 1))
    assert topic == TopicRecord("t", TOPIC_ID, ((2,),))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../x", "a\0b", "a b", "ä", "a" * 250])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    assert refusal(lambda: create(empty_image(), NewTopic(name))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "...", "A.b_c-9", "a" * 249, "-", "_"])
def test_every_name_that_kafka_allows_is_allowed(name: str) -> None:
    assert create(empty_image(), NewTopic(name))


def test_a_topic_that_exists_cannot_be_created() -> None:
    assert refusal(lambda: create(image_with("t"), NewTopic("t"))) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("there", "new"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b.c", "a_b.c")])
def test_names_that_would_share_a_metric_collide(there: str, new: str) -> None:
    assert refusal(lambda: create(image_with(there), NewTopic(new))) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_deleted_topic_collides_with_nothing() -> None:
    image = image_with("a.b")
    image.replay(TopicRemoved("a.b"))
    assert create(image, NewTopic("a_b"))


@pytest.mark.parametrize("count", [0, -2, -5])
def test_a_partition_count_is_positive(count: int) -> None:
    assert refusal(lambda: create(empty_image(), NewTopic("t", count, 1))) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_a_replication_factor_is_positive_and_at_most_the_number_of_brokers(factor: int) -> None:
    assert refusal(lambda: create(empty_image(), NewTopic("t", 1, factor))) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_more_partitions_than_can_be_made_at_once_are_refused() -> None:
    many = PARTITIONS_PER_REQUEST_MAX
    assert refusal(lambda: create(empty_image(), NewTopic("t", many + 1, 1))) is ErrorCode.POLICY_VIOLATION
    assert refusal(lambda: create(empty_image(), NewTopic("t", 2**31 - 1, 1))) is ErrorCode.POLICY_VIOLATION
    by_hand = NewTopic("t", assignment=dict.fromkeys(range(many + 1), (1,)))
    assert refusal(lambda: create(empty_image(), by_hand)) is ErrorCode.POLICY_VIOLATION
    assert sum(isinstance(each, PartitionRecord) for each in create(empty_image(), NewTopic("t", many, 1))) == many


# --- create, by hand


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    (topic, *leaders) = create(empty_image(), NewTopic("t", assignment={1: [3, 1], 0: [2, 3]}))
    assert topic == TopicRecord("t", TOPIC_ID, ((2, 3), (3, 1)))
    assert [leader.leader for leader in leaders if isinstance(leader, PartitionRecord)] == [2, 3]


@pytest.mark.parametrize(("count", "factor"), [(1, -1), (-1, 1), (1, 1)])
def test_a_manual_assignment_excludes_counts(count: int, factor: int) -> None:
    new = NewTopic("t", count, factor, assignment={0: [1]})
    assert refusal(lambda: create(empty_image(), new)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "assignment",
    [
        {0: []},
        {0: [1, 1]},
        {0: [9]},
        {0: [1], 1: [1, 2]},
        {1: [1]},
        {0: [1], 2: [1]},
        {-1: [1], 0: [1]},
    ],
    ids=["no replicas", "twice", "unknown broker", "unequal", "not from 0", "gap", "negative"],
)
def test_a_manual_assignment_must_make_sense(assignment: Mapping[int, Sequence[int]]) -> None:
    new = NewTopic("t", assignment=assignment)
    assert refusal(lambda: create(empty_image(), new)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_who_is_away_is_not_in_sync_and_does_not_lead() -> None:
    image = empty_image()
    image.replay(BrokerRemoved(2))
    (*_, leader) = create(image, NewTopic("t", assignment={0: [2, 3]}))
    assert leader == PartitionRecord("t", 0, leader=3, leader_epoch=0, isr=(3,))
    image.replay(BrokerRecord(3, 3, is_stopping=True))
    away = NewTopic("t", assignment={0: [2, 3]})
    assert refusal(lambda: create(image, away)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_are_placed_on_brokers_that_stay() -> None:
    image = empty_image()
    image.replay(BrokerRecord(1, 1, is_stopping=True))
    image.replay(BrokerRecord(2, 9))
    (topic, *_) = create(image, NewTopic("t", 2, 1))
    assert topic == TopicRecord("t", TOPIC_ID, ((3,), (3,)))
    assert refusal(lambda: create(image, NewTopic("t", 1, 2))) is ErrorCode.INVALID_REPLICATION_FACTOR


# --- grow


def grow(
    image: ClusterImage, count: int, assignments: Sequence[Sequence[int]] | None = None, name: str = "t"
) -> list[Record]:
    return decide_add_partitions(image, name, count, assignments)


def test_growing_keeps_what_is_there_and_leads_what_is_new() -> None:
    image = image_with("t")
    records = grow(image, 4)
    topic = image.topics["t"]
    assert records == [
        TopicRecord("t", topic.topic_id, ((1,), (2,), (3,), (1,))),
        PartitionRecord("t", 2, leader=3, leader_epoch=0, isr=(3,)),
        PartitionRecord("t", 3, leader=1, leader_epoch=0, isr=(1,)),
    ]


def test_growing_leaves_what_moves_alone_and_asks_for_as_many_replicas_as_it_shall_have() -> None:
    image = empty_image()
    image.replay(TopicRecord("t", TOPIC_ID, ((1, 2),), {0: (1,)}, {0: (2,)}))
    image.replay(PartitionRecord("t", 0, leader=2, leader_epoch=0, isr=(2,)))
    assert grow(image, 2)[0] == TopicRecord("t", TOPIC_ID, ((1, 2), (2,)), {0: (1,)}, {0: (2,)})


def test_new_partitions_can_be_placed_by_hand() -> None:
    (topic, *leaders) = grow(image_with("t"), 3, [[3]])
    assert isinstance(topic, TopicRecord)
    assert topic.assignment == ((1,), (2,), (3,))
    assert leaders == [PartitionRecord("t", 2, leader=3, leader_epoch=0, isr=(3,))]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_only_grows(count: int) -> None:
    assert refusal(lambda: grow(image_with("t"), count)) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    "assignments",
    [[], [[1]], [[1], [2], [3]], [[1], []], [[1], [1, 1]], [[1], [9]], [[1], [1, 2]]],
    ids=["none", "too few", "too many", "no replicas", "twice", "unknown broker", "unequal"],
)
def test_new_partitions_placed_by_hand_must_make_sense(assignments: Sequence[Sequence[int]]) -> None:
    assert refusal(lambda: grow(image_with("t"), 4, assignments)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_only_a_topic_that_exists_grows_or_goes() -> None:
    assert refusal(lambda: grow(ClusterImage(), 4)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: decide_delete(ClusterImage(), "t")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_growing_has_the_same_bound_as_creating() -> None:
    image = image_with("t")
    assert refusal(lambda: grow(image, 2 + PARTITIONS_PER_REQUEST_MAX + 1)) is ErrorCode.POLICY_VIOLATION
    assert grow(image, 2 + PARTITIONS_PER_REQUEST_MAX)


# --- delete


def test_deleting_is_one_record() -> None:
    assert decide_delete(image_with("t"), "t") == [TopicRemoved("t")]
