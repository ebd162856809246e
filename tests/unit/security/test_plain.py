"""SASL/PLAIN: users, messages, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.plain import SaslMechanismPlain

from tailrace.security.exchange import AuthenticationFailed, Identity
from tailrace.security.jaas import parse_jaas
from tailrace.security.plain import PlainClient, PlainServer, PlainUsers, users_of_login, users_of_properties

USERS = PlainUsers({"alice": "secret", "zoë": "pässword"})


def refused(message: bytes) -> str:
    broker = PlainServer(USERS)
    with pytest.raises(AuthenticationFailed) as caught:
        broker.respond(message)
    assert caught.value.public_text == "Authentication failed: Invalid username or password"
    assert broker.identity is None
    return caught.value.reason


@pytest.mark.parametrize(("user", "password"), [("alice", "secret"), ("zoë", "pässword")])
def test_a_client_logs_in(user: str, password: str) -> None:
    broker, client = PlainServer(USERS), PlainClient(user, password)
    answer = broker.respond(client.start())
    client.respond(answer)
    assert answer == b""
    assert client.is_complete
    assert broker.identity == Identity(user)


def test_kafka_python_logs_in_with_itself_as_authorization_id() -> None:
    broker = PlainServer(USERS)
    client = SaslMechanismPlain(sasl_plain_username="alice", sasl_plain_password="secret")
    assert client.auth_bytes() == b"alice\0alice\0secret"
    client.receive(broker.respond(client.auth_bytes()))
    assert client.is_authenticated()
    assert broker.identity == Identity("alice")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "1 parts"),
        (b"alice\0secret", "2 parts"),
        (b"\0alice\0secret\0", "4 parts"),
        (b"\0\0alice\0secret", "4 parts"),
        (b"\0alice\0sec\0ret", "4 parts"),
        (b"\0\0secret", "user name is empty"),
        (b"\0alice\0", "password is empty"),
        (b"\0alice\0other", "wrong password of user alice"),
        (b"\0alice\0secret ", "wrong password of user alice"),
        (b"\0Alice\0secret", "unknown user Alice"),
        (b"\0bob\0secret", "unknown user bob"),
        (b"bob\0alice\0secret", "alice may not act as bob"),
        (b"\0alice\0\xff", "UTF-8"),
        (b"\0alice\0" + b"x" * 9000, "9007 bytes"),
    ],
)
def test_refusals_have_one_public_text(message: bytes, reason: str) -> None:
    assert reason in refused(message)
    assert "secret" not in refused(message)


def test_there_is_one_message() -> None:
    broker = PlainServer(USERS)
    broker.respond(b"\0alice\0secret")
    with pytest.raises(AuthenticationFailed, match="second"):
        broker.respond(b"\0alice\0secret")


def test_a_client_refuses_an_answer_with_content() -> None:
    client = PlainClient("alice", "secret")
    with pytest.raises(AuthenticationFailed):
        client.respond(b"x")
    assert not client.is_complete


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("x", ""), ("a\0b", "x"), ("x", "a\0b")])
def test_names_and_passwords_that_cannot_be_sent(user: str, password: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        PlainClient(user, password)
    with pytest.raises(ValueError, match="NUL"):
        PlainUsers({user: password})


def test_users_of_jaas() -> None:
    text = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    users = users_of_login(parse_jaas(text + 'username="admin" password="p" user_alice="secret" user_user_="x";'))
    assert len(users) == 2
    assert users.is_password("alice", "secret")
    assert users.is_password("user_", "x")
    assert not users.is_password("admin", "p")


def test_users_of_a_properties_file() -> None:
    users = users_of_properties("# users\nalice=secret\nbob : p=q\n")
    assert users.is_password("alice", "secret")
    assert users.is_password("bob", "p=q")
    with pytest.raises(ValueError, match="line 2: user 'alice' is given twice"):
        users_of_properties("alice=secret\nalice=other\n")


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(message: bytes) -> None:
    refused(message)
