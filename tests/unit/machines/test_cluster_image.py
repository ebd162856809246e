"""The image is what replaying its records makes of it, however it came about."""

from collections.abc import Callable
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.base.sentinel import NO_BROKER
from tailrace.base.topic_name import collision_key
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    CLUSTER_DEFAULT,
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    ControllerRemoved,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)
from tailrace.machines.controller.topic import Defaults, NewTopic, decide_add_partitions, decide_create, decide_delete
from tailrace.protocol.errors import ApiError, ErrorCode

BROKERS = (1, 2, 3)
NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "a-b", ".."])
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.bytes"]), st.sampled_from(["1", "2"]))


def contents(image: ClusterImage) -> object:
    """Everything that an image answers, as plain values."""
    topics = {
        name: (topic.topic_id, topic.assignment, topic.leadership, image.config(ConfigKind.TOPIC, name))
        for name, topic in image.topics.items()
    }
    by_id = {topic_id: topic.name for topic_id, topic in image.topics_by_id.items()}
    collisions = [image.colliding_topic(name) for name in ("a.b", "a_b", "x")]
    return topics, by_id, collisions, [image.config(ConfigKind.BROKER, name) for name in ("1", CLUSTER_DEFAULT)]


class Decisions(RuleBasedStateMachine):
    """Decides at random, replays what was decided, and keeps the records."""

    def __init__(self) -> None:
        super().__init__()
        self.image = ClusterImage()
        self.records: list[Record] = []
        self.topic_count = 0
        for broker in BROKERS:
            self.replay([BrokerRecord(broker, broker), BrokerAdmitted(broker, broker)])

    def replay(self, records: list[Record]) -> None:
        for record in records:
            self.image.replay(record)
            self.records.append(record)

    def attempt(self, decide: Callable[[], list[Record]], *refusals: ErrorCode) -> None:
        code = None
        try:
            self.replay(decide())
        except ApiError as error:
            code = error.code
        assert code is None or code in refusals

    @rule(name=NAMES, partition_count=st.integers(-2, 4), factor=st.integers(-2, 4), configs=CONFIGS)
    def create(self, name: str, partition_count: int, factor: int, configs: dict[str, str]) -> None:
        self.topic_count += 1
        new = NewTopic(name, partition_count, factor, configs=configs)
        self.attempt(
            lambda: decide_create(self.image, new, UUID(int=self.topic_count), Defaults(1, 1)),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )

    @rule(name=NAMES, count=st.integers(0, 6))
    def grow(self, name: str, count: int) -> None:
        self.attempt(
            lambda: decide_add_partitions(self.image, name, count, None),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_PARTITIONS,
        )

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.attempt(lambda: decide_delete(self.image, name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    @rule(
        kind_and_name=st.sampled_from([(ConfigKind.BROKER, "1"), (ConfigKind.BROKER, CLUSTER_DEFAULT)]), values=CONFIGS
    )
    def configure(self, kind_and_name: tuple[ConfigKind, str], values: dict[str, str]) -> None:
        self.replay([ConfigRecord(*kind_and_name, values)])

    @rule(data=st.data(), epoch=st.integers(1, 9))
    def lead(self, data: st.DataObject, epoch: int) -> None:
        if self.image.topics:
            topic = self.image.topics[data.draw(st.sampled_from(sorted(self.image.topics)))]
            self.replay([PartitionRecord(topic.name, 0, topic.assignment[0][0], epoch, topic.assignment[0])])

    @invariant()
    def replaying_from_scratch_gives_the_same_image(self) -> None:
        again = ClusterImage()
        for record in self.records:
            again.replay(record)
        assert contents(again) == contents(self.image)

    @invariant()
    def every_partition_has_a_leader_among_its_replicas(self) -> None:
        for topic in self.image.topics.values():
            assert sorted(topic.leadership) == list(range(topic.partition_count))
            for index, leadership in topic.leadership.items():
                assert leadership.leader in leadership.isr
                assert set(leadership.isr) <= set(topic.assignment[index])

    @invariant()
    def ids_and_names_are_the_same_topics_and_no_two_collide(self) -> None:
        assert {id(topic) for topic in self.image.topics.values()} == {
            id(topic) for topic in self.image.topics_by_id.values()
        }
        assert len({collision_key(name) for name in self.image.topics}) == len(self.image.topics)
        for name in ("a.b", "a_b"):
            assert self.image.colliding_topic(name) in {None, *self.image.topics}


TestDecisions = Decisions.TestCase
TestDecisions.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)


def test_a_config_without_values_is_no_config() -> None:
    image = ClusterImage()
    image.replay(ConfigRecord(ConfigKind.BROKER, "1", {"a": "1"}))
    image.replay(ConfigRecord(ConfigKind.BROKER, "1", {}))
    assert image.config(ConfigKind.BROKER, "1") == {}


def test_a_topic_of_an_old_name_starts_without_the_old_configs_and_leaders() -> None:
    image = ClusterImage()
    image.replay(TopicRecord("t", UUID(int=1), ((1,), (1,))))
    image.replay(ConfigRecord(ConfigKind.TOPIC, "t", {"retention.ms": "1"}))
    image.replay(PartitionRecord("t", 1, 1, 0, (1,)))
    image.replay(TopicRemoved("t"))
    image.replay(TopicRecord("t", UUID(int=2), ((1,),)))
    assert image.topics["t"].leadership == {}
    assert image.config(ConfigKind.TOPIC, "t") == {}
    assert list(image.topics_by_id) == [UUID(int=2)]


def test_removing_what_is_not_there_changes_nothing() -> None:
    image = ClusterImage()
    image.replay(TopicRemoved("t"))
    assert contents(image) == contents(ClusterImage())


def test_an_image_does_not_share_the_mapping_it_was_given() -> None:
    image, values = ClusterImage(), {"a": "1"}
    image.replay(ConfigRecord(ConfigKind.BROKER, "1", values))
    values["a"] = "2"
    assert image.config(ConfigKind.BROKER, "1") == {"a": "1"}


def test_a_broker_is_live_when_its_present_registration_was_admitted() -> None:
    image = ClusterImage()
    lives = []
    for record in (
        BrokerAdmitted(1, 4),
        BrokerRecord(1, 4),
        BrokerRecord(1, 4, is_stopping=True),
        BrokerRecord(1, 9),
        BrokerAdmitted(1, 9),
        BrokerRemoved(1),
        BrokerRecord(1, 9),
        BrokerForgotten(1),
    ):
        image.replay(record)
        lives.append(image.is_live(1))
    assert lives == [False, True, True, False, True, False, True, False]


def test_the_controllers_epoch_outlives_the_controller() -> None:
    image = ClusterImage()
    image.replay(ControllerRecord(2, 5))
    assert (image.controller_id, image.controller_epoch) == (2, 5)
    image.replay(ControllerRemoved())
    assert (image.controller_id, image.controller_epoch) == (NO_BROKER, 5)


def test_a_reassignment_comes_and_goes_with_its_topic_record() -> None:
    image = ClusterImage()
    image.replay(TopicRecord("t", UUID(int=1), ((1, 2),), {0: (2,)}, {0: (1,)}))
    image.replay(PartitionRecord("t", 0, 1, 0, (1,)))
    topic = image.topics["t"]
    assert (topic.adding, topic.removing) == ({0: (2,)}, {0: (1,)})
    image.replay(TopicRecord("t", UUID(int=1), ((2,),)))
    assert (topic.assignment, topic.adding, topic.removing) == (((2,),), {}, {})
    assert 0 in topic.leadership


def test_a_partition_of_a_topic_that_is_gone_is_nothing() -> None:
    image = ClusterImage()
    image.replay(PartitionRecord("t", 0, 1, 0, (1,)))
    assert image.topics == {}
