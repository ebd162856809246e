"""The application: routes, errors, authentication and counters, around one Connect service."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from tailrace.client.error import ClientError
from tailrace.connect.core.error import ConnectError
from tailrace.connect.http import connector, offset, plugin, worker
from tailrace.connect.http.right import enforce
from tailrace.connect.service import ConnectService
from tailrace.connect.store import Replaced, StoreError
from tailrace.protocol.errors import ApiError
from tailrace.web.caller import Refusal
from tailrace.web.counter import RequestCounters
from tailrace.web.door import Door
from tailrace.web.edge import Edge, Speech

_log = logging.getLogger(__name__)

_JSON = "application/json"
SPEECH = Speech("Connect service", "connect", (_JSON,), frozenset({_JSON, "application/octet-stream"}))


def make_app(service: ConnectService, door: Door | None = None) -> FastAPI:
    """Return the application that serves a Connect service, which is started and stopped with it.

    `door` decides about its callers; by default it admits all.
    """
    door = Door() if door is None else door

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service, door:
            for name, level in service.state.levels.items():
                worker.set_level(name, level, app.state.changed_levels)
            yield

    app = FastAPI(
        title="Tailrace Connect",
        description="Connectors as pipelines on Spark, behind the REST API of Kafka Connect.",
        version="1",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages run scripts of another server with the caller's login
        redoc_url=None,
    )
    app.state.service = service
    app.state.audit = door.audit
    app.state.counters = RequestCounters()
    app.state.changed_levels = {}
    for module in (connector, offset, plugin, worker):
        app.include_router(module.router, dependencies=[Depends(enforce)])
    _add_errors(app)
    app.add_middleware(Edge, speech=SPEECH, door=door, counters=app.state.counters)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ConnectError)
    async def on_connect_error(_request: Request, error: ConnectError) -> Response:
        return _answer(error.status, error.message)

    @app.exception_handler(Refusal)
    async def on_refusal(_request: Request, error: Refusal) -> Response:
        return _answer(error.status, error.message)

    @app.exception_handler(StoreError)
    async def on_store_error(_request: Request, error: StoreError) -> Response:
        return _answer(500, str(error))

    @app.exception_handler(ClientError)
    @app.exception_handler(ApiError)
    async def on_broker_error(_request: Request, error: Exception) -> Response:
        return _answer(500, f"The brokers could not be asked: {error}")

    @app.exception_handler(Replaced)
    async def on_replaced(_request: Request, error: Replaced) -> Response:
        return _answer(409, str(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid_request(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["loc"][0] in ("path", "query"):
            return _answer(404, "HTTP 404 Not Found")
        if first["type"] == "json_invalid":
            return _answer(400, f"The request is not valid JSON: {first.get('ctx', {}).get('error', first['msg'])}")
        place = ".".join(str(part) for part in first["loc"][1:])
        return _answer(400, f"{place or 'The request body'}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def on_http_error(_request: Request, error: HTTPException) -> Response:
        return _answer(error.status_code, f"HTTP {error.status_code} {error.detail}")

    @app.exception_handler(Exception)
    async def on_bug(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
        return _answer(500, "Internal Server Error")


def _answer(status: int, message: str) -> Response:
    readable = message.encode(errors="replace").decode()
    return JSONResponse({"error_code": status, "message": readable}, status)
