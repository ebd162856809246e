"""The traps of replication, each by the name under which it became known."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.machines.replica.model import LAG_MAX_MS, ModelBroker, always

from tailrace.machines.replica.epoch import EpochEnd, end_of_epoch
from tailrace.machines.replica.follower import next_position

# --- KIP-101


def test_kip_101_a_what_a_follower_acknowledged_survives_its_restart_and_its_leaders_death() -> None:
    """The follower had m2 but had not heard that it was committed. Cutting at its own high watermark would lose it."""
    leader, follower = ModelBroker(1), ModelBroker(2)
    leader.lead(0, (1, 2), (1, 2))
    leader.produce("m1", "m2")
    follower.fetch_from(leader)
    leader_knows_it_has_both = ModelBroker(2, follower.log.entries)
    leader_knows_it_has_both.fetch_from(leader)
    assert (leader.high_watermark, follower.high_watermark) == (2, 0)
    # It restarts and asks with what it has, which is no divergence; then the leader dies, and it leads.
    assert next_position(follower.log) == (2, 0)
    follower.lead(1, (1, 2), (2,))
    assert follower.values == ["m1", "m2"]
    assert follower.high_watermark == 2


def test_kip_101_b_the_longer_log_gives_up_its_fork() -> None:
    """Both crashed, the shorter one led and wrote at the same offset: comparing offsets alone finds nothing wrong."""
    shorter, longer = ModelBroker(1, [(0, "m1")]), ModelBroker(2, [(0, "m1"), (0, "m2")])
    shorter.lead(1, (1, 2), (1,))
    shorter.produce("m3")
    longer.catch_up(shorter)
    assert longer.log.entries == shorter.log.entries == [(0, "m1"), (1, "m3")]
    assert longer.truncations == [1]


# --- KIP-279


def test_kip_279_an_epoch_that_the_leader_does_not_know_is_cut_in_one_round_where_it_is_the_last() -> None:
    leader = ModelBroker(1, [(0, "a"), (2, "c")])
    leader.lead(3, (1, 2), (1,))
    follower = ModelBroker(2, [(0, "a"), (1, "b"), (1, "b")])
    follower.catch_up(leader)
    assert follower.log.entries == leader.log.entries
    assert follower.truncations == [1]


def test_kip_279_two_fast_failovers_take_a_round_for_each_epoch_that_differs() -> None:
    """One round would leave record b, which the leader never had."""
    leader = ModelBroker(1, [(0, "a"), (2, "c"), (2, "c")])
    leader.lead(4, (1, 2), (1,))
    follower = ModelBroker(2, [(0, "a"), (1, "b"), (3, "d")])
    follower.catch_up(leader)
    assert follower.log.entries == leader.log.entries
    assert follower.truncations == [2, 1]


def test_a_leader_that_has_written_nothing_yet_still_answers_for_epochs_that_it_has_not_seen() -> None:
    """Without its own epoch's start it would not know of epoch 3 at all, and the follower not where to cut."""
    leader = ModelBroker(1, [(0, "a"), (1, "b")])
    leader.lead(5, (1, 2), (1,))
    assert end_of_epoch(leader.log, 5, 3) == EpochEnd(1, 2)
    follower = ModelBroker(2, [(0, "a"), (1, "b"), (3, "x")])
    follower.catch_up(leader)
    assert follower.log.entries == leader.log.entries


def test_an_empty_leader_takes_everything_away() -> None:
    leader = ModelBroker(1)
    leader.lead(2, (1, 2), (1,))
    follower = ModelBroker(2, [(0, "a"), (1, "b")])
    follower.catch_up(leader)
    assert follower.values == []


