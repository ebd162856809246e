"""What the controller makes of brokers that come and go."""

from dataclasses import replace

import pytest
from tests.unit.machines.controller.small_cluster import Cluster

from tailrace.base import limits
from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller import settle as settle_module
from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.record import (
    REVOKED,
    BrokerAdmitted,
    BrokerRecord,
    BrokerRemoved,
    PartitionRecord,
    TopicRecord,
)
from tailrace.machines.controller.settle import settle

STRICT = Rule(min_insync_replicas=2)


def test_a_broker_that_arrives_is_admitted_last() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2], [2, 1])
    cluster.arrive(1, is_clean=False)
    cluster.arrive(4)
    revoked, *changes, first, second = cluster.settle()
    assert revoked == BrokerAdmitted(1, REVOKED)
    assert len(changes) == 2
    assert (first, second) == (BrokerAdmitted(1, 4), BrokerAdmitted(4, 5))
    assert cluster.settle() == []


def test_the_next_of_the_isr_leads_when_the_leader_dies() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2, 3])
    cluster.die(1)
    assert cluster.settle() == [PartitionRecord("t", 0, 2, 1, (2, 3))]
    assert cluster.settle() == []


def test_a_follower_that_dies_leaves_the_isr_and_the_epoch_stays() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2, 3])
    cluster.die(3)
    assert cluster.settle() == [PartitionRecord("t", 0, 1, 0, (1, 2))]


def test_a_sole_replica_that_comes_back_clean_costs_nothing_but_its_admission() -> None:
    cluster = Cluster([1])
    cluster.add_topic([1])
    cluster.arrive(1)
    assert cluster.settle() == [BrokerAdmitted(1, 2)]
    assert cluster.summary() == (1, 0, (1,), ())


def test_a_sole_replica_that_comes_back_unclean_leads_in_a_new_epoch() -> None:
    cluster = Cluster([1])
    cluster.add_topic([1])
    cluster.arrive(1, is_clean=False)
    assert cluster.settle() == [
        BrokerAdmitted(1, REVOKED),
        PartitionRecord("t", 0, 1, 1, (1,)),
        BrokerAdmitted(1, 2),
    ]


def test_the_last_of_the_isr_that_dies_stays_eligible_and_is_waited_for() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2])
    cluster.die(2)
    cluster.settle()
    cluster.die(1)
    cluster.settle()
    assert cluster.state() == PartitionRecord("t", 0, NO_BROKER, 1, (), (1,), (1,))
    cluster.arrive(2)
    cluster.settle()
    assert cluster.state().leader == NO_BROKER, "who was out of sync must not lead"
    cluster.arrive(1)
    cluster.settle()
    assert cluster.state() == PartitionRecord("t", 0, 1, 2, (1,))


def test_the_last_leader_leads_again_when_all_that_were_eligible_came_back_unclean() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2])
    for broker in (2, 1):
        cluster.die(broker)
        cluster.settle()
    cluster.arrive(2, is_clean=False)
    cluster.settle()
    assert cluster.state().leader == NO_BROKER
    cluster.arrive(1, is_clean=False)
    cluster.settle()
    assert cluster.summary() == (1, 2, (1,), ())


def test_the_last_of_the_isr_leads_again_after_a_leader_resigned() -> None:
    """Its disk failed, so it wrote a state without a leader. The rest of the ISR then came back unclean.

    The last leader was not written down, so nobody was waited for, and the partition had no leader for ever.
    """
    cluster = Cluster()
    cluster.add_topic([1, 2])
    cluster.replay(PartitionRecord("t", 0, NO_BROKER, 1, (2,)))
    cluster.arrive(2, is_clean=False)
    cluster.settle()
    assert cluster.summary() == (2, 2, (2,), ())


def test_the_last_of_the_isr_is_waited_for_after_a_leader_resigned() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2, 3])
    cluster.replay(PartitionRecord("t", 0, NO_BROKER, 1, (2, 3)))
    for broker in (2, 3):
        cluster.die(broker)
    cluster.settle()
    cluster.arrive(2, is_clean=False)
    cluster.settle()
    assert cluster.state().leader == NO_BROKER, "another one, which is still eligible, may come back clean"
    cluster.arrive(3, is_clean=False)
    cluster.settle()
    assert cluster.summary() == (3, 2, (3,), ())


def test_who_left_a_small_isr_is_eligible_and_leads_when_the_rest_crashes() -> None:
    """KIP-966: the ISR was {2} when 2 crashed and lost its tail. Elected again, it would have had 1 cut its own log."""
    cluster = Cluster(rule=STRICT)
    cluster.add_topic([1, 2, 3])
    for broker in (3, 1):
        cluster.die(broker)
        cluster.settle()
    assert cluster.summary() == (2, 1, (2,), (1,))
    cluster.die(2)
    cluster.settle()
    assert cluster.state() == PartitionRecord("t", 0, NO_BROKER, 2, (), (1, 2), (2,))
    cluster.arrive(2, is_clean=False)
    cluster.settle()
    assert cluster.state().leader == NO_BROKER
    assert cluster.state().elr == (1,)
    cluster.arrive(1)
    cluster.settle()
    assert cluster.summary() == (1, 3, (1,), ())


def test_nobody_else_is_eligible_once_a_leader_from_the_elr_can_commit_alone() -> None:
    """They stayed so, though the new leader committed without them, and would have led after its death."""
    cluster = Cluster()
    cluster.add_topic([1, 2, 3])
    for broker in (1, 2, 3):
        cluster.die(broker)
    cluster.settle()
    assert cluster.state() == PartitionRecord("t", 0, NO_BROKER, 1, (), (1, 2, 3), (1,))
    cluster.arrive(2)
    cluster.settle()
    assert cluster.summary() == (2, 2, (2,), ())


