"""Clients over TLS and with logins: what is written is read, and what is wrong is refused in one clear line."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.security.secure_broker import JAAS, PASSWORD, SESSION_MS, SecureBroker
from tests.unit.security.tls.tls_files import Authority

import tailrace
from tailrace.client.address import parse_addresses
from tailrace.client.connection import Connection
from tailrace.client.error import AuthenticationError, ClientError
from tailrace.client.security.login import PlainLogin
from tailrace.client.security.security import Security
from tailrace.client.setting import ClientSettings
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.security.unsecured_token import make_unsecured

RENEWAL_ATTEMPTS = 5


def trust(secure: SecureBroker) -> dict[str, Any]:
    return {"ssl.truststore.certificates": secure.authority.pem}


def login(mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": JAAS[mechanism].replace(PASSWORD, password)}


def write_and_read(address: str, topic: str, config: dict[str, Any], value: bytes = b"x") -> None:
    """Write a record and read it by the synchronous clients."""
    with tailrace.Admin(address, config=config) as admin:
        admin.create_topics([tailrace.NewTopic(topic, 1, 1)])
    with tailrace.Producer(address, config=config) as producer:
        producer.send(topic, value).result(60)
    reading = {"auto.offset.reset": "earliest", **config}
    with tailrace.Consumer(address, config=reading).subscribe(topic) as consumer:
        assert next(iter(consumer)).value == value


def refusal(address: str, config: dict[str, Any]) -> str:
    with pytest.raises(AuthenticationError) as caught:
        with tailrace.Admin(address, config={"request.timeout.ms": 10_000, **config}) as admin:
            admin.list_topics()
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    return text


@pytest.mark.parametrize("mechanism", JAAS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_mechanism_over_both_protocols(secure: SecureBroker, topic: str, protocol: str, mechanism: str) -> None:
    config = {"security.protocol": protocol, **login(mechanism)} | (trust(secure) if protocol == "SASL_SSL" else {})
    write_and_read(secure.address(protocol), topic, config)


def test_the_names_of_librdkafka(secure: SecureBroker, topic: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(secure.authority.pem)
    alice = secure.authority.issue("alice")
    (tmp_path / "alice.pem").write_text(alice.certificate_pem)
    (tmp_path / "key.pem").write_text(alice.key_pem("key-pw"))
    stores = {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "alice.pem"),
        "ssl.key.location": str(tmp_path / "key.pem"),
        "ssl.key.password": "key-pw",
    }
    write_and_read(secure.address("MUTUAL"), topic, {"security.protocol": "SSL", **stores})
    users = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}
    sasl = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(tmp_path / "ca.pem"), **users}
    write_and_read(secure.address("SASL_SSL"), topic, sasl)


def test_a_large_record_over_tls(secure: SecureBroker, topic: str) -> None:
    value = bytes(range(256)) * 3_500
    write_and_read(secure.address("SSL"), topic, {"security.protocol": "SSL", **trust(secure)}, value)


async def test_the_clients_for_asyncio(secure: SecureBroker, topic: str) -> None:
    address = secure.address("SASL_SSL")
    config = {"security.protocol": "SASL_SSL", **trust(secure), **login("SCRAM-SHA-256")}
    async with tailrace.aio.Producer(address, config=config) as producer:
        await producer.send_and_wait(topic, b"x")
    reading = {"auto.offset.reset": "earliest", **config}
    async with tailrace.aio.Consumer(address, config=reading).subscribe(topic) as consumer:
        assert (await anext(aiter(consumer))).value == b"x"


async def test_a_session_is_renewed_while_requests_flow(secure: SecureBroker, topic: str) -> None:
    """The broker closes a connection whose session has ended; here no record is late, lost or written twice."""
    for attempt in range(RENEWAL_ATTEMPTS):
        try:
            await _write_for_two_sessions(secure.address("BRIEF"), f"{topic}-{attempt}")
        except (ClientError, tailrace.ApiError):
            if attempt == RENEWAL_ATTEMPTS - 1:
                raise
            continue  # a client that a busy machine did not let run renews its session too late
        return


async def _write_for_two_sessions(address: str, topic: str) -> None:
    ends_at_s = time.monotonic() + 2.5 * SESSION_MS / 1000
    config = {"security.protocol": "SASL_PLAINTEXT", **login("SCRAM-SHA-256")}
    reading = {**config, "auto.offset.reset": "earliest"}
    sent = 0
    async with (
        tailrace.aio.Producer(address, config={**config, "linger.ms": 0, "retries": 0}) as producer,
        tailrace.aio.Consumer(address, config=reading).subscribe(topic) as consumer,
    ):
        records = aiter(consumer)
        while time.monotonic() < ends_at_s:
            await asyncio.gather(*[await producer.send(topic, b"%d" % number) for number in range(sent, sent + 10)])
            assert [(await anext(records)).value for _ in range(10)] == [b"%d" % n for n in range(sent, sent + 10)]
            sent += 10


async def test_an_idle_connection_is_renewed_by_its_next_request(secure: SecureBroker) -> None:
    settings = ClientSettings(None, {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN")}, {})
    address = parse_addresses(secure.address("BRIEF"))[0]
    connection = await Connection.open(address, security=settings.make_security())
    try:
        for _ in range(2):
            await asyncio.sleep(SESSION_MS * 1.1 / 1000)  # as long as the session lasts; the broker has ended it then
            assert (await connection.request(MetadataRequest(topics=[]), MetadataResponse)).brokers
    finally:
        await connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(secure: SecureBroker, mechanism: str) -> None:
    config = {"security.protocol": "SASL_PLAINTEXT", **login(mechanism, "wrong-pw-123")}
    text = refusal(secure.address("SASL_PLAINTEXT"), config)
    assert f"refuses the login by {mechanism}" in text
    assert "check the name and the password of user alice" in text
    assert "wrong-pw-123" not in text


def test_an_unknown_user(secure: SecureBroker) -> None:
    users = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "mallory", "sasl.password": "x-pw-123"}
    text = refusal(secure.address("SASL_PLAINTEXT"), {"security.protocol": "SASL_PLAINTEXT", **users})
    assert "check the name and the password of user mallory" in text


def test_an_expired_token(secure: SecureBroker) -> None:
    async def oauth_token() -> str:
        return make_unsecured({"unsecuredLoginStringClaim_sub": "alice"}, time.time() - 7200)

    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_token": oauth_token}
    text = refusal(secure.address("SASL_PLAINTEXT"), config)
    assert "refuses the login by OAUTHBEARER" in text
    assert "check what oauth_token returns" in text


def test_a_mechanism_that_the_broker_does_not_have(secure: SecureBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainLogin, "mechanism", "X-UNKNOWN")
    with pytest.raises(AuthenticationError, match=r"does not offer the SASL mechanism X-UNKNOWN; it offers .*PLAIN"):
        asyncio.run(open_with(secure, PlainLogin("alice", PASSWORD)))


async def open_with(secure: SecureBroker, login: PlainLogin) -> None:
    address = parse_addresses(secure.address("SASL_PLAINTEXT"))[0]
    await Connection.open(address, security=Security(login=login))


@pytest.mark.parametrize(
    ("listener", "host", "trusts", "words"),
    [
        ("SSL", "localhost", False, r"the certificate of localhost:\d+ is not trusted .*ssl.truststore.location"),
        ("SSL", "127.0.0.1", True, r"the certificate of .* is not for the host name 127.0.0.1: connect by a name"),
        ("OLD", "localhost", True, r"the certificate of localhost:\d+ has expired: renew it at the broker"),
    ],
)
def test_certificates_that_the_client_refuses(
    secure: SecureBroker, listener: str, host: str, trusts: bool, words: str
) -> None:
    authority = secure.authority if trusts else Authority("another")
    config = {"security.protocol": "SSL", "ssl.truststore.certificates": authority.pem}
    assert re.search(words, refusal(secure.address(listener, host), config))


def test_the_host_name_need_not_be_checked(secure: SecureBroker) -> None:
    config = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "", **trust(secure)}
    with tailrace.Admin(secure.address("SSL", "127.0.0.1"), config=config) as admin:
        admin.list_topics()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_certificates_that_the_broker_refuses(secure: SecureBroker, version: str) -> None:
    config = {"security.protocol": "SSL", "ssl.enabled.protocols": version, **trust(secure)}
    without = refusal(secure.address("MUTUAL"), config)
    assert "ssl.keystore.location" in without
    stranger = Authority("another").issue("mallory")
    keys = {"ssl.keystore.key": stranger.key_pem(), "ssl.keystore.certificate.chain": stranger.certificate_pem}
    untrusted = refusal(secure.address("MUTUAL"), {**config, **keys})
    assert "the certificate of this client" in untrusted


def problem(address: str, config: dict[str, Any]) -> str:
    """Return the error of a client whose settings do not fit the port."""
    with pytest.raises(ClientError) as caught:
        with tailrace.Admin(address, config={"request.timeout.ms": 10_000, **config}) as admin:
            admin.list_topics()
    return str(caught.value)


def test_a_client_without_tls_at_a_port_with_tls_and_the_reverse(secure: SecureBroker) -> None:
    plain = problem(secure.address("SSL"), {})
    assert "security.protocol" in plain or "was closed" in plain  # if the broker closes without a word
    tls = problem(secure.address("PLAINTEXT"), {"security.protocol": "SSL", **trust(secure)})
    assert "in the TLS handshake; does this port have TLS?" in tls


def test_a_client_without_sasl_at_a_port_with_sasl_and_the_reverse(secure: SecureBroker) -> None:
    assert "if the broker expects a login, set security.protocol" in problem(secure.address("SASL_PLAINTEXT"), {})
    text = refusal(secure.address("PLAINTEXT"), {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN")})
    assert "takes no logins on this port; use security.protocol PLAINTEXT or SSL" in text
