"""Requests that repeat a name: a few repetitions are answered as Kafka answers them, thousands are not."""

from tests.unit.server.handlers.member import coordinator, enter
from tests.unit.server.handlers.peer import peer
from tests.unit.server.handlers.sensible import commit

from tailrace.base.request_limits import REPEATED_NAMES_MAX
from tailrace.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.group_admin import DescribeGroupsRequest
from tailrace.protocol.messages.group_offset import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tailrace.protocol.messages.producer import DescribeProducersRequest, DescribeProducersRequestTopic
from tailrace.protocol.messages.transaction_admin import DescribeTransactionsRequest

COUNT = 400
ANSWERED = 1 + REPEATED_NAMES_MAX


async def test_a_group_is_described_a_few_times_only() -> None:
    """400 repetitions of a group with large metadata, a request of 1.2 KB, made the broker use 300 MB."""
    async with coordinator() as client:
        await enter(client, "g")
        groups = (await client.ask(DescribeGroupsRequest(groups=["g", "other", "g"]))).groups
        assert [(group.group_id, len(group.members)) for group in groups] == [("g", 1), ("other", 0), ("g", 1)]
        groups = (await client.ask(DescribeGroupsRequest(groups=["g"] * COUNT + ["other"]))).groups
        assert [group.group_id for group in groups] == ["g"] * ANSWERED + ["other"]
        groups = (await client.ask(ConsumerGroupDescribeRequest(group_ids=["g"] * COUNT + ["other"]))).groups
        assert [group.group_id for group in groups] == ["g"] * ANSWERED + ["other"]


async def test_a_committed_offset_is_told_a_few_times_only() -> None:
    """20,000 repetitions of a partition with metadata of 12 KB, a request of 80 KB, made the broker use 246 MB."""
    async with coordinator() as client:
        topic_id = await client.create("t", 2)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        topic = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0] * COUNT + [1])
        some = OffsetFetchRequestGroup(group_id="g", topics=[topic, topic])
        every = OffsetFetchRequestGroup(group_id="g", topics=None)
        (found,) = (await client.ask(OffsetFetchRequest(groups=[some]), 9)).groups
        indexes = [partition.partition_index for topic in found.topics for partition in topic.partitions]
        assert indexes == [0] * ANSWERED + [1]
        found = (await client.ask(OffsetFetchRequest(groups=[every] * COUNT), 9)).groups
        assert [len(group.topics) for group in found] == [1] * ANSWERED


async def test_a_transaction_is_described_a_few_times_only() -> None:
    async with peer(transaction_state_log_num_partitions="1") as client:
        request = DescribeTransactionsRequest(transactional_ids=["x"] * COUNT + ["y"])
        found = (await client.ask(request)).transaction_states
        assert [each.transactional_id for each in found] == ["x"] * ANSWERED + ["y"]


async def test_the_producers_of_a_partition_are_told_a_few_times_only() -> None:
    async with peer() as client:
        await client.create("t", 2)
        topic = DescribeProducersRequestTopic(name="t", partition_indexes=[0] * COUNT + [1])
        found = (await client.ask(DescribeProducersRequest(topics=[topic, topic]))).topics
        assert [[each.partition_index for each in one.partitions] for one in found] == [[0] * ANSWERED + [1], []]
