"""Who has a place among the connections that wait for their turn."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import cast

import pytest
from tests.faults.live import LOOPS, TIMEOUT_S
from tests.logged import own_records

from tailrace.config.listener import Endpoint
from tailrace.server.quota.connection_rate import ConnectionRates, Verdict
from tailrace.server.quota.gate import Gate, Waiting

HOUR_MS = 3_600_000


class Rates:
    """Lets each connection wait for an hour, or has each closed after one."""

    def __init__(self, refusal: str | None) -> None:
        self.verdict = Verdict(HOUR_MS, refusal)
        self.count = 0

    def judge(self, endpoint: Endpoint, host: str, waiting_count: int, refused_count: int) -> Verdict:
        self.count += 1
        return self.verdict

    def give_back(self, endpoint: Endpoint) -> None:
        self.count -= 1


class Entrance:
    """A listener behind a gate that lets nobody through before an hour."""

    def __init__(self, address: tuple[str, int], rates: Rates, waiting: Waiting) -> None:
        self.rates = rates
        self.waiting = waiting
        self._address = address

    async def connect(self) -> socket.socket:
        """Connect, and return when the gate has decided."""
        before = self._decided()
        peer = socket.create_connection(self._address, TIMEOUT_S)
        peer.setblocking(False)
        await until(lambda: self._decided() > before or _is_closed(peer))
        return peer

    def _decided(self) -> int:
        return len(self.waiting.places) + len(self.waiting.refused)


@asynccontextmanager
async def entrance(
    protocol: str = "PLAINTEXT", rate_refusal: str | None = None, per_address_max: int = 100
) -> AsyncIterator[Entrance]:
    endpoint = Endpoint("CLIENT", "127.0.0.1", 0, protocol)
    rates = Rates(rate_refusal)

    def refusal(listener_name: str, host: str, waiting_count: int) -> str | None:
        return "enough" if waiting_count >= per_address_max else None

    waiting = Waiting(cast("ConnectionRates", rates), refusal)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Gate(waiting, endpoint, asyncio.Protocol()), "127.0.0.1", 0)
    try:
        yield Entrance(server.sockets[0].getsockname(), rates, waiting)
    finally:
        server.close()
        waiting.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.002)


def _is_closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _has_arrived(waiting: socket.socket) -> bool:
    try:
        return bool(waiting.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def leave(peer: socket.socket, *, resets: bool) -> None:
    if resets:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


Run = Callable[[Coroutine[None, None, None]], None]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on each event loop."""

    def run_there(scene: Coroutine[None, None, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(scene)

    return run_there


@pytest.mark.parametrize("resets", [False, True], ids=["close", "reset"])
@pytest.mark.parametrize("rate_refusal", [None, "too many"], ids=["waits for its turn", "waits to be closed"])
def test_a_client_that_leaves_gives_its_place_up(run: Run, resets: bool, rate_refusal: str | None) -> None:
    """It held its place, and its share of the rate, until its turn came."""

    async def scene() -> None:
        async with entrance(rate_refusal=rate_refusal) as gate:
            stays, leaves = await gate.connect(), await gate.connect()
            places = gate.waiting.places if rate_refusal is None else gate.waiting.refused
            assert len(places) == 2
            leave(leaves, resets=resets)

            def is_let_go() -> bool:
                gate.waiting.let_go()
                return len(places) == 1

            await until(is_let_go)
            assert gate.waiting.count_of("127.0.0.1") == (1 if rate_refusal is None else 0)
            assert gate.rates.count == (1 if rate_refusal is None else 2)
            assert not _is_closed(stays)
            stays.close()

    run(scene())


@pytest.mark.parametrize(("protocol", "keeps"), [("PLAINTEXT", True), ("SSL", False)])
def test_a_client_that_has_sent_all_it_has_is_served_later(run: Run, protocol: str, keeps: bool) -> None:
    """A producer without acks may send and close. Over TLS nothing comes of that: the handshake needs both sides."""

    async def scene() -> None:
        async with entrance(protocol) as gate:
            peer = await gate.connect()
            peer.sendall(b"a request")
            peer.shutdown(socket.SHUT_WR)
            (waiting,) = gate.waiting.places
            await until(lambda: _has_arrived(waiting))
            if keeps:
                gate.waiting.let_go()
                assert len(gate.waiting.places) == 1
            else:

                def is_let_go() -> bool:
                    gate.waiting.let_go()
                    return not gate.waiting.places

                await until(is_let_go)
            peer.close()

    run(scene())


def test_a_connection_that_the_listener_would_refuse_does_not_wait(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """It took a place, and was refused when its turn came. Those that wait count for the limit of their address."""

    async def scene() -> None:
        async with entrance(per_address_max=2) as gate:
            peers = [await gate.connect() for _ in range(4)]
            assert [_is_closed(peer) for peer in peers] == [False, False, True, True]
            assert (len(gate.waiting.places), gate.rates.count) == (2, 2)
            for peer in peers:
                peer.close()

    run(scene())
    assert [record.getMessage() for record in own_records(caplog)] == [
        "refused a connection from 127.0.0.1: enough"
    ] * 2
