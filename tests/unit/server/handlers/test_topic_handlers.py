"""CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions."""

import errno
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from tests.logged import logged, own_records
from tests.unit.sample import BrokerInMemory, make_batch
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.base.limits import PARTITIONS_PER_REQUEST_MAX
from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.store import Operation
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
)
from tailrace.storage.error import StorageError

NO_ID = UUID(int=0)


def new(name: str = "t", partitions: int = 1, factor: int = 1, **more: Any) -> CreateTopicsRequestTopic:
    return CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=factor, **more)


async def created(
    client: Peer, *topics: CreateTopicsRequestTopic, validate_only: bool = False
) -> list[tuple[str, int]]:
    response = await client.ask(CreateTopicsRequest(topics=list(topics), validate_only=validate_only))
    return [(topic.name, topic.error_code) for topic in response.topics]


# --- CreateTopics


async def test_a_created_topic_is_told_with_all_that_it_has() -> None:
    async with peer(log_retention_ms="77") as client:
        configs = [CreateTopicsRequestConfig(name="segment.ms", value="1234")]
        response = await client.ask(CreateTopicsRequest(topics=[new("t", -1, -1, configs=configs)]))
        (topic,) = response.topics
        assert (topic.error_code, topic.error_message) == (0, None)
        assert topic.topic_id == client.broker.image.topics["t"].topic_id
        assert (topic.num_partitions, topic.replication_factor) == (1, 1)
        values = {config.name: (config.value, config.config_source) for config in topic.configs}
        assert (values["segment.ms"], values["retention.ms"]) == (("1234", 1), ("77", 4))


