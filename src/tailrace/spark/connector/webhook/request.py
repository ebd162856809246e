"""The decisions about requests that come in: which records is a request, or why is it refused? Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.base.limits import WEBHOOK_BODY_BYTES_MAX
from tailrace.spark.connector.webhook.reply import KEY_HEADER, SIGNATURE_HEADER, is_signed

METHODS = ("POST", "PUT")


@dataclass(frozen=True, slots=True)
class Route:
    """A path, the topic for its requests, and what is required of them."""

    path: str
    topic: str
    secret: str | None = field(default=None, repr=False)
    is_json: bool = True
    keep: tuple[str, ...] = ()
    """The headers that records keep."""
    body_bytes_max: int = WEBHOOK_BODY_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the topic."""

    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Refusal(Exception):
    """A request is answered with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def check_head(route: Route | None, method: str, headers: Mapping[str, str]) -> int:
    """Return the size of the body; raises `Refusal` before the body is read."""
    if route is None:
        raise Refusal(404, "no webhook listens at this path")
    if method not in METHODS:
        raise Refusal(405, f"use {' or '.join(METHODS)}")
    length = headers.get("Content-Length")
    if length is None or "Transfer-Encoding" in headers:
        raise Refusal(411, "send the body with a Content-Length")
    if not (length.isascii() and length.isdigit()):
        raise Refusal(400, "Content-Length is not a number")
    if len(length) > 18 or int(length) > route.body_bytes_max:
        raise Refusal(413, f"the body is larger than {route.body_bytes_max} bytes")
    return int(length)


def read_records(route: Route, headers: Mapping[str, str], body: bytes) -> list[Record]:
    """Return the records of a request; raises `Refusal`.

    An array in JSON is a record for each element. A request with an Idempotency-Key has it as the key of its records,
    by which a flow can drop the repetitions.
    """
    if route.secret is not None and not is_signed(route.secret, body, headers.get(SIGNATURE_HEADER)):
        raise Refusal(401, f"the signature in {SIGNATURE_HEADER} is missing or wrong")
    kept = tuple((name.lower(), headers[name].encode()) for name in route.keep if name in headers)
    key = headers.get(KEY_HEADER)
    values = _json_values(body) if route.is_json else [body]
    return [Record(value, None if key is None else key.encode(), kept) for value in values]


def _json_values(body: bytes) -> list[bytes]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not valid JSON") from None
    rows = found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows):
        raise Refusal(400, "the body is neither a JSON object nor an array of objects")
    if not isinstance(found, list):
        return [body]
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in rows]
