"""Logins of the SCRAM tests, without a broker."""

from tailrace.security.exchange import Identity
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.credential import Credential, Decoys, make_credential
from tailrace.security.scram.mechanism import SCRAM_SHA_256, Mechanism
from tailrace.security.scram.server import ScramServer, TokenCredential

DECOYS = Decoys(b"secret of the process")
SERVER_NONCE = "3rfcNHYJY1ZVvWVs7j"


class Store:
    """Credentials in memory."""

    def __init__(self, users: dict[str, Credential], tokens: dict[str, TokenCredential] | None = None) -> None:
        self.users = users
        self.tokens = tokens or {}

    def user(self, name: str) -> Credential | None:
        return self.users.get(name)

    def token(self, token_id: str) -> TokenCredential | None:
        return self.tokens.get(token_id)


def credential(password: str, mechanism: Mechanism = SCRAM_SHA_256) -> Credential:
    return make_credential(mechanism, password, b"salt of the user", 4096)


def server(store: Store, mechanism: Mechanism = SCRAM_SHA_256, nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer(mechanism, store, DECOYS, nonce)


def log_in(client: ScramClient, broker: ScramServer) -> Identity | None:
    """Carry the messages of both sides until the client is complete."""
    message: bytes | None = client.start()
    while message is not None:
        message = client.respond(broker.respond(message))
    assert client.is_complete
    return broker.identity
