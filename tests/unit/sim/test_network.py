"""Connections between simulated hosts: what arrives, what waits, and who is told when one end is gone."""

import asyncio
import socket
from typing import Any

import pytest
from tests.unit.sim.scene import Echo, play

from tailrace.protocol.errors import ErrorCode
from tailrace.server.peer_state import PeerState, peer_state
from tailrace.sim.network import Network
from tailrace.sim.process import Life, Process
from tailrace.sim.stranding import Stranding


class Pair:
    """A server and a client, each a program on its own host, and their connection."""

    network: Network
    here: Echo
    there: Echo

    def __init__(self) -> None:
        self.network = asyncio.get_running_loop().network  # type: ignore[attr-defined]
        self.server = Process("server", "south")
        self.client = Process("client", "north")

    async def connect(self) -> "Pair":
        await self.server.spawn(self._listen())
        self.here = await self.client.spawn(self._connect())
        return self

    async def _listen(self) -> None:
        await asyncio.get_running_loop().create_server(self._accept, "south", 9)

    def _accept(self) -> Echo:
        self.there = Echo()
        return self.there

    async def _connect(self) -> Echo:
        _, protocol = await asyncio.get_running_loop().create_connection(lambda: Echo(answers=False), "south", 9)
        return protocol


@pytest.mark.parametrize("seed", range(5))
def test_everything_arrives_in_order_though_in_pieces(seed: int) -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        sent = [bytes([number]) * 50 for number in range(100)]
        for piece in sent:
            pair.here.transport.write(piece)
        await asyncio.sleep(30)
        assert pair.here.received == b"".join(sent)

    play(scene(), seed=seed)


def test_nobody_listens() -> None:
    async def scene() -> None:
        await asyncio.get_running_loop().create_connection(Echo, "south", 9)

    with pytest.raises(ConnectionRefusedError):
        play(scene())


def test_a_closed_listener_refuses() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, "south", 9)
        assert server.sockets[0].getsockname() == ("south", 9)
        server.close()
        await loop.create_connection(Echo, "south", 9)

    with pytest.raises(ConnectionRefusedError):
        play(scene())


@pytest.mark.parametrize(("cut", "reaches"), [(("north", "south"), False), (("south", "north"), True)])
def test_a_cut_in_one_direction_stops_that_direction_until_it_is_mended(cut: Any, reaches: bool) -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.network.cut(*cut)
        pair.here.transport.write(b"hello")
        await asyncio.sleep(60)
        assert (pair.there.received == b"hello") is reaches
        assert pair.here.received == b""
        pair.network.mend(*cut)
        await asyncio.sleep(5)
        assert pair.here.received == b"hello"

    play(scene())


def test_a_knock_waits_for_a_cut_to_be_mended() -> None:
    async def scene() -> None:
        pair = Pair()
        pair.network.cut("north", "south")
        connecting = asyncio.create_task(pair.connect())
        await asyncio.sleep(60)
        assert not connecting.done()
        pair.network.mend_all()
        await connecting

    play(scene())


@pytest.mark.parametrize("seed", range(4))
def test_the_peer_of_a_killed_program_is_told(seed: int) -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.server.life = Life.DEAD
        pair.network.end(pair.server)
        assert isinstance(await pair.here.lost, ConnectionResetError | None)
        with pytest.raises(ConnectionRefusedError):
            await pair.client.spawn(pair._connect())

    play(scene(), seed=seed)


def test_the_peer_of_a_host_without_power_learns_it_only_when_it_talks_to_it_again() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.server.life = Life.DEAD
        pair.network.power_off("south")
        await asyncio.sleep(60)
        assert pair.here.happened == []
        pair.here.transport.write(b"are you there?")
        await asyncio.sleep(60)
        assert pair.here.happened == []
        pair.network.power_on("south")
        assert isinstance(await pair.here.lost, ConnectionResetError)

    play(scene())


linux = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has all options")


def probe_peer(end: Echo, *, every_s: int, limit_s: float) -> None:
    own = end.transport.get_extra_info("socket")
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every_s)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limit_s * 1000))
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


@linux
def test_probes_find_out_that_a_host_was_without_power() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        probe_peer(pair.here, every_s=10, limit_s=30)
        await asyncio.sleep(600)
        assert pair.here.happened == []
        pair.server.life = Life.DEAD
        pair.network.power_off("south")
        pair.network.power_on("south")
        async with asyncio.timeout(11):
            assert isinstance(await pair.here.lost, ConnectionResetError)

    play(scene())


@linux
@pytest.mark.parametrize("fault", ["off", "silent", "cut", "held"])
def test_probes_end_a_connection_that_is_not_answered(fault: str) -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        probe_peer(pair.here, every_s=10, limit_s=30)
        match fault:
            case "off":
                pair.network.power_off("south")
            case "silent":
                pair.there.transport.swallow()
            case "cut":
                pair.network.cut("south", "north")
            case "held":
                pair.here.transport.hold(100)
        began_s = asyncio.get_running_loop().time()
        async with asyncio.timeout(100):
            error = await pair.here.lost
        assert type(error) is TimeoutError
        assert 30 <= asyncio.get_running_loop().time() - began_s <= 41

    play(scene())


@linux
def test_probes_survive_a_short_cut() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        probe_peer(pair.here, every_s=10, limit_s=30)
        for _ in range(5):
            pair.network.cut("south", "north")
            await asyncio.sleep(15)
            pair.network.mend("south", "north")
            await asyncio.sleep(15)
        assert pair.here.happened == []

    play(scene())


