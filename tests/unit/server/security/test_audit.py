"""The audit log: what its lines say, what they never say, and how many there are."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.sample import ManualClock
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.base.security_limits import (
    AUDIT_DENIALS_PER_PRINCIPAL_MAX,
    AUDIT_FAILURES_PER_PRINCIPAL_MAX,
    AUDIT_LIST_COUNT_MAX,
    AUDIT_PRINCIPALS_MAX,
    AUDIT_TEXT_LENGTH_MAX,
)
from tailrace.machines.authorization.vocabulary import Operation, Resource
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.frame import RequestHeader
from tailrace.protocol.messages import acl, client_quota, config, group_admin, scram, topic
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.transaction_marker import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from tailrace.server.context import RequestContext
from tailrace.server.rejection_log import RejectionLog
from tailrace.server.security.audit import AuditLog
from tailrace.server.security.audit_change import changes
from tailrace.server.security.audit_line import cut

BROKER, TOPIC = 4, 2


class Nothing:
    """An authorization that allows nothing."""

    def is_allowed(self, *_: Any) -> bool:
        return False

    def is_granted(self, *_: Any) -> bool:
        return False

    def is_allowed_somewhere(self, *_: Any) -> bool:
        return False


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tailrace.audit"]
    for line in found:
        assert line.pop("time").endswith("+00:00")
    return found


@asynccontextmanager
async def audited(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Peer]:
    async with peer() as client:
        with caplog.at_level("INFO", "tailrace.audit"):
            client.line.principal = "User:alice"
            yield client


def context(client: Peer, audit: AuditLog, client_id: str = "app") -> RequestContext:
    header = RequestHeader(ApiKey.METADATA, 12, 1, client_id)
    authorization: Any = Nothing()
    line: Any = client.line
    return RequestContext(client.broker, line, header, RejectionLog(), authorization, audit)


# --- denials


async def test_a_denial_names_the_client_and_what_it_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        audit = AuditLog(ManualClock())
        assert not context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, "t")
        assert lines(caplog) == [
            {
                "event": "denial",
                "principal": "User:alice",
                "host": "127.0.0.1",
                "listener": client.line.listener_name,
                "client_id": "app",
                "api": "METADATA",
                "operation": "READ",
                "resource_type": "TOPIC",
                "name": "t",
                "error": "TOPIC_AUTHORIZATION_FAILED",
                "count": 1,
            }
        ]
        audit.close()


async def test_probes_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        asking = context(client, AuditLog(ManualClock()))
        assert not asking.is_allowed(Operation.DESCRIBE, Resource.TOPIC, "t", is_probe=True)
        assert asking.allowed_operations((Operation.READ,), Resource.TOPIC, "t") == 0
        assert lines(caplog) == []


async def test_equal_denials_are_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        audit = AuditLog(ManualClock())
        for _ in range(5):
            context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, "t")
        context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, "other")
        audit.close()
        assert [(line["name"], line["count"]) for line in lines(caplog)] == [("t", 1), ("other", 1), ("t", 4)]
        context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, "t")
        assert lines(caplog)[-1]["count"] == 1
        audit.close()


async def test_a_client_that_guesses_names_gets_only_so_many_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        audit = AuditLog(ManualClock())
        for number in range(AUDIT_DENIALS_PER_PRINCIPAL_MAX + 7):
            context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, f"t{number}")
        audit.close()
        found = lines(caplog)
        assert len(found) == AUDIT_DENIALS_PER_PRINCIPAL_MAX + 1
        assert (found[-1]["principal"], found[-1]["count"]) == ("User:alice", 7)


async def test_a_client_that_guesses_names_hides_nothing_of_others(caplog: pytest.LogCaptureFixture) -> None:
    """The bound was one for all principals, so nothing was logged of the others once a client had used it up."""
    async with audited(caplog) as client:
        audit = AuditLog(ManualClock())
        for number in range(AUDIT_DENIALS_PER_PRINCIPAL_MAX * 10):
            context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, f"t{number}")
        client.line.principal = "User:bob"
        context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, "t")
        assert (lines(caplog)[-1]["principal"], lines(caplog)[-1]["name"]) == ("User:bob", "t")
        audit.close()


async def test_many_principals_get_only_so_many_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        audit = AuditLog(ManualClock())
        for number in range(AUDIT_PRINCIPALS_MAX + AUDIT_DENIALS_PER_PRINCIPAL_MAX + 7):
            client.line.principal = f"User:{number}"
            context(client, audit).is_allowed(Operation.READ, Resource.TOPIC, "t")
        audit.close()
        found = lines(caplog)
        assert len(found) == AUDIT_PRINCIPALS_MAX + AUDIT_DENIALS_PER_PRINCIPAL_MAX + 1
        assert (found[-1]["principal"], found[-1]["count"]) == ("others", 7)


async def test_no_name_forges_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        audit = AuditLog(ManualClock())
        asking = context(client, audit, client_id='x\n{"event": "change"}' + "y" * 1000)
        asking.is_allowed(Operation.READ, Resource.GROUP, "g\r\n")
        audit.close()
        (record,) = [record for record in caplog.records if record.name == "tailrace.audit"]
        assert "\n" not in record.getMessage()
        assert len(record.getMessage()) < 1000


# --- changes


async def test_changes_are_logged_with_their_outcome(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        for _ in range(2):
            new = topic.CreateTopicsRequestTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=[topic.CreateTopicsRequestConfig(name="retention.ms", value="1000")],
            )
            await client.ask(topic.CreateTopicsRequest(topics=[new], timeout_ms=1000))
        await client.ask(topic.CreateTopicsRequest(topics=[new], timeout_ms=1000, validate_only=True))
        await client.ask(MetadataRequest(topics=None))
        await client.ask(topic.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        found = lines(caplog)
        assert [(line["api"], line["name"], line["error"]) for line in found] == [
            ("CREATE_TOPICS", "t", "NONE"),
            ("CREATE_TOPICS", "t", "TOPIC_ALREADY_EXISTS"),
            ("DELETE_TOPICS", "t", "NONE"),
        ]
        assert {(line["event"], line["principal"]) for line in found} == {("change", "User:alice")}
        assert (found[0]["partitions"], found[0]["configs"]) == (1, {"retention.ms": "1000"})


@pytest.mark.parametrize("listener", ["CLIENTS", ""])
async def test_markers_of_an_administrator_are_logged(listener: str, caplog: pytest.LogCaptureFixture) -> None:
    """`kafka-transactions abort` left no trace. A coordinator writes markers on the listener between brokers."""
    async with audited(caplog) as client:
        await client.create()
        caplog.clear()
        client.line.listener_name = listener or client.line.listener_name
        marker = WriteTxnMarkersRequestMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=False,
            topics=[WriteTxnMarkersRequestTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
        )
        response = await client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        told = response.markers[0].topics[0].partitions[0].error_code
        found = [
            (line["api"], line["name"], line["producer_id"], line["change"], line["error"]) for line in lines(caplog)
        ]
        one = ("WRITE_TXN_MARKERS", "t", 7, "abort transaction", ErrorCode(told).name)
        assert found == ([one] if listener else [])


async def test_topics_that_are_created_on_first_use_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Only CreateTopics was logged, so nothing told which client had created these topics."""
    async with audited(caplog) as client:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
        for _ in range(2):
            await client.ask(wanted)
            for key_type in (0, 1):
                await client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]))
        found = lines(caplog)
        assert [(line["api"], line["name"], line["error"]) for line in found] == [
            ("METADATA", "t", "NONE"),
            ("FIND_COORDINATOR", "__consumer_offsets", "NONE"),
            ("FIND_COORDINATOR", "__transaction_state", "NONE"),
        ]
        assert {(line["event"], line["principal"]) for line in found} == {("change", "User:alice")}
        assert {(line["resource_type"], line["change"]) for line in found} == {("TOPIC", "create on first use")}


