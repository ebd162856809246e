"""SCRAM logins: the RFCs' examples, both sides against each other, and the clients of other projects."""

import base64
import re

import pytest
from aiokafka.conn import ScramAuthenticator
from kafka.net.sasl.scram import SaslMechanismScram
from tests.unit.security.scram.login import DECOYS, Store, credential, log_in, server

from tailrace.security.exchange import AuthenticationFailed, Identity
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.credential import make_credential
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS, SCRAM_SHA_256, SCRAM_SHA_512, Mechanism
from tailrace.security.scram.message import make_nonce
from tailrace.security.scram.server import ScramServer, TokenCredential

SCRAM_SHA_1 = Mechanism("SCRAM-SHA-1", "sha1", 0)

RFC_5802 = (
    SCRAM_SHA_1,
    "QSXCR+Q6sek8bf92",
    "fyko+d2lbbFgONRv9qkxdawL",
    "3rfcNHYJY1ZVvWVs7j",
    "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    SCRAM_SHA_256,
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    "rOprNGfwEbeRWgbNEkqO",
    "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize("example", [RFC_5802, RFC_7677], ids=["RFC 5802", "RFC 7677"])
def test_the_examples_of_the_rfcs(example: tuple[Mechanism, str, str, str, str, str]) -> None:
    mechanism, salt, client_nonce, server_nonce, proof, signature = example
    stored = make_credential(mechanism, "pencil", base64.b64decode(salt), 4096)
    client = ScramClient(mechanism, "user", "pencil", client_nonce)
    broker = ScramServer(mechanism, Store({"user": stored}), DECOYS, server_nonce)

    first = client.start()
    assert first == f"n,,n=user,r={client_nonce}".encode()
    challenge = broker.respond(first)
    assert challenge == f"r={client_nonce}{server_nonce},s={salt},i=4096".encode()
    final = client.respond(challenge)
    assert final == f"c=biws,r={client_nonce}{server_nonce},p={proof}".encode()
    assert broker.identity is None
    verdict = broker.respond(final)
    assert verdict == f"v={signature}".encode()
    assert client.respond(verdict) is None
    assert client.is_complete
    assert broker.identity == Identity("user")


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "José 世界"])
def test_names_and_passwords_of_all_kinds(mechanism: Mechanism, user: str) -> None:
    password = "p,=\u00aa\u2168ß"  # SASLprep would change it, and Kafka does not apply SASLprep
    client = ScramClient(mechanism, user, password, "nonce")
    assert log_in(client, server(Store({user: credential(password, mechanism)}), mechanism)) == Identity(user)


def test_a_delegation_token_logs_in_as_its_owner() -> None:
    stored = TokenCredential(credential("hmac"), "alice", 1_700_000_000_000)
    store = Store({"token-1": credential("password of a user with the same name")}, {"token-1": stored})
    client = ScramClient(SCRAM_SHA_256, "token-1", "hmac", "nonce", is_token=True)
    assert client.start() == b"n,,n=token-1,r=nonce,tokenauth=true"
    assert log_in(client, server(store)) == Identity("alice", 1_700_000_000_000, is_token=True)


def test_a_user_is_no_token() -> None:
    store = Store({"alice": credential("secret")})
    with pytest.raises(AuthenticationFailed, match="delegation token alice does not exist"):
        log_in(ScramClient(SCRAM_SHA_256, "alice", "secret", "nonce", is_token=True), server(store))


def test_random_bytes_make_a_nonce() -> None:
    nonce = make_nonce(bytes(range(0, 256, 5)))
    assert re.fullmatch(r"[A-Za-z0-9_-]{70}", nonce)
    client = ScramClient(SCRAM_SHA_256, "alice", "secret", nonce)
    assert log_in(client, server(Store({"alice": credential("secret")}), nonce=nonce)) == Identity("alice")


# --- clients of other projects


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda mechanism: mechanism.name)
def test_kafka_python_logs_in(mechanism: Mechanism) -> None:
    broker = server(Store({"alice": credential("secret", mechanism)}), mechanism)
    client = SaslMechanismScram(
        sasl_plain_username="alice", sasl_plain_password="secret", sasl_mechanism=mechanism.name
    )
    while not client.is_done():
        client.receive(broker.respond(client.auth_bytes()))
    assert client.is_authenticated()
    assert broker.identity == Identity("alice")


def test_aiokafka_logs_in() -> None:
    broker = server(Store({"a,b=c": credential("secret", SCRAM_SHA_512)}), SCRAM_SHA_512)
    client = ScramAuthenticator(
        loop=None, sasl_plain_username="a,b=c", sasl_plain_password="secret", sasl_mechanism="SCRAM-SHA-512"
    )
    client.process_server_first_message(broker.respond(client.first_message().encode()).decode())
    client.process_server_final_message(broker.respond(client.final_message().encode()).decode())
    assert broker.identity == Identity("a,b=c")


def test_kafka_python_fails_with_a_wrong_password() -> None:
    broker = server(Store({"alice": credential("secret")}))
    client = SaslMechanismScram(
        sasl_plain_username="alice", sasl_plain_password="other", sasl_mechanism="SCRAM-SHA-256"
    )
    client.receive(broker.respond(client.auth_bytes()))
    with pytest.raises(AuthenticationFailed, match="wrong password of alice"):
        broker.respond(client.auth_bytes())
