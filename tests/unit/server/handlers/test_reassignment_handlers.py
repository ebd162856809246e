"""Elections, moves and departures that clients ask for, in a cluster of several brokers."""

from functools import partial
from typing import Any

from tests.unit.runtime.members import Members, members
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.peer import Peer

from tailrace.base.sentinel import NO_BROKER
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.cluster import DescribeClusterRequest
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
    UnregisterBrokerRequest,
)
from tailrace.protocol.messages.topic import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)


def at(cluster: Members, broker_id: int) -> Peer:
    return Peer(cluster.brokers[broker_id], BrokerInMemory())


def move(index: int, replicas: list[int] | None, name: str = "t") -> AlterPartitionReassignmentsRequest:
    partition = AlterPartitionReassignmentsRequestPartition(partition_index=index, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        topics=[AlterPartitionReassignmentsRequestTopic(name=name, partitions=[partition])]
    )


def codes(response: Any) -> list[int]:
    return [partition.error_code for topic in response.responses for partition in topic.partitions]


async def test_a_partition_moves_is_listed_and_is_called_back() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([1], [2])
        client = at(cluster, 1)
        assert codes(await client.ask(move(0, [2, 3]))) == [0]
        listed = await client.ask(ListPartitionReassignmentsRequest())
        ((topic,),) = [listed.topics]
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index, partition.replicas) == ("t", 0, [2, 3, 1])
        assert (partition.adding_replicas, partition.removing_replicas) == ([2, 3], [1])
        other = ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsRequestTopic(name="t", partition_indexes=[1])]
        )
        assert (await client.ask(other)).topics == []
        assert codes(await client.ask(move(0, None))) == [0]
        assert codes(await client.ask(move(0, None))) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
        assert (await client.ask(ListPartitionReassignmentsRequest())).topics == []
        assert codes(await client.ask(move(0, [9]))) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert codes(await client.ask(move(7, [1]))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_the_number_of_replicas_may_be_kept() -> None:
    async with members(1, 2) as cluster:
        await cluster.create([1])
        request = move(0, [1, 2])
        request.allow_replication_factor_change = False
        response = await at(cluster, 1).ask(request)
        assert codes(response) == [ErrorCode.INVALID_REPLICATION_FACTOR]
        assert not response.allow_replication_factor_change


async def test_leaders_are_elected_on_request() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3], [3, 2])
        client = at(cluster, 1)
        await client.ask(move(0, [3, 2]))
        asked = ElectLeadersRequest(topic_partitions=[ElectLeadersRequestTopic(topic="t", partitions=[0, 1, 7])])
        (topic,) = (await client.ask(asked)).replica_election_results
        assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
            (0, 0),
            (1, ErrorCode.ELECTION_NOT_NEEDED),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert cluster.state(0).leader == 3
        everything = await client.ask(ElectLeadersRequest(topic_partitions=None))
        assert [topic.partition_result for topic in everything.replica_election_results] == [[]]


async def test_an_unclean_election_on_request() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3])

        def is_out(broker_id: int) -> bool:
            return broker_id not in cluster.state().isr

        for broker_id in (3, 2):
            await cluster.kill(broker_id)
            await cluster.until(partial(is_out, broker_id))
        await cluster.start(3)
        assert cluster.state().leader == NO_BROKER
        asked = ElectLeadersRequest(
            election_type=1, topic_partitions=[ElectLeadersRequestTopic(topic="t", partitions=[0])]
        )
        (topic,) = (await at(cluster, 1).ask(asked)).replica_election_results
        assert [each.error_code for each in topic.partition_result] == [0]
        assert cluster.state().leader == 3
        unknown = ElectLeadersRequest(election_type=7, topic_partitions=None)
        assert (await at(cluster, 1).ask(unknown)).error_code == ErrorCode.INVALID_REQUEST


async def test_who_cannot_reach_the_controller_says_that_it_is_none() -> None:
    async with members(1, 2) as cluster:
        await cluster.create([1, 2])
        client = at(cluster, 2)
        assert (await client.ask(move(0, [2, 1]))).error_code == ErrorCode.NOT_CONTROLLER
        assert (await client.ask(ElectLeadersRequest(topic_partitions=None))).error_code == ErrorCode.NOT_CONTROLLER
        assert (await client.ask(UnregisterBrokerRequest(broker_id=1))).error_code == ErrorCode.NOT_CONTROLLER
        asked = ElectLeadersRequest(topic_partitions=[ElectLeadersRequestTopic(topic="t", partitions=[0])])
        (topic,) = (await client.ask(asked, 0)).replica_election_results
        assert topic.partition_result[0].error_code == ErrorCode.NOT_CONTROLLER


async def test_a_broker_that_left_for_good_is_forgotten() -> None:
    async with members(1, 2) as cluster:
        client = at(cluster, 1)
        assert (await client.ask(UnregisterBrokerRequest(broker_id=1))).error_code == ErrorCode.INVALID_REQUEST
        await cluster.stop(2)
        await cluster.until(lambda: 2 not in cluster.image.brokers)
        assert (await client.ask(UnregisterBrokerRequest(broker_id=2))).error_code == 0
        again = await client.ask(UnregisterBrokerRequest(broker_id=2))
        assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_clients_learn_of_all_brokers_leaders_and_who_is_away() -> None:
    async with members(1, 2, 3, min_insync_replicas="2") as cluster:
        await cluster.create([2, 3])
        client = at(cluster, 1)
        response = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        assert [(broker.node_id, broker.port) for broker in response.brokers] == [(1, 1), (2, 2), (3, 3)]
        assert response.controller_id == 1
        assert [broker.broker_id for broker in (await client.ask(DescribeClusterRequest())).brokers] == [1, 2, 3]
        await cluster.kill(2)
        await cluster.until(lambda: cluster.state().leader == 3)
        response = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        (partition,) = response.topics[0].partitions
        assert (partition.leader_id, partition.isr_nodes, partition.offline_replicas) == (3, [3], [2])
        asked = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequestTopic(name="t")])
        (partition,) = (await client.ask(asked)).topics[0].partitions
        assert (partition.leader_id, partition.eligible_leader_replicas) == (3, [2])
        await cluster.kill(3)
        await cluster.until(lambda: cluster.state().leader == NO_BROKER)
        response = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        (partition,) = response.topics[0].partitions
        assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


async def test_the_controller_makes_the_topics_that_clients_of_others_name() -> None:
    async with members(1, 2, offsets_topic_num_partitions="4") as cluster:
        follower = cluster.brokers[2]

        async def ask(broker_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
            response: CreateTopicsResponse = await at(cluster, broker_id).ask(request)
            return response

        follower.controller_channel._ask = ask
        client = at(cluster, 2)
        named = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        assert [topic.error_code for topic in (await client.ask(named)).topics] == [0]
        assert "new" in cluster.image.topics
        response = await client.ask(FindCoordinatorRequest(coordinator_keys=["a", "b", "c", "d", "e"]))
        leaders = {found.node_id for found in response.coordinators}
        assert [found.error_code for found in response.coordinators] == [0] * 5
        assert leaders == {1, 2}


async def test_without_a_controller_clients_are_asked_to_come_back() -> None:
    async with members(1, 2) as cluster:
        client = at(cluster, 2)
        named = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        # The controller's port is closed.
        (topic,) = (await client.ask(named)).topics
        assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