async def test_each_topic_of_a_request_is_decided_alone() -> None:
    async with peer() as client:
        await client.create("there")
        assert await created(
            client,
            new("good"),
            new(".."),
            new("there"),
            new("none", 0),
            new("many", 1, 2),
            new("config", configs=[CreateTopicsRequestConfig(name="no.such", value="1")]),
            new("null", configs=[CreateTopicsRequestConfig(name="retention.ms", value=None)]),
            new("both", assignments=[CreateTopicsRequestAssignment(partition_index=0, broker_ids=[1])]),
            new("hand", -1, -1, assignments=[CreateTopicsRequestAssignment(partition_index=0, broker_ids=[1])]),
            new("alien", -1, -1, assignments=[CreateTopicsRequestAssignment(partition_index=0, broker_ids=[5])]),
            new("twice", -1, -1, assignments=[CreateTopicsRequestAssignment(partition_index=0, broker_ids=[1])] * 2),
        ) == [
            ("good", 0),
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("there", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("none", ErrorCode.INVALID_PARTITIONS),
            ("many", ErrorCode.INVALID_REPLICATION_FACTOR),
            ("config", ErrorCode.INVALID_CONFIG),
            ("null", ErrorCode.INVALID_CONFIG),
            ("both", ErrorCode.INVALID_REQUEST),
            ("hand", 0),
            ("alien", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("twice", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ]
        assert set(client.broker.image.topics) == {"there", "good", "hand"}


async def test_a_name_asked_for_twice_is_refused_once_and_not_made() -> None:
    async with peer() as client:
        assert await created(client, new("a"), new("b"), new("a", 5)) == [
            ("a", ErrorCode.INVALID_REQUEST),
            ("b", 0),
        ]
        assert list(client.broker.image.topics) == ["b"]


async def test_what_is_only_validated_is_not_made() -> None:
    async with peer() as client:
        await client.create("there")
        request = CreateTopicsRequest(topics=[new("t", 3), new("there"), new("u", 0)], validate_only=True)
        response = await client.ask(request)
        assert [topic.error_code for topic in response.topics] == [0, 36, 37]
        assert (response.topics[0].num_partitions, response.topics[0].topic_id) == (3, NO_ID)
        assert list(client.broker.image.topics) == ["there"]


@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_request_for_too_many_partitions_is_refused_whole(validate_only: bool) -> None:
    """The bound on the partitions of a request was held against each of its topics alone. A request of a thousand
    topics could keep the broker making folders for hours."""
    async with peer() as client:
        half = PARTITIONS_PER_REQUEST_MAX // 2
        topics = [new("a", half), new("b", half), new("c", -1)]
        assert await created(client, *topics, validate_only=validate_only) == [
            (name, ErrorCode.POLICY_VIOLATION) for name in "abc"
        ]
        assert client.broker.image.topics == {}


async def test_a_topic_of_no_partitions_counts_as_one_of_a_request() -> None:
    """100,000 topics of 0 partitions counted as none, and their checks held the event loop for 30 s."""
    async with peer() as client:
        topics = [new(f"t{number}", 0) for number in range(PARTITIONS_PER_REQUEST_MAX + 1)]
        assert {code for _, code in await created(client, *topics)} == {ErrorCode.POLICY_VIOLATION}
        assert await created(client, new("t", 0)) == [("t", ErrorCode.INVALID_PARTITIONS)]


class FullStore(MemoryStore):
    """A metadata store whose disk is full when a topic with this name comes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def commit(self, operations: Sequence[Operation]) -> None:
        if any(operation.path.startswith(f"/brokers/topics/{self.name}") for operation in operations):
            raise StorageError("/data/metadata", OSError(errno.ENOSPC, "full"))
        await super().commit(operations)


async def test_a_topic_that_cannot_be_stored_does_not_hide_those_that_were(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk under the metadata answered for the whole request. Topics that had been created before it were told
    to have failed too."""
    machine = BrokerInMemory()
    store = machine.store = FullStore("b")
    async with peer(machine) as client:
        assert await created(client, new("a"), new("b"), new("c")) == [
            ("a", 0),
            ("b", ErrorCode.KAFKA_STORAGE_ERROR),
            ("c", 0),
        ]
        assert set(client.broker.image.topics) == {"a", "c"}
        assert "full" in logged(caplog)
        store.name = "-"
        assert await created(client, new("b")) == [("b", 0)]


# --- DeleteTopics


async def test_topics_are_deleted_by_name_and_by_id() -> None:
    async with peer() as client:
        ids = {name: await client.create(name) for name in "abc"}
        await client.produce(make_batch(b"v"), topic="a")
        topics = [
            DeleteTopicsRequestTopic(name="a"),
            DeleteTopicsRequestTopic(topic_id=ids["b"], name=None),
            DeleteTopicsRequestTopic(name="unknown"),
            DeleteTopicsRequestTopic(topic_id=UUID(int=9), name=None),
            DeleteTopicsRequestTopic(topic_id=ids["c"], name="c"),
            DeleteTopicsRequestTopic(name=None),
        ]
        response = await client.ask(DeleteTopicsRequest(topics=topics))
        assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.responses] == [
            ("a", ids["a"], 0),
            ("b", ids["b"], 0),
            ("unknown", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (None, UUID(int=9), ErrorCode.UNKNOWN_TOPIC_ID),
            ("c", ids["c"], ErrorCode.INVALID_REQUEST),
            (None, NO_ID, ErrorCode.INVALID_REQUEST),
        ]
        assert list(client.broker.image.topics) == ["c"]
        assert (await client.produce(make_batch(b"v"), topic="a")).error_code == 3


@pytest.mark.parametrize("version", [1, 5])
async def test_old_versions_delete_by_name(version: int) -> None:
    async with peer() as client:
        await client.create("a")
        response = await client.ask(DeleteTopicsRequest(topic_names=["a", "b"]), version)
        assert [(topic.name, topic.error_code) for topic in response.responses] == [("a", 0), ("b", 3)]


async def test_a_topic_named_twice_is_not_deleted() -> None:
    async with peer() as client:
        await client.create("a")
        response = await client.ask(DeleteTopicsRequest(topic_names=["a", "a"]), 5)
        assert [topic.error_code for topic in response.responses] == [ErrorCode.INVALID_REQUEST]
        assert "a" in client.broker.image.topics


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    async with peer(delete_topic_enable="false") as client:
        await client.create("a")
        response = await client.ask(DeleteTopicsRequest(topic_names=["a"]), version)
        assert [topic.error_code for topic in response.responses] == [code]
        assert "a" in client.broker.image.topics


# --- CreatePartitions


async def test_topics_grow() -> None:
    async with peer() as client:
        for name in "abcd":
            await client.create(name, 2)
        by_hand = [CreatePartitionsRequestAssignment(broker_ids=[1])]
        topics = [
            CreatePartitionsRequestTopic(name="a", count=4, assignments=None),
            CreatePartitionsRequestTopic(name="b", count=2, assignments=None),
            CreatePartitionsRequestTopic(name="c", count=3, assignments=by_hand),
            CreatePartitionsRequestTopic(name="d", count=4, assignments=by_hand),
            CreatePartitionsRequestTopic(name="e", count=4, assignments=None),
            CreatePartitionsRequestTopic(name="f", count=4, assignments=None),
            CreatePartitionsRequestTopic(name="f", count=5, assignments=None),
        ]
        response = await client.ask(CreatePartitionsRequest(topics=topics))
        assert [(topic.name, topic.error_code) for topic in response.results] == [
            ("a", 0),
            ("b", ErrorCode.INVALID_PARTITIONS),
            ("c", 0),
            ("d", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("e", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("f", ErrorCode.INVALID_REQUEST),
        ]
        counts = {name: client.broker.image.topics[name].partition_count for name in "abcd"}
        assert counts == {"a": 4, "b": 2, "c": 3, "d": 2}
        assert (await client.produce(make_batch(b"v"), topic="a", index=3)).error_code == 0


async def test_growing_can_be_validated_only() -> None:
    async with peer() as client:
        await client.create("a")
        topics = [CreatePartitionsRequestTopic(name="a", count=4, assignments=None)]
        response = await client.ask(CreatePartitionsRequest(topics=topics, validate_only=True))
        assert [topic.error_code for topic in response.results] == [0]
        assert client.broker.image.topics["a"].partition_count == 1


# --- DescribeTopicPartitions


def describe(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequestTopic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


async def pages(client: Peer, *names: str, limit: int) -> list[list[tuple[str, list[int]]]]:
    """Every page as topics and partition numbers."""
    found, cursor = [], None
    while True:
        response = await client.ask(describe(*names, limit=limit, cursor=cursor))
        found.append([(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics])
        if response.next_cursor is None:
            return found
        cursor = response.next_cursor.topic_name, response.next_cursor.partition_index
        assert len(found) < 20


async def test_all_topics_fit_one_page() -> None:
    async with peer() as client:
        for name, count in (("b", 1), ("a", 2)):
            await client.create(name, count)
        assert await pages(client, limit=2000) == [[("a", [0, 1]), ("b", [0])]]
        response = await client.ask(describe("a"))
        (topic,) = response.topics
        assert (topic.error_code, topic.topic_id) == (0, client.broker.image.topics["a"].topic_id)
        assert [(p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
            (0, 1, [1], [1])
        ] * 2


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (2, [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("c", [0, 1])]]),
        (3, [[("a", [0, 1, 2])], [("b", [0]), ("c", [0, 1])]]),
        (1, [[("a", [0])], [("a", [1])], [("a", [2])], [("b", [0])], [("c", [0])], [("c", [1])]]),
        (0, [[("a", [0])], [("a", [1])], [("a", [2])], [("b", [0])], [("c", [0])], [("c", [1])]]),
        (-5, [[("a", [0])], [("a", [1])], [("a", [2])], [("b", [0])], [("c", [0])], [("c", [1])]]),
    ],
)
async def test_pages_follow_each_other_without_a_gap(limit: int, expected: list[list[tuple[str, list[int]]]]) -> None:
    """A limit of nothing made an empty page with the same cursor again. A client that believes the cursor asked for
    ever; Kafka takes it for one."""
    async with peer() as client:
        for name, count in (("c", 2), ("a", 3), ("b", 1)):
            await client.create(name, count)
        assert await pages(client, limit=limit) == expected
        assert await pages(client, "c", "a", "b", limit=limit) == expected


async def test_the_broker_has_a_limit_too() -> None:
    async with peer(max_request_partition_size_limit="2") as client:
        await client.create("a", 3)
        assert await pages(client, limit=2000) == [[("a", [0, 1])], [("a", [2])]]


async def test_topics_that_cannot_be_described_say_why() -> None:
    async with peer() as client:
        await client.create("a")
        response = await client.ask(describe("a", "..", "none"))
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("a", 0),
            ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]


@pytest.mark.parametrize(
    ("names", "cursor"), [((), ("a", -1)), (("a",), ("a", -7)), (("a",), ("b", 0))], ids=["all", "named", "elsewhere"]
)
async def test_a_cursor_that_points_nowhere_is_refused(
    names: tuple[str, ...], cursor: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    """A cursor before the first partition was looked up as it was. The broker took that for a bug of its own."""
    async with peer() as client:
        await client.create("a", 2)
        response = await client.ask(describe(*names, cursor=cursor))
        assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST] * len(names)
        assert own_records(caplog) == []


async def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic() -> None:
    async with peer() as client:
        await client.create("a", 2)
        await client.create("b", 1)
        response = await client.ask(describe(cursor=("a", 9)))
        assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics] == [
            ("a", []),
            ("b", [0]),
        ]
