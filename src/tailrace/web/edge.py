"""What happens to a request before it is routed: its caller, its path, its size and its media types.

Names in paths may hold any character, a slash as `%2F` too, so paths are routed as they were sent and decoded
afterwards.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fastapi import HTTPException

from tailrace.base.limits import HTTP_BODY_TIMEOUT_S, HTTP_REQUESTS_MAX
from tailrace.base.text import is_control
from tailrace.web.caller import CALLER, Caller, Refusal
from tailrace.web.counter import RequestCounters
from tailrace.web.door import Door

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CHANGE = "tailrace.change"
"""Where the ASGI scope of a request has the path of what it is to change, for the audit log."""

BODY_BYTES_MAX = 16 * 1024 * 1024
PATH_BYTES_MAX = 8 * 1024

_WITH_BODY = ("POST", "PUT", "PATCH")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Speech:
    """What a service is called, and which media types it takes and answers with, the preferred type first."""

    service: str
    realm: str
    answers: tuple[str, ...]
    requests: frozenset[str]

    @property
    def preferred(self) -> str:
        """The media type of answers to clients that accept any."""
        return self.answers[0]

    def preferred_type(self, accept: str) -> str | None:
        """Return the media type of the answer to a client that accepts some; None if there is none."""
        wanted: list[tuple[float, str]] = []
        for part in accept.split(","):
            name, *parameters = (each.strip().lower() for each in part.split(";"))
            weights = [each[2:] for each in parameters if each.startswith("q=")]
            try:
                weight = float(weights[0]) if weights else 1.0
            except ValueError:
                weight = 0.0
            if name and weight > 0:
                wanted.append((weight, name))
        for _, name in sorted(wanted, key=lambda each: -each[0]):
            if name in ("*/*", "application/*"):
                return self.preferred
            if name in self.answers:
                return name
        return None if wanted else self.preferred


class Edge:
    """The outermost part of an application."""

    def __init__(self, app: Application, *, speech: Speech, door: Door, counters: RequestCounters) -> None:
        self._app = app
        self._speech = speech
        self._door = door
        self._counters = counters
        self._request_count = 0

    def move(self, path: str, query: str) -> tuple[str, str]:
        """Return the path and query by which a request is routed; raises ValueError if there are none."""
        return path, query

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Prepare one request, or refuse it, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._request_count += 1
        try:
            await self._handle(scope, receive, send)
        finally:
            self._request_count -= 1

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started_at_s = time.monotonic()
        if scope["method"] == "HEAD":  # the HTTP server leaves the body out, and looks at its own scope for that
            scope = {**scope, "method": "GET"}
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        speech = self._speech
        wanted = speech.preferred_type(headers.get(b"accept", "*/*")) or speech.preferred
        challenges = [f'{scheme} realm="{speech.realm}"' for scheme in self._door.schemes]
        answer = _Answer(send, speech.preferred, wanted, challenges)
        if self._request_count > HTTP_REQUESTS_MAX:
            await answer.refuse(503, f"The {speech.service} is serving {HTTP_REQUESTS_MAX} requests already")
        else:
            await self._admit(scope, headers, receive, answer)
        route = getattr(scope.get("route"), "path", "")
        self._counters.add(route, scope["method"], answer.status, time.monotonic() - started_at_s)

    async def _admit(self, scope: Scope, headers: dict[bytes, str], receive: Receive, answer: "_Answer") -> None:
        host = (scope.get("client") or ("",))[0]
        try:
            caller = await self._door.admit(headers.get(b"authorization", ""), host)
        except Refusal as refusal:
            more = [(name.encode(), value.encode()) for name, value in refusal.headers]
            await answer.refuse(refusal.status, refusal.message, *more)
            return
        scope[CALLER] = caller
        try:
            await self._serve(scope, headers, receive, answer)
        finally:
            await caller.leave()
        self._note(scope, caller, host, answer.status)

    def _note(self, scope: Scope, caller: Caller, host: str, status: int) -> None:
        """Write a change to the audit log; denials have lines of their own."""
        audit = self._door.audit
        if audit is not None and CHANGE in scope and status not in (401, 403):
            api = f"{scope['method']} {getattr(scope.get('route'), 'path', '')}"
            audit.note(caller.principal, host, api, scope[CHANGE], status)

    async def _serve(self, scope: Scope, headers: dict[bytes, str], receive: Receive, answer: "_Answer") -> None:
        refusal = self._refusal(scope["method"], headers, len(scope["raw_path"]))
        if refusal is not None:
            await answer.refuse(*refusal)
            return
        try:
            self._route_as_sent(scope)
        except ValueError as error:
            await answer.refuse(400, str(error))
            return
        _accept_as_json(scope)
        await self._app(scope, _Body(receive), answer)

    def _refusal(self, method: str, headers: dict[bytes, str], path_size_bytes: int) -> tuple[int, str] | None:
        if path_size_bytes > PATH_BYTES_MAX:
            return 414, f"The path has {path_size_bytes} bytes of at most {PATH_BYTES_MAX}"
        if self._speech.preferred_type(headers.get(b"accept", "*/*")) is None:
            return 406, "HTTP 406 Not Acceptable"
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and int(length) > BODY_BYTES_MAX:
            return 413, f"The request has {length} bytes of at most {BODY_BYTES_MAX}"
        if method in _WITH_BODY:
            return self._media_type_refusal(headers.get(b"content-type", self._speech.preferred))
        return None

    def _media_type_refusal(self, content_type: str) -> tuple[int, str] | None:
        kind = content_type.partition(";")[0].strip().lower()
        if "/" not in kind:
            return 400, f"Content-Type {content_type[:100]!r} is not a media type"
        return None if kind in self._speech.requests else (415, "HTTP 415 Unsupported Media Type")

    def _route_as_sent(self, scope: Scope) -> None:
        path = scope["raw_path"].decode("ascii", "strict").partition("?")[0]
        _check_path(path)
        path, query = self.move(path.rstrip("/") or "/", scope["query_string"].decode("latin-1"))
        scope["path"] = path
        scope["query_string"] = query.encode("latin-1")


def _check_path(path: str) -> None:
    """Raise ValueError for a path that no client means: a name in it could not be told from another one."""
    if "//" in path:
        raise ValueError("The path has an empty part")
    for part in path.split("/"):
        if _BAD_ESCAPE.search(part):
            raise ValueError(f"{part[:100]!r} in the path has a % that two hexadecimal digits do not follow")
        try:
            text = unquote(part, errors="strict")
        except UnicodeDecodeError:
            raise ValueError(f"{part[:100]!r} in the path is not UTF-8") from None
        if text in (".", "..") and part.lower() != text:
            raise ValueError(f"{part[:100]!r} in the path means {text!r}, which is ambiguous")
        if any(is_control(letter) for letter in text):
            raise ValueError(f"{part[:100]!r} in the path has a control character")


def _accept_as_json(scope: Scope) -> None:
    """Let every media type that the service takes count as JSON further in."""
    others = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-type"]
    scope["headers"] = [*others, (b"content-type", b"application/json")]


class _Body:
    """Receives a request body, and refuses it when it gets too long for a length that was not announced, or stops."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size_bytes = 0
        self._is_complete = False

    async def __call__(self) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(None if self._is_complete else HTTP_BODY_TIMEOUT_S):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"No more of the request arrived in {HTTP_BODY_TIMEOUT_S:g} s") from None
        self._is_complete = not message.get("more_body", False)
        self._size_bytes += len(message.get("body", b""))
        if self._size_bytes > BODY_BYTES_MAX:
            raise HTTPException(413, f"The request has more than {BODY_BYTES_MAX} bytes")
        return message


class _Answer:
    """Sends an answer with the media type that the client prefers."""

    def __init__(self, send: Send, usual: str, wanted: str, challenges: list[str]) -> None:
        self.status = 500
        self._challenges = [(b"www-authenticate", each.encode()) for each in challenges]
        self._send = send
        self._usual = (b"content-type", usual.encode())
        self._wanted = (b"content-type", wanted.encode())

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [self._wanted if each == self._usual else each for each in message["headers"]]
            if self.status == 401:
                message["headers"] += self._challenges
        await self._send(message)

    async def refuse(self, status: int, message: str, *more: tuple[bytes, bytes]) -> None:
        """Answer a request that is not routed."""
        body = json.dumps({"error_code": status, "message": message}).encode()
        headers = [self._usual, (b"content-length", str(len(body)).encode()), *more]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})