async def test_a_topic_that_cannot_be_created_on_first_use_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> None:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR)

    async with audited(caplog) as client:
        monkeypatch.setattr(type(client.broker.controller_channel), "create_topic", refuse)
        monkeypatch.setattr(client.broker.groups, "_create_topic", refuse)
        await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True))
        response = await client.ask(FindCoordinatorRequest(coordinator_keys=["x"]))
        assert response.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [(line["name"], line["error"]) for line in lines(caplog)] == [
            ("t", "INVALID_REPLICATION_FACTOR"),
            ("__consumer_offsets", "INVALID_REPLICATION_FACTOR"),
        ]


async def test_changes_that_fail_are_counted_beyond_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    """A client could fill the disk with changes that failed: each had a line, and a request has thousands."""
    async with audited(caplog) as client:
        names = [f"g{number}" for number in range(AUDIT_FAILURES_PER_PRINCIPAL_MAX + 7)]
        audit = AuditLog(ManualClock())
        for name in names:
            told = group_admin.DeleteGroupsResponseResult(group_id=name, error_code=68)
            response = group_admin.DeleteGroupsResponse(results=[told])
            audit.note(context(client, audit), group_admin.DeleteGroupsRequest(groups_names=[name]), response)
        gone = group_admin.DeleteGroupsResponse(results=[group_admin.DeleteGroupsResponseResult(group_id="g")])
        audit.note(context(client, audit), group_admin.DeleteGroupsRequest(groups_names=["g"]), gone)
        audit.close()
        *failed, succeeded, rest = lines(caplog)
        assert [line["name"] for line in failed] == names[:AUDIT_FAILURES_PER_PRINCIPAL_MAX]
        assert (succeeded["name"], succeeded["error"]) == ("g", "NONE")
        assert (rest["event"], rest["principal"], rest["count"]) == ("change", "User:alice", 7)


