"""Offsets of groups over real frames, and groups seen from outside."""

from uuid import UUID

from tests.unit.server.handlers.member import coordinator, enter, fetch_old, pass_time
from tests.unit.server.handlers.peer import peer
from tests.unit.server.handlers.sensible import commit

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tailrace.protocol.messages.topic import DeleteTopicsRequest, DeleteTopicsRequestTopic

# --- offsets


async def test_offsets_are_committed_in_every_version_and_read_in_every_version() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 2)
        for version in range(2, 11):
            committed = await client.ask(commit(f"g{version}", "t", topic_id, version), version)
            assert committed.topics[0].partitions[0].error_code == 0
        for version in range(1, 8):
            found = await client.ask(fetch_old(group_id="g10"), version)
            answers = [(p.partition_index, p.committed_offset, p.metadata) for p in found.topics[0].partitions]
            assert answers == [(0, 1, "note"), (1, -1, "")]
        for version in (8, 9, 10):
            by_id = version == 10
            topic = OffsetFetchRequestGroupTopic(
                name="" if by_id else "t", topic_id=topic_id if by_id else UUID(int=0), partition_indexes=[0]
            )
            groups = [OffsetFetchRequestGroup(group_id=f"g{n}", topics=[topic]) for n in (2, 9, 77)]
            groups.append(OffsetFetchRequestGroup(group_id="g5", topics=None))
            found = await client.ask(OffsetFetchRequest(groups=groups), version)
            offsets = [group.topics[0].partitions[0].committed_offset for group in found.groups]
            assert offsets == [1, 1, -1, 1]
            assert found.groups[3].topics[0].topic_id == (topic_id if by_id else UUID(int=0))


async def test_what_cannot_be_committed_is_told_by_partition() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=metadata)
            for index, metadata in ((0, None), (1, ""), (-1, ""))
        ]
        topics = [
            OffsetCommitRequestTopic(name="t", partitions=partitions),
            OffsetCommitRequestTopic(name="absent", partitions=partitions[:1]),
        ]
        answer = await client.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
        told = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told == {("t", 0): 0, ("t", 1): missing, ("t", -1): missing, ("absent", 0): missing}
        by_id = [
            OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions[:2]),
            OffsetCommitRequestTopic(topic_id=UUID(int=5), partitions=partitions[:1]),
        ]
        answer = await client.ask(OffsetCommitRequest(group_id="g", topics=by_id), 10)
        told = {(t.topic_id, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
        assert told == {(topic_id, 0): 0, (topic_id, 1): missing, (UUID(int=5), 0): ErrorCode.UNKNOWN_TOPIC_ID}


async def test_offsets_are_neither_committed_nor_deleted_for_a_client_that_has_left() -> None:
    """It may have repeated the request on another connection, and have committed more since."""
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        assert (await client.ask(commit("g", "t", topic_id, 9), 9)).topics[0].partitions[0].error_code == 0
        client.line.is_abandoned = True
        late = commit("g", "t", topic_id, 9)
        late.topics[0].partitions[0].committed_offset = 0
        refused = await client.ask(late, 9)
        assert refused.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        deletion = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
        assert (await client.ask(deletion, 0)).error_code == ErrorCode.REQUEST_TIMED_OUT
        found = await client.ask(fetch_old(group_id="g"), 7)
        assert found.topics[0].partitions[0].committed_offset == 1


async def test_a_commit_that_is_refused_as_a_whole() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        member_id = await enter(client)
        request = commit("g", "t", topic_id, 9)
        request.member_id, request.generation_id_or_member_epoch = member_id, 7
        answer = await client.ask(request, 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
        request.generation_id_or_member_epoch = 1
        assert (await client.ask(request, 9)).topics[0].partitions[0].error_code == 0


async def test_errors_about_a_group_stand_where_the_version_has_a_place() -> None:
    async with peer() as client:  # nobody has asked for a coordinator yet
        refused = ErrorCode.NOT_COORDINATOR
        assert [p.error_code for p in (await client.ask(fetch_old(), 1)).topics[0].partitions] == [refused, refused]
        assert (await client.ask(fetch_old(), 2)).error_code == refused
        groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
        assert (await client.ask(OffsetFetchRequest(groups=groups))).groups[0].error_code == refused
        assert (await client.ask(DescribeGroupsRequest(groups=["g"]))).groups[0].error_code == refused
        assert (await client.ask(DeleteGroupsRequest(groups_names=["g", "g"]))).results[0].error_code == refused
        assert (await client.ask(ListGroupsRequest())).groups == []


async def test_offsets_go_with_their_topic() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=1000))
        found = await client.ask(fetch_old(), 7)
        assert found.topics[0].partitions[0].committed_offset == -1


async def test_groups_are_deleted() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        await enter(client, "busy")
        answer = await client.ask(DeleteGroupsRequest(groups_names=["g", "busy", "nobody", "g"]))
        assert [(result.group_id, result.error_code) for result in answer.results] == [
            ("g", 0),
            ("busy", ErrorCode.NON_EMPTY_GROUP),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert [group.group_id for group in (await client.ask(ListGroupsRequest())).groups] == ["busy"]


async def test_old_offsets_expire() -> None:
    async with coordinator(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000") as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        await pass_time(client, 59_999)
        assert (await client.ask(fetch_old(), 7)).topics[0].partitions[0].committed_offset == 1
        await pass_time(client, 1_001)
        assert (await client.ask(fetch_old(), 7)).topics[0].partitions[0].committed_offset == -1
        assert (await client.ask(ListGroupsRequest())).groups == []
