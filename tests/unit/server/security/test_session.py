"""Which requests may come on a listener with SASL, and how long a login lasts."""

import pytest
from tests.unit.sample import ManualClock

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.security.exchange import AuthenticationFailed, Identity, ServerExchange
from tailrace.server.connection import ConnectionClosed
from tailrace.server.security.mechanism import Mechanisms
from tailrace.server.security.session import Answer, SaslSession


class Scripted:
    """A mechanism that takes `steps` tokens and then knows the user that the last one names; `bad` is refused."""

    def __init__(self, steps: int = 1, expires_at_ms: int | None = None) -> None:
        self.steps = steps
        self.expires_at_ms = expires_at_ms

    def begin(self, *, is_again: bool) -> ServerExchange:
        return ScriptedExchange(self)

    async def respond(self, exchange: ServerExchange, token: bytes) -> bytes:
        return exchange.respond(token)


class ScriptedExchange:
    def __init__(self, source: Scripted) -> None:
        self.identity: Identity | None = None
        self._source = source
        self._left = source.steps

    def respond(self, message: bytes) -> bytes:
        if message == b"bad":
            raise AuthenticationFailed("wrong password", "no")
        self._left -= 1
        if not self._left:
            self.identity = Identity(message.decode(), self._source.expires_at_ms)
        return b"answer to " + message


class Entrance:
    """A session, and what it told the connection."""

    def __init__(self, source: Scripted | None = None, reauthentication_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.users: list[str] = []
        self.refusals: list[tuple[str, str]] = []
        self.mechanisms = Mechanisms({"A": source or Scripted(), "B": Scripted()}, {"A": reauthentication_ms})
        self.session = SaslSession(
            lambda: self.mechanisms,
            self.clock,
            lambda identity: self.users.append(identity.name),
            lambda mechanism, reason: self.refusals.append((mechanism, reason)),
            0.0,
        )

    async def log_in(self, user: bytes = b"alice", mechanism: str = "A") -> Answer:
        self.session.check(ApiKey.SASL_HANDSHAKE)
        self.session.handshake(mechanism, 1)
        self.session.check(ApiKey.SASL_AUTHENTICATE)
        return await self.session.respond(user)


async def test_a_login() -> None:
    entrance = Entrance(Scripted(steps=2))
    session = entrance.session
    session.check(ApiKey.API_VERSIONS)
    session.check(ApiKey.SASL_HANDSHAKE)
    session.handshake("A", 1)
    assert await session.respond(b"hello") == Answer(b"answer to hello")
    assert (session.is_complete, entrance.users) == (False, [])
    assert await session.respond(b"alice") == Answer(b"answer to alice", 0)
    assert session.is_complete
    assert entrance.users == ["alice"]
    for key in (ApiKey.PRODUCE, ApiKey.API_VERSIONS, ApiKey.METADATA):
        session.check(key)


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE])
def test_nothing_comes_before_the_handshake(key: ApiKey) -> None:
    session = Entrance().session
    with pytest.raises(ConnectionClosed, match=f"{key.name} came before the client had logged in"):
        session.check(key)
    with pytest.raises(ConnectionClosed):
        session.check(ApiKey.SASL_HANDSHAKE)  # the connection is over


def test_versions_are_told_once_before_the_login() -> None:
    session = Entrance().session
    session.check(ApiKey.API_VERSIONS)
    session.check(ApiKey.API_VERSIONS)  # the first was refused, because of its version
    session.tell_versions()
    session.check(ApiKey.SASL_HANDSHAKE)
    with pytest.raises(ConnectionClosed, match="API_VERSIONS came before the client had logged in"):
        session.check(ApiKey.API_VERSIONS)


async def test_versions_are_told_as_often_as_a_client_asks_after_its_login() -> None:
    entrance = Entrance()
    await entrance.log_in()
    for _ in range(3):
        entrance.session.check(ApiKey.API_VERSIONS)
        entrance.session.tell_versions()
    entrance.session.check(ApiKey.PRODUCE)


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE])
def test_only_tokens_come_after_the_handshake(key: ApiKey) -> None:
    session = Entrance().session
    session.handshake("A", 1)
    with pytest.raises(ConnectionClosed):
        session.check(key)


def test_a_key_that_kafka_does_not_have_is_closed_on() -> None:
    with pytest.raises(ConnectionClosed, match="API key 999 came before"):
        Entrance().session.check(999)


