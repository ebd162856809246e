"""Credentials of HTTP requests: a user with a password, or a bearer token."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Credential:
    """What the header `Authorization` of a request says."""

    user: str
    """The name of the user; of a token the subject that it claims, which only a broker can confirm."""
    secret: str = field(repr=False)
    is_token: bool = False


def read_credential(authorization: str) -> Credential | None:
    """Return the credential in a header; None if there is none, or if it has another form."""
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() == "basic":
        return _read_password(text.strip())
    if scheme.lower() == "bearer":
        return _read_token(text.strip())
    return None


def _read_password(encoded: str) -> Credential | None:
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    if not (user and colon and password) or "\0" in user or "\0" in password:
        return None
    return Credential(user, password)


def _read_token(token: str) -> Credential | None:
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        return None
    return Credential(_claimed_subject(parts[1]), token, is_token=True)


def _claimed_subject(payload: str) -> str:
    """Return the subject that the payload of a JWT claims; nothing if it cannot be read."""
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return ""
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else ""
