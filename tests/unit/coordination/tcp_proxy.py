"""A connection that can be cut, or made deaf in one direction, without the ends doing anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TcpProxy:
    """Passes bytes on between those who connect to `address` and a server."""

    def __init__(self, target: str) -> None:
        self._host, port = target.split(":")
        self._port = int(port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = True
        self.passes_requests = self.passes_answers = True
        self.garbage = b""
        """What the next answer is replaced with."""
        self.swallowed = asyncio.Event()
        """Something was not passed on."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["TcpProxy"]:
        server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        self.address = "{}:{}".format(*server.sockets[0].getsockname())
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection, and let none through until `mend`."""
        self.is_open = False
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def mend(self) -> None:
        self.is_open = self.passes_requests = self.passes_answers = True
        self.swallowed.clear()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            writer.close()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, server_writer}
        for source, sink, name in (
            (reader, server_writer, "passes_requests"),
            (server_reader, writer, "passes_answers"),
        ):
            task = asyncio.ensure_future(self._pass_on(source, sink, name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        try:
            while data := await reader.read(65536):
                if name == "passes_answers" and self.garbage:
                    data, self.garbage = self.garbage, b""
                if getattr(self, name):
                    writer.write(data)
                else:
                    self.swallowed.set()
        except ConnectionError:
            pass
        finally:
            writer.close()
