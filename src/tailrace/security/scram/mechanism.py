"""The SCRAM mechanisms and their arithmetic (RFC 5802, RFC 7677).

Passwords are used as they are, in UTF-8: Kafka's clients and brokers do not apply SASLprep, so a login with a password
that SASLprep changes would fail with either of them.
"""

import hashlib
import hmac
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""The bounds that Kafka sets for stored credentials. Its brokers do not use credentials below the minimum."""


class Mechanism(NamedTuple):
    """A SCRAM mechanism: its SASL name, its hash, and its code in Kafka's requests and records."""

    name: str
    hash_name: str
    code: int

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Stretch a password. This takes milliseconds, and so it runs beside the event loop."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Server Key")

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.hash_name)

    def hash(self, message: bytes) -> bytes:
        return hashlib.new(self.hash_name, message).digest()

    @property
    def key_size_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size


SCRAM_SHA_256: Final = Mechanism("SCRAM-SHA-256", "sha256", 1)
SCRAM_SHA_512: Final = Mechanism("SCRAM-SHA-512", "sha512", 2)
SCRAM_MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}


def xor(left: bytes, right: bytes) -> bytes:
    """Combine two byte strings of the same length bit by bit."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
