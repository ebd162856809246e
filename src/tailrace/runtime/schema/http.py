"""GET requests over one HTTP/1.1 connection that stays open between them.

It has what a broker needs to ask a schema registry: no redirects, no compression, bodies up to a limit. The caller sets
the time limit; a connection whose request was cancelled or failed is closed.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from tailrace.base.registry_address import RegistryAddress

_HEADERS_BYTES_MAX = 64 * 1024


class HttpError(Exception):
    """The peer did not answer in HTTP/1.1, or its reply is too large."""


class HttpReply(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes


class HttpConnection:
    """A connection to a server. One request at a time; a request opens it if it is closed."""

    def __init__(
        self, address: RegistryAddress, headers: Mapping[str, str], body_bytes_max: int, tls: ssl.SSLContext | None
    ) -> None:
        """`headers` are sent with each request. Without `tls`, HTTPS trusts the certificates of the system."""
        self._address = address
        self._tls = tls
        all_headers = {"Host": address.authority, **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
        self._body_bytes_max = body_bytes_max
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> HttpReply:
        """Request a path below the URL. Raises `HttpError` and `OSError`."""
        is_reused = self._streams is not None
        try:
            return await self._get(path)
        except (OSError, EOFError):
            # The server may have closed a connection that was idle; a new one shows whether the server is there.
            if not is_reused:
                raise
        return await self._get(path)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _get(self, path: str) -> HttpReply:
        is_complete = False
        try:
            if self._streams is None:
                self._streams = await self._open()
            reader, writer = self._streams
            writer.write(f"GET {self._address.path}{path} HTTP/1.1\r\n{self._head}\r\n".encode("ascii"))
            await writer.drain()
            reply, stays_open = await self._read(reader)
            is_complete = stays_open
            return reply
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise HttpError(f"the answer is not HTTP: {error}") from error
        finally:
            if not is_complete:
                self.close()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._address.is_tls and self._tls is None:
            # Loading the certificates of the system takes a while, so a thread does it.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        host, port, tls = self._address.host, self._address.port, self._tls if self._address.is_tls else None
        return await asyncio.open_connection(host, port, ssl=tls, limit=_HEADERS_BYTES_MAX)

    async def _read(self, reader: asyncio.StreamReader) -> tuple[HttpReply, bool]:
        """Return the reply, and whether the connection stays open after it."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        protocol, status, *_ = first.split(" ", 2)
        if not protocol.startswith("HTTP/1."):
            raise HttpError(f"the answer is not HTTP: {first[:40]!r}")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        stays_open = protocol == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return HttpReply(int(status), await self._read_chunks(reader)), stays_open
        if "content-length" in headers:
            size = self._checked(int(headers["content-length"]))
            return HttpReply(int(status), await reader.readexactly(size)), stays_open
        body = await reader.read(self._body_bytes_max + 1)
        while more := await reader.read(self._body_bytes_max + 1):
            body += more
            self._checked(len(body))
        return HttpReply(int(status), body), False

    async def _read_chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = b""
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            self._checked(size)
            self._checked(len(body) + size)
            if size == 0:
                break
            body += (await reader.readexactly(size + 2))[:-2]
        while await reader.readuntil(b"\r\n") != b"\r\n":  # trailers
            pass
        return body

    def _checked(self, size_bytes: int) -> int:
        if not 0 <= size_bytes <= self._body_bytes_max:
            raise HttpError(f"the answer has {size_bytes} bytes, but at most {self._body_bytes_max} are read")
        return size_bytes
