"""A coordinator over real frames, and members of its groups."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tailrace.protocol.messages.group_offset import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)


@asynccontextmanager
async def coordinator(machine: BrokerInMemory | None = None, **settings: str) -> AsyncIterator[Peer]:
    """A broker that coordinates, without a wait for more members."""
    options = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "3", **settings}
    async with peer(machine, intercept=None, **options) as client:
        await client.broker.groups.make_topic()
        await client.broker.groups.loaded()
        yield client


def join(group_id: str = "g", member_id: str = "", **more: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=more.pop("session_ms", 10_000),
        rebalance_timeout_ms=more.pop("rebalance_ms", 60_000),
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=more.pop("metadata", b"sub"))],
        **more,
    )


async def enter(client: Peer, group_id: str = "g") -> str:
    """Be the only member of a stable group."""
    first = await client.ask(join(group_id))
    joined = await client.ask(join(group_id, first.member_id))
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assignment = SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"all")
    synced = await client.ask(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=1,
            member_id=first.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
    )
    assert (synced.error_code, synced.assignment) == (0, b"all")
    return str(first.member_id)


async def pass_time(client: Peer, wait_ms: int) -> None:
    client.machine.clock.time_ms += wait_ms
    client.broker.groups.fire_due()


def fetch_old(topic: str = "t", group_id: str = "g") -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=group_id, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])])
