"""The metrics of a broker over HTTP, for Prometheus.

It speaks as little HTTP as that takes: one GET on each connection, with the request in one piece. Connections that
send anything else, are slow, or are too many are closed, so that they do not affect the broker's own clients.
"""

import asyncio
import logging
import time
from http import HTTPStatus

from tailrace.base.limits import (
    METRIC_CONNECTIONS_MAX,
    METRIC_REQUEST_BYTES_MAX,
    METRIC_REQUEST_TIMEOUT_S,
    METRIC_TURN_S,
)
from tailrace.base.metric import Registry
from tailrace.server import metric_text

log = logging.getLogger("tailrace.server")

PATH = "/metrics"


class MetricListener:
    """Serves a registry on one address."""

    def __init__(self, registry: Registry, request_timeout_s: float = METRIC_REQUEST_TIMEOUT_S) -> None:
        self._registry = registry
        self._request_timeout_s = request_timeout_s
        self._server: asyncio.Server | None = None
        self._scrapes: set[asyncio.Task[None]] = set()
        self._rendering = asyncio.Lock()

    async def open(self, address: str) -> int:
        """Listen on `HOST:PORT`, and return the port; port 0 means any."""
        host, _, port = address.rpartition(":")
        self._server = await asyncio.start_server(
            self._accept, host.strip("[]") or None, int(port), limit=METRIC_REQUEST_BYTES_MAX
        )
        opened: int = self._server.sockets[0].getsockname()[1]
        return opened

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
        for scrape in tuple(self._scrapes):
            scrape.cancel()
        await asyncio.gather(*self._scrapes, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._scrapes) >= METRIC_CONNECTIONS_MAX:
            writer.transport.abort()
            return
        scrape = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._scrapes.add(scrape)
        scrape.add_done_callback(self._scrapes.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._request_timeout_s):
                head = await reader.readuntil(b"\r\n\r\n")
                status, body = await self._answer(head)
                writer.write(_response(status, body))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # not a scrape, or its client has disconnected
        except Exception:
            log.exception("metrics could not be served")
        finally:
            writer.transport.abort()

    async def _answer(self, head: bytes) -> tuple[HTTPStatus, bytes]:
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HTTPStatus.BAD_REQUEST, b""
        if words[0] != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, b""
        if words[1].split(b"?", 1)[0] != PATH.encode():
            return HTTPStatus.NOT_FOUND, f"metrics are at {PATH}\n".encode()
        return HTTPStatus.OK, await self._render()

    async def _render(self) -> bytes:
        """Render all metrics, yielding to the event loop; one scrape at a time, to bound the memory."""
        async with self._rendering:
            parts: list[bytes] = []
            turn: list[str] = []
            end_s = time.monotonic() + METRIC_TURN_S
            for metric in self._registry.metrics():
                for line in metric_text.lines(metric):
                    turn.append(line)
                    if time.monotonic() >= end_s:
                        parts.append("".join(turn).encode(errors="replace"))
                        turn.clear()
                        await asyncio.sleep(0)
                        end_s = time.monotonic() + METRIC_TURN_S
            return b"".join([*parts, "".join(turn).encode(errors="replace")])


def _response(status: HTTPStatus, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {metric_text.CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
