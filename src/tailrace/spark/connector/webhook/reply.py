"""The decisions about HTTP replies: is a request accepted, repeated, refused or pointless? Pure."""

import hashlib
import hmac
import time
from email.utils import parsedate_to_datetime
from enum import Enum, auto

SIGNATURE_HEADER = "X-Hub-Signature-256"
KEY_HEADER = "Idempotency-Key"

_BUSY = frozenset({408, 425, 429})  # request timeout, too early, too many requests
CONFLICT = 409
"""Another request with the same Idempotency-Key may be under way, or the row is in conflict for good."""
_OF_THE_SERVICE = frozenset({401, 403, 404, 405, 407, 410})
"""Replies to every request alike, such as to a wrong token or a wrong path: no other row would fare better."""

WAIT_S_MIN = 0.5
WAIT_S_MAX = 30.0
RETRY_AFTER_S_MAX = 300.0


class Outcome(Enum):
    """What a reply means."""

    ACCEPTED = auto()
    RETRY = auto()
    REFUSED = auto()
    """The rows of the request are refused."""
    FAILED = auto()
    """The service cannot be used as it is configured."""


def judge(status: int) -> Outcome:
    """Return what the status of a reply means."""
    if 200 <= status < 300:
        return Outcome.ACCEPTED
    if status >= 500 or status in _BUSY or status == CONFLICT:
        return Outcome.RETRY
    return Outcome.REFUSED if 400 <= status < 500 and status not in _OF_THE_SERVICE else Outcome.FAILED


def wait_s(attempt: int, retry_after: str | None, now_s: float | None = None) -> float:
    """Return how long to wait after this many failed attempts: what the reply asks for, or twice as long each time."""
    asked_s = None if retry_after is None else _read_retry_after(retry_after, time.time() if now_s is None else now_s)
    if asked_s is not None:
        return min(max(asked_s, 0.0), RETRY_AFTER_S_MAX)
    return float(min(WAIT_S_MIN * 2 ** (attempt - 1), WAIT_S_MAX))


def _read_retry_after(text: str, now_s: float) -> float | None:
    """Return the seconds of a Retry-After header, which has a number or a date; None if it is neither."""
    if text.strip().isdigit():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - now_s
    except ValueError:
        return None


def idempotency_key(query_id: str, batch_id: int, partition: int, first_row: int, flow: str, body: bytes) -> str:
    """Return a key that a repeated batch has again, and that no other request has.

    The digest makes it differ if Spark divides a repeated batch into other tasks: a service that knows the key must not
    take other rows for those that it has.
    """
    digest = hashlib.sha256(flow.encode() + b"\0" + body).hexdigest()[:16]
    return f"{query_id}-{batch_id}-{partition}-{first_row}-{digest}"


def sign(secret: str, body: bytes) -> str:
    """Return the signature of a body, in the form of `SIGNATURE_HEADER`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_signed(secret: str, body: bytes, signature: str | None) -> bool:
    """Return whether a signature is that of the body; takes the same time for every wrong one."""
    return signature is not None and hmac.compare_digest(sign(secret, body).encode(), signature.strip().encode())
