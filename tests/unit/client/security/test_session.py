"""The renewal of a login: requests wait for it, and what comes of it reaches them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tailrace.client.address import Address
from tailrace.client.error import AuthenticationError
from tailrace.client.security.login import PlainLogin, ScramLogin
from tailrace.client.security.session import Session
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

ADDRESS = Address("broker", 9092)


class Broker:
    """Answers logins, and counts them."""

    def __init__(self, lifetime_ms: int = 0, error: ErrorCode = ErrorCode.NONE) -> None:
        self.lifetime_ms = lifetime_ms
        self.error = error
        self.login_count = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def ask(self, request: Any, reply_type: Callable[..., Any]) -> Any:
        await self.answers.wait()
        if reply_type is SaslHandshakeResponse:
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        self.login_count += 1
        return SaslAuthenticateResponse(error_code=self.error, session_lifetime_ms=self.lifetime_ms)


def session(broker: Broker) -> Session:
    return Session(PlainLogin("alice", "pw"), ADDRESS, broker.ask)


@pytest.mark.virtual_time
async def test_a_session_without_a_limit_is_not_renewed() -> None:
    broker = Broker()
    logged_in = session(broker)
    await logged_in.begin()
    await asyncio.sleep(1e6)
    await logged_in.renew_if_due()
    assert broker.login_count == 1


@pytest.mark.virtual_time
async def test_a_session_is_renewed_when_most_of_its_time_has_passed() -> None:
    broker = Broker(lifetime_ms=10_000)
    logged_in = session(broker)
    await logged_in.begin()
    await asyncio.sleep(8.4)
    await logged_in.renew_if_due()
    assert broker.login_count == 1
    await asyncio.sleep(1.2)
    await asyncio.gather(*[logged_in.renew_if_due() for _ in range(5)])
    assert broker.login_count == 2


@pytest.mark.virtual_time
async def test_a_caller_that_gives_up_does_not_end_the_renewal() -> None:
    broker = Broker(lifetime_ms=1_000)
    logged_in = session(broker)
    await logged_in.begin()
    await asyncio.sleep(1)
    broker.answers.clear()
    one, other = (asyncio.ensure_future(logged_in.renew_if_due()) for _ in range(2))
    await asyncio.sleep(0.1)
    one.cancel()
    broker.answers.set()
    await other
    assert broker.login_count == 2


@pytest.mark.virtual_time
async def test_a_refused_renewal_reaches_every_caller() -> None:
    broker = Broker(lifetime_ms=1_000)
    logged_in = session(broker)
    await logged_in.begin()
    await asyncio.sleep(1)
    broker.error = ErrorCode.SASL_AUTHENTICATION_FAILED
    outcomes = await asyncio.gather(*[logged_in.renew_if_due() for _ in range(3)], return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {AuthenticationError}


async def test_the_stretched_password_is_kept_for_the_next_login() -> None:
    login = ScramLogin("SCRAM-SHA-256", "alice", "pw")
    answer = b"s=c2FsdA==,i=4096"
    for _ in range(2):
        exchange = await login.begin()
        nonce = exchange.start().rpartition(b"r=")[2]
        assert await login.respond(exchange, b"r=" + nonce + b"x," + answer) is not None
    assert len(login._salted) == 1
