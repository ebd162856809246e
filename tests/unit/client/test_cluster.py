"""Finding brokers and leaders, and trying again."""

import asyncio
import gc
import uuid

import pytest
from tests.unit.client.scripted_broker import answer_versions, frame, scripted_broker

from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.error import BootstrapError, BrokerUnavailable, RequestTimeout
from tailrace.client.fetch.request import FetchOptions, build_fetch
from tailrace.client.metadata import ClusterView, Partition, Topic, read_metadata
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.frame import RequestHeader
from tailrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.testing import Broker

NOBODY = Address("127.0.0.1", 1)


def quick(bootstrap: str | list[Address]) -> Cluster:
    return Cluster(bootstrap, retry_backoff_ms=1, retry_backoff_max_ms=5)


def test_the_second_address_serves_when_the_first_is_dead(bootstrap: str) -> None:
    async def run() -> None:
        async with Cluster(f"{NOBODY},{bootstrap}") as cluster:
            assert list(cluster.view.nodes) == [1]
            assert cluster.view.cluster_id

    asyncio.run(run())


def test_a_bootstrap_that_fails_says_why_for_every_address() -> None:
    async def run() -> None:
        with pytest.raises(BootstrapError) as caught:
            await Cluster(f"{NOBODY},127.0.0.1:2").connect()
        assert "127.0.0.1:1: Connection refused" in str(caught.value)
        assert "127.0.0.1:2: Connection refused" in str(caught.value)

    asyncio.run(run())


def test_an_unknown_topic_is_an_error_after_a_while(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            with pytest.raises(ApiError) as caught:
                await cluster.topic(topic, timeout_ms=20)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(ApiError, match="INVALID_TOPIC_EXCEPTION"):
                await cluster.topic("no/such/name", timeout_ms=60_000)  # will never pass, so it is not tried again

    asyncio.run(run())


def test_a_partition_that_is_not_there_is_named(tailrace_broker: Broker, topic: str) -> None:
    async def run() -> None:
        tailrace_broker.create_topic(topic, partitions=2)
        async with quick(tailrace_broker.bootstrap_servers) as cluster:
            assert await cluster.leader_id(topic, 1) == 1
            with pytest.raises(ApiError, match="has 2 partitions, none with the number 2"):
                await cluster.leader_id(topic, 2)

    asyncio.run(run())


def test_what_is_known_is_not_asked_again_until_it_is_forgotten(tailrace_broker: Broker, topic: str) -> None:
    async def run() -> None:
        tailrace_broker.create_topic(topic)
        async with quick(tailrace_broker.bootstrap_servers) as cluster:
            await cluster.topic(topic)
            fault = tailrace_broker.inject("METADATA", error="UNKNOWN_SERVER_ERROR")
            await cluster.topic(topic)
            assert fault.hits == 0
            cluster.forget(topic)
            assert cluster.known_topic(topic) is None
            with pytest.raises(ApiError):
                await cluster.topic(topic)
            assert fault.hits == 1

    asyncio.run(run())


def test_an_action_is_tried_again_while_that_can_help() -> None:
    async def run() -> None:
        failures: list[Exception] = [
            BrokerUnavailable("gone"),
            RequestTimeout("slow"),
            ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ]

        async def action() -> str:
            if failures:
                raise failures.pop(0)
            return "done"

        cluster = quick([NOBODY])
        assert await cluster.retry(action, timeout_ms=60_000) == "done"
        failures[:] = [ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), BrokerUnavailable("never reached")]
        with pytest.raises(ApiError):
            await cluster.retry(action, timeout_ms=60_000)
        failures[:] = [BrokerUnavailable(str(number)) for number in range(1000)]
        with pytest.raises(BrokerUnavailable):
            await cluster.retry(action, timeout_ms=20)
        assert failures

    asyncio.run(run())


def test_a_broker_that_comes_back_is_connected_to_again(topic: str) -> None:
    async def run() -> None:
        with Broker() as broker:
            async with quick(broker.bootstrap_servers) as cluster:
                await asyncio.to_thread(broker.restart)
                # The old connection is dead, which the first request finds out.
                view = await cluster.retry(lambda: cluster.refresh([]), timeout_ms=60_000)
                assert list(view.nodes) == [1]

    asyncio.run(run())


