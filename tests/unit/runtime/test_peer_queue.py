"""Items for other brokers: sent together, one request at a time, and given back where a bug kept them from it."""

import asyncio
from typing import Any, cast

import pytest
from tests.logged import logged
from tests.settled import settled

from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_queue import PeerQueue

HERE, THERE = 1, 2


class Connection:
    """Stands for another broker."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Bench:
    """A queue whose requests are kept, each until the test lets it go."""

    def __init__(self) -> None:
        self.queue: PeerQueue[int] = PeerQueue(self._peer_of, self._send, self._give_back)
        self.peers: list[Connection] = []
        self.sent: list[tuple[int, list[int]]] = []
        self.faults: dict[int, Exception] = {}  # by the item that meets one
        self.peer_faults: list[Exception] = []
        self.returned: list[tuple[list[int], str]] = []
        self.return_faults: list[Exception] = []
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()

    async def hold(self) -> None:
        """Have requests wait, and return when those with the items so far are under way."""
        self._may_go_on.clear()
        await settled()

    async def go_on(self) -> None:
        """Let the requests go that wait, and all that follow from them."""
        self._may_go_on.set()
        await settled()
        assert not self.queue._tasks

    def _peer_of(self, broker_id: int) -> Peer:
        if self.peer_faults:
            raise self.peer_faults.pop()
        self.peers.append(Connection(broker_id))
        return cast("Peer", self.peers[-1])

    async def _send(self, peer: Any, items: list[int]) -> None:
        await self._may_go_on.wait()
        self.sent.append((peer.broker_id, items))
        for item in items:
            if item in self.faults:
                raise self.faults[item]

    def _give_back(self, items: list[int], error: Exception) -> None:
        if self.return_faults:
            raise self.return_faults.pop()
        self.returned.append((items, str(error)))


async def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    bench = Bench()
    bench.queue.add(HERE, 1)
    bench.queue.add(THERE, 2)
    await bench.hold()
    bench.queue.add(HERE, 3)
    bench.queue.add(HERE, 4)
    await bench.go_on()
    assert sorted(bench.sent) == [(HERE, [1]), (HERE, [3, 4]), (THERE, [2])]
    assert sorted(peer.broker_id for peer in bench.peers) == [HERE, THERE]
    await bench.queue.stop()
    assert all(peer.is_closed for peer in bench.peers)


async def test_what_a_bug_hits_is_given_back_and_the_rest_is_sent() -> None:
    bench = Bench()
    bench.faults[1] = ValueError("a bug")
    bench.queue.add(HERE, 0)
    bench.queue.add(HERE, 1)
    await bench.hold()
    bench.queue.add(HERE, 2)
    await bench.go_on()
    assert bench.returned == [([0, 1], "a bug")]
    assert bench.sent[-1] == (HERE, [2])


async def test_a_peer_that_cannot_be_made_is_made_at_the_next_time() -> None:
    """Nothing was ever sent to that broker again: its task had ended and still stood in the list."""
    bench = Bench()
    bench.peer_faults = [ValueError("a bug")]
    bench.queue.add(HERE, 1)
    await bench.go_on()
    assert bench.returned == [([1], "a bug")]
    bench.queue.add(HERE, 1)
    await bench.go_on()
    assert bench.sent == [(HERE, [1])]


async def test_who_fails_to_take_items_back_stops_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.faults[1] = ValueError("a bug")
    bench.return_faults = [ValueError("another bug")]
    bench.queue.add(HERE, 1)
    await bench.hold()
    bench.queue.add(HERE, 2)
    await bench.go_on()
    assert bench.sent[-1] == (HERE, [2])
    assert "are lost" in logged(caplog)
