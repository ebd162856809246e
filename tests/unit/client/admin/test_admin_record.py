"""Deleting the oldest records through the client."""

from tests.unit.client.face import Face

import tailrace
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode


def fill(bootstrap: str, topic: str, count: int, **configs: str) -> None:
    with tailrace.Admin(bootstrap) as admin:
        made = admin.create_topics(
            [tailrace.NewTopic(topic, 2, 1, {k.replace("_", "."): v for k, v in configs.items()})]
        )
        assert not isinstance(made[topic], ApiError)
    with tailrace.Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, b"key", partition=number % 2)


def first_offsets(admin: tailrace.Admin, topic: str) -> list[int]:
    return [at.offset for _, at in sorted(admin.list_offsets(topic, {0: EARLIEST, 1: EARLIEST}).items())]


def test_records_before_an_offset_are_gone(bootstrap: str, topic: str, face: Face) -> None:
    fill(bootstrap, topic, 20)
    with face.admin(bootstrap) as admin:
        assert admin.delete_records({(topic, 0): 3, TopicPartition(topic, 1): LATEST}) == {
            TopicPartition(topic, 0): 3,
            TopicPartition(topic, 1): 10,
        }
        assert first_offsets(admin, topic) == [3, 10]
        assert admin.delete_records({(topic, 0): 2}) == {(topic, 0): 3}, "deleted records do not come back"
        assert admin.delete_records({}) == {}


def test_each_partition_has_its_outcome(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 4)
    with tailrace.Admin(bootstrap) as admin:
        asked = {(topic, 0): 1, (topic, 1): 3, (topic, 2): 0, (f"{topic}-other", 0): 0}
        outcomes = admin.delete_records(asked)
        assert list(outcomes) == list(asked)
        assert outcomes.pop(TopicPartition(topic, 0)) == 1
        codes = [error.code for error in outcomes.values() if isinstance(error, ApiError)]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [ErrorCode.OFFSET_OUT_OF_RANGE, unknown, unknown]
        assert f"{topic}-1 before offset 3" in str(outcomes[TopicPartition(topic, 1)])
        assert first_offsets(admin, topic) == [1, 0]


def test_a_topic_that_is_only_compacted_keeps_its_records(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 4, cleanup_policy="compact")
    with tailrace.Admin(bootstrap) as admin:
        error = admin.delete_records({(topic, 0): 1})[TopicPartition(topic, 0)]
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.POLICY_VIOLATION