async def test_long_texts_and_lists_of_a_change_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    """The details of a change were logged whole, however long the client had made them."""
    async with audited(caplog) as client:
        configs = [
            topic.CreateTopicsRequestConfig(name=f"config{number}" + "n" * 1000, value="v") for number in range(1000)
        ]
        configs[0] = topic.CreateTopicsRequestConfig(name="cleanup.policy", value="v" * 30_000)
        new = topic.CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
        await client.ask(topic.CreateTopicsRequest(topics=[new], timeout_ms=1000))
        (line,) = lines(caplog)
        assert line["error"] == "INVALID_CONFIG"
        found = line["configs"]
        assert found.pop("…") == f"{1000 - AUDIT_LIST_COUNT_MAX} more"
        assert len(found) == AUDIT_LIST_COUNT_MAX
        missing = 30_000 - AUDIT_TEXT_LENGTH_MAX
        assert found["cleanup.policy"] == "v" * AUDIT_TEXT_LENGTH_MAX + f"… {missing} more characters"
        assert max(map(len, found)) < 2 * AUDIT_TEXT_LENGTH_MAX


def test_a_list_in_a_line_says_how_much_is_missing() -> None:
    assert cut(["t" * 300, list(range(AUDIT_LIST_COUNT_MAX + 5)), None]) == [
        "t" * AUDIT_TEXT_LENGTH_MAX + "… 44 more characters",
        [*range(AUDIT_LIST_COUNT_MAX), "… 5 more"],
        None,
    ]


async def test_values_of_broker_configs_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with audited(caplog) as client:
        secret = "hunter2"  # noqa: S105
        broker_id = str(client.broker.broker_id)
        await client.ask(
            config.IncrementalAlterConfigsRequest(
                resources=[
                    config.IncrementalAlterConfigsRequestResource(
                        resource_type=BROKER,
                        resource_name=broker_id,
                        configs=[config.IncrementalAlterConfigsRequestConfig(name="ssl.key.password", value=secret)],
                    )
                ]
            )
        )
        await client.ask(
            config.AlterConfigsRequest(
                resources=[
                    config.AlterConfigsRequestResource(
                        resource_type=BROKER,
                        resource_name=broker_id,
                        configs=[config.AlterConfigsRequestConfig(name="ssl.key.password", value=secret)],
                    )
                ]
            )
        )
        found = lines(caplog)
        assert [line["configs"] for line in found] == [
            [{"name": "ssl.key.password", "operation": "set", "value": "…"}],
            {"ssl.key.password": "…"},
        ]
        assert secret not in str(found)


async def test_a_secret_that_was_meant_for_a_broker_is_not_logged_for_a_topic(caplog: pytest.LogCaptureFixture) -> None:
    """All values for topics were logged, also those of configs that topics do not have, such as a password."""
    async with audited(caplog) as client:
        secret = "hunter2"  # noqa: S105
        pairs = [("ssl.key.password", secret), ("retention.ms", "1000")]
        configs = [topic.CreateTopicsRequestConfig(name=name, value=value) for name, value in pairs]
        new = topic.CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
        await client.ask(topic.CreateTopicsRequest(topics=[new], timeout_ms=1000))
        given = [config.IncrementalAlterConfigsRequestConfig(name=name, value=value) for name, value in pairs]
        resource = config.IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name="t", configs=given)
        await client.ask(config.IncrementalAlterConfigsRequest(resources=[resource]))
        created, altered = lines(caplog)
        assert created["configs"] == {"ssl.key.password": "…", "retention.ms": "1000"}
        assert [each["value"] for each in altered["configs"]] == ["…", "1000"]
        assert secret not in str([created, altered])


