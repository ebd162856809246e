"""What a fetcher says to a leader."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from tests.unit.runtime.test_partition_role import Bench

from runnel.config.broker import BrokerConfig
from runnel.protocol.messages.fetch import FetchRequest, FetchResponse
from runnel.runtime.peer import Peer
from runnel.runtime.replica_fetcher import ReplicaFetcher
from runnel.runtime.replication_throttle import ReplicationThrottle


class QuietLeader:
    """A peer, and its connection, on which a leader without news answers."""

    broker_id = 2

    def __init__(self) -> None:
        self.requests: asyncio.Queue[FetchRequest] = asyncio.Queue()

    async def connect(self) -> "QuietLeader":
        return self

    async def request(self, request: FetchRequest, reply_type: type[FetchResponse], **_: object) -> FetchResponse:
        self.requests.put_nowait(request)
        await asyncio.sleep(0)
        return reply_type(session_id=7)

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_leader_hears_of_every_partition_again_when_the_follower_begins_another_life() -> None:
    """Else it would not let the follower of a quiet partition into the ISR: it fetched in a life that is unknown."""
    bench, leader, epochs = Bench(), QuietLeader(), [-1]
    bench.follow(epoch=0)
    throttle = ReplicationThrottle(1, bench.clock, lambda: 1, lambda _: "")
    with ThreadPoolExecutor(1) as worker:
        fetcher = ReplicaFetcher(cast(Peer, leader), 1, lambda: epochs[-1], BrokerConfig, bench.clock, worker, throttle)
        fetcher.add(bench.partition)
        fetching = asyncio.ensure_future(fetcher.run())

        def said(request: FetchRequest) -> tuple[int, int]:
            assert request.replica_state is not None
            return request.replica_state.replica_epoch, len(request.topics)

        assert [said(await leader.requests.get()) for _ in range(2)] == [(-1, 1), (-1, 0)]
        epochs.append(57)
        later = [said(await leader.requests.get()) for _ in range(3)]
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
    assert (57, 1) in later
    assert later[-1] == (57, 0)