def test_an_admission_is_revoked_before_the_partitions_are_looked_at() -> None:
    """A leader let a broker into its ISR for what it had before it crashed, just after the controller had looked."""
    cluster = Cluster()
    cluster.add_topic([1, 2])
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1,)))
    cluster.arrive(2, is_clean=False)
    groups = settle(cluster.image, lambda _: Rule())
    assert next(groups) == [BrokerAdmitted(2, REVOKED)]
    cluster.replay(BrokerAdmitted(2, REVOKED))
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1, 2)))  # the last that could be written before the revocation
    changed, admitted = groups
    assert changed == [PartitionRecord("t", 0, 1, 0, (1,))]
    assert admitted == [BrokerAdmitted(2, cluster.epoch)]


def test_kip_966_who_comes_back_unclean_leaves_isr_and_elr_though_it_was_never_missed() -> None:
    cluster = Cluster(rule=STRICT)
    cluster.add_topic([1, 2, 3], [2, 3, 1])
    cluster.arrive(1, is_clean=False)
    cluster.settle()
    assert cluster.summary(0) == (2, 1, (2, 3), ())
    assert cluster.summary(1) == (2, 0, (2, 3), ())


@pytest.mark.parametrize(("is_allowed", "leader", "isr"), [(False, NO_BROKER, ()), (True, 2, (2,))])
def test_who_was_out_of_sync_leads_only_where_that_is_allowed(
    is_allowed: bool, leader: int, isr: tuple[int, ...]
) -> None:
    cluster = Cluster(rule=Rule(is_unclean_allowed=is_allowed))
    cluster.add_topic([1, 2])
    cluster.replay(PartitionRecord("t", 0, 1, 0, (1,)))
    cluster.die(1)
    cluster.settle()
    assert (cluster.state().leader, cluster.state().isr) == (leader, isr)
    assert cluster.state().leader_epoch == 1
    assert cluster.settle() == []


def test_a_broker_that_stops_hands_over_what_it_leads_and_leaves_every_isr() -> None:
    cluster = Cluster()
    cluster.add_topic([1, 2], [2, 1], [1])
    cluster.stop(1)
    cluster.settle()
    assert [cluster.summary(index) for index in range(3)] == [(2, 1, (2,), ()), (2, 0, (2,), ()), (1, 0, (1,), ())]
    assert cluster.settle() == []


def test_nobody_is_handed_a_partition_by_who_stops_as_well() -> None:
    cluster = Cluster([1, 2])
    cluster.add_topic([1, 2])
    cluster.stop(1)
    cluster.stop(2)
    assert cluster.settle() == []
    cluster.die(1)
    cluster.settle()
    assert cluster.state().leader == NO_BROKER
    assert cluster.settle() == []


def test_a_reassignment_ends_when_all_new_replicas_are_in_sync() -> None:
    cluster = Cluster()
    cluster.add_topic([1], [2])
    topic_id = cluster.image.topics["t"].topic_id
    cluster.replay(TopicRecord("t", topic_id, ((2, 3, 1), (2,)), {0: (2, 3)}, {0: (1,)}))
    cluster.replay(PartitionRecord("t", 0, 1, 4, (1, 2)))
    assert cluster.settle() == []
    cluster.replay(PartitionRecord("t", 0, 1, 4, (1, 2, 3)))
    assert cluster.settle() == [
        TopicRecord("t", topic_id, ((2, 3), (2,))),
        PartitionRecord("t", 0, 2, 5, (2, 3)),
    ]
    assert cluster.settle() == []


def test_only_the_topics_that_are_named_are_looked_at_unless_a_broker_arrived() -> None:
    cluster = Cluster()
    for name in "ab":
        cluster.add_topic([1, 2], name=name)
    cluster.die(1)
    (group,) = settle(cluster.image, lambda _: Rule(), ["b", "gone"])
    assert [record.topic for record in group if isinstance(record, PartitionRecord)] == ["b"]
    cluster.arrive(1, is_clean=False)
    _, changed, admitted = settle(cluster.image, lambda _: Rule(), [])
    assert [record.topic for record in changed if isinstance(record, PartitionRecord)] == ["a", "b"]
    assert admitted == [BrokerAdmitted(1, cluster.epoch)]


def test_groups_are_bounded_and_each_is_decided_when_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records were decided once and committed in parts: a leader's own change in between was overwritten."""
    monkeypatch.setattr(settle_module, "RECORDS_PER_COMMIT_MAX", 2)
    cluster = Cluster()
    cluster.add_topic(*[[1, 2, 3]] * 5)
    cluster.die(1)
    groups = settle(cluster.image, lambda _: Rule())
    first = next(groups)
    assert [record.partition for record in first if isinstance(record, PartitionRecord)] == [0, 1]
    cluster.replay(*first)
    cluster.replay(replace(cluster.state(2), isr=(1, 3)))
    second = next(groups)
    assert [record.isr for record in second if isinstance(record, PartitionRecord)] == [(3,), (2, 3)]
    assert limits.RECORDS_PER_COMMIT_MAX > 2


def test_nobody_is_admitted_when_brokers_come_or_go_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle_module, "RECORDS_PER_COMMIT_MAX", 1)
    cluster = Cluster()
    cluster.add_topic([1, 2], [1, 2])
    cluster.die(1)
    cluster.arrive(4)
    groups = settle(cluster.image, lambda _: Rule())
    cluster.replay(*next(groups))
    cluster.replay(BrokerRemoved(2), BrokerRecord(2, 99))
    assert list(groups) == []
    assert not cluster.image.is_live(4)
