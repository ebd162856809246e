"""Bytes that a connection receives before it has begun, as a TLS client may send them with the end of its handshake."""

import asyncio

import pytest
from tests.faults.fake_transport import FakeTransport
from tests.faults.live import framed

from tailrace.base.limits import MIB
from tailrace.server.budget import Backlog, Budget
from tailrace.server.connection import Buffer, Connection, SocketSizes
from tailrace.server.frame_reader import FrameReader


class Everyone:
    """Counts no connection, admits all, and logs nothing."""

    def admit(self, connection: Connection) -> str | None:
        return None

    def forget(self, connection: Connection) -> None:
        pass

    def warn(self, text: str, *arguments: object) -> None:
        pass


class Early:
    """A connection whose handshake is not complete, and what it has served."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory_bytes: int = MIB) -> None:
        self.served: list[bytes] = []
        self.budget = Budget(memory_bytes)
        reader = FrameReader(MIB, memoryview(bytearray(64 * 1024)))
        sizes = SocketSizes(-1, -1)
        self.connection = Connection(self._serve, reader, self.budget, Backlog(MIB), "SSL", sizes, Everyone())
        with monkeypatch.context() as handshake:
            handshake.setattr(self.connection, "begin", lambda transport: None)
            self.transport = FakeTransport(self.connection)

    async def _serve(self, _: Connection, frame: bytearray) -> list[Buffer]:
        self.served.append(bytes(frame))
        return [b"reply"]


@pytest.mark.parametrize("memory_bytes", [MIB, 1], ids=["memory is free", "memory is full"])
@pytest.mark.parametrize("size_bytes", [100, 200_000])
async def test_bytes_may_come_in_several_reads(
    size_bytes: int, memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second read into a large frame failed an invariant, because only `begin` made room for it."""
    early = Early(monkeypatch, memory_bytes)
    body = b"x" * size_bytes
    await early.transport.deliver(framed(body)[: size_bytes - 10])
    early.connection.begin(early.transport)
    await early.transport.deliver(framed(body)[size_bytes - 10 :])
    await early.transport.until_quiet()
    assert early.served == [body]
    assert await early.transport.finish() == b"reply"
    assert early.budget.in_flight_bytes == 0


async def test_bytes_that_are_no_frame_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stayed open until its client sent more."""
    early = Early(monkeypatch)
    await early.transport.deliver(b"\xff\xff\xff\xff")
    early.connection.begin(early.transport)
    async with asyncio.timeout(60):
        while not early.transport.is_closing():
            await asyncio.sleep(0)
    assert early.served == []
