"""A broker with a listener for each kind of security: Tailrace's, or Apache Kafka with TAILRACE_TEST_TARGET=kafka."""

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.port import free_ports
from tests.unit.security.tls.tls_files import Authority

from tailrace.client.address import parse_addresses
from tailrace.client.connection import Connection
from tailrace.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.testing import Broker

CHECKOUT = Path(__file__).resolve().parents[4]
PASSWORD = "pw-of-alice-7f3a"
SCRAM_SALT = b"salt-of-the-users"
SCRAM_ITERATIONS = 4096
SESSION_MS = 2_500
_MODULE = "org.apache.kafka.common.security"
JAAS = {
    "PLAIN": f'{_MODULE}.plain.PlainLoginModule required username="alice" password="{PASSWORD}";',
    "SCRAM-SHA-256": f'{_MODULE}.scram.ScramLoginModule required username="alice" password="{PASSWORD}";',
    "SCRAM-SHA-512": f'{_MODULE}.scram.ScramLoginModule required username="alice" password="{PASSWORD}";',
    "OAUTHBEARER": f'{_MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
}
_SERVER_JAAS = {
    "plain": f'{_MODULE}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
    "scram-sha-256": f"{_MODULE}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULE}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "OLD": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
}

_UNSECURED = {"tailrace.sasl.oauthbearer.unsecured.enable": "true"}
"""Kafka takes tokens without a signature unless it is told not to."""


@dataclass(frozen=True)
class SecureBroker:
    """The addresses of the listeners by name, and the authority that has signed the broker's certificate."""

    ports: dict[str, int]
    authority: Authority

    def address(self, listener: str, host: str = "localhost") -> str:
        return f"{host}:{self.ports[listener]}"


@contextlib.contextmanager
def start_secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """Start the broker, with the user alice of every mechanism."""
    authority = Authority()
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
    properties = _properties(folder, authority, ports)
    is_kafka = os.environ.get("TAILRACE_TEST_TARGET") == "kafka"
    broker = SecureBroker(ports, authority)
    with running_kafka(properties) if is_kafka else Broker(properties | _UNSECURED):
        asyncio.run(_add_users(broker))
        yield broker


@contextlib.contextmanager
def running_kafka(properties: dict[str, str]) -> Iterator[None]:
    """Run Apache Kafka during the block; the test is skipped if it cannot be had."""
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    from bench.kafka import ApacheKafka, Unavailable

    (port,) = free_ports(1)
    properties = {
        **properties,
        "listeners": f"{properties['listeners']},CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map": f"{properties['listener.security.protocol.map']},CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
    }
    try:
        kafka = ApacheKafka(properties).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        yield
    finally:
        kafka.stop()


def _properties(folder: Path, authority: Authority, ports: dict[str, int]) -> dict[str, str]:
    (folder / "ca.pem").write_text(authority.pem)
    certificate = authority.issue("broker").write_pem(folder / "broker.pem")
    expired = authority.issue("broker", expired=True).write_pem(folder / "expired.pem")
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in _LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.old.ssl.keystore.type": "PEM",
        "listener.name.old.ssl.keystore.location": expired,
        "sasl.enabled.mechanisms": ",".join(JAAS),
        "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
    }
    for listener in ("sasl_plaintext", "sasl_ssl", "brief"):
        for mechanism, text in _SERVER_JAAS.items():
            properties[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = text
    return properties


async def _add_users(broker: SecureBroker) -> None:
    upsertions = [
        AlterUserScramCredentialsRequestUpsertion(
            name="alice",
            mechanism=mechanism.code,
            iterations=SCRAM_ITERATIONS,
            salt=SCRAM_SALT,
            salted_password=hashlib.pbkdf2_hmac(mechanism.hash_name, PASSWORD.encode(), SCRAM_SALT, SCRAM_ITERATIONS),
        )
        for mechanism in SCRAM_MECHANISMS.values()
    ]
    connection = await Connection.open(parse_addresses(broker.address("PLAINTEXT"))[0])
    try:
        for upsertion in upsertions:  # Kafka takes one credential of a user in a request
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
            reply = await connection.request(request, AlterUserScramCredentialsResponse)
            assert [result for result in reply.results if result.error_code] == []
    finally:
        await connection.close()
