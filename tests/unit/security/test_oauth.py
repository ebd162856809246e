"""SASL/OAUTHBEARER: the messages, and the exchange with a refused token."""

import json
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth

from tailrace.security.bearer_token import Token, TokenRefused
from tailrace.security.exchange import AuthenticationFailed, Identity
from tailrace.security.gs2 import MalformedMessage
from tailrace.security.oauth import OAuthClient, OAuthServer, parse_client_first

PUBLIC_TEXT = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"


def check(token: str) -> Token:
    if token == "good":
        return Token("alice", 1_700_000_000_000, frozenset())
    if token == "narrow":
        raise TokenRefused("a scope is missing", status="insufficient_scope", scope="kafka read")
    raise TokenRefused("the token expired")


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of kafka-python."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"traceId": "123 4"}


def test_the_message_of_a_client() -> None:
    client = OAuthClient("to.k-e_n==", {"logicalCluster": "lkc-1", "pool": "a b"})
    assert client.start() == b"n,,\x01auth=Bearer to.k-e_n==\x01logicalCluster=lkc-1\x01pool=a b\x01\x01"
    assert OAuthClient("token").start() == b"n,,\x01auth=Bearer token\x01\x01"


def test_an_example_of_the_rfc() -> None:
    first = parse_client_first(
        b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer vF9dft4qmT==\x01\x01"
    )
    assert first == ("user@example.com", "vF9dft4qmT==", {"host": "server.example.com", "port": "143"})
    assert "vF9" not in repr(first)


@pytest.mark.parametrize("authorization", [b"bearer good", b"BEARER   good"])
def test_the_scheme_has_any_case(authorization: bytes) -> None:
    assert parse_client_first(b"n,,\x01auth=" + authorization + b"\x01\x01").token == "good"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "GS2 header"),
        (b"\x01", "GS2 header"),
        (b"n,,", "two separators"),
        (b"n,,\x01", "two separators"),
        (b"n,,\x01\x01", "two separators"),
        (b"n,,\x01\x01\x01", "list of names"),
        (b"n,,\x01auth=Bearer good\x01", "two separators"),
        (b"n,,auth=Bearer good\x01\x01", "two separators"),
        (b"n,,\x01auth=Bearer good\x01\x01\x01", "list of names"),
        (b"n,,\x01auth=Bearer good\x01x\x01\x01", "list of names"),
        (b"n,,\x01auth=Bearer good\x01x1=y\x01\x01", "list of names"),
        (b"n,,\x01auth=Bearer good\x01x=\x01\x01", "list of names"),
        (b"n,,\x01auth=Bearer good\x01auth=Bearer bad\x01\x01", "auth is given twice"),
        (b"n,,\x01x=y\x01\x01", "auth is missing"),
        (b"n,,\x01auth=\x01\x01", "list of names"),
        (b"n,,\x01auth=Bearer\x01\x01", "auth is missing or"),
        (b"n,,\x01auth=Bearer go od\x01\x01", "auth is missing or"),
        (b"n,,\x01auth=Basic good\x01\x01", "not Bearer"),
        (b"p=tls-unique,,\x01auth=Bearer good\x01\x01", "channel binding"),
        (b"n,a=bo=b,\x01auth=Bearer good\x01\x01", "neither =2C nor =3D"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "UTF-8"),
        (b"n,,\x01auth=Bearer " + b"x" * 600_000 + b"\x01\x01", "at most"),
    ],
)
def test_malformed_messages(message: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        parse_client_first(message)
    with pytest.raises(AuthenticationFailed, match="malformed OAUTHBEARER message") as caught:
        OAuthServer(check).respond(message)
    assert caught.value.public_text == PUBLIC_TEXT
    assert "good" not in caught.value.reason


# --- the exchange


def test_a_good_token() -> None:
    broker, client = OAuthServer(check), OAuthClient("good", {"x": "y"})
    assert client.respond(broker.respond(client.start())) is None
    assert client.is_complete
    assert broker.identity == Identity("alice", 1_700_000_000_000, extensions={"x": "y"})
    with pytest.raises(AuthenticationFailed, match="in the state COMPLETE"):
        broker.respond(client.start())


def test_a_refused_token_is_acknowledged_and_fails() -> None:
    broker, client = OAuthServer(check), OAuthClient("narrow")
    answer = broker.respond(client.start())
    assert json.loads(answer) == {"status": "insufficient_scope", "scope": "kafka read"}
    assert client.respond(answer) == b"\x01"
    with pytest.raises(AuthenticationFailed, match="a scope is missing") as caught:
        broker.respond(b"\x01")
    assert caught.value.public_text == answer.decode()
    assert broker.identity is None
    assert not client.is_complete
    with pytest.raises(AuthenticationFailed, match="insufficient_scope"):
        client.respond(b"")


class Claims(dict[str, str]):
    """The claims of a token, which can be watched."""


def test_a_refusal_holds_nothing_of_the_token() -> None:
    """The error was kept with its frames until the client acknowledged it: 5.9 MB for a token of 360 KB."""
    watched: list[weakref.ref[Claims]] = []

    def refuse(token: str) -> Token:
        claims = Claims(token=token)
        watched.append(weakref.ref(claims))
        try:
            raise ValueError(claims)
        except ValueError:
            raise TokenRefused("the token expired") from None

    broker = OAuthServer(refuse)
    assert broker.respond(OAuthClient("bad").start()) == b'{"status": "invalid_token"}'
    assert watched[0]() is None
    assert broker.refusal_reason == "the token expired"


def test_another_token_after_a_refused_one_is_refused() -> None:
    broker = OAuthServer(check)
    assert broker.respond(OAuthClient("bad").start()) == b'{"status": "invalid_token"}'
    with pytest.raises(AuthenticationFailed, match="expired"):
        broker.respond(OAuthClient("good").start())
    assert broker.identity is None


def test_the_authorization_id_is_the_principal() -> None:
    broker = OAuthServer(check)
    assert broker.respond(b"n,a=alice,\x01auth=Bearer good\x01\x01") == b""
    with pytest.raises(AuthenticationFailed, match="alice may not act as bob") as caught:
        OAuthServer(check).respond(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert caught.value.public_text == PUBLIC_TEXT


def test_kafka_python_logs_in() -> None:
    broker, client = OAuthServer(check), SaslMechanismOAuth(sasl_oauth_token_provider=Provider("good"))
    client.receive(broker.respond(client.auth_bytes()))
    assert client.is_authenticated()
    assert broker.identity == Identity("alice", 1_700_000_000_000, extensions={"traceId": "123 4"})


def test_kafka_python_acknowledges_a_refusal() -> None:
    broker, client = OAuthServer(check), SaslMechanismOAuth(sasl_oauth_token_provider=Provider("bad"))
    client.receive(broker.respond(client.auth_bytes()))
    with pytest.raises(AuthenticationFailed, match="the token expired"):
        broker.respond(client.auth_bytes())


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}),
        ("a b", {}),
        ("a\x01b", {}),
        ("t", {"auth": "x"}),
        ("t", {"a1": "x"}),
        ("t", {"a": ""}),
        ("t", {"a": "\x01"}),
    ],
)
def test_a_client_refuses_what_it_cannot_send(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"token|extension"):
        OAuthClient(token, extensions)


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthServer(check).respond(message)
