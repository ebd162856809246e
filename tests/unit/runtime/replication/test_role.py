"""Roles follow each other in order, and each says what a request may do."""

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.base.sentinel import ACKS_ALL, NO_BROKER, NO_EPOCH
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.replication.role import Role


def state(epoch: int, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionRecord:
    return PartitionRecord("t", 0, leader, epoch, isr)


def lead(role: Role, epoch: int, *, end_offset: int = 0, min_isr: int = 1, isr: tuple[int, ...] = (1, 2)) -> Role:
    return role.lead(state(epoch, isr=isr), 3, min_isr, end_offset)


def test_a_replica_begins_as_a_follower_of_no_leader() -> None:
    role = Role()
    assert (role.leader_id, role.leader_epoch, role.isr) == (NO_BROKER, NO_EPOCH, ())
    assert not role.is_leader
    assert not role.is_replicated


def test_the_start_of_an_epoch_is_the_log_end_at_its_election() -> None:
    role = lead(Role(), 3, end_offset=10)
    assert lead(role, 3, end_offset=20).epoch_start_offset == 10  # the ISR has changed, and no leader
    assert lead(role, 4, end_offset=20).epoch_start_offset == 20
    assert lead(role.follow(state(4, leader=2)), 5, end_offset=30).epoch_start_offset == 30


def test_a_term_is_a_role_in_an_epoch() -> None:
    leader = lead(Role(), 3)
    assert lead(leader, 3, isr=(1,)).is_same_term(leader)
    assert not lead(leader, 4).is_same_term(leader)
    assert not leader.follow(state(3, leader=2)).is_same_term(leader)


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_leader_epoch_does_not_go_back(is_leader: bool) -> None:
    role = lead(Role(), 5)
    with pytest.raises(InvariantError, match="t-0: leader epoch 4 after 5"):
        lead(role, 4) if is_leader else role.follow(state(4, leader=2))


def test_a_leader_is_in_its_isr() -> None:
    with pytest.raises(InvariantError, match=r"outside its ISR \(2, 3\)"):
        lead(Role(), 1, isr=(2, 3))


def test_a_replica_that_was_deleted_does_not_lead_again() -> None:
    role = lead(Role(), 1).retire()
    assert (role.is_leader, role.is_retired) == (False, True)
    assert role.follow(state(2, leader=2)).is_retired
    with pytest.raises(InvariantError, match="leads after its deletion"):
        lead(role, 2)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(NO_EPOCH, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_requests_of_another_epoch_are_fenced(epoch: int, code: ErrorCode | None) -> None:
    role = lead(Role(), 5)
    if code is None:
        role.check_leader_epoch(epoch)
        return
    with pytest.raises(ApiError) as caught:
        role.check_leader_epoch(epoch)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("isr", "min_isr", "acks", "is_enough"),
    [
        ((1, 2), 2, ACKS_ALL, True),
        ((1,), 2, ACKS_ALL, False),
        ((1,), 2, 1, True),
        ((1, 2, 3), 9, ACKS_ALL, True),  # there are only three replicas
    ],
)
def test_records_need_enough_replicas_in_sync(isr: tuple[int, ...], min_isr: int, acks: int, is_enough: bool) -> None:
    role = lead(Role(), 1, isr=isr, min_isr=min_isr)
    if is_enough:
        role.check_in_sync(acks)
        return
    with pytest.raises(ApiError) as caught:
        role.check_in_sync(acks)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
