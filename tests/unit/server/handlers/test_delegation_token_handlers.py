"""Delegation tokens: created, renewed, expired and described by clients that have authenticated."""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.logged import logged
from tests.unit.sample import NOW_MS, BrokerInMemory
from tests.unit.server.handlers.peer import Peer, error_codes, peer

from tailrace.base.security_limits import TOKEN_RENEWERS_MAX
from tailrace.machines.controller.security_record import TokenRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.acl import CreateAclsRequest, CreateAclsRequestCreation
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tailrace.runtime.controller.token import TokenSweep
from tailrace.security.scram.mechanism import SCRAM_SHA_256
from tailrace.server.context import Operation, Resource
from tailrace.server.security.credential_store import ImageCredentials

KEY = "the secret of the cluster"
DAY_MS = 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
REQUESTS: list[Message] = [
    CreateDelegationTokenRequest(max_lifetime_ms=-1),
    RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
    ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
    DescribeDelegationTokenRequest(owners=None),
]


@asynccontextmanager
async def alice(machine: BrokerInMemory | None = None, **options: str) -> AsyncIterator[Peer]:
    """A client that has logged in as alice, on a broker with tokens."""
    async with peer(machine, intercept=None, delegation_token_secret_key=KEY, **options) as client:
        log_in(client, "User:alice")
        yield client


def log_in(client: Peer, principal: str, security_protocol: str = "SASL_PLAINTEXT", *, is_token: bool = False) -> None:
    client.line.principal, client.line.security_protocol = principal, security_protocol
    client.line.is_token_authenticated = is_token


async def create(client: Peer, *renewers: str, max_lifetime_ms: int = -1, owner: str | None = None) -> Any:
    parts = [renewer.partition(":") for renewer in renewers]
    owner_type, _, owner_name = (owner or "").partition(":")
    return await client.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=owner_type or None,
            owner_principal_name=owner_name or None,
            renewers=[
                CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name) for kind, _, name in parts
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
    )


async def renew(client: Peer, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    response = await client.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms))
    return response.error_code, response.expiry_timestamp_ms


async def expire(client: Peer, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    response = await client.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms))
    return response.error_code, response.expiry_timestamp_ms


async def describe(client: Peer, *owners: str, everybody: bool = False) -> list[str]:
    parts = [owner.partition(":") for owner in owners]
    asked = [DescribeDelegationTokenRequestOwner(principal_type=kind, principal_name=name) for kind, _, name in parts]
    response = await client.ask(DescribeDelegationTokenRequest(owners=None if everybody else asked))
    assert response.error_code == 0
    return [token.token_id for token in response.tokens]


async def test_a_token_lives_a_day_and_can_be_renewed_for_a_week() -> None:
    async with alice() as client:
        token = await create(client, "User:bob")
        assert token.error_code == 0
        assert (token.principal_type, token.principal_name) == ("User", "alice")
        assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
        times = NOW_MS, NOW_MS + DAY_MS, NOW_MS + 7 * DAY_MS
        assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == times
        assert token.hmac == hmac.digest(KEY.encode(), token.token_id.encode(), "sha512")
        stored = TokenRecord(token.token_id, "User:alice", "User:alice", ("User:bob",), *times)
        assert client.broker.image.tokens == {token.token_id: stored}
        assert KEY.encode() not in repr(await client.broker.metadata.store.tree("/")).encode()
        for _ in range(7):
            client.machine.clock.time_ms += DAY_MS - 1
            code, expiry = await renew(client, token.hmac)
            assert code == 0
        assert expiry == NOW_MS + 7 * DAY_MS
        client.machine.clock.time_ms = NOW_MS + 7 * DAY_MS + 1
        assert await renew(client, token.hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)


