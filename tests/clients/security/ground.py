"""The broker that secured clients meet: its listeners, users, certificates and tokens."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.security.access import Access
from tests.clients.security.certificate import Files, Issuer
from tests.clients.security.secure_broker import SecureBroker
from tests.clients.security.token import AUDIENCE, ISSUER, TokenIssuer


class User(NamedTuple):
    """A user with a password."""

    name: str
    password: str


PLAIN_USER = User("alice", "alice-knows-7301")
SCRAM_USER = User("bob", "bob-knows-8842")
BEARER = "carol"
CERTIFICATE_USER = "dora"

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER")
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "MUTUAL": "SSL",
    "UNSECURED": "SASL_SSL",
    "OTHER_HOST": "SSL",
    "EXPIRED": "SSL",
}


@dataclass(frozen=True)
class Ground:
    """A broker and what is right and wrong to show it."""

    broker: SecureBroker
    issuer: Issuer
    stranger: Issuer
    client: Files
    tokens: TokenIssuer
    folder: Path

    def access(self, listener: str, **fields: Any) -> Access:
        """The way to a listener, with all that every client needs there."""
        return Access(
            **{
                "bootstrap": self.broker.address(listener),
                "protocol": _LISTENERS[listener],
                "client_id": f"client-{uuid.uuid4().hex[:8]}",
                "trust": str(self.issuer.trust),
                **fields,
            }
        )

    def login(self, listener: str, mechanism: str, **fields: Any) -> Access:
        """The way to a listener with the right user of a mechanism."""
        right = {
            "PLAIN": {"user": PLAIN_USER.name, "password": PLAIN_USER.password},
            "OAUTHBEARER": {"user": BEARER, "token": self.tokens.token(BEARER)},
        }.get(mechanism, {"user": SCRAM_USER.name, "password": SCRAM_USER.password})
        return self.access(listener, mechanism=mechanism, **{**right, **fields})

    def certified(self, listener: str, files: Files | None = None) -> Access:
        """The way to a listener with a client's certificate."""
        shown = files or self.client
        return self.access(listener, certificate=str(shown.chain), key=str(shown.key), both=str(shown.both))


@contextmanager
def open_ground(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Ground]:
    """Start the broker, with some more options."""
    issuer, stranger = Issuer(folder, "authority"), Issuer(folder, "stranger")
    tokens = TokenIssuer()
    tokens.write(folder / "keys.json")
    users = folder / "users.properties"
    users.write_text(f"{PLAIN_USER.name}={PLAIN_USER.password}\n")
    options = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in _LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _LISTENERS.items()),
        "ssl.keystore.location": str(issuer.sign("broker").both),
        "ssl.truststore.location": str(issuer.trust),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),O=Tests$/$1/,DEFAULT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.other_host.ssl.keystore.location": str(issuer.sign("elsewhere", host="elsewhere.example").both),
        "listener.name.expired.ssl.keystore.location": str(issuer.sign("late", is_expired=True).both),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "tailrace.sasl.plain.users.file": str(users),
        "listener.name.sasl_plaintext.sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "listener.name.sasl_ssl.sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.unsecured.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.unsecured.tailrace.sasl.oauthbearer.unsecured.enable": "true",
        **(more or {}),
    }
    with SecureBroker(options, folder / "data") as broker:
        broker.set_scram_password(*SCRAM_USER)
        yield Ground(broker, issuer, stranger, issuer.sign(CERTIFICATE_USER), tokens, folder)
