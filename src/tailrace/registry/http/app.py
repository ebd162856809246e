"""The application: routes, errors, authentication and counters, around one registry."""

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tailrace.registry.core.error import RegistryError
from tailrace.registry.http import association, compatibility, schema, scope, server, subject
from tailrace.registry.http.call import FORWARD_TIMEOUT_S, RegistryResponse
from tailrace.registry.http.edge import SPEECH, Edge
from tailrace.registry.http.model import ErrorAnswer
from tailrace.registry.http.right import enforce
from tailrace.registry.service import Registry
from tailrace.web.caller import Refusal
from tailrace.web.counter import RequestCounters
from tailrace.web.door import Door

_log = logging.getLogger(__name__)

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request is malformed"},
    401: {"model": ErrorAnswer, "description": "The user or the password is wrong"},
    403: {"model": ErrorAnswer, "description": "The user does not have the right that the request needs"},
    404: {"model": ErrorAnswer, "description": "There is no such subject, version, schema or path"},
    405: {"model": ErrorAnswer, "description": "The path has no such method"},
    406: {"model": ErrorAnswer, "description": "The client accepts no media type that the registry has"},
    408: {"model": ErrorAnswer, "description": "The rest of the request did not arrive in time"},
    409: {"model": ErrorAnswer, "description": "The schema or the association conflicts with an earlier one"},
    413: {"model": ErrorAnswer, "description": "The request is too large"},
    414: {"model": ErrorAnswer, "description": "The path is too long"},
    415: {"model": ErrorAnswer, "description": "The media type of the request is unknown"},
    422: {"model": ErrorAnswer, "description": "The schema, version, level, mode or subject is invalid"},
    429: {"model": ErrorAnswer, "description": "Too many logins are being tried"},
    500: {"model": ErrorAnswer, "description": "The topic could not be written, or the leader is unknown"},
    503: {"model": ErrorAnswer, "description": "The registry is serving too many requests already"},
}


def make_app(registry: Registry, door: Door | None = None, *, tls: ssl.SSLContext | None = None) -> FastAPI:
    """Return the application that serves a registry, which is started and stopped with it.

    `door` decides about its callers; by default it admits all. `tls` is for requests that are forwarded to the leader;
    by default the leader's certificate is one that the system trusts.
    """

    door = Door() if door is None else door

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        client = httpx.AsyncClient(timeout=FORWARD_TIMEOUT_S, trust_env=False, verify=True if tls is None else tls)
        async with registry, client, door:
            app.state.forwarding = client
            yield

    app = FastAPI(
        title="Tailrace schema registry",
        description="Subjects, schemas and compatibility, behind the REST API of Confluent's schema registry.",
        version="1",
        lifespan=lifespan,
        responses=_ERRORS,
        default_response_class=RegistryResponse,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages run scripts of another server with the caller's login
        redoc_url=None,
    )
    app.state.registry = registry
    app.state.audit = door.audit
    app.state.counters = RequestCounters()
    for module in (subject, schema, compatibility, scope, association, server):
        app.include_router(module.router, dependencies=[Depends(enforce)])
    _add_errors(app)
    app.add_middleware(Edge, speech=SPEECH, door=door, counters=app.state.counters)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RegistryError)
    async def on_registry_error(_request: Request, error: RegistryError) -> Response:
        return _answer_error(error.code.status, error.code, error.message)

    @app.exception_handler(Refusal)
    async def on_refusal(_request: Request, error: Refusal) -> Response:
        return _answer_error(error.status, error.status, error.message)

    @app.exception_handler(RequestValidationError)
    async def on_invalid_request(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["loc"] == ("body",) and first.get("input") is None:
            return _answer_error(422, 422, "The request has no body")
        if first["loc"][0] in ("path", "query"):
            return _answer_error(404, 404, "HTTP 404 Not Found")
        if first["type"] == "json_invalid":
            return _answer_error(
                400, 400, f"The request is not valid JSON: {first.get('ctx', {}).get('error', first['msg'])}"
            )
        place = ".".join(str(part) for part in first["loc"][1:])
        return _answer_error(400, 400, f"{place or 'The request body'}: {first['msg']}")

    @app.exception_handler(UnicodeEncodeError)
    async def on_half_a_letter(_request: Request, _error: UnicodeEncodeError) -> Response:
        """JSON can escape half of a surrogate pair, which no text that is written or answered can hold."""
        return _answer_error(400, 400, "The request has a text with half of a surrogate pair")

    @app.exception_handler(HTTPException)
    async def on_http_error(_request: Request, error: HTTPException) -> Response:
        return _answer_error(error.status_code, error.status_code, f"HTTP {error.status_code} {error.detail}")

    @app.exception_handler(Exception)
    async def on_bug(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
        return _answer_error(500, 500, "Internal Server Error")


def _answer_error(status: int, code: int, message: str) -> Response:
    readable = message.encode(errors="replace").decode()
    return RegistryResponse({"error_code": code, "message": readable}, status)
