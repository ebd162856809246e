"""Which brokers hold which partition."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.machines.controller.placement import place_replicas

RACKS = st.dictionaries(st.integers(0, 1000), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(racks=RACKS, partition_count=st.integers(1, 40), start_index=st.integers(0, 50), data=st.data())
def test_replicas_are_distinct_known_and_spread_over_racks_and_leaders_over_brokers(
    racks: dict[int, str | None], partition_count: int, start_index: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    placed = place_replicas(racks, partition_count, factor, start_index)
    assert len(placed) == partition_count
    sizes = Counter(racks.values())
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        used = Counter(racks[broker] for broker in replicas)
        # No rack has two more than another that has a broker left.
        assert all(used[other] >= used[rack] - 1 or used[other] == sizes[other] for rack in sizes for other in sizes)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1


def test_the_order_in_which_brokers_are_named_does_not_matter() -> None:
    expected = ((1, 2), (2, 3), (3, 1), (1, 3), (2, 1))
    assert place_replicas({3: None, 1: None, 2: None}, 5, 2, 0) == expected
    assert place_replicas({1: None, 2: None, 3: None}, 5, 2, 0) == expected


def test_all_others_take_over_from_a_broker_that_dies() -> None:
    placed = place_replicas(dict.fromkeys(range(5)), 20, 3, 0)
    assert Counter(replicas[1] for replicas in placed if replicas[0] == 0) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {12}


def test_brokers_of_equal_racks_hold_about_equally_many_replicas() -> None:
    racks: dict[int, str | None] = {broker: "abc"[broker // 3] for broker in range(9)}
    counts = Counter(broker for replicas in place_replicas(racks, 72, 3, 0) for broker in replicas)
    assert max(counts.values()) - min(counts.values()) <= 4
    assert sum(counts.values()) == 72 * 3
