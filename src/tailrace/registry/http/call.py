"""What the routes share: the registry behind a request, answers, pages, and writes that go to the leader."""

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx
from fastapi import Request
from fastapi.responses import Response
from starlette.responses import JSONResponse

from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.record import Entry
from tailrace.registry.core.removal import LATEST
from tailrace.registry.core.subject import Subject, is_valid, normalize
from tailrace.registry.http.edge import V1_JSON
from tailrace.registry.service import Registry
from tailrace.registry.writer import Decide
from tailrace.schema.language import SchemaType

T = TypeVar("T")

FORWARDED = "x-forward"
"""The header of a request that another registry has passed on, which is not passed on again."""
FORWARD_TIMEOUT_S = 30.0
PAGE_SIZE_MAX = 10_000
VERSION_MAX = 2**31 - 1

_SUBJECTS = "tailrace.subjects"

_PASSED_ON = ("authorization", "content-type", "accept")


class RegistryResponse(JSONResponse):
    """An answer in JSON, of the registry's own media type unless the client prefers another."""

    media_type = V1_JSON


def registry_of(request: Request) -> Registry:
    """Return the registry that serves a request."""
    registry: Registry = request.app.state.registry
    return registry


async def write(request: Request, decide: Decide[T]) -> T | Response:
    """Carry a change out, here if this registry is the leader, and there if another one is."""
    answered = await forwarded(request)
    return await registry_of(request).change(decide) if answered is None else answered


async def forwarded(request: Request) -> Response | None:
    """Return the leader's answer to a request if another registry is the leader."""
    registry = registry_of(request)
    leader = await registry.known_leader()
    if leader.url == registry.member.url:
        return None
    if request.headers.get(FORWARDED) == "true":
        raise RegistryError(Code.UNKNOWN_LEADER, f"Registry {registry.member.url} is not the leader, {leader.url} is")
    return await _forward(request, leader.url)


async def _forward(request: Request, url: str) -> Response:
    """Pass a request on to the leader, and return its answer."""
    if registry_of(request).member.scheme == "https" and url.startswith("http:") and "authorization" in request.headers:
        raise RegistryError(
            Code.FORWARDING_FAILED, f"The leader {url} has no TLS, so a request with a password is not passed on to it"
        )
    client: httpx.AsyncClient = request.app.state.forwarding
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    query = request.scope["query_string"].decode("latin-1")
    target = f"{url}{request.scope['path']}{'?' if query else ''}{query}"
    try:
        answer = await client.request(
            request.method, target, content=await request.body(), headers={**headers, FORWARDED: "true"}
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RegistryError(
            Code.FORWARDING_FAILED,
            f"The leader {url} did not answer a forwarded request: {error or type(error).__name__}",
        ) from error
    if answer.is_success:
        await registry_of(request).catch_up()
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


# --- parts of requests


def read_scope(raw: str) -> str:
    """Return the subject or context in a path, as the registry stores it."""
    return normalize(unquote(raw))


def read_config_scope(raw: str) -> str | None:
    """Return the subject or context in a path that has a config; None, which is everywhere, for the default context."""
    subject = read_scope(raw)
    return None if Subject.parse(subject).is_default_context else subject


def read_subject(request: Request, raw: str) -> str:
    """Return the subject in a path, or the one that it is an alias of.

    It stays the same during a request: the rights of the caller are checked for it, and aliases can change meanwhile.
    """
    found: dict[str, str] = request.scope.setdefault(_SUBJECTS, {})
    if raw not in found:
        found[raw] = registry_of(request).state.target_of(read_scope(raw))
    return found[raw]


def check_subject(subject: str, *, is_scope: bool = False) -> None:
    """Raise `RegistryError` if a subject cannot be registered, or, as a scope, not be configured."""
    if not is_valid(subject, is_scope=is_scope):
        raise RegistryError(Code.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid.")


def read_version(raw: str) -> int:
    """Return the version in a path; `latest` is -1."""
    text = unquote(raw).strip()
    if text.lower() == "latest":
        return LATEST
    try:
        version = int(text) if len(text) <= len(str(VERSION_MAX)) + 1 else 0
    except ValueError:
        version = 0
    if version == LATEST:
        return LATEST
    if not 0 < version <= VERSION_MAX:
        raise RegistryError(
            Code.INVALID_VERSION,
            f"The specified version '{text[:100]}' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"',
        )
    return version


def read_type(name: str | None) -> SchemaType:
    """Return the type of a schema by its name; AVRO if there is none."""
    try:
        return SchemaType(name or SchemaType.AVRO)
    except ValueError:
        raise RegistryError(Code.INVALID_SCHEMA, f"Invalid schema type {name}") from None


def page(items: Sequence[T], offset: int, limit: int) -> list[T]:
    """Return a page of a list; a limit that is not above 0 means the largest page."""
    size = PAGE_SIZE_MAX if limit <= 0 else min(limit, PAGE_SIZE_MAX)
    start = max(offset, 0)
    return list(items[start : start + size])


async def formatted(registry: Registry, entry: Entry, form: str) -> str | None:
    """Return the text of a schema in the form that a client asks for; None for the usual one."""
    wanted = form.strip().lower()
    if not wanted:
        return None
    return await registry.examine(lambda _state, parser: parser.parse_entry(entry).formatted(wanted))


def answer(content: Any, status: int = 200) -> Response:
    """Return an answer in JSON, or the answer of another registry as it came."""
    return content if isinstance(content, Response) else RegistryResponse(content, status)