@st.composite
def _forked_logs(draw: st.DrawFn) -> tuple[list[tuple[int, str]], list[tuple[int, str]], int]:
    """Two logs that share a prefix; no epoch has two writers, so what one epoch wrote is a prefix of its leader's."""
    common: list[tuple[int, str]] = []
    epoch = 0
    for count in draw(st.lists(st.integers(1, 3), max_size=4)):
        common += [(epoch, f"{epoch}.{number}") for number in range(count)]
        epoch += draw(st.integers(1, 2))
    logs = (list(common), list(common))
    for _ in range(draw(st.integers(0, 5))):
        writer = draw(st.integers(0, 1))
        logs[writer].extend((epoch, f"{epoch}.{number}") for number in range(draw(st.integers(1, 3))))
        epoch += draw(st.integers(1, 2))
    return logs[0], logs[1], epoch


@given(_forked_logs())
def test_truncation_ends_where_the_logs_parted(
    forked: tuple[list[tuple[int, str]], list[tuple[int, str]], int],
) -> None:
    """Nothing that both have is lost, and nothing stays that only the follower has."""
    first, second, epoch = forked
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    leader, follower = ModelBroker(1, first), ModelBroker(2, second)
    leader.lead(epoch, (1, 2), (1,))
    follower.catch_up(leader)
    assert follower.log.entries == leader.log.entries
    assert min(follower.truncations, default=shared) >= shared


# --- KIP-320


def test_kip_320_acknowledgements_to_an_earlier_leader_count_for_nothing() -> None:
    """A follower had five records under another leader, of which the new one may have only three."""
    leader = ModelBroker(1)
    leader.lead(0, (1, 2), (1, 2))
    leader.produce("a", "b", "c")
    ModelBroker(2, leader.log.entries).fetch_from(leader)
    assert leader.high_watermark == 3
    leader.lead(2, (1, 2), (1, 2))
    leader.produce("d")
    assert leader.high_watermark == 3
    ModelBroker(2, leader.log.entries).fetch_from(leader)
    assert leader.high_watermark == 4


# --- ISR expand


def test_isr_expand_a_follower_joins_only_with_all_that_was_there_when_the_epoch_began() -> None:
    """The new leader's high watermark lags behind what its predecessor had committed."""
    leader = ModelBroker(2, [(0, "a"), (0, "b"), (0, "c")])
    leader.high_watermark = 1
    machine = leader.lead(1, (1, 2, 3), (2,), min_isr=1)
    leader.high_watermark = 1
    for offset, expected in [(1, None), (2, None), (3, (2, 3))]:
        machine.on_fetch(3, 1, offset, 0, 3, 0)
        assert machine.decide_join(3, leader.high_watermark, always) == expected


def test_isr_expand_a_follower_below_the_high_watermark_does_not_join() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1,))
    leader.produce("a", "b")
    machine.on_fetch(2, 1, 1, 0, 2, 10 * LAG_MAX_MS)
    assert machine.decide_join(2, 2, always) is None
    machine.on_fetch(2, 1, 2, 0, 2, 10 * LAG_MAX_MS)
    assert machine.decide_join(2, 2, always) == (1, 2)


def test_isr_expand_a_follower_with_deleted_records_does_not_join() -> None:
    """A follower that had restarted below the log start joined with its first fetch. Elected at once, it undeleted."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1,))
    leader.produce("a", "b")
    machine.on_fetch(2, 1, 2, 0, 2, 0)
    assert machine.decide_join(2, 2, always, log_start_offset=1) is None
    machine.on_fetch(2, 1, 2, 1, 2, 0)
    assert machine.decide_join(2, 2, always, log_start_offset=1) == (1, 2)


def test_isr_expand_only_the_life_that_the_cluster_knows_of_may_join() -> None:
    """A broker that crashed and came back may have lost what its earlier life acknowledged."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1,))
    machine.on_fetch(2, 7, 0, 0, 0, 0)
    assert machine.decide_join(2, 0, lambda broker, epoch: (broker, epoch) == (2, 8)) is None
    machine.on_fetch(2, 8, 0, 0, 0, 0)
    assert machine.decide_join(2, 0, lambda broker, epoch: (broker, epoch) == (2, 8)) == (1, 2)


