"""ACLs, users and quotas that are changed through one broker hold on all, and survive kill -9 and a new controller."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster
from tests.unit.coordination.zookeeper_process import require_zookeeper

from tailrace.client.address import parse_addresses
from tailrace.client.connection import Connection
from tailrace.client.error import ClientError
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.protocol.messages.acl import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tailrace.protocol.messages.client_quota import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tailrace.security.scram.mechanism import SCRAM_SHA_256

DEADLINE_S = 120
OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "zookeeper.session.timeout.ms": "6000",
}


async def change(address: str, number: int) -> None:
    """Add an ACL, a user and a quota through one broker."""
    (connected,) = parse_addresses(address)
    connection = await Connection.open(connected)
    try:
        creation = CreateAclsRequestCreation(
            resource_type=Resource.TOPIC,
            resource_name=f"topic-{number}",
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:user-{number}",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        acls = await connection.request(CreateAclsRequest(creations=[creation]), CreateAclsResponse)
        assert [result.error_code for result in acls.results] == [0]
        upsertion = AlterUserScramCredentialsRequestUpsertion(
            name=f"user-{number}",
            mechanism=SCRAM_SHA_256.code,
            iterations=4096,
            salt=b"salt",
            salted_password=SCRAM_SHA_256.salted_password("secret", b"salt", 4096),
        )
        users = await connection.request(
            AlterUserScramCredentialsRequest(upsertions=[upsertion]), AlterUserScramCredentialsResponse
        )
        assert [result.error_code for result in users.results] == [0]
        entry = AlterClientQuotasRequestEntry(
            entity=[AlterClientQuotasRequestEntity(entity_type="user", entity_name=f"user-{number}")],
            ops=[AlterClientQuotasRequestOp(key="producer_byte_rate", value=1e6, remove=False)],
        )
        quotas = await connection.request(AlterClientQuotasRequest(entries=[entry]), AlterClientQuotasResponse)
        assert [outcome.error_code for outcome in quotas.entries] == [0]
    finally:
        await connection.close()


async def known(address: str) -> tuple[set[str], set[str], set[str]]:
    """The users that a broker knows from ACLs, from credentials and from quotas."""
    (connected,) = parse_addresses(address)
    connection = await Connection.open(connected)
    try:
        everything = DescribeAclsRequest(
            resource_type_filter=Resource.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        acls = await connection.request(everything, DescribeAclsResponse)
        users = await connection.request(DescribeUserScramCredentialsRequest(), DescribeUserScramCredentialsResponse)
        quotas = await connection.request(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    finally:
        await connection.close()
    return (
        {acl.principal.removeprefix("User:") for resource in acls.resources for acl in resource.acls},
        {result.user for result in users.results},
        {entity.entity_name or "" for entry in quotas.entries or () for entity in entry.entity},
    )


async def wait_until_known(addresses: list[str], numbers: range) -> float:
    """Wait until these brokers know all of the changes; return after how many seconds."""
    started = time.monotonic()
    expected = {f"user-{number}" for number in numbers}
    for address in addresses:
        while True:
            try:
                found = await known(address)
            except (ClientError, OSError):
                found = (set(), set(), set())
            if found == (expected, expected, expected):
                break
            assert time.monotonic() - started < DEADLINE_S, f"{address} knows {found}"
            await asyncio.sleep(0.02)
    return time.monotonic() - started


async def controller_id(address: str) -> int:
    (connected,) = parse_addresses(address)
    connection = await Connection.open(connected)
    try:
        return (await connection.request(MetadataRequest(topics=[]), MetadataResponse)).controller_id
    finally:
        await connection.close()


@pytest.mark.slow
def test_what_was_acknowledged_holds_everywhere_and_survives(tmp_path: Path) -> None:
    require_zookeeper()
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    cluster = Cluster(tmp_path, Network(), OPTIONS, server_count=1)
    asyncio.run(change_and_kill(cluster))


async def change_and_kill(cluster: Cluster) -> None:
    try:
        await asyncio.to_thread(cluster.start)
        addresses = list(cluster.addresses.values())
        delays = []
        for number in range(10):
            await change(addresses[number % 3], number)
            delays.append(await wait_until_known(addresses, range(number + 1)))
        print(f"changes held on all brokers after {max(delays):.3f} s at most")
        # Kill the controller right after a change through it was acknowledged.
        victim = await controller_id(addresses[0])
        await change(cluster.addresses[victim], 10)
        cluster.brokers[victim].kill()
        others = [address for broker, address in cluster.addresses.items() if broker != victim]
        await wait_until_known(others, range(11))
        await change(others[0], 11)
        await wait_until_known(others, range(12))
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            await asyncio.to_thread(broker.start)
        await wait_until_known(addresses, range(12))
    finally:
        await asyncio.to_thread(cluster.end)