def test_users_are_logged_without_their_secrets() -> None:
    request = scram.AlterUserScramCredentialsRequest(
        deletions=[scram.AlterUserScramCredentialsRequestDeletion(name="bob", mechanism=1)],
        upsertions=[
            scram.AlterUserScramCredentialsRequestUpsertion(
                name="alice", mechanism=2, iterations=4096, salt=b"salt", salted_password=b"hunter2"
            )
        ],
    )
    response = scram.AlterUserScramCredentialsResponse(
        results=[
            scram.AlterUserScramCredentialsResponseResult(user="alice"),
            scram.AlterUserScramCredentialsResponseResult(user="bob", error_code=91),
        ]
    )
    found = list(changes(request, response))
    assert [(change.name, change.details, change.error.name) for change in found] == [
        ("bob", {"change": "delete", "mechanism": 1}, "RESOURCE_NOT_FOUND"),
        ("alice", {"change": "set", "mechanism": 2, "iterations": 4096}, "NONE"),
    ]


def test_tokens_are_logged_without_their_secrets() -> None:
    renewer = CreateDelegationTokenRequestRenewer(principal_type="User", principal_name="bob")
    (created,) = changes(
        CreateDelegationTokenRequest(renewers=[renewer]),
        CreateDelegationTokenResponse(principal_type="User", principal_name="alice", token_id="id", hmac=b"hunter2"),  # noqa: S106
    )
    assert (created.name, created.details["owner"], created.details["renewers"]) == ("id", "User:alice", ["User:bob"])
    (renewed,) = changes(RenewDelegationTokenRequest(hmac=b"hunter2"), RenewDelegationTokenResponse())
    (expired,) = changes(ExpireDelegationTokenRequest(hmac=b"hunter2"), ExpireDelegationTokenResponse(error_code=62))
    assert "hunter2" not in f"{created}{renewed}{expired}"
    assert expired.error.name == "DELEGATION_TOKEN_NOT_FOUND"


def test_acls_quotas_and_groups_are_logged() -> None:
    rule = acl.CreateAclsRequestCreation(
        resource_type=TOPIC, resource_name="t", principal="User:bob", host="*", operation=3, permission_type=2
    )
    (made,) = changes(
        acl.CreateAclsRequest(creations=[rule]), acl.CreateAclsResponse(results=[acl.CreateAclsResponseResult()])
    )
    assert (made.name, made.details["acl_principal"], made.details["acl_operation"]) == ("t", "User:bob", "READ")
    assert (made.details["acl_permission"], made.details["acl_pattern_type"]) == ("DENY", "LITERAL")
    gone = acl.DeleteAclsResponseAcl(
        resource_type=TOPIC, resource_name="t", principal="User:bob", host="*", operation=3, permission_type=2
    )
    response = acl.DeleteAclsResponse(filter_results=[acl.DeleteAclsResponseFilter(matching_acls=[gone])])
    (deleted,) = changes(acl.DeleteAclsRequest(), response)
    assert deleted.details == {**made.details, "change": "delete"}
    entity = client_quota.AlterClientQuotasRequestEntity(entity_type="user", entity_name="bob")
    entry = client_quota.AlterClientQuotasRequestEntry(
        entity=[entity], ops=[client_quota.AlterClientQuotasRequestOp(key="producer_byte_rate", value=10.0)]
    )
    told = client_quota.AlterClientQuotasResponse(entries=[client_quota.AlterClientQuotasResponseEntry()])
    (limited,) = changes(client_quota.AlterClientQuotasRequest(entries=[entry]), told)
    assert limited.details == {"entity": {"user": "bob"}, "quotas": {"producer_byte_rate": 10.0}}
    groups = group_admin.DeleteGroupsResponse(
        results=[group_admin.DeleteGroupsResponseResult(group_id="g", error_code=68)]
    )
    (kept,) = changes(group_admin.DeleteGroupsRequest(groups_names=["g"]), groups)
    assert (kept.name, kept.error.name) == ("g", "NON_EMPTY_GROUP")
