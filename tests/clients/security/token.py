"""Signed tokens of an issuer, and the document with its keys."""

from __future__ import annotations

import json
import time
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import ECKey

ISSUER = "https://issuer.example"
AUDIENCE = "tailrace"
LIFETIME_S = 3600


class TokenIssuer:
    """An issuer with keys, the last of which signs its tokens."""

    def __init__(self) -> None:
        self._keys: list[ECKey] = []
        self.rotate()

    def rotate(self) -> None:
        """Sign with a new key from now on, and forget the others."""
        self._keys = [ECKey.generate_key("P-256", {"kid": f"key-{time.time_ns()}"}, auto_kid=False)]

    @property
    def document(self) -> str:
        """The public keys."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self._keys]})

    def write(self, path: Path) -> None:
        """Replace the document in a file at once."""
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(self.document)
        unfinished.replace(path)

    def token(self, user: str, *, audience: str = AUDIENCE, lifetime_s: int = LIFETIME_S) -> str:
        """Sign a token; with a negative lifetime it has expired."""
        key = self._keys[-1]
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "sub": user,
            "iat": now + min(lifetime_s, 0) - 60,
            "exp": now + lifetime_s,
        }
        return jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key, algorithms=["ES256"])
