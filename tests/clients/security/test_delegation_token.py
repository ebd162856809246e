"""Delegation tokens: a user who has logged in makes one, and its holder logs in with it through SCRAM."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import TypeVar

import pytest
from tests.clients import matrix, program
from tests.clients.security import use_tailrace
from tests.clients.security.access import Access
from tests.clients.security.ground import PLAIN_USER, Ground, open_ground
from tests.clients.security.outcome import Refused, Use
from tests.clients.security.use_program import use_program

from tailrace.client.cluster import Cluster
from tailrace.client.setting import AdminSettings
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

R = TypeVar("R", bound=Message)
COUNT = 3


@pytest.fixture(scope="module")
def delegating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A broker with delegation tokens."""
    more = {"delegation.token.secret.key": "the secret of all brokers"}
    with open_ground(tmp_path_factory.mktemp("delegating"), more) as opened:
        yield opened


def ask(access: Access, request: Message, reply_type: type[R]) -> R:
    """Send one request as the user of an access."""

    async def send() -> R:
        settings = AdminSettings(access.bootstrap, use_tailrace.config(access), {})
        async with Cluster(access.bootstrap, security=settings.make_security()) as cluster:
            return await cluster.request_any(request, reply_type)

    return asyncio.run(send())


def create(ground: Ground) -> CreateDelegationTokenResponse:
    access = ground.login("SASL_SSL", "PLAIN")
    made = ask(access, CreateDelegationTokenRequest(max_lifetime_ms=-1), CreateDelegationTokenResponse)
    assert made.error_code == 0
    return made


def access_by(ground: Ground, made: CreateDelegationTokenResponse, mechanism: str = "SCRAM-SHA-256") -> Access:
    """The way in for the holder of a token: its id is the user, and its HMAC the password."""
    return ground.access(
        "SASL_SSL",
        mechanism=mechanism,
        user=made.token_id,
        password=base64.b64encode(made.hmac).decode(),
        is_delegation_token=True,
    )


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(use_tailrace.use, id="tailrace"),
        *(
            pytest.param(
                use_program(made),
                id=name.replace(" ", "-"),
                marks=[pytest.mark.slow, pytest.mark.needs(group)],
            )
            for name, made, group in (
                (
                    "kafka-clients 3.9",
                    program.java_with_tokens(matrix.entry("kafka-clients 3.9").version, "Login"),
                    "java",
                ),
                ("kafka-clients 4", program.java_with_tokens(matrix.entry("kafka-clients 4").version, "Login"), "java"),
                ("franz-go", program.go("login"), "go"),
            )
        ),
    ],
)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_login_with_a_token(delegating: Ground, use: Use, mechanism: str, topic: str) -> None:
    """The holder is the owner of the token to the broker, until the token is expired."""
    made = create(delegating)
    access = access_by(delegating, made, mechanism)
    assert use(access, topic, COUNT, 0).values == [str(index) for index in range(COUNT)]
    assert delegating.broker.principals[access.client_id] == {f"User:{PLAIN_USER.name}"}
    owner = delegating.login("SASL_SSL", "PLAIN")
    expire = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    assert ask(owner, expire, ExpireDelegationTokenResponse).error_code == 0
    since = len(delegating.broker.log.lines)
    with pytest.raises(Refused, match="invalid credentials with SASL mechanism"):
        use(access, topic, 1, 0)
    line = delegating.broker.log.wait_for("refused the login", f"by {mechanism}", since=since)
    assert access.password not in line


def test_token_cannot_make_a_token(delegating: Ground) -> None:
    access = access_by(delegating, create(delegating))
    made = ask(access, CreateDelegationTokenRequest(max_lifetime_ms=-1), CreateDelegationTokenResponse)
    assert made.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_token_without_its_extension(delegating: Ground, topic: str) -> None:
    """A token is no user: without `tokenauth` its id is unknown."""
    access = access_by(delegating, create(delegating))
    as_user = Access(**{**access.__dict__, "is_delegation_token": False})
    with pytest.raises(Refused, match="invalid credentials"):
        use_tailrace.use(as_user, topic, 1, 0)
