"""ACLs: created, described and deleted on a broker with an authorizer."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.base.security_limits import ACLS_PER_REQUEST_MAX
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.acl import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DescribeAclsRequest,
)

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READ_T: dict[str, Any] = {
    "resource_type": Resource.TOPIC,
    "resource_name": "t",
    "resource_pattern_type": PatternType.LITERAL,
    "principal": "User:alice",
    "host": "*",
    "operation": Operation.READ,
    "permission_type": Permission.ALLOW,
}
ANY: dict[str, Any] = {
    "resource_type_filter": Resource.ANY,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def secured(machine: BrokerInMemory | None = None) -> AbstractAsyncContextManager[Peer]:
    return peer(machine, authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS")


async def create(client: Peer, *acls: dict[str, Any]) -> list[int]:
    creations = [CreateAclsRequestCreation(**{**READ_T, **acl}) for acl in acls]
    response = await client.ask(CreateAclsRequest(creations=creations))
    assert all((result.error_message == "") == (result.error_code == 0) for result in response.results)
    return [result.error_code for result in response.results]


async def delete(client: Peer, *filters: dict[str, Any]) -> list[Any]:
    asked = [DeleteAclsRequestFilter(**{**ANY, **one}) for one in filters]
    response = await client.ask(DeleteAclsRequest(filters=asked))
    return [
        result.error_code or [(acl.resource_name, acl.pattern_type, acl.principal) for acl in result.matching_acls]
        for result in response.filter_results
    ]


async def describe(client: Peer, **selection: Any) -> list[tuple[str, int, list[str]]]:
    response = await client.ask(DescribeAclsRequest(**{**ANY, **selection}))
    assert (response.error_code, response.error_message) == (0, "")
    return [
        (found.resource_name, found.pattern_type, [acl.principal for acl in found.acls]) for found in response.resources
    ]


async def test_acls_are_listed_by_their_resources() -> None:
    async with secured() as client:
        bob, prefixed = {"principal": "User:bob"}, {"resource_pattern_type": PatternType.PREFIXED}
        odd_name = {"resource_type": Resource.GROUP, "resource_name": "../ü"}
        assert await create(client, {}, bob, prefixed, odd_name) == [0, 0, 0, 0]
        assert await describe(client) == [
            ("t", PatternType.LITERAL, ["User:alice", "User:bob"]),
            ("t", PatternType.PREFIXED, ["User:alice"]),
            ("../ü", PatternType.LITERAL, ["User:alice"]),
        ]
        assert await describe(client, principal_filter="User:bob") == [("t", PatternType.LITERAL, ["User:bob"])]
        matching = {"pattern_type_filter": PatternType.MATCH, "resource_name_filter": "two"}
        assert await describe(client, **matching) == [("t", PatternType.PREFIXED, ["User:alice"])]
        assert await describe(client, host_filter="10.0.0.1") == []


async def test_an_acl_that_exists_is_created_again_without_an_error() -> None:
    async with secured() as client:
        assert await create(client, {}, {}) == [0, 0]
        tree = await client.broker.metadata.store.tree("/kafka-acl")
        assert await create(client, {}) == [0]
        assert await client.broker.metadata.store.tree("/kafka-acl") == tree


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 0},
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_name": ""},
        {"resource_type": Resource.CLUSTER, "resource_name": "my-cluster"},
        {"resource_pattern_type": PatternType.ANY},
        {"resource_pattern_type": PatternType.MATCH},
        {"resource_pattern_type": 9},
        {"operation": 0},
        {"operation": Operation.ANY},
        {"operation": 77},
        {"permission_type": Permission.ANY},
        {"permission_type": 0},
        {"principal": "alice"},
    ],
)
async def test_an_acl_that_is_not_valid_is_refused_alone(wrong: dict[str, Any]) -> None:
    async with secured() as client:
        assert await create(client, {}, wrong) == [0, ErrorCode.INVALID_REQUEST]
        assert await describe(client) == [("t", PatternType.LITERAL, ["User:alice"])]


@pytest.mark.parametrize("useless", [{"operation": Operation.IDEMPOTENT_WRITE}, {"host": "example.com"}])
async def test_an_acl_without_an_effect_is_stored_as_in_kafka(useless: dict[str, Any]) -> None:
    async with secured() as client:
        assert await create(client, useless) == [0]
        assert await describe(client) == [("t", PatternType.LITERAL, ["User:alice"])]


async def test_filters_delete_what_they_select() -> None:
    async with secured() as client:
        await create(client, {}, {"principal": "User:bob"}, {"resource_name": "u"})
        alice, bob = ("t", PatternType.LITERAL, "User:alice"), ("t", PatternType.LITERAL, "User:bob")
        assert await delete(client, {"resource_name_filter": "nothing"}) == [[]]
        # What two filters select is told to both.
        named, by_user = {"resource_name_filter": "t"}, {"principal_filter": "User:bob"}
        assert await delete(client, named, by_user) == [[alice, bob], [bob]]
        assert await describe(client) == [("u", PatternType.LITERAL, ["User:alice"])]
        assert await delete(client, {}) == [[("u", PatternType.LITERAL, "User:alice")]]
        assert await client.broker.metadata.store.tree("/kafka-acl") == {}


@pytest.mark.parametrize("wrong", [{"operation": 0}, {"operation": 99}, {"resource_type_filter": 0}])
async def test_a_filter_with_an_unknown_code_lists_nothing_and_deletes_nothing(wrong: dict[str, Any]) -> None:
    async with secured() as client:
        await create(client, {})
        assert await describe(client, **wrong) == []
        answers = await delete(client, wrong, {"resource_name_filter": "t"})
        assert answers == [ErrorCode.INVALID_REQUEST, [("t", PatternType.LITERAL, "User:alice")]]


async def test_too_many_acls_in_a_request_change_nothing() -> None:
    async with secured() as client:
        count = ACLS_PER_REQUEST_MAX + 1
        many = [{"principal": f"User:{number}"} for number in range(count)]
        assert await create(client, *many) == [ErrorCode.POLICY_VIOLATION] * count
        assert await describe(client) == []
        await create(client, *many[:-1])
        await create(client, many[-1])
        assert await delete(client, {}) == [ErrorCode.POLICY_VIOLATION]
        assert len((await describe(client))[0][2]) == count


async def test_writers_of_one_pattern_do_not_lose_an_acl() -> None:
    async with secured() as client:
        names = [f"User:{number}" for number in range(10)]
        await asyncio.gather(*(create(client, {"principal": name}) for name in names))
        assert await describe(client) == [("t", PatternType.LITERAL, names)]


async def test_acls_outlive_the_broker() -> None:
    machine = BrokerInMemory()
    async with secured(machine) as client:
        await create(client, {})
        await machine.kill(client.broker)
    async with secured(machine) as client:
        assert await describe(client) == [("t", PatternType.LITERAL, ["User:alice"])]
