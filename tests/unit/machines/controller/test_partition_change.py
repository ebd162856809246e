"""Checks of a partition's state before it is written: a bug in a decision must not reach the metadata store."""

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.partition_change import Partition, change_partition
from tailrace.machines.controller.reassignment import Placement
from tailrace.machines.controller.record import PartitionRecord


def partition(replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return Partition(PartitionRecord("t", 0, leader=1, leader_epoch=4, isr=isr), Placement(replicas))


def test_a_leader_that_is_gone_is_replaced_by_a_replica_in_sync() -> None:
    changed = change_partition(partition(isr=(1, 3)), Rule(), lambda broker: broker != 1, isr=(3,)).state
    assert (changed.leader, changed.leader_epoch, changed.isr) == (3, 5, (3,))


def test_without_a_live_replica_in_sync_there_is_no_leader() -> None:
    changed = change_partition(partition(isr=(1,)), Rule(), lambda broker: broker != 1, isr=()).state
    assert (changed.leader, changed.leader_epoch, changed.last_known_elr) == (NO_BROKER, 5, (1,))


def test_a_replica_is_named_once() -> None:
    with pytest.raises(InvariantError, match="t-0 has no replicas or one twice"):
        change_partition(partition(replicas=(1, 2, 2)), Rule(), lambda _: True)


def test_a_leader_is_never_outside_its_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.machines.controller.partition_change.elect", lambda state, *_: state)
    with pytest.raises(InvariantError, match="t-0 has a leader that is not in its ISR"):
        change_partition(partition(), Rule(), lambda _: True, isr=(2, 3))
