"""Keys must land where Kafka's Java producer puts them."""

import pytest
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.client.produce.core import StickyPartition
from tailrace.records.murmur2 import murmur2, partition_for_key

GOLDEN = {  # signed, as Kafka's own tests have them
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), GOLDEN.items())
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFF_FFFF


@settings(deadline=None)
@given(st.binary(max_size=64), st.integers(1, 100))
def test_a_key_lands_where_another_client_puts_it(key: bytes, count: int) -> None:
    assert partition_for_key(key, count) == (other_murmur2(key) & 0x7FFF_FFFF) % count


def test_records_without_a_key_stay_together_and_then_move_on() -> None:
    sticky = StickyPartition(100, choose=lambda partitions: partitions[0])
    chosen = [sticky.choose([0, 1, 2], 40) for _ in range(8)]
    assert chosen == [0, 0, 0, 1, 1, 1, 0, 0]


def test_a_partition_that_lost_its_leader_is_left() -> None:
    sticky = StickyPartition(100, choose=lambda partitions: partitions[0])
    assert sticky.choose([0, 1], 1) == 0
    assert sticky.choose([1], 1) == 1
    assert sticky.choose([1], 1000) == 1
    assert sticky.choose([1], 1) == 1
