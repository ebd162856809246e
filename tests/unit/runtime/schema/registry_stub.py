"""A schema registry that answers what a test tells it, or does not answer."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

UNKNOWN_ID = (404, json.dumps({"error_code": 40403, "message": "Schema not found"}).encode())


class RegistryStub:
    """Knows the subjects of ids. `fault` is a status and a body that it gives instead of any answer."""

    def __init__(self) -> None:
        self.url = ""
        self.subjects: dict[int, list[str]] = {}
        self.fault: tuple[int, bytes] | None = None
        self.raw: bytes | None = None  # sent in place of any answer, and the connection is closed
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked: list[str] = []
        self.heads: list[bytes] = []
        self.connection_count = 0
        self.is_chunked = False
        self.closes_after_answer = False
        self._arrival = asyncio.Condition()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()

    async def wait_asked(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(60), self._arrival:
            await self._arrival.wait_for(lambda: len(self.asked) >= count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        self._writers.add(writer)
        self._tasks.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                self.asked.append(head.split(b" ")[1].decode())
                found = self._found(self.asked[-1])
                async with self._arrival:
                    self._arrival.notify_all()
                await self.may_answer.wait()
                if self.raw is not None:
                    writer.write(self.raw)
                    break
                self._answer(writer, *(self.fault or found))
                if self.closes_after_answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _found(self, path: str) -> tuple[int, bytes]:
        subjects = self.subjects.get(int(path.split("/")[-2]))
        return UNKNOWN_ID if subjects is None else (200, json.dumps(subjects).encode())

    def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        writer.write(b"HTTP/1.1 %d Reason\r\nContent-Type: application/vnd.schemaregistry.v1+json\r\n" % status)
        if self.is_chunked:
            chunks = (b"%X;note\r\n%s\r\n" % (len(chunk), chunk) for chunk in (body[:1], body[1:]))
            writer.write(b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\nTrailer: x\r\n\r\n")
        else:
            writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))

    def hang_up(self) -> None:
        """Close the connections, as a server does with idle ones."""
        for writer in self._writers:
            writer.close()

    async def stop(self) -> None:
        """Close the connections and wait until their tasks have ended."""
        self.may_answer.set()
        self.hang_up()
        await asyncio.gather(*(task for task in self._tasks if task is not None))


@asynccontextmanager
async def registry_stub(tls: ssl.SSLContext | None = None) -> AsyncIterator[RegistryStub]:
    """A registry on a port of its own."""
    stub = RegistryStub()
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    stub.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()
        await stub.stop()
