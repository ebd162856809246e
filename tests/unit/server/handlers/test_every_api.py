"""Every API in every version that is served: a reply that decodes, whatever was asked and whatever went wrong.

A response field that a version cannot carry stops the encoder, so that a handler which sets
one fails in that version only. These tests go through all of them.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logged import logged
from tests.protocol.sample import full_message, messages
from tests.unit.sample import BrokerInMemory, make_batch
from tests.unit.server.handlers.peer import Peer, error_codes
from tests.unit.server.handlers.sensible import GROUP, commit, sensible
from tests.unit.server.handlers.sensible_about import BUILDERS
from tests.unit.server.handlers.sensible_transaction import begin_transactions

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import RequestHeader, decode_response, encode_response
from tailrace.protocol.message import Message
from tailrace.protocol.registry import response_type
from tailrace.server.connection import ConnectionClosed
from tailrace.server.context import RequestContext
from tailrace.server.handlers import APIS
from tailrace.server.rejection_log import RejectionLog

CASES = [
    pytest.param(key, version, id=f"{served.key.name}-v{version}")
    for key, served in sorted(APIS.items())
    for version in range(served.version_min, served.version_max + 1)
]
every_api_and_version = pytest.mark.parametrize(("key", "version"), CASES)

# These versions have no place for an error. As in Kafka they list no folder at all, which clients take for a refusal.
SPEECHLESS = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}


# Nobody is a member of the group that some are about; and JoinGroup 4 gives an id to one that is not static.
WITHOUT_A_MEMBER: dict[object, int] = {
    ApiKey.SYNC_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.HEARTBEAT: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.LEAVE_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    (ApiKey.JOIN_GROUP, 4): ErrorCode.MEMBER_ID_REQUIRED,
    # The partition is led by its first replica, and nobody has stopped a broker for good.
    (ApiKey.ELECT_LEADERS, 0): ErrorCode.ELECTION_NOT_NEEDED,
    ApiKey.UNREGISTER_BROKER: ErrorCode.BROKER_ID_NOT_REGISTERED,
    # Refused to every client, as Kafka does where security is off.
    ApiKey.SASL_HANDSHAKE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.SASL_AUTHENTICATE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.DESCRIBE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.CREATE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.DELETE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.CREATE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.RENEW_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.EXPIRE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ErrorCode.RESOURCE_NOT_FOUND,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ErrorCode.RESOURCE_NOT_FOUND,
    # The folder of another machine.
    ApiKey.ALTER_REPLICA_LOG_DIRS: ErrorCode.LOG_DIR_NOT_FOUND,
}


class Desk:
    """A broker with one topic, in an event loop of its own, that all tests here ask."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.run = runner.run
        machine = BrokerInMemory()
        settings = {"group_initial_rebalance_delay_ms": "0", "group_min_session_timeout_ms": "1"}
        self.peer = Peer(self.run(machine.start(auto_create_topics_enable="false", **settings)), machine)
        self.topic_id: UUID = self.run(self.peer.create("t", 2))
        self.run(self.peer.produce(make_batch(b"a", b"b")))
        for version in range(8):
            self.run(self.peer.create(f"doomed-{version}"))
            self.run(self.peer.create(f"growing-{version}"))
        self.run(begin_transactions(self.peer))
        self.run(self.peer.broker.groups.make_topic())
        for group in (GROUP, *(f"doomed-{version}" for version in range(4))):
            self.run(self.peer.ask(commit(group, "t", self.topic_id, 9), 9))
        for version in range(2):
            joining = sensible(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, self.topic_id)
            self.run(self.peer.ask(joining, version))

    def context(self, key: int, version: int) -> RequestContext:
        return RequestContext(
            self.peer.broker,
            self.peer.line,  # type: ignore[arg-type]
            RequestHeader(key, version, 1, "peer"),
            RejectionLog(),
        )


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    yield from _desk()


@pytest.fixture(scope="module")
def arena() -> Iterator[Desk]:
    """Another one, for those who may break it."""
    yield from _desk()


def _desk() -> Iterator[Desk]:
    with asyncio.Runner() as runner:
        desk = Desk(runner)
        yield desk
        runner.run(desk.peer.broker.stop())


# --- sensible requests


@every_api_and_version
def test_a_sensible_request_succeeds(desk: Desk, key: int, version: int) -> None:
    """ListOffsets 1 to 3 failed wherever there was an offset to tell. They told a leader epoch too, for which only
    later versions have a place."""
    response = desk.run(desk.peer.ask(sensible(key, version, desk.topic_id), version))
    assert set(error_codes(response)) <= {0, WITHOUT_A_MEMBER.get((key, version), WITHOUT_A_MEMBER.get(key, 0))}, (
        response
    )
    assert error_codes(response) or key in (ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS, ApiKey.METADATA)


