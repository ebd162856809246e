"""ACLs, quotas and SASL where security is off: the answers of Kafka without an authorizer."""

import pytest
from tests.unit.server.handlers.peer import peer

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages import acl, client_quota, replica_log_dir, sasl
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.cluster import DescribeLogDirsRequest

EXACT, DEFAULT, ANY = 0, 1, 2


async def test_the_apis_are_announced() -> None:
    """Tools that list access rules or quotas stopped at an API that the broker did not have."""
    async with peer() as client:
        response = await client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
        announced = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert announced[ApiKey.SASL_HANDSHAKE] == (0, 1)
        assert announced[ApiKey.DESCRIBE_ACLS] == (1, 3)
        assert announced[ApiKey.DESCRIBE_CLIENT_QUOTAS] == (0, 1)
        assert announced[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] == (0, 0)


async def test_access_rules_need_an_authorizer() -> None:
    async with peer() as client:
        described = await client.ask(acl.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1))
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        assert described.error_message == "No Authorizer is configured on the broker"
        creations = [acl.CreateAclsRequestCreation(resource_type=2, resource_name="t")] * 2
        created = await client.ask(acl.CreateAclsRequest(creations=creations))
        assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        deleted = await client.ask(acl.DeleteAclsRequest(filters=[acl.DeleteAclsRequestFilter()]))
        assert [(found.error_code, found.matching_acls) for found in deleted.filter_results] == [
            (ErrorCode.SECURITY_DISABLED, [])
        ]
        assert (await client.ask(acl.DeleteAclsRequest(filters=[]))).filter_results == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([], 0),
        ([("user", ANY, None)], 0),
        ([("user", EXACT, "a"), ("client-id", DEFAULT, None)], 0),
        ([("foo", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_there_are_no_quotas_and_filters_are_checked(
    components: list[tuple[str, int, str | None]], code: int
) -> None:
    """Kafka's codes for the same filters; the entries are null upon an error, and the message is empty upon success."""
    asked = [
        client_quota.DescribeClientQuotasRequestComponent(entity_type=name, match_type=kind, match=match)
        for name, kind, match in components
    ]
    async with peer() as client:
        response = await client.ask(client_quota.DescribeClientQuotasRequest(components=asked, strict=True))
        assert (response.error_code, response.entries) == (code, None if code else [])
        assert (response.error_message == "") == (code == 0)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_plaintext_listener_takes_no_handshake(version: int) -> None:
    async with peer() as client:
        response = await client.ask(sasl.SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        answered = await client.ask(sasl.SaslAuthenticateRequest(auth_bytes=b"x"), version)
        assert (answered.error_code, answered.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")


async def test_replicas_stay_in_their_folder() -> None:
    """What Kafka answers, except that replicas do not move."""
    async with peer(log_dirs="/a,/b") as client:
        await client.create("t", 2)
        folders = (await client.ask(DescribeLogDirsRequest(topics=None))).results
        where = {found.partitions[0].partition_index: folder.log_dir for folder in folders for found in folder.topics}

        async def outcome(path: str, topic: str, index: int) -> int:
            named = replica_log_dir.AlterReplicaLogDirsRequestTopic(name=topic, partitions=[index])
            request = replica_log_dir.AlterReplicaLogDirsRequest(
                dirs=[replica_log_dir.AlterReplicaLogDirsRequestDir(path=path, topics=[named])]
            )
            response = await client.ask(request)
            return int(response.results[0].partitions[0].error_code)

        assert await outcome(where[0], "t", 0) == 0
        assert await outcome(where[1], "t", 0) == ErrorCode.UNSUPPORTED_VERSION
        assert await outcome("/nowhere", "t", 0) == ErrorCode.LOG_DIR_NOT_FOUND
        assert await outcome(where[0], "t", 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await outcome(where[0], "nosuch", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
