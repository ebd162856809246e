"""What only the controller can do, asked of any broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from tests.authorization.wire import Wire
from tests.unit.server.replication.cluster import Cluster, running, until

from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.machines.authorization.vocabulary import Operation, Permission, Resource
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.acl import CreateAclsRequest, CreateAclsRequestCreation
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tailrace.protocol.principal import encode_principal

R = TypeVar("R", bound=Message)
TIMEOUT_MS = 10_000
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Cluster, int]]:
    """Two brokers that govern themselves, and which of them is not the controller."""
    async with running(2, is_governed=True) as cluster:
        await until(lambda: len(cluster.metadata.image.admitted) == 2)
        yield cluster, 3 - cluster.metadata.image.controller_id


async def ask(cluster: Cluster, broker_id: int, request: Message, reply_type: type[R], version: int) -> R:
    connection = await cluster[broker_id].ask()
    try:
        return await connection.request(request, reply_type, version_max=version)
    finally:
        await connection.close()


async def test_any_broker_takes_what_the_controller_does() -> None:
    async with pair() as (cluster, other):
        image = cluster.metadata.image
        new = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[new, new], timeout_ms=TIMEOUT_MS)
        refused = await ask(cluster, other, request, CreateTopicsResponse, 7)
        assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}
        for version in (7, 2):  # replies have more fields in the first
            new.name = f"t{version}"
            created = await ask(
                cluster, other, CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_MS), CreateTopicsResponse, version
            )
            assert [topic.error_code for topic in created.topics] == [0]
            assert f"t{version}" in image.topics
        more = CreatePartitionsRequestTopic(name="t7", count=3, assignments=None)
        grown = await ask(
            cluster, other, CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS), CreatePartitionsResponse, 3
        )
        assert [topic.error_code for topic in grown.results] == [0]
        assert image.topics["t7"].partition_count == 3
        elected = await ask(cluster, other, ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse, 2)
        assert elected.error_code == 0
        there = image.topics["t7"].assignment[0][0]
        moved = AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=[3 - there])
        moves = AlterPartitionReassignmentsRequest(
            topics=[AlterPartitionReassignmentsRequestTopic(name="t7", partitions=[moved])]
        )
        altered = await ask(cluster, other, moves, AlterPartitionReassignmentsResponse, 1)
        assert [partition.error_code for partition in altered.responses[0].partitions] == [0]
        await until(lambda: image.topics["t7"].assignment[0] == (3 - there,))
        deleted = await ask(
            cluster,
            other,
            DeleteTopicsRequest(topic_names=["t7", "t2"], timeout_ms=TIMEOUT_MS),
            DeleteTopicsResponse,
            5,
        )
        assert [topic.error_code for topic in deleted.responses] == [0, 0]
        assert image.topics == {}
        unknown = await ask(cluster, other, UnregisterBrokerRequest(broker_id=99), UnregisterBrokerResponse, 0)
        assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        sent_away = await ask(cluster, other, UnregisterBrokerRequest(broker_id=other), UnregisterBrokerResponse, 0)
        assert sent_away.error_code == 0
        assert not image.is_known(other)


async def test_what_was_sent_on_goes_no_further() -> None:
    """Two brokers that take each other for the controller would send it to and fro for ever."""
    async with pair() as (cluster, other):
        server = cluster[other].server
        assert server is not None
        address = Address(server.endpoints[0].host, server.endpoints[0].port)
        connection = await Connection.open(address)
        frame = b"".join(encode_request(1, "client", UnregisterBrokerRequest(broker_id=other), 0))
        envelope = EnvelopeRequest(
            request_data=frame[4:],
            request_principal=encode_principal("User:client", is_token_authenticated=False),
            client_host_address=bytes(4),
        )
        reply = await connection.request(envelope, EnvelopeResponse)
        await connection.close()
        assert reply.error_code == ErrorCode.NOT_CONTROLLER


async def test_a_client_has_its_own_rights_at_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    """Every broker resent the requests of clients as its own, so a client had the rights of a broker: all of them."""
    users = 'user_admin="secret" user_alice="secret"'
    async with running(
        2,
        is_governed=True,
        listeners="CLIENTS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        listener_security_protocol_map="CLIENTS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        inter_broker_listener_name="PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN",
        listener_name_clients_plain_sasl_jaas_config=f"{PLAIN} required {users};",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin;User:ANONYMOUS",
    ) as cluster:
        await until(lambda: len(cluster.metadata.image.admitted) == 2)
        member = cluster[3 - cluster.metadata.image.controller_id]
        assert member.server is not None
        address = f"127.0.0.1:{member.server.endpoints[0].port}"
        await asyncio.to_thread(_let_alice_create, address, "mine")
        brokers = [each.server.broker for each in cluster.members.values() if each.server is not None]
        await until(lambda: all(broker.image.acls for broker in brokers))
        with caplog.at_level("INFO", "tailrace.audit"):
            codes = await asyncio.to_thread(_create_topics, address, "mine", "theirs")
        assert codes == {"mine": ErrorCode.NONE, "theirs": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tailrace.audit"]
        assert [(line["event"], line["principal"], line["host"], line["name"]) for line in lines] == [
            ("denial", "User:alice", "127.0.0.1", "theirs"),
            ("change", "User:alice", "127.0.0.1", "mine"),
        ]


async def test_a_topic_that_a_client_needs_is_logged_where_it_asked(caplog: pytest.LogCaptureFixture) -> None:
    """The controller creates it for the broker, and its line does not have the client."""
    async with pair() as (cluster, other):
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
        with caplog.at_level("INFO", "tailrace.audit"):
            await ask(cluster, other, wanted, MetadataResponse, 12)
        lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tailrace.audit"]
        assert [(line["api"], line["name"], line["error"]) for line in lines] == [
            ("CREATE_TOPICS", "t", "NONE"),
            ("METADATA", "t", "NONE"),
        ]
        assert lines[0]["client_id"] == f"broker-{other}-to-controller"


def _let_alice_create(address: str, name: str) -> None:
    creation = CreateAclsRequestCreation(
        resource_type=Resource.TOPIC,
        resource_name=name,
        principal="User:alice",
        host="127.0.0.1",
        operation=Operation.CREATE,
        permission_type=Permission.ALLOW,
    )
    with Wire(address, "admin", "secret") as wire:
        (result,) = wire.ask(CreateAclsRequest(creations=[creation]), 3).results
        assert result.error_code == 0


def _create_topics(address: str, *names: str) -> dict[str, int]:
    topics = [CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    with Wire(address, "alice", "secret") as wire:
        response = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 7)
    return {topic.name: topic.error_code for topic in response.topics}
