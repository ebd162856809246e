"""The question to the schema registry: every kind of answer, and the next registry when one fails."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.schema.registry_stub import RegistryStub, registry_stub

from tailrace.base.limits import SCHEMA_REGISTRY_REPLY_BYTES_MAX
from tailrace.runtime.schema import registry
from tailrace.runtime.schema.registry import RegistryClient, RegistryError


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[RegistryStub, RegistryClient]]:
    """A registry that knows two ids, and a client of it."""
    async with registry_stub() as stub:
        stub.subjects = {7: ["t-value", "u-key"], 8: []}
        client = RegistryClient([stub.url], None)
        yield stub, client
        client.close()


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_the_subjects_of_an_id(is_chunked: bool) -> None:
    async with asking() as (stub, client):
        stub.is_chunked = is_chunked
        assert await client.subjects(7) == {"t-value", "u-key"}
        assert await client.subjects(8) == frozenset()
        assert await client.subjects(9) == frozenset()
        assert stub.asked == [f"/schemas/ids/{number}/subjects" for number in (7, 8, 9)]
        assert stub.connection_count == 1


async def test_a_connection_that_the_server_closed_is_opened_again() -> None:
    async with asking() as (stub, client):
        await client.subjects(7)
        stub.hang_up()
        assert await client.subjects(7)
        assert stub.connection_count == 2


async def test_a_server_that_closes_after_each_answer() -> None:
    async with asking() as (stub, client):
        stub.closes_after_answer = True
        assert [await client.subjects(number) for number in (7, 7)] == [{"t-value", "u-key"}] * 2


async def test_an_answer_that_ends_with_the_connection() -> None:
    async with asking() as (stub, client):
        stub.raw = b'HTTP/1.0 200 OK\r\n\r\n["t-value"]'
        assert await client.subjects(7) == {"t-value"}


async def test_the_path_of_the_url_and_the_password_are_sent() -> None:
    async with asking() as (stub, _):
        client = RegistryClient([f"{stub.url}/registry/"], "user:pass word")
        await client.subjects(7)
        client.close()
        assert stub.asked == ["/registry/schemas/ids/7/subjects"]
        assert b"\r\nAuthorization: Basic " + b64encode(b"user:pass word") + b"\r\n" in stub.heads[0]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b'{"error_code": 50001}', "status 500"),
        (401, b"", "status 401"),
        (404, b"<html>no such page</html>", "status 404"),
        (404, b'{"error_code": 404}', "status 404"),
        (200, b"{}", "status 200"),
        (200, b'["t-value", 1]', "status 200"),
        (302, b"", "status 302"),
        (200, b" " * (SCHEMA_REGISTRY_REPLY_BYTES_MAX + 1), "at most"),
    ],
)
async def test_an_answer_that_is_none(status: int, body: bytes, told: str) -> None:
    async with asking() as (stub, client):
        stub.fault = (status, body)
        with pytest.raises(RegistryError, match=told) as caught:
            await client.subjects(7)
        assert stub.url in str(caught.value)
        stub.fault = None
        assert await client.subjects(7)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n[]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n[]",
        b"HTTP/1.1 200 OK\r\nName: " + b"x" * 200_000,
    ],
)
async def test_bytes_that_are_not_an_answer(raw: bytes) -> None:
    async with asking() as (stub, client):
        stub.raw = raw
        with pytest.raises(RegistryError):
            await client.subjects(7)
        stub.raw = None
        assert await client.subjects(7)


async def test_a_registry_that_is_down() -> None:
    async with asking() as (stub, _):
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        down = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()
        await server.wait_closed()
        with pytest.raises(RegistryError, match=down):
            await RegistryClient([down], None).subjects(7)
        # The registry that answers is asked first from then on.
        client = RegistryClient([down, stub.url], None)
        assert await client.subjects(7)
        stub.fault = (500, b"")
        with pytest.raises(RegistryError, match=f"{stub.url}.*{down}"):
            await client.subjects(7)
        client.close()


async def test_a_registry_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asking() as (stub, _):
        monkeypatch.setattr(registry, "SCHEMA_REGISTRY_ANSWER_S", 0.05)
        stub.may_answer.clear()
        client = RegistryClient([stub.url], None)
        with pytest.raises(RegistryError, match=r"did not answer within 0.05 s"):
            await client.subjects(7)
        monkeypatch.undo()
        stub.may_answer.set()
        assert await client.subjects(9) == frozenset(), "the late answer about another id is not taken for this one"
        client.close()
