"""Metadata: what clients learn first."""

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from tests.unit.sample import LISTENER, BrokerInMemory
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.store import Operation
from tailrace.machines.controller.record import Endpoint
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.primitive import OPERATIONS_UNASKED


def named(*names: str | None, auto_create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=auto_create
    )


async def told(client: Peer, request: MetadataRequest, version: int = 13) -> list[tuple[str | None, int, int]]:
    """Name, error code and number of partitions of each topic in the reply."""
    response = await client.ask(request, version)
    return [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics]


async def test_it_names_the_broker_and_the_cluster() -> None:
    async with peer() as client:
        response = await client.ask(named())
        (broker,) = response.brokers
        assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "broker.example", 9092, None)
        assert (response.cluster_id, response.controller_id) == (client.broker.cluster_id, 1)


async def test_a_broker_without_a_host_is_where_the_client_reached_it() -> None:
    async with peer() as client:
        there = client.broker.image.brokers[1]
        client.broker.image.brokers[1] = replace(there, endpoints=(Endpoint(LISTENER, "", 9092, "PLAINTEXT"),))
        (broker,) = (await client.ask(named())).brokers
        assert broker.host == client.line.local_host


@pytest.mark.parametrize(
    ("version", "topics", "names"),
    [(0, [], ["a", "b"]), (1, None, ["a", "b"]), (13, None, ["a", "b"]), (1, [], []), (13, [], [])],
)
async def test_all_topics_and_none(version: int, topics: list[MetadataRequestTopic] | None, names: list[str]) -> None:
    async with peer() as client:
        for name in ("b", "a"):
            await client.create(name)
        response = await client.ask(MetadataRequest(topics=topics), version)
        assert [topic.name for topic in response.topics] == names


async def test_a_topic_is_its_partitions_and_who_leads_them() -> None:
    async with peer() as client:
        topic_id = await client.create("t", 2)
        (topic,) = (await client.ask(named("t"))).topics
        assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id, False)
        assert [
            (p.partition_index, p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
            for p in topic.partitions
        ] == [(0, 0, 1, 0, [1], [1]), (1, 0, 1, 0, [1], [1])]


async def test_topics_that_cannot_be_told_say_why() -> None:
    async with peer() as client:
        await client.create("t", 2)
        assert await told(client, named("t", "unknown", "..", "", "a" * 250)) == [
            ("t", 0, 2),
            ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
            ("", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
            ("a" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ]


async def test_a_topic_asked_for_twice_is_told_once() -> None:
    async with peer() as client:
        await client.create("t")
        assert await told(client, named("t", "t", "t")) == [("t", 0, 1)]


# --- by id


async def test_by_id() -> None:
    async with peer() as client:
        topic_id, stranger = await client.create("t"), UUID(int=99)
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in (topic_id, stranger, UUID(int=0))]
        response = await client.ask(MetadataRequest(topics=topics), 12)
        assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
            ("t", topic_id, 0),
            (None, stranger, ErrorCode.UNKNOWN_TOPIC_ID),
            (None, UUID(int=0), ErrorCode.INVALID_REQUEST),
        ]


@pytest.mark.parametrize("version", [10, 11])
async def test_before_version_12_an_id_is_no_question(version: int) -> None:
    async with peer() as client:
        topic_id = await client.create("t")
        topics = [MetadataRequestTopic(topic_id=topic_id, name="t")]
        response = await client.ask(MetadataRequest(topics=topics), version)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]


# --- auto-creation


async def test_a_topic_is_created_by_who_asks_for_it_first_and_works_at_once() -> None:
    async with peer(num_partitions="3") as client:
        assert await told(client, named("new", auto_create=True)) == [("new", 0, 3)]
        assert client.broker.replicas.get("new", 2).high_watermark == 0


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_old_versions_always_allow_it(version: int) -> None:
    async with peer() as client:
        assert await told(client, named("new", auto_create=True), version) == [("new", 0, 1)]


async def test_the_client_or_the_broker_may_forbid_it() -> None:
    absent = ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    async with peer() as client:
        assert await told(client, named("new", auto_create=False)) == [absent]
    async with peer(auto_create_topics_enable="false") as client:
        assert await told(client, named("new", auto_create=True)) == [absent]
        assert await told(client, named("new", auto_create=True), 0) == [absent]


async def test_a_bad_name_or_a_collision_creates_nothing() -> None:
    async with peer() as client:
        await client.create("a.b")
        codes = [code for _, code, _ in await told(client, named("a/b", "a_b", auto_create=True))]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert list(client.broker.image.topics) == ["a.b"]


class SlowStore(MemoryStore):
    """One that lets others run while it commits."""

    async def commit(self, operations: Sequence[Operation]) -> None:
        await asyncio.sleep(0)
        await super().commit(operations)


async def test_many_clients_that_ask_at_once_make_one_topic() -> None:
    machine = BrokerInMemory()
    machine.store = SlowStore()
    async with peer(machine) as client:
        clients = [Peer(client.broker, machine) for _ in range(5)]
        replies = await asyncio.gather(*(each.ask(named("new", auto_create=True)) for each in clients))
        found = {(topic.error_code, topic.topic_id) for reply in replies for topic in reply.topics}
        assert found == {(0, client.broker.image.topics["new"].topic_id)}


async def test_more_replicas_than_brokers_cannot_be_made() -> None:
    async with peer(default_replication_factor="3") as client:
        assert await told(client, named("new", auto_create=True)) == [("new", ErrorCode.INVALID_REPLICATION_FACTOR, 0)]


# --- more


async def test_operations_are_told_when_asked_for() -> None:
    async with peer() as client:
        await client.create("t")
        request = named("t", "unknown")
        (plain, _) = (await client.ask(request)).topics
        assert plain.topic_authorized_operations == OPERATIONS_UNASKED
        request.include_topic_authorized_operations = True
        (asked, unknown) = (await client.ask(request)).topics
        # Kafka's bits: read 3, write 4, create 5, delete 6, alter 7, describe 8, describe configs 10, alter configs 11.
        assert asked.topic_authorized_operations == 0b1101_1111_1000
        assert unknown.topic_authorized_operations == 0b1101_1111_1000


async def test_a_partition_without_a_log_has_no_leader() -> None:
    async with peer() as client:
        client.machine.fs.hook = lambda _count, operation, path: (
            OSError(errno.ENOSPC, "full") if operation == "make_directory" and path.endswith("t-1") else None
        )
        await client.create("t", 2)
        (topic,) = (await client.ask(named("t"))).topics
        assert [(p.error_code, p.leader_id, p.offline_replicas) for p in topic.partitions] == [
            (0, 1, []),
            (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1]),
        ]


async def test_internal_topics_say_so() -> None:
    async with peer() as client:
        await client.create("__consumer_offsets")
        (topic,) = (await client.ask(named("__consumer_offsets"))).topics
        assert topic.is_internal