def test_a_silent_connection_tells_nobody() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.here.transport.swallow()
        pair.here.transport.write(b"hello")
        await asyncio.sleep(600)
        assert (pair.there.received, pair.here.happened, pair.there.happened) == (b"", [], [])

    play(scene())


def test_closing_sends_the_rest_first() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.there.answers = False
        pair.here.transport.write(b"x" * 100_000)
        pair.here.transport.close()
        pair.here.transport.write(b"too late")
        await pair.there.lost
        assert (len(pair.there.received), pair.there.happened) == (100_000, ["eof", type(None)])
        assert pair.here.happened == [type(None)]

    play(scene())


def test_what_was_sent_before_an_abort_arrives_unless_the_reset_overtakes_it() -> None:
    """The kernel of a program that aborts a connection still sends what it has taken."""

    async def scene() -> tuple[bytes, type]:
        pair = await Pair().connect()
        pair.there.answers = False
        pair.here.transport.write(b"hello")
        pair.here.transport.abort()
        lost = await pair.there.lost
        assert pair.here.happened == [type(None)]
        return pair.there.received, type(lost)

    assert {play(scene(), seed=seed) for seed in range(20)} == {(b"hello", type(None)), (b"", ConnectionResetError)}


@pytest.mark.parametrize("is_held", [False, True])
def test_the_end_of_a_connection_is_seen_behind_what_was_sent_before(is_held: bool) -> None:
    """A kernel knows that the peer has closed before the program has read everything; it knows nothing too early."""

    async def scene() -> list[PeerState]:
        pair = await Pair().connect()
        pair.there.answers = False
        pair.there.transport.pause_reading()
        seen = [peer_state(pair.there.transport)]
        if is_held:
            pair.here.transport.hold(10.0)
        pair.here.transport.write(b"hello")
        pair.here.transport.close()
        await asyncio.sleep(5)
        seen.append(peer_state(pair.there.transport))
        await asyncio.sleep(10)
        seen.append(peer_state(pair.there.transport))
        pair.there.transport.resume_reading()
        await pair.there.lost
        assert pair.there.received == b"hello"
        return [*seen, peer_state(pair.there.transport)]

    early = PeerState.PRESENT if is_held else PeerState.ENDED
    assert play(scene()) == [PeerState.PRESENT, early, PeerState.ENDED, PeerState.GONE]


def test_only_the_next_request_of_a_kind_is_held() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.there.answers = False
        other, wanted = (bytes(4) + key.to_bytes(2, "big") + b"asked" for key in (3, 0))
        caught = pair.network.hold_next("north", 0, 10.0)
        pair.here.transport.write(other)
        await asyncio.sleep(1)
        assert (pair.there.received, caught.done()) == (other, False)
        pair.here.transport.write(wanted)
        await asyncio.sleep(9)
        assert (pair.there.received, caught.done()) == (other, True)
        await asyncio.sleep(2)
        assert pair.there.received == other + wanted
        pair.here.transport.write(wanted)
        await asyncio.sleep(1)
        assert pair.there.received == other + wanted + wanted

    play(scene())


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_is_stranded_arrives_late_or_when_a_batch_is_out_of_order(is_refused: bool) -> None:
    """The end that is reset learns of it at once, and the other end not before it answers."""

    async def scene() -> None:
        pair = await Pair().connect()
        stranding = Stranding(pair.network)
        stranding.strand(["north"], 1.0, 9.0)
        pair.here.transport.write(b"hello")
        await pair.here.lost
        await asyncio.sleep(1)
        assert (pair.there.received, peer_state(pair.there.transport)) == (b"", PeerState.PRESENT)
        if is_refused:
            stranding.refused("east", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
            stranding.refused("south", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
        await asyncio.sleep(1)
        assert pair.there.received == (b"hello" if is_refused else b"")
        await asyncio.sleep(10)
        assert pair.there.received == b"hello"
        await pair.there.lost

    play(scene())


def test_the_first_refusal_because_of_a_limit_ends_the_wait_for_it() -> None:
    async def scene() -> None:
        stranding = Stranding(Pair().network)
        waiting = asyncio.ensure_future(stranding.wait_refused(60.0))
        await asyncio.sleep(1)
        stranding.refused("south", [ErrorCode.NOT_ENOUGH_REPLICAS])
        await asyncio.sleep(1)
        assert not waiting.done()
        stranding.refused("south", [ErrorCode.MESSAGE_TOO_LARGE])
        stranding.refused("south", [ErrorCode.MESSAGE_TOO_LARGE])
        await asyncio.sleep(1)
        assert waiting.done()
        await stranding.wait_refused(1.0)

    play(scene())


def test_a_reader_that_pauses_holds_the_writer_back() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.there.answers = False
        pair.there.transport.pause_reading()
        pair.here.transport.write(b"x" * 1_000_000)
        await asyncio.sleep(60)
        assert pair.here.happened == ["pause"]
        pair.there.transport.resume_reading()
        await asyncio.sleep(60)
        assert pair.here.happened == ["pause", "resume"]
        assert len(pair.there.received) == 1_000_000

    play(scene())


def test_what_comes_for_a_paused_program_waits() -> None:
    async def scene() -> None:
        pair = await Pair().connect()
        pair.server.life = Life.PAUSED
        pair.here.transport.write(b"hello")
        await asyncio.sleep(60)
        assert pair.there.received == b""
        asyncio.get_running_loop().resume(pair.server)  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        assert pair.here.received == b"hello"

    play(scene())
