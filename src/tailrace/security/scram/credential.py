"""The stored credential of a user, from which the password cannot be computed, and stand-ins for unknown users."""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from tailrace.security.scram.mechanism import ITERATIONS_MAX, ITERATIONS_MIN, Mechanism

_NAMES: Final = ("salt", "stored_key", "server_key", "iterations")
SALT_SIZE_BYTES: Final = 26  # as long as the salts of Kafka's tools
_SALT_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class InvalidCredential(ValueError):
    """A credential that cannot be made or read. The text contains none of its keys."""


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """The keys of a user for one mechanism. A thief of them can pretend to be the broker and test passwords."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Credential({self.iterations} iterations)"


def format_salt(noise: bytes) -> bytes:
    """Return a salt made from random bytes: letters and digits, as the salts of Kafka's tools and of decoys are."""
    return bytes(_SALT_LETTERS[value % len(_SALT_LETTERS)] for value in noise[:SALT_SIZE_BYTES])


def make_credential(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> Credential:
    """Derive the credential of a password. This takes milliseconds, and so it runs beside the event loop."""
    if not password:
        raise InvalidCredential("the password is empty")
    check_iterations(iterations)
    return credential_from_salted(mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations)


def credential_from_salted(mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """Return the credential for what AlterUserScramCredentials carries, where the client has done the stretching."""
    check_iterations(iterations)
    if not salt:
        raise InvalidCredential("the salt is empty")
    if len(salted_password) != mechanism.key_size_bytes:
        raise InvalidCredential(f"the salted password of {mechanism.name} has {mechanism.key_size_bytes} bytes")
    stored_key = mechanism.hash(mechanism.client_key(salted_password))
    return Credential(salt, stored_key, mechanism.server_key(salted_password), iterations)


def check_iterations(iterations: int) -> None:
    """Raise `InvalidCredential` unless the number of iterations is within Kafka's bounds."""
    if iterations < ITERATIONS_MIN:
        raise InvalidCredential(f"{iterations} iterations are too few; at least {ITERATIONS_MIN} are needed")
    if iterations > ITERATIONS_MAX:
        raise InvalidCredential(f"{iterations} iterations are too many; at most {ITERATIONS_MAX} are allowed")


def format_credential(credential: Credential) -> str:
    """Return the text in which Kafka stores a credential in ZooKeeper, below `/config/users`."""
    parts = (_base64(credential.salt), _base64(credential.stored_key), _base64(credential.server_key))
    return ",".join(f"{name}={part}" for name, part in zip(_NAMES, (*parts, credential.iterations), strict=True))


def parse_credential(text: str) -> Credential:
    """Read Kafka's text, or raise `InvalidCredential`."""
    entries = [entry.partition("=") for entry in text.split(",")]
    values = {name: value for name, _, value in entries}
    if len(entries) != len(_NAMES) or values.keys() != set(_NAMES):
        raise InvalidCredential(f"a stored credential has the entries {', '.join(_NAMES)}, each once")
    try:
        salt, stored_key, server_key = (base64.b64decode(values[name], validate=True) for name in _NAMES[:3])
    except (binascii.Error, ValueError):
        raise InvalidCredential("a key of the stored credential is not valid base64") from None
    if not (values["iterations"].isascii() and values["iterations"].isdigit() and len(values["iterations"]) < 10):
        raise InvalidCredential("the iterations of the stored credential are not a number")
    return Credential(salt, stored_key, server_key, int(values["iterations"]))


class Decoys:
    """Credentials for users that do not exist, so that a client cannot tell them from a user with another password.

    A decoy depends on the name and a secret alone: a client that asks twice gets the same salt twice, as for a real
    user. The brokers of a cluster should share the secret, because a salt that differs between them betrays the
    decoy.
    """

    def __init__(self, secret: bytes, iterations: int = ITERATIONS_MIN) -> None:
        self._secret = secret
        self._iterations = iterations

    def credential(self, mechanism: Mechanism, name: str) -> Credential:
        """Return the decoy of a user; no password fits it."""
        salt, stored_key, server_key = (
            mechanism.hmac(self._secret, f"{part}:{mechanism.name}:{name}".encode())
            for part in ("salt", "stored key", "server key")
        )
        return Credential(format_salt(salt), stored_key, server_key, self._iterations)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
