"""Which brokers hold which partition."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.machines.controller.placement import place_replicas


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    brokers=st.sets(st.integers(0, 1000), min_size=1, max_size=6),
    partition_count=st.integers(1, 40),
    start_index=st.integers(0, 50),
    data=st.data(),
)
def test_replicas_are_distinct_known_and_leaders_are_spread_evenly(
    brokers: set[int], partition_count: int, start_index: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place_replicas(list(brokers), partition_count, factor, start_index)
    assert len(placed) == partition_count
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= brokers
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1


def test_the_order_in_which_brokers_are_named_does_not_matter() -> None:
    assert place_replicas([3, 1, 2], 4, 2, 0) == place_replicas([1, 2, 3], 4, 2, 0) == ((1, 2), (2, 3), (3, 1), (1, 2))
