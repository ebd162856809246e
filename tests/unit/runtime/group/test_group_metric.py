"""What a broker tells of its groups: counts, and how far each is behind."""

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.unit.sample import BrokerInMemory, make_batch
from tests.unit.server.handlers.member import coordinator, enter, join, pass_time
from tests.unit.server.handlers.peer import Peer
from tests.unit.server.handlers.sensible import commit

from tailrace.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tailrace.protocol.messages.group_admin import DeleteGroupsRequest
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.topic import DeleteTopicsRequest, DeleteTopicsRequestTopic
from tailrace.runtime.broker import Broker
from tailrace.runtime.group import metric as group_metric

Found = dict[tuple[str, ...], float]
DAY_MS = 24 * 60 * 60 * 1000


def read(broker: Broker, name: str) -> Found:
    """The values of a metric by the values of its labels."""
    (metric,) = [metric for metric in broker.metrics.metrics() if metric.name == name]
    return {tuple(value for _, value in sample.labels): sample.value for sample in metric.samples()}


def coordinating(broker: Broker, name: str) -> Found:
    return read(broker, f"kafka_server_group_coordinator_metrics_{name}")


def lag(broker: Broker, name: str = "lag") -> Found:
    return read(broker, f"kafka_consumergroup_{name}")


def commits(group_id: str, topic: str, **offsets: int) -> OffsetCommitRequest:
    """Commit `p0=4`, `p1=…` from outside of the group."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=int(name[1:]), committed_offset=offset, committed_metadata="")
        for name, offset in offsets.items()
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group_id=group_id, topics=topics)


async def produce(client: Peer, index: int, count: int) -> None:
    await client.produce(make_batch(*[b"v"] * count), index=index)


async def test_lag_is_the_end_less_the_commit_and_follows_both() -> None:
    async with coordinator() as client:
        await client.create("t", 3)
        await produce(client, 0, 10)
        await produce(client, 1, 5)
        await client.ask(commits("near", "t", p0=10), 9)
        await client.ask(commits("far", "t", p0=4, p1=0), 9)
        assert lag(client.broker) == {("near", "t", "0"): 0, ("far", "t", "0"): 6, ("far", "t", "1"): 5}
        assert lag(client.broker, "current_offset")["far", "t", "0"] == 4
        assert lag(client.broker, "lag_sum") == {("near",): 0, ("far",): 11}
        assert lag(client.broker, "lag_max") == {("near",): 0, ("far",): 6}
        await produce(client, 0, 2)
        await client.ask(commits("far", "t", p1=5), 9)
        assert lag(client.broker) == {("near", "t", "0"): 2, ("far", "t", "0"): 8, ("far", "t", "1"): 0}


async def test_a_commit_beyond_the_end_is_no_lag_and_a_deleted_topic_has_none() -> None:
    async with coordinator() as client:
        await client.create("t", 1)
        await client.create("u", 1)
        await client.ask(commits("g", "t", p0=7), 9)
        await client.ask(commits("g", "u", p0=0), 9)
        assert lag(client.broker) == {("g", "t", "0"): 0, ("g", "u", "0"): 0}
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="u")], timeout_ms=1000))
        assert lag(client.broker) == {("g", "t", "0"): 0}


async def test_groups_are_counted_by_protocol_and_state() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await enter(client, "stable")
        first = await client.ask(join("preparing"))
        await client.ask(join("preparing", first.member_id))
        await client.ask(commit("simple", "t", topic_id, 9), 9)
        await consumer_heartbeat(client, 0)
        assert coordinating(client.broker, "group_count") == {("classic",): 3, ("consumer",): 1}
        classic = coordinating(client.broker, "classic_group_count")
        assert classic == {
            ("Empty",): 1,
            ("PreparingRebalance",): 0,
            ("CompletingRebalance",): 1,
            ("Stable",): 1,
            ("Dead",): 0,
        }
        consumer = coordinating(client.broker, "consumer_group_count")
        assert consumer == {("Empty",): 0, ("Assigning",): 0, ("Reconciling",): 0, ("Stable",): 1}
        assert lag(client.broker, "members") == {("stable",): 1, ("preparing",): 1, ("simple",): 0, ("modern",): 1}
        assert coordinating(client.broker, "offset_count") == {(): 1}


async def consumer_heartbeat(client: Peer, epoch: int) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="modern",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert (await client.ask(request)).error_code == 0


async def test_what_is_done_is_counted() -> None:
    counted = ("group_completed_rebalance_count", "consumer_group_rebalance_count", "offset_commit_count")
    async with coordinator() as client:
        await client.create("t", 2)
        assert [coordinating(client.broker, name) for name in counted] == [{(): 0}] * 3
        member_id = await enter(client, "g")
        await consumer_heartbeat(client, 0)
        await client.ask(commits("simple", "t", p0=1, p1=2), 9)
        assert [coordinating(client.broker, name) for name in counted] == [{(): 1}, {(): 1}, {(): 2}]
        await consumer_heartbeat(client, -1)
        leaving = [LeaveGroupRequestMember(member_id=member_id)]
        await client.ask(LeaveGroupRequest(group_id="g", members=leaving))
        assert coordinating(client.broker, counted[0]) == {(): 1}, "a group that is left has nothing to divide"
        assert coordinating(client.broker, counted[1]) == {(): 2}, "its epoch has moved on"
        loads = coordinating(client.broker, "partition_load_time_ms")
        assert loads[("+Inf",)] == 3, "one for each partition of __consumer_offsets"


async def test_offsets_that_were_deleted_are_not_those_that_expired() -> None:
    async with coordinator(offsets_retention_minutes="1440") as client:
        await client.create("t", 2)
        await client.ask(commits("deleted", "t", p0=1), 9)
        await client.ask(commits("forgotten", "t", p0=1, p1=1), 9)
        await client.ask(DeleteGroupsRequest(groups_names=["deleted"]))
        await pass_time(client, 2 * DAY_MS)
        assert coordinating(client.broker, "offset_deletion_count") == {(): 1}
        assert coordinating(client.broker, "offset_expiration_count") == {(): 2}


async def test_loading_counts_nothing_again() -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        await client.create("t", 1)
        await client.ask(commits("g", "t", p0=0), 9)
    async with coordinator(machine) as again:
        assert coordinating(again.broker, "offset_commit_count") == {(): 0}
        assert lag(again.broker) == {("g", "t", "0"): 0}


async def test_names_that_are_too_long_and_series_that_are_too_many_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_metric, "METRIC_LAG_SERIES_MAX", 3)
    left_out: Callable[[Broker], Found] = lambda broker: read(broker, "tailrace_group_series_left_out")  # noqa: E731
    async with coordinator() as client:
        topic_id: UUID = await client.create("t", 1)
        for group_id in ("a", "b", "x" * 256):
            await client.ask(commit(group_id, "t", topic_id, 9), 9)
        assert {group_id for group_id, _, _ in lag(client.broker)} == {"a", "b"}
        assert lag(client.broker, "members").keys() == {("a",), ("b",)}
        assert left_out(client.broker) == {(): 1}
        for group_id in ("c", "d"):
            await client.ask(commit(group_id, "t", topic_id, 9), 9)
        assert len(lag(client.broker)) == len(lag(client.broker, "current_offset")) == 3
        assert len(lag(client.broker, "lag_sum")) == 4
        assert left_out(client.broker) == {(): 2}


async def test_a_static_member_that_comes_back_is_no_rebalance() -> None:
    async with coordinator() as client:
        joined = await client.ask(join(group_instance_id="rack-1"))
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        await client.ask(
            SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, assignments=[assignment]), 3
        )
        again = await client.ask(join(group_instance_id="rack-1"))
        assert (again.error_code, again.generation_id) == (0, 1)
        assert again.member_id != joined.member_id, "it was written down"
        assert coordinating(client.broker, "group_completed_rebalance_count") == {(): 1}
