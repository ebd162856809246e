"""The broker that the security fuzzer attacks: its listeners, users, keys and tokens."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from tests.clients.security.token import AUDIENCE, ISSUER, TokenIssuer
from tests.faults.security_corpus import (
    CANARY_PASSWORD,
    CANARY_USER,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SCRAM_PASSWORD,
    SCRAM_USER,
    STORE_PASSWORD,
    TOKEN_KEY,
)
from tests.faults.tls_corpus import Handshake
from tests.unit.security.tls.tls_files import Authority

from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.record import ConfigKind
from tailrace.security.scram.credential import format_credential, make_credential
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.server.server import Server

_HELLO_COUNT = 50


class Ground:
    """The files and the config of a broker, and what its clients have."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        self.issued = authority.issue("localhost")
        self.keystore = Path(self.issued.write_pkcs12(folder / "broker.p12", STORE_PASSWORD))
        (folder / "ca.pem").write_text(authority.pem)
        tokens, stranger = TokenIssuer(), TokenIssuer()
        tokens.write(folder / "keys.json")
        self.key_document = tokens.document
        self.refused_tokens = (
            tokens.token("alice", audience="another"),
            tokens.token("alice", lifetime_s=-1000),
            stranger.token("alice"),
        )
        """Tokens that are well-formed and wrong in one way each."""
        (folder / "users").write_text(f"{PLAIN_USER}={PLAIN_PASSWORD}\npoor=poor\n")
        self.client_contexts = [_client(folder / "ca.pem", version) for version in ("TLSv1_2", "TLSv1_3")]
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.hellos = [
            Handshake(server, context).client_flight() for context in self.client_contexts for _ in range(_HELLO_COUNT)
        ]
        """What clients send first."""
        self.config = BrokerConfig(_options(folder, self.keystore))

    async def add_users(self, server: Server) -> None:
        """Give the users of SCRAM their passwords."""
        for user, password in ((SCRAM_USER, SCRAM_PASSWORD), (CANARY_USER, CANARY_PASSWORD)):
            made = {
                name: format_credential(make_credential(mechanism, password, b"salt of the user", 4096))
                for name, mechanism in SCRAM_MECHANISMS.items()
            }

            def change(_: Mapping[str, str], made: Mapping[str, str] = made) -> Mapping[str, str]:
                return made

            await server.broker.controller.write_config(ConfigKind.USER, user, change, validate_only=False)


def _client(trust: Path, version: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(trust))
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    return context


def _options(folder: Path, keystore: Path) -> dict[str, str]:
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("INTERNAL", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        "listener.security.protocol.map": (
            "INTERNAL:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "log.segment.bytes": str(1 << 20),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "tailrace.sasl.plain.users.file": str(folder / "users"),
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "delegation.token.secret.key": TOKEN_KEY,
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "requested",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{PLAIN_USER};User:{CANARY_USER};User:ANONYMOUS",
    }
