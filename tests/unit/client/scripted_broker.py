"""A peer that answers as a test tells it to, for what no real broker would do."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tailrace.client.address import Address
from tailrace.protocol.frame import RequestHeader, decode_request_header, encode_response
from tailrace.protocol.message import Message
from tailrace.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi

Answer = Callable[[RequestHeader, "asyncio.StreamWriter"], Awaitable[None]]

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersionsResponseApi(api_key=18, min_version=0, max_version=4),
        ApiVersionsResponseApi(api_key=3, min_version=0, max_version=12),
        ApiVersionsResponseApi(api_key=60, min_version=90, max_version=91),
    ]
)


def frame(correlation_id: int, response: Message, version: int) -> bytes:
    return b"".join(encode_response(correlation_id, response, version))


async def answer_versions(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
    """What every broker does with the first request."""
    writer.write(frame(header.correlation_id, VERSIONS, header.api_version))


@asynccontextmanager
async def scripted_broker(*answers: Answer, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Address]:
    """Listen, and treat the requests of each connection by these in turn; the last one is for all that follow."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            index = 0
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                header, _ = decode_request_header(await reader.readexactly(length))
                await answers[min(index, len(answers) - 1)](header, writer)
                index += 1
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, port)
    try:
        yield Address(host, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()