async def test_a_token_is_found_without_the_secrets_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker computed the HMACs of all tokens to find one, so a client could occupy it with guesses."""
    machine = BrokerInMemory()
    async with alice(machine) as client:
        tokens = [await create(client) for _ in range(20)]
    async with alice(machine) as client:
        computed: list[bytes] = []

        def digest(key: bytes, message: bytes, name: str) -> bytes:
            computed.append(message)
            return hmac.new(key, message, name).digest()

        monkeypatch.setattr(hmac, "digest", digest)
        assert (await renew(client, tokens[7].hmac))[0] == 0
        assert set(computed) == {tokens[7].token_id.encode()}
        computed.clear()
        assert (await renew(client, bytes(64)))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert computed == []
        assert (await expire(client, tokens[7].hmac))[0] == 0
        assert (await renew(client, tokens[7].hmac))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_the_lives_are_configs() -> None:
    options = {"delegation_token_max_lifetime_ms": "3000", "delegation_token_expiry_time_ms": "1000"}
    async with alice(None, **options) as client:
        token = await create(client)
        assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (NOW_MS + 1000, NOW_MS + 3000)
        short = await create(client, max_lifetime_ms=500)
        assert (short.expiry_timestamp_ms, short.max_timestamp_ms) == (NOW_MS + 500, NOW_MS + 500)
        assert await renew(client, token.hmac, 9999) == (0, NOW_MS + 1000)


@pytest.mark.parametrize(
    ("principal", "protocol", "is_token"),
    [
        ("User:ANONYMOUS", "PLAINTEXT", False),
        ("User:alice", "PLAINTEXT", False),
        ("User:ANONYMOUS", "SSL", False),
        ("User:alice", "SASL_SSL", True),
    ],
)
async def test_tokens_need_a_client_that_has_authenticated_without_one(
    principal: str, protocol: str, is_token: bool
) -> None:
    async with alice() as client:
        log_in(client, principal, protocol, is_token=is_token)
        for request in REQUESTS:
            response = await client.ask(request)
            assert error_codes(response) == [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED]
        assert client.broker.image.tokens == {}
        log_in(client, "User:CN=client", "SSL")
        assert (await create(client)).error_code == 0


@pytest.mark.parametrize("options", [{}, {"delegation_token_secret_key": ""}])
async def test_without_a_secret_there_are_no_tokens(options: dict[str, str]) -> None:
    """An empty secret is one that everybody knows, so it must not count as one."""
    async with peer(None, intercept=None, **options) as client:
        log_in(client, "User:alice")
        for request in REQUESTS:
            assert error_codes(await client.ask(request)) == [ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED]
        broker = client.broker
        broker.image.replay(TokenRecord("id", "User:alice", "User:alice", (), 0, 2 * NOW_MS, 2 * NOW_MS))
        key = broker.config.delegation_token_secret_key
        assert ImageCredentials(SCRAM_SHA_256, broker.image, broker.clock, key).token("id") is None
        assert ImageCredentials(SCRAM_SHA_256, broker.image, broker.clock, KEY).token("id") is not None


async def test_only_the_owner_and_the_renewers_change_a_token() -> None:
    async with alice() as client:
        token = await create(client, "User:bob")
        log_in(client, "User:carl")
        assert await renew(client, token.hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        assert await expire(client, token.hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
        log_in(client, "User:bob")
        assert await renew(client, token.hmac, HOUR_MS) == (0, NOW_MS + HOUR_MS)
        assert await expire(client, token.hmac, 5) == (0, NOW_MS + 5)
        client.machine.clock.time_ms += 6
        assert await expire(client, token.hmac, 5) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
        assert await expire(client, token.hmac) == (0, NOW_MS + 6)
        assert await expire(client, token.hmac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
        assert await renew(client, b"") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
        assert await client.broker.metadata.store.tree("/delegation_token") == {}


async def test_clients_see_their_own_tokens() -> None:
    async with alice() as client:
        mine = (await create(client, "User:carl")).token_id
        assert await describe(client, everybody=True) == [mine]
        assert await describe(client) == []
        assert await describe(client, "User:alice", "User:x") == await describe(client, "User:carl") == [mine]
        assert await describe(client, "User:x") == []
        (token,) = (await client.ask(DescribeDelegationTokenRequest(owners=None))).tokens
        assert (token.principal_name, [renewer.principal_name for renewer in token.renewers]) == ("alice", ["carl"])
        assert token.hmac == hmac.digest(KEY.encode(), mine.encode(), "sha512")


async def test_rights_for_the_tokens_of_others_are_those_of_kafka() -> None:
    async with alice(None, authorizer_class_name=AUTHORIZER, super_users="User:root") as client:
        mine = (await create(client)).token_id

        async def allow(principal: str, operation: Operation, resource: Resource, name: str) -> None:
            log_in(client, "User:root")
            creation = CreateAclsRequestCreation(
                resource_type=resource,
                resource_name=name,
                principal=principal,
                host="*",
                operation=operation,
                permission_type=3,
            )
            assert (await client.ask(CreateAclsRequest(creations=[creation]))).results[0].error_code == 0

        await allow("User:seer", Operation.DESCRIBE, Resource.DELEGATION_TOKEN, mine)
        await allow("User:friend", Operation.DESCRIBE_TOKENS, Resource.USER, "User:alice")
        await allow("User:maker", Operation.CREATE_TOKENS, Resource.USER, "User:alice")
        for principal, seen in (("seer", [mine]), ("friend", [mine]), ("maker", []), ("root", [mine])):
            log_in(client, f"User:{principal}")
            assert await describe(client, everybody=True) == seen
            assert await describe(client, "User:alice") == seen
        log_in(client, "User:friend")
        refused = await create(client, owner="User:alice")
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("alice", "friend")
        log_in(client, "User:maker")
        made = await create(client, owner="User:alice")
        assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "maker")
        # The client that asked for a token of another user sees it, and does not own it.
        assert await describe(client, everybody=True) == [made.token_id]
        assert (await renew(client, made.hmac))[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


@pytest.mark.parametrize("principal", ["Group:admins", "user:alice", ":alice", "User"])
async def test_the_parties_of_a_token_are_users(principal: str) -> None:
    """A token of "Group:admins" would log in as the user "admins"."""
    async with alice() as client:
        wrong = ErrorCode.INVALID_PRINCIPAL_TYPE
        assert (await create(client, principal)).error_code == (0 if principal == "User" else wrong)
        if principal != "User":
            assert (await create(client, owner=principal)).error_code == wrong


async def test_the_parties_of_a_token_are_bounded() -> None:
    async with alice() as client:
        many = [f"User:{number}" for number in range(TOKEN_RENEWERS_MAX + 1)]
        assert (await create(client, *many)).error_code == ErrorCode.INVALID_REQUEST
        assert (await create(client, "User:" + "a" * 2000)).error_code == ErrorCode.INVALID_REQUEST
        assert (await create(client, *many[1:])).error_code == 0


async def test_a_user_cannot_fill_the_metadata_with_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.runtime.controller.token.TOKENS_PER_OWNER_MAX", 2)
    async with alice() as client:
        codes = [(await create(client)).error_code for _ in range(3)]
        assert codes == [0, 0, ErrorCode.POLICY_VIOLATION]
        log_in(client, "User:bob")
        assert (await create(client)).error_code == 0


async def test_expired_tokens_are_removed() -> None:
    async with alice() as client:
        tokens = [await create(client, max_lifetime_ms=lifetime_ms) for lifetime_ms in (1000, 2000)]
        broker = client.broker
        sweep = TokenSweep(broker.controller, broker.image, broker.clock, broker.live_config.current)
        await sweep.remove_expired()
        assert len(broker.image.tokens) == 2
        client.machine.clock.time_ms += 1001
        await sweep.remove_expired()
        assert list(broker.image.tokens) == [tokens[1].token_id]


async def test_the_controller_removes_expired_tokens_by_itself() -> None:
    async with alice(None, **{"delegation_token_expiry_check_interval_ms": "1"}) as client:
        await create(client, max_lifetime_ms=1000)
        changed = asyncio.Event()
        client.broker.metadata.listen(lambda _: changed.set())
        client.machine.clock.time_ms += 1001
        async with asyncio.timeout(60):
            await changed.wait()
        assert client.broker.image.tokens == {}


async def test_tokens_outlive_the_broker() -> None:
    machine = BrokerInMemory()
    async with alice(machine) as client:
        token = await create(client)
        await machine.kill(client.broker)
    async with alice(machine) as client:
        assert await describe(client, everybody=True) == [token.token_id]
        assert (await renew(client, token.hmac))[0] == 0


async def test_no_secret_of_a_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tailrace"):
        async with alice() as client:
            token = await create(client)
            await renew(client, token.hmac)
            await expire(client, token.hmac)
    log = logged(caplog)
    assert f"User:alice created delegation token {token.token_id} of User:alice" in log
    assert f"removed delegation token {token.token_id}" in log
    assert KEY not in log
    assert token.hmac.hex() not in log
    assert repr(token.hmac)[2:-1] not in log
