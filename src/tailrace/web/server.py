"""An HTTP server around an application, with a socket that is bound at once."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from tailrace.base.limits import HTTP_CONNECTIONS_MAX
from tailrace.web.certificate import make_service_tls

_BACKLOG = 1_024
_STOP_PATIENCE_S = 10
_TRIM_INTERVAL_S = 1.0

Work = Callable[[], Awaitable[None]]


class _Uvicorn(uvicorn.Server):
    """An HTTP server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an application, which is started and stopped with it. The address is known before it serves."""

    def __init__(self, host: str, port: int, *, certificate: Path | None = None, key: Path | None = None) -> None:
        """Raise `ConfigError` if the certificate or its key cannot be used."""
        self._tls = None if certificate is None or key is None else make_service_tls(certificate, key)
        self._listening = listen(host, port)
        self.port: int = self._listening.getsockname()[1]
        self.scheme = "http" if self._tls is None else "https"
        self._http: _Uvicorn | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Finish the requests that are being served, and end `run`."""
        self._is_stopping = True
        if self._http is not None:
            self._http.should_exit = True
        if self._starting is not None:
            self._starting.cancel()

    async def run(self, app: FastAPI, *beside: Work, watch: Work) -> None:
        """Serve until stopped, or until `watch` ends, whose error is raised; `beside` runs meanwhile."""
        lifespan = app.router.lifespan_context(app)
        try:
            starting = self._starting = asyncio.create_task(_enter(lifespan))
            try:
                await starting
            except asyncio.CancelledError:
                if self._is_stopping:
                    return  # before it had started
                raise
            finally:
                self._starting = None
            try:
                await self._serve(app, beside, watch)
            finally:
                await lifespan.__aexit__(None, None, None)
        finally:
            self._listening.close()

    async def _serve(self, app: FastAPI, beside: tuple[Work, ...], watch: Work) -> None:
        http = self._http = _Uvicorn(self._config(app))
        http.should_exit = self._is_stopping
        serving = asyncio.create_task(http.serve(sockets=[self._listening]))
        watching = asyncio.ensure_future(watch())
        others = [asyncio.ensure_future(each()) for each in (*beside, self._trim)]
        try:
            await asyncio.wait([serving, watching], return_when=asyncio.FIRST_COMPLETED)
            http.should_exit = True
            await serving
            if watching.done():
                watching.result()
        finally:
            for task in (watching, *others):
                task.cancel()
            await asyncio.gather(watching, *others, return_exceptions=True)

    def _config(self, app: FastAPI) -> uvicorn.Config:
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_STOP_PATIENCE_S,
        )
        config.load()
        # A context of uvicorn's own would keep its first certificate, and in some releases allow old suites only.
        config.ssl = self._tls
        return config

    async def _trim(self) -> None:
        """Close the oldest connections while there are too many: idle ones at once, and others after their answer.

        uvicorn's own limit counts idle connections too and refuses requests then, and it closes no connection that has
        never sent one. The number of requests is bounded by the application.
        """
        by_age: list[Any] = []
        while True:
            await asyncio.sleep(_TRIM_INTERVAL_S)
            connections = set() if self._http is None else self._http.server_state.connections
            by_age = [each for each in by_age if each in connections]
            by_age += connections.difference(by_age)
            for connection in by_age[: max(0, len(by_age) - HTTP_CONNECTIONS_MAX)]:
                connection.shutdown()


async def _enter(lifespan: contextlib.AbstractAsyncContextManager[Any]) -> None:
    await lifespan.__aenter__()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio lets small answers wait for an acknowledgement unless the protocol is named.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.listen(_BACKLOG)
    return listening