def test_those_who_need_a_connection_at_the_same_time_share_it() -> None:
    opened = 0

    async def count(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await answer_versions(header, writer)

    async def metadata(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")
        brokers = [MetadataResponseBroker(node_id=5, host=address[0], port=address[1])]
        writer.write(frame(header.correlation_id, MetadataResponse(brokers=brokers), header.api_version))

    async def run() -> None:
        async with scripted_broker(count, metadata) as address, Cluster([address]) as cluster:
            await asyncio.gather(*(cluster.connection(5) for _ in range(5)))
            assert opened == 1  # the bootstrap's connection serves, for it leads to the same address
            await asyncio.gather(*(cluster.connection(5, lane="other") for _ in range(5)))
            assert opened == 2
            connection = await cluster.connection(5, lane="other")
            await cluster.close_lane("other")
            assert not connection.is_open
            assert (await cluster.connection(5)).is_open
            with pytest.raises(BrokerUnavailable, match="broker 6 is not in the cluster's metadata"):
                await cluster.connection(6)

    asyncio.run(run())


def test_metadata_is_read_and_merged() -> None:
    def response(*topics: MetadataResponseTopic) -> MetadataResponse:
        brokers = [MetadataResponseBroker(node_id=1, host="a", port=2)]
        return MetadataResponse(brokers=brokers, controller_id=1, topics=list(topics))

    partitions = [MetadataResponsePartition(partition_index=index, leader_id=[1, -1][index]) for index in (1, 0)]
    first = read_metadata(response(MetadataResponseTopic(name="one", partitions=partitions)))
    assert first.topics["one"].led_partitions == [0]
    assert [first.topics["one"].leader_id(index) for index in (-1, 0, 1, 2)] == [-1, 1, -1, -1]
    second = read_metadata(response(MetadataResponseTopic(name="two", error_code=3)))
    merged = first.merge(second, ["two"])
    assert set(merged.topics) == {"one", "two"}
    assert merged.topics["two"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(merged.merge(second, ["one", "two"]).topics) == {"two"}


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    def told(topic_id: uuid.UUID, *leaders: tuple[int, int]) -> ClusterView:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
            for index, (leader, epoch) in enumerate(leaders)
        ]
        topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)
        return read_metadata(MetadataResponse(brokers=[], controller_id=1, topics=[topic]))

    def leaders(view: ClusterView) -> list[int]:
        return [partition.leader_id for partition in view.topics["t"].partitions]

    topic_id = uuid.uuid4()
    before = told(topic_id, (1, 5), (2, 5))
    assert leaders(before.merge(told(topic_id, (3, 4), (3, 6), (3, 0)), ["t"])) == [1, 3, 3]
    assert leaders(before.merge(told(uuid.uuid4(), (3, 0)), ["t"])) == [3]  # another topic of that name
    assert leaders(before.merge(told(topic_id, (-1, 6)), ["t"])) == [-1]


def test_a_fetch_says_which_leader_it_is_meant_for() -> None:
    """One that was succeeded, and does not know, could say that an offset is out of range which others have."""
    topic = Topic("t", uuid.uuid4(), False, (Partition(0, 1, 7, (1, 2), (1, 2)),))
    (asked,) = build_fetch(topic, {0: 5, 9: 6}, FetchOptions()).topics
    assert [(each.partition, each.current_leader_epoch) for each in asked.partitions] == [(0, 7), (9, -1)]


def test_a_connection_attempt_whose_callers_are_cancelled_fails_in_silence() -> None:
    """asyncio reported "Task exception was never retrieved" when a client was stopped while it connected in vain."""

    async def run() -> list[str]:
        reports: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["message"]))
        cluster = Cluster(str(NOBODY))
        caller = asyncio.create_task(cluster.refresh([]))
        await asyncio.sleep(0)
        (attempt,) = asyncio.all_tasks() - {caller, asyncio.current_task()}
        caller.cancel()
        await asyncio.wait([caller, attempt])
        del cluster, caller, attempt
        gc.collect()
        return reports

    assert asyncio.run(run()) == []
