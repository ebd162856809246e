"""A proxy that loses replies, and holds requests until their client has given them up.

Of a lost reply the broker has done what it was asked, and the client does not learn of it. A held request arrives after
the client has repeated it.
"""

import asyncio
import contextlib
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from tests.port import free_port

from tailrace.client.loop_thread import LoopThread
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

PATIENCE_S = 60.0


@dataclass(eq=False)
class _Link:
    """A client's connection to the proxy, and the proxy's to the broker."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    upstream_reader: asyncio.StreamReader
    upstream_writer: asyncio.StreamWriter
    asked: deque[int] = field(default_factory=deque)
    is_given_up: bool = False


class Held:
    """A request that the network holds, with what its client sends behind it."""

    def __init__(self, api: ApiKey) -> None:
        self.api = api
        self.link: _Link | None = None
        self.pieces: list[bytes] = []
        self.given_up = asyncio.Event()
        self.is_repeated_early = False
        self.has_end = True
        self.is_released = asyncio.Event()
        self.is_answered = asyncio.Event()
        self.is_over = asyncio.Event()


class LossyProxy:
    """Forwards frames both ways. `lose` closes the connection in place of the next replies to an API; `hold` keeps the
    next request to an API until `deliver`."""

    def __init__(self) -> None:
        self.lost_count = 0
        self.held_count = 0
        self._upstream: tuple[str, int] = ("127.0.0.1", 0)
        self._losses: dict[int, deque[bool]] = {}
        self._then: Callable[[], None] | None = None
        self._held: Held | None = None
        self._thread = LoopThread("lossy-proxy")
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = self._thread.call(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.call(self._stop())
        self._thread.close()

    def forward_to(self, address: str) -> None:
        """Say where the broker is."""
        host, _, port = address.rpartition(":")
        self._upstream = (host, int(port))

    def lose(self, api: ApiKey, *plan: bool, then: Callable[[], None] | None = None) -> None:
        """For each of the next replies to an API: True loses it. `then` runs before the client learns of a loss."""
        self._then = then
        self._losses[api] = deque(plan)

    def hold(self, api: ApiKey) -> None:
        """Hold the next request to an API, and all that follows it on its connection."""
        self._held = Held(api)

    @property
    def is_holding(self) -> bool:
        """Whether a request is held."""
        return self._held is not None and self._held.link is not None

    def deliver(self, *, has_end: bool = True) -> None:
        """Send the broker the held request with the end of its connection behind it; return when the broker is done.

        Without the end, that comes when the broker has answered. Fails unless the client closes the connection, and
        has closed it before it repeated the request.
        """

        async def release(held: Held) -> None:
            async with asyncio.timeout(PATIENCE_S):
                await held.given_up.wait()
            assert not held.is_repeated_early, "the request was repeated before its connection was closed"
            held.has_end = has_end
            held.is_released.set()
            await held.is_over.wait()

        assert self._held is not None
        self._thread.call(release(self._held))
        self._held = None

    def calm(self) -> None:
        """Lose and hold nothing from now on."""
        self._losses.clear()
        self._then = self._held = None

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _stop(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = _Link(reader, writer, *await asyncio.open_connection(*self._upstream))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(link))
                group.create_task(self._replies(link))
        except* (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._tasks.discard(task)
            for side in (link.writer, link.upstream_writer):
                side.close()
                with contextlib.suppress(ConnectionError):
                    await side.wait_closed()
            if self._held is not None and self._held.link is link:
                self._held.is_over.set()

    async def _requests(self, link: _Link) -> None:
        while True:
            frame = await _read_frame(link.reader)
            key = struct.unpack_from(">h", frame, 4)[0]
            link.asked.append(key)
            if self._held is not None and self._held.api == key:
                if self._held.link is None:
                    self._held.link = link
                    self._held.pieces.append(frame)
                    self.held_count += 1
                    await self._keep(self._held, link)
                self._held.is_repeated_early |= not self._held.given_up.is_set()
            link.upstream_writer.write(frame)
            await link.upstream_writer.drain()

    async def _keep(self, held: Held, link: _Link) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await link.reader.read(1 << 16):
                held.pieces.append(piece)
        link.is_given_up = True
        held.given_up.set()
        await held.is_released.wait()
        writer = link.upstream_writer
        if sys.platform == "linux" and held.has_end:  # in the same segment, so that the broker has both or nothing
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        writer.writelines(held.pieces)
        if not held.has_end:
            await held.is_answered.wait()
        writer.write_eof()
        await asyncio.Event().wait()  # until the broker has closed its side

    async def _replies(self, link: _Link) -> None:
        while True:
            frame = await _read_frame(link.upstream_reader)
            if link.is_given_up:
                if self._held is not None and self._held.link is link:
                    self._held.is_answered.set()
                continue
            plan = self._losses.get(link.asked.popleft())
            if plan and plan.popleft():
                self.lost_count += 1
                if self._then is not None:
                    await asyncio.get_running_loop().run_in_executor(None, self._then)
                raise ConnectionError("lost on purpose")
            if link.writer.is_closing():
                raise ConnectionError("the client has left")
            link.writer.write(frame)
            await link.writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack(">i", length)[0])


@contextlib.contextmanager
def lossy_broker(**options: str) -> Iterator[tuple[LossyProxy, Broker]]:
    """Run a broker that clients reach through a proxy only."""
    with LossyProxy() as proxy:
        port = free_port()
        proxy.forward_to(f"127.0.0.1:{port}")
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        }
        with Broker(listeners | options) as broker:
            yield proxy, broker
