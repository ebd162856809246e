"""Brokers that leave the cluster for good, stopped before or sent away."""

import pytest
from tests.unit.machines.controller.small_cluster import Cluster

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.departure import decide_unregister, leaving
from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.record import (
    UNREGISTERED,
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRemoved,
    ControllerRecord,
    PartitionRecord,
    Record,
)
from tailrace.protocol.errors import ApiError, ErrorCode


def step(cluster: Cluster, broker: int) -> list[Record]:
    records = decide_unregister(cluster.image, broker, lambda _: cluster.rule)
    cluster.replay(*records)
    return records


def test_a_broker_that_was_stopped_is_forgotten() -> None:
    cluster = Cluster(rule=Rule(min_insync_replicas=2))
    cluster.add_topic([3, 1])
    cluster.die(3)
    cluster.settle()
    assert cluster.state().elr == (3,)
    assert step(cluster, 3) == [PartitionRecord("t", 0, 1, 1, (1,)), BrokerForgotten(3)]
    with pytest.raises(ApiError) as caught:
        step(cluster, 3)
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_runs_is_sent_away_first_and_others_take_over() -> None:
    cluster = Cluster(rule=Rule(min_insync_replicas=2))
    cluster.add_topic([3, 1], [2, 3], [3])
    assert step(cluster, 3) == [BrokerAdmitted(3, UNREGISTERED), BrokerRemoved(3)]
    assert leaving(cluster.image) == [3]
    taken_over = step(cluster, 3)
    assert {record.partition: record.leader for record in taken_over if isinstance(record, PartitionRecord)} == {
        0: 1,
        1: 2,
        2: NO_BROKER,
    }
    last = step(cluster, 3)
    assert last[-1] == BrokerForgotten(3)
    assert not cluster.image.is_known(3)
    assert not any(3 in (*cluster.state(index).elr, *cluster.state(index).last_known_elr) for index in (0, 1))
    assert cluster.settle() == []
    assert (cluster.state(2).leader, cluster.state(2).elr) == (NO_BROKER, (3,))  # nobody else has it
    cluster.arrive(3)
    cluster.settle()
    assert (cluster.state(2).leader, cluster.state(2).isr) == (3, (3,))


def test_the_controller_is_not_sent_away() -> None:
    cluster = Cluster()
    cluster.replay(ControllerRecord(2, 1))
    with pytest.raises(ApiError, match="is the controller; stop it first") as caught:
        step(cluster, 2)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_broker_that_was_sent_away_may_come_back_as_a_new_one() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2])
    step(cluster, 2)
    cluster.arrive(2, is_clean=False)  # started again before the rest was done
    cluster.settle()
    assert cluster.image.is_live(2)
    assert leaving(cluster.image) == []
    assert cluster.state().isr == (1,)
