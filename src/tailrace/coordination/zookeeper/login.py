"""The SASL login to a ZooKeeper server, which has to be repeated on every connection.

kazoo has the mechanism DIGEST-MD5 only with another package, whose nonces can be guessed and whose names have to be
ASCII. So the mechanism is our own, and kazoo carries its messages.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tailrace.security.digest_md5 import DigestMd5Client
from tailrace.security.exchange import AuthenticationFailed

_DIGEST_URI: Final = "zookeeper/zk-sasl-md5"
"""ZooKeeper's servers have this name for DIGEST-MD5, wherever they run."""
_NONCE_BYTES: Final = 24
WRONG_LOGIN: Final = "wrong user or password; check tailrace.zookeeper.sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """The user and the password of the brokers."""

    user: str
    password: str = field(repr=False)


class LoginRefused(Exception):
    """A server that does not accept the login, or that has not proved that it knows the password."""


def log_in(login: SaslLogin, ask: Callable[[bytes], bytes | None]) -> None:
    """Log in on a connection, or raise `LoginRefused`.

    `ask` sends a message and returns the server's answer; None if the server has nothing to say.
    """
    client = DigestMd5Client(login.user, login.password, _DIGEST_URI, secrets.token_urlsafe(_NONCE_BYTES))
    challenge = ask(client.start())
    if challenge is None:
        raise LoginRefused("it does not support SASL; start it with a JAAS file that has a section Server")
    try:
        proof = ask(client.respond(challenge) or b"")
        if proof is None:
            raise LoginRefused(WRONG_LOGIN)
        client.respond(proof)
    except AuthenticationFailed as error:
        raise LoginRefused(error.reason) from None
