"""An HTTP server for tests that answers as it is told, and keeps the requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class WebhookServer:
    """Answers each request with what `answer` returns: a status, headers and a body. None closes the connection."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], tuple[int, dict[str, str], bytes] | None] = lambda _: (200, {}, b"")
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    @contextmanager
    def running(self) -> Iterator[WebhookServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer._lock:
                    request = Request(self.command, self.path, dict(self.headers.items()), body)
                    outer.requests.append(request)
                    answer = outer.answer(request)
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, text = answer
                self.send_response(status)
                for name, value in (headers | {"Content-Length": str(len(text))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_PUT = do_POST  # noqa: N815 - names of http.server

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler
