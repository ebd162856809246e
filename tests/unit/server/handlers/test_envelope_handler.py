"""Requests that another broker forwards: who may, which, and in whose name they are answered."""

import json
from typing import Any

import pytest
from tests.unit.server.handlers.peer import Peer, peer
from tests.unit.server.judge import judge_here

from tailrace.machines.authorization.vocabulary import CLUSTER_NAME, PatternType, Permission, Resource
from tailrace.machines.controller.security_record import AclEntry, AclPattern, AclRecord
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.topic import CreateTopicsRequest, CreateTopicsRequestTopic
from tailrace.protocol.principal import decode_principal, encode_principal
from tailrace.protocol.registry import response_type
from tailrace.server.context import Operation, RequestContext

BROKER, CLIENT = "User:ANONYMOUS", "User:client"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Operation]]:
    """Let brokers act for the cluster and clients do nothing, and collect who was judged, by address and operation."""
    found: list[tuple[str, str, Operation]] = []

    def judge(context: RequestContext, operation: Operation, *_: Any, is_probe: bool = False) -> bool:
        if not is_probe:
            found.append((context.principal, context.host, operation))
        return context.principal == BROKER and operation is Operation.CLUSTER_ACTION

    judge_here(monkeypatch, judge, "is_allowed", "is_granted")
    return found


def sealed(request: Message, version: int, **fields: Any) -> EnvelopeRequest:
    frame = b"".join(encode_request(7, "client", request, version))
    return EnvelopeRequest(
        **{
            "request_data": frame[4:],
            "request_principal": encode_principal(CLIENT, is_token_authenticated=False),
            "client_host_address": bytes((10, 0, 0, 9)),
            **fields,
        }
    )


def new_topic() -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=1000
    )


async def opened(client: Peer, request: Message, version: int) -> Any:
    reply: EnvelopeResponse = await client.ask(sealed(request, version))
    assert reply.error_code == 0
    key = request.SCHEMA.key
    assert key is not None
    correlation_id, response = decode_response(response_type(key), reply.response_data or b"", version)
    assert correlation_id == 7
    return response


async def test_a_forwarded_request_is_answered() -> None:
    async with peer() as client:
        for version in (2, 7):
            request = new_topic()
            request.topics[0].name = f"t{version}"
            (topic,) = (await opened(client, request, version)).topics
            assert topic.error_code == 0
            assert f"t{version}" in client.broker.image.topics


async def test_the_client_is_judged_and_not_the_broker(asked: list[tuple[str, str, Operation]]) -> None:
    """A forwarded request was judged by the rights of the broker, which may do everything."""
    async with peer() as client:
        (topic,) = (await opened(client, new_topic(), 7)).topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert asked == [
            (BROKER, "127.0.0.1", Operation.CLUSTER_ACTION),
            (CLIENT, "10.0.0.9", Operation.CREATE),
        ]


async def test_only_brokers_may_say_who_a_client_is(asked: list[tuple[str, str, Operation]]) -> None:
    async with peer() as client:
        client.line.principal = CLIENT
        reply = await client.ask(
            sealed(new_topic(), 7, request_principal=encode_principal(BROKER, is_token_authenticated=False))
        )
        assert (reply.error_code, reply.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        assert asked == [(CLIENT, "127.0.0.1", Operation.CLUSTER_ACTION)]


async def test_a_client_is_no_broker_because_there_is_no_acl() -> None:
    """Where clients and brokers share a listener, a client could act as any user until the cluster had an ACL.

    The check asked for CLUSTER_ACTION, which `allow.everyone.if.no.acl.found` gave to every client.
    """
    async with peer(
        authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found="true", super_users="User:root"
    ) as client:
        client.line.principal = CLIENT
        as_root = sealed(new_topic(), 7, request_principal=encode_principal("User:root", is_token_authenticated=False))
        reply = await client.ask(as_root)
        assert (reply.error_code, reply.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        client.line.principal = "User:root"
        assert (await client.ask(as_root)).error_code == 0
        pattern = AclPattern(Resource.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
        entry = AclEntry(CLIENT, "*", Operation.CLUSTER_ACTION, Permission.ALLOW)
        await client.broker.metadata.commit([AclRecord(pattern, (entry,))])
        client.line.principal = CLIENT
        assert (await client.ask(as_root)).error_code == 0


async def test_the_audit_log_names_the_sender_of_an_envelope(caplog: pytest.LogCaptureFixture) -> None:
    """Without an authorizer every client may send one, and the audit log named only the principal in it."""
    async with peer() as client:
        client.line.principal, client.line.host = "User:eve", "10.0.0.66"
        with caplog.at_level("INFO", "tailrace.audit"):
            await opened(client, new_topic(), 7)
        (line,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tailrace.audit"]
        assert (line["principal"], line["host"]) == (CLIENT, "10.0.0.9")
        assert (line["forwarded_by"], line["forwarded_from"]) == ("User:eve", "10.0.0.66")


async def test_other_listeners_do_not_have_the_api() -> None:
    async with peer() as client:
        announced = await client.ask(ApiVersionsRequest(), 0)
        assert ApiKey.ENVELOPE in {api.api_key for api in announced.api_keys}
        client.line.listener_name = "EXTERNAL"
        announced = await client.ask(ApiVersionsRequest(), 0)
        assert ApiKey.ENVELOPE not in {api.api_key for api in announced.api_keys}
        with pytest.raises(RemoteProtocolError, match="API key 58 is not served"):
            await client.ask(sealed(new_topic(), 7))


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (sealed(MetadataRequest(), 12), ErrorCode.INVALID_REQUEST),  # every broker answers it
        (sealed(new_topic(), 7, request_data=b"\x7f\x7f\0\0\0\0\0\1\xff\xff"), ErrorCode.INVALID_REQUEST),
        (sealed(new_topic(), 7, request_data=b"\0\x13\0\x63\0\0\0\1\xff\xff\0"), ErrorCode.UNSUPPORTED_VERSION),
        (sealed(new_topic(), 7, request_data=b"\0\x13\0\x07\0\0\0\1\xff\xff"), ErrorCode.INVALID_REQUEST),
        (sealed(new_topic(), 7, request_data=b""), ErrorCode.INVALID_REQUEST),
        (sealed(sealed(new_topic(), 7), 0), ErrorCode.INVALID_REQUEST),  # an envelope in an envelope
        (sealed(new_topic(), 7, client_host_address=b"\1"), ErrorCode.INVALID_REQUEST),
        (sealed(new_topic(), 7, request_principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (sealed(new_topic(), 7, request_principal=b"\0\0\5User"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (sealed(new_topic(), 7, request_principal=b"\0\0\1\1\0\0"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ],
)
async def test_a_bad_envelope_is_refused(envelope: EnvelopeRequest, code: ErrorCode) -> None:
    async with peer() as client:
        reply = await client.ask(envelope)
        assert (reply.error_code, reply.response_data) == (code, None)
        assert client.broker.image.topics == {}


def test_a_principal_has_the_bytes_that_kafka_writes() -> None:
    assert encode_principal("User:alice", is_token_authenticated=False).hex() == "0000055573657206616c6963650000"
    assert decode_principal(bytes.fromhex("0000055573657206616c6963650100")) == ("User:alice", True)