# --- ISR in flight


def test_isr_in_flight_a_shrink_whose_answer_is_lost_changes_nothing_yet() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2))
    machine.begin((1,))
    leader.produce("a")
    assert leader.high_watermark == 0  # 2 may still be in the ISR, and be elected
    machine.on_isr((1,))
    leader.settle(10 * LAG_MAX_MS)
    assert leader.high_watermark == 1


def test_isr_in_flight_whoever_may_have_joined_is_waited_for() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1,))
    machine.begin((1, 2))
    leader.produce("a", now_ms=10 * LAG_MAX_MS)
    assert leader.high_watermark == 0
    assert machine.maximal_isr == {1, 2}
    assert machine.isr == (1,)
    machine.give_up()
    leader.settle(10 * LAG_MAX_MS)
    assert leader.high_watermark == 1


def test_isr_in_flight_one_change_at_a_time() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 2))
    machine.begin((1,))
    machine.on_fetch(3, 1, 0, 0, 0, 0)
    assert machine.decide_join(3, 0, always) is None
    assert machine.decide_shrink(0, 10 * LAG_MAX_MS) is None


# --- zombie leader


def test_zombie_leader_cannot_commit_alone() -> None:
    """It is paused, its session expires, another leads; when it wakes, nobody fetches from it and it may not shrink."""
    zombie = ModelBroker(1)
    machine = zombie.lead(0, (1, 2, 3), (1, 2, 3), min_isr=2)
    zombie.produce("a", now_ms=10 * LAG_MAX_MS)
    proposed = machine.decide_shrink(1, 10 * LAG_MAX_MS)
    assert proposed == (1,)
    machine.begin(proposed)
    # The store refuses the write, because the node has moved on; the image does not come, because it is cut off.
    zombie.produce("b", now_ms=20 * LAG_MAX_MS)
    assert zombie.high_watermark == 0


# --- KIP-966


def test_kip_966_the_high_watermark_stands_still_below_min_insync_replicas() -> None:
    """Else the last member could commit alone, crash and lose it, while others who might lead never had it."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2, 3), (1, 2), min_isr=2)
    leader.produce("a")
    ModelBroker(2, leader.log.entries).fetch_from(leader)
    assert leader.high_watermark == 1
    machine.on_isr((1,))
    leader.produce("b", now_ms=10 * LAG_MAX_MS)
    assert leader.high_watermark == 1
    machine.on_fetch(2, 1, 2, 0, 2, 10 * LAG_MAX_MS)
    assert machine.decide_join(2, leader.high_watermark, always) == (1, 2)
    machine.on_isr((1, 2))
    leader.settle(10 * LAG_MAX_MS)
    assert leader.high_watermark == 2


def test_kip_966_more_than_there_are_replicas_is_as_many_as_there_are() -> None:
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2), min_isr=5)
    assert machine.min_isr == 2
    machine.on_assignment((1, 2, 3))
    assert machine.min_isr == 3


def test_kip_966_a_smaller_minimum_commits_nothing_while_an_eligible_leader_may_lack_it() -> None:
    """The configuration changed, but the store still says that 2 may lead, and 2 has nothing of what came since."""
    leader = ModelBroker(1)
    machine = leader.lead(0, (1, 2), (1, 2), min_isr=2)
    machine.on_isr((1,), elr=(2,))
    leader.produce("a", now_ms=10 * LAG_MAX_MS)
    machine.on_min_isr(1)
    leader.settle(10 * LAG_MAX_MS)
    assert leader.high_watermark == 0
    # It has the store forget the ELR first.
    assert machine.decide_shrink(1, 10 * LAG_MAX_MS) == (1,)
    machine.on_isr((1,), elr=())
    leader.settle(10 * LAG_MAX_MS)
    assert leader.high_watermark == 1
    assert machine.decide_shrink(1, 10 * LAG_MAX_MS) is None
