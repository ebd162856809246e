"""Every API asks before it answers. Until there is an authorizer everybody may do everything; here nobody may."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.sample import make_batch
from tests.unit.server.handlers.peer import Peer, error_codes, peer
from tests.unit.server.handlers.sensible import sensible
from tests.unit.server.handlers.sensible_about import BUILDERS
from tests.unit.server.judge import judge_here

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.config import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.topic import DescribeTopicPartitionsRequest
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.handlers import APIS

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TRANSACTION_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

REFUSALS: dict[ApiKey, ErrorCode | None] = {
    ApiKey.DESCRIBE_ACLS: CLUSTER_REFUSED,
    ApiKey.CREATE_ACLS: CLUSTER_REFUSED,
    ApiKey.DELETE_ACLS: CLUSTER_REFUSED,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: CLUSTER_REFUSED,
    ApiKey.ALTER_CLIENT_QUOTAS: CLUSTER_REFUSED,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: CLUSTER_REFUSED,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: CLUSTER_REFUSED,
    ApiKey.ALTER_REPLICA_LOG_DIRS: CLUSTER_REFUSED,
    ApiKey.SASL_HANDSHAKE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.SASL_AUTHENTICATE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.CREATE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.RENEW_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.EXPIRE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.PRODUCE: TOPIC_REFUSED,
    ApiKey.FETCH: TOPIC_REFUSED,
    ApiKey.LIST_OFFSETS: TOPIC_REFUSED,
    ApiKey.METADATA: TOPIC_REFUSED,
    ApiKey.FIND_COORDINATOR: GROUP_REFUSED,
    ApiKey.API_VERSIONS: None,  # asked before anybody is known
    ApiKey.CREATE_TOPICS: TOPIC_REFUSED,
    ApiKey.DELETE_TOPICS: TOPIC_REFUSED,
    ApiKey.DELETE_RECORDS: TOPIC_REFUSED,
    ApiKey.INIT_PRODUCER_ID: CLUSTER_REFUSED,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: TOPIC_REFUSED,
    ApiKey.DESCRIBE_CONFIGS: TOPIC_REFUSED,
    ApiKey.ALTER_CONFIGS: TOPIC_REFUSED,
    ApiKey.DESCRIBE_LOG_DIRS: CLUSTER_REFUSED,
    ApiKey.CREATE_PARTITIONS: TOPIC_REFUSED,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: TOPIC_REFUSED,
    ApiKey.DESCRIBE_CLUSTER: None,  # tells what the caller may do, which is then nothing
    ApiKey.LIST_CONFIG_RESOURCES: CLUSTER_REFUSED,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: TOPIC_REFUSED,
    ApiKey.JOIN_GROUP: GROUP_REFUSED,
    ApiKey.SYNC_GROUP: GROUP_REFUSED,
    ApiKey.HEARTBEAT: GROUP_REFUSED,
    ApiKey.LEAVE_GROUP: GROUP_REFUSED,
    ApiKey.OFFSET_COMMIT: GROUP_REFUSED,
    ApiKey.OFFSET_FETCH: GROUP_REFUSED,
    ApiKey.TXN_OFFSET_COMMIT: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ApiKey.OFFSET_DELETE: GROUP_REFUSED,
    ApiKey.DESCRIBE_GROUPS: GROUP_REFUSED,
    ApiKey.DELETE_GROUPS: GROUP_REFUSED,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GROUP_REFUSED,
    ApiKey.CONSUMER_GROUP_DESCRIBE: GROUP_REFUSED,
    ApiKey.ELECT_LEADERS: CLUSTER_REFUSED,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: CLUSTER_REFUSED,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: CLUSTER_REFUSED,
    ApiKey.UNREGISTER_BROKER: CLUSTER_REFUSED,
    ApiKey.ENVELOPE: CLUSTER_REFUSED,
    ApiKey.ADD_PARTITIONS_TO_TXN: CLUSTER_REFUSED,  # since version 4 it is for brokers alone
    ApiKey.ADD_OFFSETS_TO_TXN: TRANSACTION_REFUSED,
    ApiKey.END_TXN: TRANSACTION_REFUSED,
    ApiKey.WRITE_TXN_MARKERS: CLUSTER_REFUSED,
    ApiKey.DESCRIBE_TRANSACTIONS: TRANSACTION_REFUSED,
    ApiKey.DESCRIBE_PRODUCERS: TOPIC_REFUSED,
}
REFUSED_TO_ALL = {  # whatever their rights, because no client authenticates
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
NOTHING_TO_SEE = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}  # what may not be seen is not listed, which is no error


Question = tuple[Operation, Resource, str]


@asynccontextmanager
async def stranger(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Peer, list[Question]]]:
    """A client that may do nothing, on a broker with topics, and what was asked about it."""
    asked: list[Question] = []

    async with peer() as client:

        def deny(_: RequestContext, *question: Any, is_probe: bool = False) -> bool:
            asked.append(question)
            return False

        for name in ("t", "doomed-6", "growing-3"):
            await client.create(name)
        await client.produce(make_batch(b"secret"))
        judge_here(monkeypatch, deny, "is_allowed", "is_granted", "is_allowed_somewhere")
        yield client, asked


def test_the_table_is_whole() -> None:
    assert REFUSALS.keys() | NOTHING_TO_SEE == APIS.keys() == BUILDERS.keys()


@pytest.mark.parametrize("key", REFUSALS)
async def test_who_may_nothing_gets_nothing(key: ApiKey, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, asked):
        before = await client.broker.metadata.store.tree("/")
        version = APIS[key].version_max
        request = sensible(key, version, client.broker.image.topics["t"].topic_id)
        response = await client.ask(request, version)
        refusal = REFUSALS[key]
        assert set(error_codes(response)) - {0} == ({refusal} if refusal else set())
        assert bool(asked) == (refusal is not None and key not in REFUSED_TO_ALL)
        assert b"secret" not in repr(response).encode()
        assert await client.broker.metadata.store.tree("/") == before
        assert client.broker.replicas.get("t", 0).high_watermark == 1
        assert client.broker.replicas.get("t", 0).log.log_start_offset == 0


async def test_topics_that_cannot_be_seen_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, _):
        assert (await client.ask(MetadataRequest(topics=None))).topics == []
        assert (await client.ask(DescribeTopicPartitionsRequest(response_partition_limit=10))).topics == []


async def test_an_id_of_a_topic_that_cannot_be_seen_does_not_tell_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, _):
        topic_id = client.broker.image.topics["t"].topic_id
        (topic,) = (
            await client.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]))
        ).topics
        assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


async def test_a_topic_is_not_created_by_who_may_only_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, _):
        judge_here(monkeypatch, lambda _context, operation, *_, **__: operation is Operation.DESCRIBE)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        (topic,) = (await client.ask(request)).topics
        assert topic.error_code == TOPIC_REFUSED
        assert "new" not in client.broker.image.topics


async def test_operations_that_are_told_are_those_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, _):
        judge_here(monkeypatch, lambda _context, operation, *_, **__: operation is Operation.DESCRIBE)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="t")],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        response = await client.ask(request, 10)
        described = 1 << Operation.DESCRIBE.value
        assert response.cluster_authorized_operations == described
        assert [topic.topic_authorized_operations for topic in response.topics] == [described]


async def test_the_configuration_of_a_broker_belongs_to_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, _):
        described = await client.ask(
            DescribeConfigsRequest(resources=[DescribeConfigsRequestResource(resource_type=4, resource_name="1")])
        )
        altered = await client.ask(
            AlterConfigsRequest(resources=[AlterConfigsRequestResource(resource_type=4, resource_name="")])
        )
        assert [result.error_code for result in described.results] == [CLUSTER_REFUSED]
        assert [result.error_code for result in altered.responses] == [CLUSTER_REFUSED]


async def test_transactional_ids_have_a_refusal_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(monkeypatch) as (client, _):
        response = await client.ask(FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1), 5)
        assert [found.error_code for found in response.coordinators] == [
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        ]
