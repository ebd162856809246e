"""Members of many groups on bare connections, which only join and send heartbeats."""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from typing import TypeVar

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

R = TypeVar("R", bound=Message)

SESSION_MS = 45_000
METADATA = b"\0\0\0\0\0\1\0\6topic1\xff\xff\xff\xff"  # subscribed to topic1
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Wire:
    """A connection for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: Message, kind: type[R], version: int) -> R:
        self._writer.writelines(encode_request(1, "bench", request, version))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(kind, await self._reader.readexactly(size), version)[1]

    def close(self) -> None:
        self._writer.close()


class Load:
    """The results of all members together."""

    def __init__(self, bootstrap: str, topic: str, members_per_group: int, interval_s: float) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.address = host, int(port)
        self.topic = topic
        self.members_per_group = members_per_group
        self.interval_s = interval_s
        self.stable: set[tuple[str, int]] = set()  # members with an assignment, of complete groups
        self.measures = False
        self.latencies_ms: list[float] = []
        self.lateness_ms: list[float] = []  # of the members themselves, if the load gets too little CPU
        self._connecting = asyncio.Semaphore(100)

    async def connect(self) -> Wire:
        async with self._connecting:
            return Wire(*await asyncio.open_connection(*self.address))

    async def find(self, group: str) -> None:
        """Wait until the group's coordinator is available, which a first member waits for."""
        wire = await self.connect()
        while True:
            request = FindCoordinatorRequest(key=group, key_type=0)
            found = await wire.ask(request, FindCoordinatorResponse, 1)
            if found.error_code == ErrorCode.NONE:
                break
            await asyncio.sleep(0.1)
        wire.close()

    async def find_loaded(self, group: str) -> None:
        """Wait until the coordinator has loaded its groups."""
        wire = await self.connect()
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
        while (await wire.ask(request, HeartbeatResponse, 4)).error_code != ErrorCode.UNKNOWN_MEMBER_ID:
            pass
        wire.close()

    async def beat(self, wire: Wire, request: Message, kind: type[R], version: int) -> R:
        """Send a heartbeat, and record its latency while measuring."""
        started = time.perf_counter()
        answer = await wire.ask(request, kind, version)
        if self.measures:
            self.latencies_ms.append((time.perf_counter() - started) * 1e3)
        return answer

    async def rest(self) -> None:
        """Wait until the next heartbeat."""
        due = time.perf_counter() + self.interval_s
        await asyncio.sleep(self.interval_s)
        if self.measures:
            self.lateness_ms.append((time.perf_counter() - due) * 1e3)


async def classic_member(load: Load, group: str, number: int) -> None:
    """Join with JoinGroup and SyncGroup, and then send heartbeats."""
    wire = await load.connect()
    member_id = ""
    while True:
        load.stable.discard((group, number))
        joined = await wire.ask(_join(group, member_id), JoinGroupResponse, 9)
        member_id = joined.member_id or member_id
        if joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, *NOT_YET):
            continue
        _check(joined.error_code, ErrorCode.REBALANCE_IN_PROGRESS)
        synced = await wire.ask(_sync(group, joined), SyncGroupResponse, 5)
        _check(synced.error_code, ErrorCode.REBALANCE_IN_PROGRESS)
        if synced.error_code != ErrorCode.NONE:
            continue
        # The leader's assignment states the number of members.
        if synced.assignment == b"%d" % load.members_per_group:
            load.stable.add((group, number))
        alive = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=member_id)
        while True:
            await load.rest()
            answer = await load.beat(wire, alive, HeartbeatResponse, 4)
            if answer.error_code != ErrorCode.NONE:
                _check(answer.error_code, ErrorCode.REBALANCE_IN_PROGRESS)
                break


def _join(group: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
    )


def _sync(group: str, joined: JoinGroupResponse) -> SyncGroupRequest:
    share = b"%d" % len(joined.members)
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=share) for member in joined.members
        ],
    )


async def consumer_member(load: Load, group: str, number: int) -> None:
    """Join with ConsumerGroupHeartbeat and send heartbeats; each member has one partition of the topic."""
    wire = await load.connect()
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[load.topic],
        topic_partitions=[],
    )
    while True:
        answer = await load.beat(wire, request, ConsumerGroupHeartbeatResponse, 1)
        if answer.error_code in NOT_YET:
            await asyncio.sleep(0.1)
            continue
        _check(answer.error_code)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=request.member_id, member_epoch=answer.member_epoch
        )
        if answer.assignment is not None:
            owned = answer.assignment.topic_partitions
            if sum(len(topic.partitions) for topic in owned) == 1:
                load.stable.add((group, number))
            else:
                load.stable.discard((group, number))
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in owned
            ]
            continue  # confirm the change of the assignment at once
        await load.rest()


def _check(code: int, *borne: ErrorCode) -> None:
    if code not in (ErrorCode.NONE, *borne):
        raise RuntimeError(f"a member got {ErrorCode(code).name}")
