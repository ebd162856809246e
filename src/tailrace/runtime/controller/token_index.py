"""The delegation tokens of a cluster by their HMACs, which are their secrets."""

import hmac
from collections.abc import Sequence
from hashlib import sha256

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.machines.controller.record import Record
from tailrace.machines.controller.security_record import TokenRecord, TokenRemoved


class TokenIndex:
    """Finds a token by its HMAC in the same time, however many there are.

    The index has fingerprints of HMACs, so that the time of a look-up tells nothing about the HMACs themselves.
    """

    def __init__(self, metadata: ClusterMetadata, key: str | None) -> None:
        """`key` is the secret of all tokens. Without it, or if it is empty, no token is found."""
        self._key = key
        self._ids: dict[bytes, str] = {}
        if key:
            self._follow(tuple(metadata.image.tokens.values()))
            metadata.listen(self._follow)

    def find(self, secret: bytes) -> str | None:
        """Return the id of the token with this HMAC; None if there is none."""
        token_id = self._ids.get(_fingerprint(secret))
        if token_id is None or not self._key or not hmac.compare_digest(token_hmac(self._key, token_id), secret):
            return None
        return token_id

    def _follow(self, records: Sequence[Record]) -> None:
        for record in records:
            match record:
                case TokenRecord(token_id):
                    self._ids[self._print_of(token_id)] = token_id
                case TokenRemoved(token_id):
                    self._ids.pop(self._print_of(token_id), None)

    def _print_of(self, token_id: str) -> bytes:
        return _fingerprint(token_hmac(self._key or "", token_id))


def token_hmac(key: str, token_id: str) -> bytes:
    """Return the HMAC of a delegation token, which only the brokers and its holder know."""
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


def _fingerprint(secret: bytes) -> bytes:
    return sha256(secret).digest()
