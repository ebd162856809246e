"""Clients that open connections and send nothing, or only a part of a request."""

import asyncio
import json

import httpx
import pytest
from tests.unit.registry.serving import serving

from tailrace.registry.http.edge import SPEECH, Edge
from tailrace.registry.process import Options, RegistryServer
from tailrace.web import edge
from tailrace.web import server as web_server
from tailrace.web.counter import RequestCounters
from tailrace.web.door import Door


async def open_connections(
    server: RegistryServer, count: int
) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    member = server.registry.member
    return [await asyncio.open_connection(member.host, member.port) for _ in range(count)]


async def test_idle_connections_do_not_keep_requests_out(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn's limit counted connections that had never sent a request, and answered all requests with 503."""
    monkeypatch.setattr(web_server, "HTTP_CONNECTIONS_MAX", 5)
    monkeypatch.setattr(web_server, "_TRIM_INTERVAL_S", 0.01)
    async with serving(options) as server:
        opened = await open_connections(server, 20)
        closing = [asyncio.create_task(reader.read()) for reader, _ in opened]
        for _ in range(15):
            done, _ = await asyncio.wait(closing, return_when=asyncio.FIRST_COMPLETED)
            closing = [task for task in closing if task not in done]
            if len(closing) <= 5:
                break
        assert len(closing) <= 5
        async with httpx.AsyncClient(timeout=60) as client:
            assert (await client.get(f"{server.url}/subjects")).status_code == 200
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*closing)


async def test_a_request_that_never_ends_is_given_up(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "HTTP_BODY_TIMEOUT_S", 0.01)
    async with serving(options) as server:
        ((reader, writer),) = await open_connections(server, 1)
        writer.write(b"POST /subjects/a/versions HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
        assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()


async def test_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "HTTP_REQUESTS_MAX", 1)
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def app(_scope: edge.Scope, _receive: edge.Receive, send: edge.Send) -> None:
        has_begun.set()
        await may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    outer = Edge(app, speech=SPEECH, door=Door(), counters=RequestCounters())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://registry.example") as client:
        first = asyncio.create_task(client.get("/subjects"))
        await has_begun.wait()
        refused = await client.get("/subjects")
        assert (refused.status_code, json.loads(refused.content)["error_code"]) == (503, 503)
        may_end.set()
        assert (await first).status_code == 200
        assert (await client.get("/subjects")).status_code == 200
