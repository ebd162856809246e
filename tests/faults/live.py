"""A server in a thread of its own loop, which tests attack over sockets and look into from the loop."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop
from tests.clients.ask.asker import Asker
from tests.clients.raw import CLOSED, Wire, batch

from tailrace.base.clock import Clock
from tailrace.config.broker import BrokerConfig
from tailrace.server.connection import Connection
from tailrace.server.server import Server, start_server
from tailrace.storage.fs import FileSystem

T = TypeVar("T")

TIMEOUT_S = 60.0
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Look again and again until the condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {TIMEOUT_S} s: {what}")
        time.sleep(0.002)


class Live:
    """A running server, its address and the way into its loop."""

    def __init__(
        self,
        folder: Path | str,
        options: Mapping[str, str] | None = None,
        *,
        loop: str = "uvloop",
        intercept: Any = None,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
    ) -> None:
        defaults = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder),
            "log.retention.check.interval.ms": "86400000",  # records may have the time of another year
        }
        self._config = BrokerConfig({**defaults, **(options or {})})
        self._arguments = {"intercept": intercept, "fs": fs, "clock": clock}
        self._new_loop = LOOPS[loop]
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="live-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop cleanly; stopping twice does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(TIMEOUT_S)
            assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            self.server: Server = await start_server(self._config, **self._arguments)
        except BaseException as error:
            self._started.set_exception(error)
            return
        endpoint = self.server.endpoints[0]
        self.address = endpoint.host, endpoint.port
        self.bootstrap = f"{endpoint.host}:{endpoint.port}"
        self._started.set_result(None)
        await self._stopping.wait()
        await self.server.stop()

    # --- into the loop

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something in the server's loop."""

        async def run() -> T:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(TIMEOUT_S)

    def wait_for(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result(TIMEOUT_S)

    def now(self) -> float:
        """The time of the server's loop."""
        return self.call(self._loop.time)

    @property
    def in_flight_bytes(self) -> int:
        return self.server.listeners.budget.in_flight_bytes

    def connections_now(self) -> list[Connection]:
        """The connections; to be asked in the loop."""
        return list(self.server.listeners.connections)

    def connections(self) -> list[Connection]:
        return self.call(self.connections_now)

    def count(self) -> int:
        return len(self.server.listeners.connections)

    def sweep_later(self, seconds: float) -> None:
        """Have the server look through its connections as if so much time had passed."""
        self.call(lambda: self.server.listeners.sweep(self._loop.time() + seconds))

    def wait_until_gone(self) -> None:
        """Wait until no connection is left and all memory is given back."""
        wait_until(lambda: self.count() == 0, "every connection is gone")
        wait_until(lambda: self.in_flight_bytes == 0, f"{self.in_flight_bytes} bytes in flight are given back")
        assert self.server.listeners.budget.waiting_count == 0
        assert self.server.listeners.backlog.size_bytes == 0

    # --- from outside

    def socket(self, *, receive_bytes: int | None = None) -> socket.socket:
        """A connection that the server has taken note of."""
        made = socket.socket()
        made.settimeout(TIMEOUT_S)
        if receive_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        made.connect(self.address)
        return made

    def wire(self) -> Wire:
        return Wire(self.bootstrap, TIMEOUT_S)

    @property
    def asker(self) -> Asker:
        return Asker(self.bootstrap)

    def assert_serves(self, topic: str | None = None) -> None:
        """Another client produces a record and reads it back."""
        asker = self.asker
        topic = topic or asker.topic()
        before = len(asker.stored(topic))
        assert asker.produce(topic, batch([b"still here"]))["error_code"] == 0
        assert len(asker.stored(topic)) == before + 1


def framed(body: bytes) -> bytes:
    """Bytes behind their length."""
    return struct.pack(">i", len(body)) + body


def request_header(key: int, version: int, correlation_id: int = 7, client_id: bytes | None = b"t") -> bytes:
    """A request header of version 1."""
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, correlation_id, size) + (client_id or b"")


def api_versions(correlation_id: int = 7) -> bytes:
    """The smallest whole request."""
    return framed(request_header(18, 0, correlation_id, None))


def receive_exactly(peer: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        part = peer.recv(min(size_bytes - len(data), 1 << 20))
        assert part, "the server closed the connection"
        data += part
    return bytes(data)


def receive_frame(peer: socket.socket) -> bytes:
    (size_bytes,) = struct.unpack(">i", receive_exactly(peer, 4))
    return receive_exactly(peer, size_bytes)


def is_closed(peer: socket.socket) -> bool:
    """Wait for the server to close, discarding what it still sends."""
    try:
        while peer.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


__all__ = [
    "CLOSED",
    "LOOPS",
    "Live",
    "api_versions",
    "batch",
    "framed",
    "is_closed",
    "receive_exactly",
    "receive_frame",
    "request_header",
    "wait_until",
]
