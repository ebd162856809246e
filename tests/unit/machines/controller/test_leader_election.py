"""Leaders that somebody asks for, and those that go back to their brokers by themselves."""

import pytest
from tests.unit.machines.controller.small_cluster import Cluster

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.election import Election, Rule
from tailrace.machines.controller.leader_election import decide_balance, decide_elect, has_leaders_to_hand_over
from tailrace.machines.controller.record import PartitionRecord, Record, TopicRecord
from tailrace.protocol.errors import ApiError, ErrorCode


def elect(cluster: Cluster, election: Election, index: int = 0, name: str = "t") -> list[Record] | ErrorCode:
    try:
        return decide_elect(cluster.image, name, index, election, cluster.rule)
    except ApiError as error:
        return error.code


def test_the_first_replica_leads_again_when_it_is_in_sync() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2])
    assert elect(cluster, Election.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED
    cluster.replay(PartitionRecord("t", 0, 2, 5, (2,)))
    assert elect(cluster, Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.replay(PartitionRecord("t", 0, 2, 5, (2, 1)))
    assert elect(cluster, Election.PREFERRED) == [PartitionRecord("t", 0, 1, 6, (2, 1))]
    cluster.stop(1)
    assert elect(cluster, Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2])
    assert elect(cluster, Election.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    cluster.replay(PartitionRecord("t", 0, NO_BROKER, 5, (), (1,), (1,)))
    cluster.die(1)
    assert elect(cluster, Election.UNCLEAN) == [PartitionRecord("t", 0, 2, 6, (2,))]
    cluster.die(2)
    assert elect(cluster, Election.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize(("name", "index"), [("other", 0), ("t", 1), ("t", -1)])
def test_there_is_no_election_for_what_is_not_there(name: str, index: int) -> None:
    cluster = Cluster()
    cluster.add_topic([1])
    assert elect(cluster, Election.PREFERRED, index, name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_go_back_to_brokers_that_lead_too_few() -> None:
    cluster = Cluster()
    cluster.add_topic(*[[1, 2]] * 10, *[[2, 1]] * 10)
    for index in (0, 1, 10):
        other = 3 - cluster.state(index).leader
        cluster.replay(PartitionRecord("t", index, other, 1, (other, 3 - other)))
    balanced = decide_balance(cluster.image, lambda _: Rule(), imbalance_percent_max=10, count_max=100)
    assert balanced == [PartitionRecord("t", 0, 1, 2, (2, 1)), PartitionRecord("t", 1, 1, 2, (2, 1))]
    assert len(decide_balance(cluster.image, lambda _: Rule(), 0, 100)) == 3
    assert len(decide_balance(cluster.image, lambda _: Rule(), 0, 2)) == 2
    assert decide_balance(cluster.image, lambda _: Rule(), 20, 100) == []


def test_what_moves_or_is_out_of_sync_or_has_no_leader_stays_as_it_is() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2], [1, 2], [1, 2])
    cluster.replay(PartitionRecord("t", 0, 2, 1, (2,)))
    cluster.replay(PartitionRecord("t", 1, NO_BROKER, 1, ()))
    topic = cluster.image.topics["t"]
    cluster.replay(TopicRecord("t", topic.topic_id, ((1, 2), (1, 2), (1, 2, 3)), {2: (3,)}))
    cluster.replay(PartitionRecord("t", 2, 2, 1, (2, 1)))
    assert decide_balance(cluster.image, lambda _: Rule(), 0, 100) == []


def test_who_can_hand_over_what_it_leads() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2], [3])
    assert [has_leaders_to_hand_over(cluster.image, broker) for broker in (1, 2, 3)] == [True, False, False]
    cluster.stop(2)
    assert not has_leaders_to_hand_over(cluster.image, 1)
