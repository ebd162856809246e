"""Partitions that are sent to other brokers, and brokers that leave."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.unit.machines.controller.small_cluster import Cluster

from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.move import Move, decide_moves, moving
from tailrace.machines.controller.reassignment import Placement
from tailrace.machines.controller.record import PartitionRecord, TopicRecord
from tailrace.protocol.errors import ErrorCode

ID = UUID(int=1)


def move(cluster: Cluster, index: int, replicas: Sequence[int] | None, **options: bool) -> ErrorCode | None:
    moved = decide_moves(cluster.image, "t", [Move(index, replicas)], cluster.rule, **options)
    cluster.replay(*moved.records)
    error = moved.errors.get(index)
    assert error is None or (error.message and error.__traceback__ is None), "frames would be kept until the answer"
    return None if error is None else error.code


def test_a_partition_keeps_its_old_replicas_until_the_new_ones_are_in_sync() -> None:
    cluster = Cluster(range(1, 5))
    cluster.add_topic([1, 2], [3])
    assert move(cluster, 0, [3, 4]) is None
    assert moving(cluster.image, "t") == {0: Placement((3, 4, 1, 2), (3, 4), (1, 2))}
    assert cluster.summary() == (1, 0, (1, 2), ())
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1, 2, 3, 4)))
    cluster.settle()
    assert cluster.image.topics["t"].assignment == ((3, 4), (3,))
    assert cluster.summary() == (3, 1, (3, 4), ())
    assert moving(cluster.image, "t") == {}


def test_another_order_of_the_same_brokers_is_reached_at_once() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2])
    moved = decide_moves(cluster.image, "t", [Move(0, [2, 1])], Rule())
    assert moved.records == [TopicRecord("t", ID, ((2, 1),))]


def test_fewer_replicas_are_reached_at_once_when_those_that_stay_are_in_sync() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2, 3])
    moved = decide_moves(cluster.image, "t", [Move(0, [2, 3])], Rule())
    assert moved.records == [TopicRecord("t", ID, ((2, 3),)), PartitionRecord("t", 0, 2, 1, (2, 3))]


def test_fewer_replicas_wait_for_those_that_stay() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2, 3])
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1, 2)))
    assert move(cluster, 0, [2, 3]) is None
    assert moving(cluster.image, "t") == {0: Placement((2, 3, 1), (), (1,))}
    assert cluster.settle() == []
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1, 2, 3)))
    cluster.settle()
    assert cluster.image.topics["t"].assignment == ((2, 3),)


def test_a_move_is_called_back() -> None:
    cluster = Cluster()
    cluster.add_topic([1])
    assert move(cluster, 0, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    move(cluster, 0, [2, 3])
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1, 2)))
    assert move(cluster, 0, None) is None
    assert cluster.image.topics["t"].assignment == ((1,),)
    assert cluster.summary() == (1, 1, (1,), ())


def test_a_move_is_not_called_back_to_brokers_that_lost_records() -> None:
    cluster = Cluster()
    cluster.add_topic([1])
    move(cluster, 0, [2, 3])
    cluster.replay(PartitionRecord("t", 0, 2, 1, (2,)))
    assert move(cluster, 0, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.rule = Rule(is_unclean_allowed=True)
    assert move(cluster, 0, None) is None
    assert cluster.summary() == (1, 2, (1,), ())


def test_a_second_move_forgets_the_first_but_not_who_has_caught_up() -> None:
    cluster = Cluster(range(1, 6))
    cluster.add_topic([1])
    move(cluster, 0, [2, 3])
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1, 2)))
    assert move(cluster, 0, [4, 5]) is None
    assert moving(cluster.image, "t") == {0: Placement((4, 5, 2, 1), (4, 5), (2, 1))}
    assert cluster.summary() == (1, 1, (1, 2), ())


def test_one_wrong_move_does_not_keep_the_others() -> None:
    cluster = Cluster()
    cluster.add_topic([1], [1], [1])
    moves = [Move(0, [2]), Move(1, []), Move(2, [3]), Move(7, [1]), Move(-1, [1])]
    moved = decide_moves(cluster.image, "t", moves, Rule())
    assert moved.records == [TopicRecord("t", ID, ((2, 1), (1,), (3, 1)), {0: (2,), 2: (3,)}, {0: (1,), 2: (1,)})]
    assert {index: error.code for index, error in moved.errors.items()} == {
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("replicas", [[1, 1], [9], [-1], []])
def test_replicas_are_distinct_brokers_of_the_cluster(replicas: list[int]) -> None:
    cluster = Cluster()
    cluster.add_topic([1])
    assert move(cluster, 0, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_number_of_replicas_stays_where_that_was_asked_for() -> None:
    cluster = Cluster()
    cluster.add_topic([1])
    assert move(cluster, 0, [2, 3], may_change_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(cluster, 0, [2], may_change_factor=False) is None
    assert move(cluster, 0, [3], may_change_factor=False) is None


def test_moves_of_a_topic_that_is_not_there() -> None:
    cluster = Cluster()
    assert move(cluster, 0, [1]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert moving(cluster.image, "t") == {}


def test_only_the_partitions_that_are_asked_for_are_listed() -> None:
    cluster = Cluster()
    cluster.add_topic([1], [1], [1])
    for index in (0, 1):
        move(cluster, index, [2])
    assert list(moving(cluster.image, "t", [1, 2, 9])) == [1]