def test_a_mechanism_that_is_not_enabled() -> None:
    session = Entrance().session
    with pytest.raises(ApiError) as caught:
        session.handshake("GSSAPI", 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert session.mechanism_names == ["A", "B"]
    with pytest.raises(ConnectionClosed):
        session.check(ApiKey.SASL_HANDSHAKE)


async def test_a_refused_token_ends_the_login() -> None:
    entrance = Entrance()
    with pytest.raises(AuthenticationFailed):
        await entrance.log_in(b"bad")
    assert not entrance.session.is_complete
    for key in (ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE, ApiKey.PRODUCE):
        with pytest.raises(ConnectionClosed):
            entrance.session.check(key)


async def test_bare_tokens_follow_version_0_of_the_handshake() -> None:
    session = Entrance().session
    session.handshake("A", 0)
    assert session.takes_bare_tokens
    await session.respond(b"alice")
    assert not session.takes_bare_tokens


async def test_a_login_without_a_lifetime_is_not_repeated() -> None:
    entrance = Entrance()
    assert (await entrance.log_in()).lifetime_ms == 0
    entrance.clock.time_ms += 10**9
    entrance.session.check(ApiKey.PRODUCE)
    with pytest.raises(ApiError) as caught:
        entrance.session.handshake("A", 1)
    assert caught.value.code is ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(ApiError):
        await entrance.session.respond(b"alice")


async def test_a_login_has_to_be_repeated_in_time() -> None:
    entrance = Entrance(reauthentication_ms=5000)
    assert (await entrance.log_in()).lifetime_ms == 5000
    entrance.clock.time_ms += 4999
    entrance.session.check(ApiKey.PRODUCE)
    entrance.clock.time_ms += 1
    with pytest.raises(ConnectionClosed, match="the lifetime of its login is over"):
        entrance.session.check(ApiKey.PRODUCE)
    assert (await entrance.log_in()).lifetime_ms == 5000
    entrance.session.check(ApiKey.PRODUCE)


async def test_a_login_is_repeated_after_a_second_at_the_earliest() -> None:
    entrance = Entrance(reauthentication_ms=5000)
    await entrance.log_in()
    entrance.clock.time_ms += 999
    with pytest.raises(ApiError) as caught:
        entrance.session.handshake("A", 1)
    assert caught.value.code is ErrorCode.ILLEGAL_SASL_STATE
    entrance.session.check(ApiKey.PRODUCE)
    entrance.clock.time_ms += 1
    await entrance.log_in()


@pytest.mark.parametrize(
    ("expires_in_ms", "reauthentication_ms", "lifetime_ms"),
    [(3000, 0, 3000), (3000, 5000, 3000), (9000, 5000, 5000), (-1, 5000, 0)],
)
async def test_a_login_ends_with_its_token(expires_in_ms: int, reauthentication_ms: int, lifetime_ms: int) -> None:
    source = Scripted()
    entrance = Entrance(source, reauthentication_ms)
    source.expires_at_ms = entrance.clock.now_ms() + expires_in_ms
    assert (await entrance.log_in()).lifetime_ms == lifetime_ms
    entrance.clock.time_ms += lifetime_ms
    with pytest.raises(ConnectionClosed):
        entrance.session.check(ApiKey.FETCH)


async def test_a_login_is_repeated_with_the_present_mechanisms() -> None:
    """The session kept the mechanisms of the time when the connection was opened."""
    entrance = Entrance(reauthentication_ms=5000)
    await entrance.log_in()
    entrance.clock.time_ms += 2000
    entrance.mechanisms = Mechanisms({"A": Scripted(), "C": Scripted()}, {"A": 9000})
    assert (await entrance.log_in()).lifetime_ms == 9000
    assert entrance.session.mechanism_names == ["A", "C"]


async def test_nobody_becomes_somebody_else() -> None:
    entrance = Entrance(reauthentication_ms=5000)
    await entrance.log_in()
    entrance.clock.time_ms += 2000
    with pytest.raises(AuthenticationFailed, match="from alice to bob") as caught:
        await entrance.log_in(b"bob")
    assert caught.value.public_text == "Cannot change principals during re-authentication."
    assert entrance.users == ["alice"]
    with pytest.raises(ConnectionClosed):
        entrance.session.check(ApiKey.PRODUCE)


async def test_a_login_is_repeated_by_the_same_mechanism() -> None:
    entrance = Entrance(reauthentication_ms=5000)
    await entrance.log_in()
    entrance.clock.time_ms += 2000
    with pytest.raises(ApiError) as caught:
        entrance.session.handshake("B", 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
