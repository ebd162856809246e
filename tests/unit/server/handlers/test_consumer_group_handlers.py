"""Groups of the new protocol over real frames: membership, description, topics, options and a restart."""

from typing import Any

import pytest
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.member import coordinator, join, pass_time
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.config.alter import AlterOperation
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.config import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from tailrace.protocol.messages.topic import CreatePartitionsRequest, CreatePartitionsRequestTopic

GROUP_RESOURCE = 32


def enter(member: str = "m", **more: Any) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    said: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=0, **(said | more))


def beat(epoch: int, member: str = "m", **more: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **more)


def given(reply: ConsumerGroupHeartbeatResponse) -> list[list[int]] | None:
    """The partitions of each topic in a reply, if it holds an assignment."""
    assert reply.error_code == ErrorCode.NONE, reply.error_message
    return None if reply.assignment is None else [topic.partitions for topic in reply.assignment.topic_partitions]


async def describe(client: Peer, name: str = "g") -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=True)
    return (await client.ask(request)).groups[0]


async def test_members_join_share_and_leave() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 4)
        first = await client.ask(enter())
        assert (first.member_id, first.member_epoch, first.heartbeat_interval_ms) == ("m", 2, 5_000)
        assert given(first) == [[0, 1, 2, 3]]
        await pass_time(client, 1_000)
        assert given(await client.ask(enter("n"))) == []
        assert given(await client.ask(beat(2))) == [[0, 1]]
        owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=[0, 1])]
        assert (await client.ask(beat(2, topic_partitions=owned))).member_epoch == 3
        assert given(await client.ask(beat(3, "n"))) == [[2, 3]]
        assert (await client.ask(beat(-1, "n"))).member_epoch == -1
        await pass_time(client, 1_000)
        assert given(await client.ask(beat(3))) == [[0, 1, 2, 3]]


async def test_the_coordinator_makes_an_id_for_a_member_of_version_0() -> None:
    async with coordinator() as client:
        await client.create("t")
        assert len((await client.ask(enter(""), 0)).member_id) == 36
        assert (await client.ask(enter(""), 1)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_is_described_listed_and_deleted() -> None:
    async with coordinator() as client:
        await client.create("t", 2)
        await client.ask(enter(instance_id="i", rack_id="r", server_assignor="range"))
        group = await describe(client)
        assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
        assert (group.assignor_name, group.authorized_operations) == (
            "range",
            1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11,
        )
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.rack_id, member.client_host) == (
            "m",
            "i",
            "r",
            "/127.0.0.1",
        )
        assert [(topic.topic_name, topic.partitions) for topic in member.assignment.topic_partitions] == [("t", [0, 1])]
        listed = (await client.ask(ListGroupsRequest(types_filter=["consumer"]))).groups
        assert [(one.group_id, one.group_state, one.protocol_type) for one in listed] == [("g", "Stable", "consumer")]
        old = (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0]
        assert (old.error_code, old.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")
        (refused,) = (await client.ask(DeleteGroupsRequest(groups_names=["g"]))).results
        assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
        await client.ask(beat(-1, instance_id="i"))
        (deleted,) = (await client.ask(DeleteGroupsRequest(groups_names=["g"]))).results
        assert deleted.error_code == ErrorCode.NONE
        assert (await describe(client)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await describe(client, "")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_group_sees_topics_that_grow_and_come() -> None:
    async with coordinator() as client:
        await client.create("t", 1)
        await client.ask(enter(subscribed_topic_names=["t", "u"]))
        await pass_time(client, 1_000)
        grow = CreatePartitionsRequestTopic(name="t", count=3, assignments=None)
        await client.ask(CreatePartitionsRequest(topics=[grow]))
        assert given(await client.ask(beat(2))) == [[0, 1, 2]]
        await pass_time(client, 1_000)
        await client.create("u", 1)
        assert sorted(given(await client.ask(beat(3))) or []) == [[0], [0, 1, 2]]


async def test_a_regular_expression_is_resolved_in_time() -> None:
    async with coordinator() as client:
        await client.create("t", 2)
        joined = await client.ask(enter(subscribed_topic_names=None, subscribed_topic_regex="[st]"))
        assert (joined.member_epoch, given(joined)) == (1, [])
        await pass_time(client, 1_000)
        assert given(await client.ask(beat(1))) == [[0, 1]]


async def test_a_silent_member_is_gone() -> None:
    async with coordinator() as client:
        await client.create("t", 2)
        await client.ask(enter())
        await pass_time(client, 45_000)
        assert (await client.ask(beat(2))).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_group_has_its_own_heartbeat_interval() -> None:
    async with coordinator() as client:
        await client.create("t", 2)
        assert (await client.ask(enter())).heartbeat_interval_ms == 5_000
        config = IncrementalAlterConfigsRequestConfig(
            name="consumer.heartbeat.interval.ms", config_operation=AlterOperation.SET, value="7000"
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=GROUP_RESOURCE, resource_name="g", configs=[config]
        )
        await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert (await client.ask(beat(2))).heartbeat_interval_ms == 7_000


async def test_a_group_finds_itself_again_after_a_restart() -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        await client.create("t", 2)
        await client.ask(enter())
    async with peer(machine, offsets_topic_num_partitions="3") as client:
        await client.broker.groups.loaded()
        again = await client.ask(beat(2))
        assert (again.error_code, again.member_epoch, again.assignment) == (0, 2, None)
        assert [member.member_id for member in (await describe(client)).members] == ["m"]


async def test_members_of_both_protocols_meet_in_a_group() -> None:
    async with coordinator() as client:
        await client.create("t", 2)
        await client.ask(enter())
        refused = await client.ask(join(member_id="x", metadata=b""))
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "what it says of itself makes no sense"
        subscription = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
        asked = await client.ask(join(metadata=subscription))
        assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
        await pass_time(client, 1_000)
        joined = await client.ask(join(member_id=asked.member_id, metadata=subscription))
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 3, "range")
        assert {member.member_type for member in (await describe(client)).members} == {0, 1}


async def test_what_a_broker_refuses_where_the_new_protocol_is_off() -> None:
    async with coordinator(group_coordinator_rebalance_protocols="classic") as client:
        assert (await client.ask(enter())).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await describe(client)).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("text", ["x" * 32_000, "\0", "💥" * 1_000])
async def test_strange_names_are_taken_as_they_are(text: str) -> None:
    async with coordinator() as client:
        assert (await client.ask(enter(text, subscribed_topic_names=[text]))).member_id == text


async def test_a_member_that_wants_more_than_a_batch_can_hold_is_refused_and_nothing_of_it_stays() -> None:
    async with coordinator() as client:
        await client.create("t")
        names = [f"{number:032000}" for number in range(100)]
        assert (await client.ask(enter(subscribed_topic_names=names))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await describe(client)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert given(await client.ask(enter("n"))) == [[0]]


async def test_the_feature_is_told_to_clients() -> None:
    async with peer() as client:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        reply = await client.ask(request, 4)
        assert [(one.name, one.min_version, one.max_version) for one in reply.supported_features] == [
            ("eligible.leader.replicas.version", 0, 1),
            ("group.version", 0, 1),
            ("transaction.version", 0, 2),
        ]
        assert reply.finalized_features_epoch == 0
        assert [(one.name, one.max_version_level) for one in reply.finalized_features] == [
            ("eligible.leader.replicas.version", 1),
            ("group.version", 1),
            ("transaction.version", 2),
        ]
        assert (await client.ask(request, 3)).supported_features == []
