"""A leader's view of its followers."""

from types import SimpleNamespace

import pytest
from tests.unit.machines.replica.model import LAG_MAX_MS, ModelBroker, always

from tailrace.base.invariant import InvariantError


def test_the_high_watermark_is_the_smallest_end_in_the_isr() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 2, 3))
    leader.produce("a", "b", "c")
    machine.on_fetch(2, 1, 3, 0, 3, 0)
    assert machine.committed_offset(3, always, 0) == -1  # nothing is known of the third
    machine.on_fetch(3, 1, 1, 0, 3, 0)
    assert machine.committed_offset(3, always, 0) == 1
    machine.on_isr((1, 2))
    assert machine.committed_offset(3, always, 10 * LAG_MAX_MS) == 3


def test_a_follower_that_comes_back_is_waited_for_once_it_is_as_good_as_in_sync() -> None:
    """A busy partition's high watermark would else run ahead of it for ever."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1,))
    leader.produce("a")
    machine.on_fetch(2, 1, 1, 0, 1, 0)
    leader.produce("b")
    assert machine.committed_offset(2, always, 0) == 1
    assert machine.committed_offset(2, lambda _broker, _epoch: False, 0) == 2
    assert machine.committed_offset(2, always, LAG_MAX_MS + 1) == 2


def test_a_follower_that_is_behind_for_too_long_goes() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 2, 3), now_ms=0)
    leader.produce("a", "b")
    machine.on_fetch(2, 1, 2, 0, 2, 100)
    assert machine.decide_shrink(2, LAG_MAX_MS) is None
    assert machine.decide_shrink(2, LAG_MAX_MS + 1) == (1, 2)


def test_a_follower_that_has_everything_stays_however_long_it_is_silent() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2))
    machine.on_fetch(2, 1, 0, 0, 0, 0)
    assert machine.decide_shrink(0, 10 * LAG_MAX_MS) is None
    assert machine.decide_shrink(1, 10 * LAG_MAX_MS) == (1,)


def test_a_follower_that_keeps_up_with_a_busy_leader_is_in_sync_though_it_never_has_the_end() -> None:
    """It always has what was there at its last fetch."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2))
    for step in range(20):
        now_ms = step * LAG_MAX_MS // 2
        machine.on_fetch(2, 1, step, 0, step + 1, now_ms)
        assert machine.decide_shrink(step + 1, now_ms) is None
    # One that gets slower than that is not.
    for step in range(20, 24):
        machine.on_fetch(2, 1, 19, 0, 100 + step, step * LAG_MAX_MS // 2)
    assert machine.decide_shrink(200, 23 * LAG_MAX_MS // 2) == (1,)


def test_a_replica_that_is_no_more_leaves_the_isr() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2))
    machine.on_assignment((1,))
    assert machine.decide_shrink(0, 0) == (1,)


def test_a_new_replica_is_not_in_the_way_of_the_high_watermark() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2))
    leader.produce("a")
    machine.on_fetch(2, 1, 1, 0, 1, 0)
    machine.on_assignment((1, 2, 3))
    assert machine.committed_offset(1, always, 0) == 1
    assert machine.followers[2].end_offset == 1


def test_the_low_watermark_is_the_highest_start_that_all_live_replicas_have_reached() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 2, 3))
    machine.on_fetch(2, 1, 5, 4, 5, 0)
    machine.on_fetch(3, 1, 5, 2, 5, 0)
    assert machine.low_watermark(4, lambda _broker: True) == 2
    machine.on_isr((1, 2))
    assert machine.low_watermark(4, lambda broker: broker != 3) == 4


def test_the_low_watermark_counts_absent_replicas_that_may_be_elected() -> None:
    """Broker 3, of the ELR, was away while the leader deleted records; it was elected, and they returned."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 3))
    machine.on_fetch(2, 1, 5, 4, 5, 0)
    machine.on_fetch(3, 1, 5, 2, 5, 0)
    assert machine.low_watermark(4, lambda broker: broker != 3) == 2
    machine.on_isr((1,), elr=(3,))
    assert machine.low_watermark(4, lambda broker: broker != 3) == 2
    machine.on_isr((1, 2))
    assert machine.low_watermark(4, lambda broker: broker != 3) == 4


def test_a_follower_fetches_as_long_as_its_last_fetch_or_that_of_its_session_is_recent() -> None:
    """A follower that had stopped fetching left the ISR and joined it again at once: it had everything up to the high
    watermark, which had not moved yet. Writes that waited for it waited once more."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 2, 3))
    session = SimpleNamespace(fetched_ms=0)
    machine.on_fetch(2, 1, 0, 0, 0, 0)
    machine.on_fetch(3, 1, 0, 0, 0, 0, session)
    for follower in (2, 3):
        assert machine.is_fetching(follower, LAG_MAX_MS)
        assert not machine.is_fetching(follower, LAG_MAX_MS + 1)
    session.fetched_ms = 10
    assert machine.is_fetching(3, LAG_MAX_MS + 1)


def test_an_isr_needs_a_look_unless_all_replicas_are_in_it_and_have_everything() -> None:
    machine = ModelBroker(1).lead(0, (1, 2), (1, 2))
    assert not machine.is_complete(1)
    machine.on_fetch(2, 1, 1, 0, 1, 0)
    assert machine.is_complete(1)
    assert not machine.is_complete(2)
    machine.on_isr((1,))
    assert not machine.is_complete(1)
    machine.on_isr((1, 2), elr=(3,))
    assert not machine.is_complete(1)
    machine.on_isr((1, 2))
    machine.on_assignment((1,))
    assert not machine.is_complete(1)


# --- what would be a bug


def test_a_follower_is_never_ahead_of_its_leader_nor_outside_the_replicas() -> None:
    leader = ModelBroker(1).lead(0, (1, 2), (1, 2))
    for follower_id, fetch_offset in ((2, 6), (3, 5)):
        with pytest.raises(InvariantError):
            leader.on_fetch(follower_id, 1, fetch_offset, 0, 5, 0)


def test_an_isr_is_proposed_once_with_its_leader_and_of_replicas_only() -> None:
    leader = ModelBroker(1).lead(0, (1, 2), (1, 2))
    for isr in ((2,), (1, 3)):
        with pytest.raises(InvariantError):
            leader.begin(isr)
    with pytest.raises(InvariantError):
        leader.give_up()
    leader.begin((1,))
    with pytest.raises(InvariantError):
        leader.begin((1, 2))
