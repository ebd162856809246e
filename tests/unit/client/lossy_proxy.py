"""A proxy that loses replies: the broker has done what it was asked, and the client does not learn of it."""

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

from tests.port import free_port

from tailrace.client.loop_thread import LoopThread
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker


class LossyProxy:
    """Forwards frames both ways. `lose` closes the connection in place of the next replies to an API."""

    def __init__(self) -> None:
        self.lost_count = 0
        self._upstream: tuple[str, int] = ("127.0.0.1", 0)
        self._losses: dict[int, deque[bool]] = {}
        self._then: Callable[[], None] | None = None
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
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._upstream)
        asked: deque[int] = deque()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, upstream_writer, asked))
                group.create_task(self._replies(upstream_reader, writer, asked))
        except* (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._tasks.discard(task)
            for side in (writer, upstream_writer):
                side.close()
                with contextlib.suppress(ConnectionError):
                    await side.wait_closed()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int]) -> None:
        while True:
            frame = await _read_frame(reader)
            asked.append(struct.unpack_from(">h", frame, 4)[0])
            writer.write(frame)
            await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int]) -> None:
        while True:
            frame = await _read_frame(reader)
            plan = self._losses.get(asked.popleft())
            if plan and plan.popleft():
                self.lost_count += 1
                if self._then is not None:
                    await asyncio.get_running_loop().run_in_executor(None, self._then)
                raise ConnectionError("lost on purpose")
            writer.write(frame)
            await writer.drain()


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
