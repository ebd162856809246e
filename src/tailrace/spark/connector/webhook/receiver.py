"""The HTTP server that takes requests for flows, in the driver's process.

A request is answered with 200 when its records are in the topic, on all in-sync replicas. So what a client was told to
be accepted is never lost, whatever happens to the driver, and Spark can read it again. A client that gets no answer
repeats its request, and the records may be there twice.

One server listens at each address and serves all flows that name it, each at its path. It continues while a flow waits
for its restart.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tailrace.base.limits import WEBHOOK_CONNECTIONS_MAX
from tailrace.spark.connector.webhook.request import Record, Refusal, Route, check_head, read_records
from tailrace.spark.error import PipelineError

log = logging.getLogger("tailrace.spark.webhook")

_SILENCE_TIMEOUT_S = 30.0
_RETRY_AFTER_S = 5
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Store = Callable[[str, Sequence[Record]], None]
"""Writes records to a topic, and returns when they are durable; raises any error if they may not be."""


class Receiver:
    """A server at one address."""

    def __init__(self, host: str, port: int, store: Store) -> None:
        """Bind the address; raises `PipelineError` if it is taken."""
        self._store = store
        self._routes: dict[str, Route] = {}
        try:
            self._server = _Server((host, port), self)
        except OSError as error:
            raise PipelineError(f"webhook: cannot listen at {host}:{port}: {error.strerror or error}") from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="webhook", daemon=True)

    def start(self) -> None:
        """Take requests."""
        self._thread.start()

    def stop(self) -> None:
        """Close the address, and wait until the requests under way are answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def open(self, route: Route) -> None:
        """Take requests at a path; raises `PipelineError` if it is taken in another way."""
        found = self._routes.setdefault(route.path, route)
        if found != route:
            raise PipelineError(f"webhook: two flows listen at the path {route.path} with different arguments")

    def take(self, method: str, path: str, headers: Any, read: Callable[[int], bytes]) -> tuple[int, str]:
        """Take a request; returns the status and the text of the answer."""
        try:
            route = self._routes.get(path.partition("?")[0])
            body = read(check_head(route, method, headers))
            assert route is not None  # noqa: S101 - check_head refuses it otherwise
            records = read_records(route, headers, body)
        except Refusal as refusal:
            return refusal.status, refusal.text
        try:
            self._store(route.topic, records)
        except Exception as error:
            log.warning("webhook: a request for topic %s is answered with 503: %s", route.topic, error)
            return 503, "the request could not be stored; send it again later"
        return 200, str(len(records))


class _Server(ThreadingHTTPServer):
    """A thread for each connection, of which the number is limited."""

    request_queue_size = WEBHOOK_CONNECTIONS_MAX  # Python's 5 make the system reset callers that come together
    daemon_threads = False  # so that closing waits for the requests under way
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], receiver: Receiver) -> None:
        self.receiver = receiver
        self.is_closing = False
        self._free = threading.BoundedSemaphore(WEBHOOK_CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            request.send(_FULL)
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._free.release()

    def server_close(self) -> None:
        self.is_closing = True
        for each in [*self._open]:  # ends the wait for a further request; an answer can still be sent
            try:
                each.shutdown(socket.SHUT_RD)
            except OSError:
                continue
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("webhook: a connection failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = _SILENCE_TIMEOUT_S
    disable_nagle_algorithm = True  # else the body of an answer waits 40 ms for the acknowledgement of its head
    server: _Server

    def version_string(self) -> str:
        return "tailrace"

    def _handle(self) -> None:
        self._is_body_read = False
        status, text = self.server.receiver.take(self.command, self.path, self.headers, self._read)
        if not self._is_body_read or self.server.is_closing:
            self.close_connection = True  # what follows would be the rest of the body
        answer = {"records": int(text)} if status == 200 else {"error": text}
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", str(_RETRY_AFTER_S))
        if status == 405:
            self.send_header("Allow", "POST, PUT")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_DELETE = do_GET = do_HEAD = do_PATCH = do_POST = do_PUT = _handle  # noqa: N815 - names of http.server

    def _read(self, size: int) -> bytes:
        body = self.rfile.read(size)
        if len(body) < size:
            raise Refusal(400, "the body is shorter than its Content-Length")
        self._is_body_read = True
        return body

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("webhook: %s %s", self.address_string(), format % args)
