"""Membership in groups over real frames: versions, waiting, and what is refused."""

import asyncio

import pytest
from tests.settled import settled
from tests.unit.server.handlers.member import coordinator, enter, join, pass_time
from tests.unit.server.handlers.peer import peer

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tailrace.protocol.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, partition_for

# --- FindCoordinator and the topic


async def test_the_first_who_asks_for_a_coordinator_has_the_topic_made() -> None:
    async with peer() as client:
        assert OFFSETS_TOPIC not in client.broker.image.topics
        before = await client.ask(join())
        assert before.error_code == ErrorCode.NOT_COORDINATOR
        asked = [client.ask(FindCoordinatorRequest(coordinator_keys=[str(n)])) for n in range(5)]
        for answer in await asyncio.gather(*asked):
            (found,) = answer.coordinators
            assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "broker.example", 9092)
        topic = client.broker.image.topics[OFFSETS_TOPIC]
        assert topic.partition_count == 50
        config = client.broker.topic_config(OFFSETS_TOPIC)
        assert config.segment_bytes == 100 * 1024 * 1024
        assert (await client.ask(join())).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_a_transactional_id_needs_no_topic_of_groups() -> None:
    async with peer() as client:
        answer = await client.ask(FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1))
        assert answer.coordinators[0].error_code == 0
        assert OFFSETS_TOPIC not in client.broker.image.topics


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("", 0), ("g", 3), ("my-group", 12), ("gruppe-ä", 48), ("😀", 49), ("x" * 300, 14), ("polygenelubricants", 0)],
)
def test_groups_have_the_partitions_that_kafka_gives_them(group_id: str, partition: int) -> None:
    # Computed by Java. The hash of the last one is the smallest integer, which has no absolute value.
    assert partition_for(group_id, 50) == partition


# --- membership


async def test_a_member_joins_works_and_leaves() -> None:
    async with coordinator() as client:
        member_id = await enter(client)
        assert member_id.startswith("peer-")
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        for version in range(5):
            assert (await client.ask(beat, version)).error_code == 0
        described = (await client.ask(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True))).groups[
            0
        ]
        assert (described.group_state, described.protocol_type, described.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        assert described.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        (member,) = described.members
        assert (member.client_id, member.client_host) == ("peer", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"sub", b"all")
        listed = (await client.ask(ListGroupsRequest(states_filter=["stable"], types_filter=["Classic"]))).groups
        assert [(group.group_id, group.group_state, group.group_type) for group in listed] == [
            ("g", "Stable", "classic")
        ]
        left = await client.ask(
            LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=member_id, reason="done")])
        )
        assert [outcome.error_code for outcome in left.members] == [0]
        assert (await client.ask(beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(10))
async def test_a_join_in_every_version(version: int) -> None:
    async with coordinator() as client:
        request = join() if version else join(rebalance_ms=-1)
        answer = await client.ask(request, version)
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert answer.protocol_name == (None if version >= 7 else "")
            answer = await client.ask(join(member_id=answer.member_id), version)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
        assert answer.protocol_type == ("consumer" if version >= 7 else None)
        assert answer.leader == answer.member_id
        assert [member.metadata for member in answer.members] == [b"sub"]


async def test_before_version_3_the_error_of_a_leave_is_that_of_its_member() -> None:
    async with coordinator() as client:
        member_id = await enter(client)
        for name, expected in (("nobody", ErrorCode.UNKNOWN_MEMBER_ID), (member_id, ErrorCode.NONE)):
            assert (await client.ask(LeaveGroupRequest(group_id="g", member_id=name), 2)).error_code == expected


async def test_sync_must_name_its_protocol_from_version_5() -> None:
    async with coordinator() as client:
        member_id = await enter(client)
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await client.ask(request, 4)).assignment == b"all"
        assert (await client.ask(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_join_waits_and_a_client_that_goes_is_not_waited_for() -> None:
    async with coordinator() as client:
        member_id = await enter(client)
        second = await client.ask(join())
        waiting = asyncio.get_running_loop().create_task(client.ask(join(member_id=second.member_id)))
        await settled()
        assert not waiting.done()
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await client.ask(beat)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        client.line.interrupts[-1]()
        assert (await waiting).error_code == ErrorCode.NETWORK_EXCEPTION
        # The first member joins again; the second, of which nobody knows that it is gone, is in the generation.
        joined = await client.ask(join(member_id=member_id))
        assert (joined.generation_id, len(joined.members)) == (2, 2)


async def test_a_silent_member_goes() -> None:
    async with coordinator() as client:
        member_id = await enter(client)
        await pass_time(client, 9_999)
        assert (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0].group_state == "Stable"
        await pass_time(client, 1)
        described = (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0]
        assert (described.group_state, described.members) == ("Empty", [])
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await client.ask(beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_wall_clock_may_jump() -> None:
    async with coordinator() as client:
        await enter(client)
        client.machine.clock.now_ms = lambda: 2_000_000_000_000  # type: ignore[method-assign]
        client.broker.groups.fire_due()
        assert (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0].group_state == "Stable"


async def test_bad_requests() -> None:
    async with coordinator() as client:
        assert (await client.ask(join(""))).error_code == ErrorCode.INVALID_GROUP_ID
        assert (await client.ask(join(session_ms=1))).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        huge = join(metadata=b"x" * (4 * 1024 * 1024 + 1))
        assert (await client.ask(huge)).error_code == ErrorCode.INVALID_REQUEST
        many = join()
        many.protocols = [JoinGroupRequestProtocol(name=f"p{number}") for number in range(101)]
        assert (await client.ask(many)).error_code == ErrorCode.INVALID_REQUEST
        many.protocols = [JoinGroupRequestProtocol(name="p" * 30_000, metadata=b"x" * 20_000) for _ in range(100)]
        assert (await client.ask(many)).error_code == ErrorCode.INVALID_REQUEST
        for request in (
            HeartbeatRequest(group_id="", generation_id=1, member_id="m"),
            LeaveGroupRequest(group_id="", members=[LeaveGroupRequestMember(member_id="m")]),
            SyncGroupRequest(group_id="", generation_id=1, member_id="m", protocol_type="", protocol_name=""),
        ):
            assert (await client.ask(request)).error_code == ErrorCode.INVALID_GROUP_ID


async def test_names_as_long_as_the_protocol_allows() -> None:
    async with coordinator() as client:
        name = "n" * 32767
        answer = await client.ask(join(name, group_instance_id=name))
        assert (answer.error_code, answer.generation_id) == (0, 1)
        assert answer.members[0].group_instance_id == name


async def test_an_assignment_that_fits_into_no_batch_does_not_wedge_the_group() -> None:
    async with coordinator() as client:
        first = await client.ask(join())
        await client.ask(join(member_id=first.member_id))
        assignment = SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"x" * 2_000_000)
        request = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=first.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
        assert (await client.ask(request)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await client.ask(join(member_id=first.member_id))).generation_id == 2