ABOUT_TOPICS = {
    ApiKey.DELETE_TOPICS: {3},
    ApiKey.PRODUCE: {3, 100},
    ApiKey.FETCH: {3, 100},
    ApiKey.LIST_OFFSETS: {3},
    ApiKey.METADATA: {3},
    ApiKey.DELETE_RECORDS: {3},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {3},
    ApiKey.DESCRIBE_CONFIGS: {3},
    ApiKey.ALTER_CONFIGS: {3},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {3},
    ApiKey.CREATE_PARTITIONS: {3},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {3},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {3},
    ApiKey.OFFSET_COMMIT: {3, 100},
    ApiKey.TXN_OFFSET_COMMIT: {3, 100},
    ApiKey.OFFSET_DELETE: {3},
    ApiKey.ADD_PARTITIONS_TO_TXN: {3},
    ApiKey.WRITE_TXN_MARKERS: {3},
    ApiKey.DESCRIBE_PRODUCERS: {3},
}


@pytest.mark.parametrize(("key", "version"), [case for case in CASES if case.values[0] in ABOUT_TOPICS])
def test_a_topic_that_is_not_there_is_told_in_every_version(desk: Desk, key: ApiKey, version: int) -> None:
    response = desk.run(desk.peer.ask(sensible(key, version, UUID(int=77), "absent"), version))
    assert set(error_codes(response)) & ABOUT_TOPICS[key]
    assert set(error_codes(response)) <= ABOUT_TOPICS[key] | {0}


def test_every_api_has_a_sensible_request() -> None:
    assert BUILDERS.keys() == APIS.keys()


# --- refusals


@every_api_and_version
def test_a_refusal_says_so_in_every_version(desk: Desk, key: int, version: int) -> None:
    served = APIS[key]
    for request in (sensible(key, version, desk.topic_id), full_message(served.request_type, version)):
        error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "for a reason")
        response = served.fail(desk.context(key, version), request, error)
        frame = b"".join(encode_response(1, response, version))
        _, decoded = decode_response(response_type(key), frame[4:], version)
        codes = set(error_codes(decoded))
        assert ErrorCode.KAFKA_STORAGE_ERROR in codes or (key, version) in SPEECHLESS
        assert codes <= {0, ErrorCode.KAFKA_STORAGE_ERROR}


@every_api_and_version
def test_a_bug_in_a_handler_is_told_to_its_caller_alone(
    desk: Desk, key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(_context: RequestContext, _request: Message) -> None:
        raise ZeroDivisionError

    clumsy = Peer(desk.peer.broker, desk.peer.machine, stumble)
    response = desk.run(clumsy.ask(sensible(key, version, desk.topic_id), version))
    assert ErrorCode.UNKNOWN_SERVER_ERROR in error_codes(response) or (key, version) in SPEECHLESS
    assert "ZeroDivisionError" in logged(caplog)


# --- anything at all


@every_api_and_version
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_request_that_decodes_gets_a_reply_or_a_reason(
    arena: Desk, key: int, version: int, data: st.DataObject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    request = data.draw(messages(APIS[key].request_type, version))
    if "t" not in arena.peer.broker.image.topics:
        arena.topic_id = arena.run(arena.peer.create("t", 2))
    _aim(request, version, arena.topic_id, data)
    with suppress(RemoteProtocolError, ConnectionClosed):
        arena.run(asyncio.wait_for(_ask_while_time_passes(arena.peer, request, version), 60))
    bugs = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert bugs == []


async def _ask_while_time_passes(peer: Peer, request: Message, version: int) -> None:
    """Members of groups wait for each other, up to minutes."""
    asking = asyncio.get_running_loop().create_task(peer.ask(request, version))
    while not (await asyncio.wait([asking], timeout=0.002))[0]:
        peer.machine.clock.time_ms += 10_000
        peer.broker.groups.fire_due()
        peer.broker.transactions.fire_due()
    asking.result()


def _aim(message: Any, version: int, topic_id: UUID, data: st.DataObject) -> None:
    """Let about half of what a random request names be there, and keep it from waiting or from filling the memory."""
    targets: dict[str, list[Any]] = {
        "max_wait_ms": [0, 1],
        "num_partitions": [-2, -1, 0, 1, 3],
        "count": [-1, 2, 3, 4],
        "records": [None, b"", bytes(make_batch(b"aimed"))],
        "acks": [-1, 0, 1],
        "resource_type": [2, 4],
        "session_id": [0],
        "session_epoch": [-1, 0, 1],
        "transactional_id": ["tx", ""],
        "session_timeout_ms": [0, 10, 10_000],
        "rebalance_timeout_ms": [-1, 0, 1000],
    }
    for field in message.SCHEMA.fields:
        value = getattr(message, field.name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Message):
                _aim(part, version, topic_id, data)
        is_bounded = field.name in ("max_wait_ms", "num_partitions", "count", "rebalance_timeout_ms")
        if version not in field.versions or not (is_bounded or data.draw(st.booleans())):
            continue
        if field.name in targets:
            setattr(message, field.name, data.draw(st.sampled_from(targets[field.name])))
        elif isinstance(value, UUID):
            setattr(message, field.name, topic_id)
        elif isinstance(value, str):
            setattr(message, field.name, data.draw(st.sampled_from(["t", "t", "1", ""])))
        elif "partition" in field.name and isinstance(value, int) and not isinstance(value, bool):
            setattr(message, field.name, 0)
