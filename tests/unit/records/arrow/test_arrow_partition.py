"""Rows must land where Kafka's Java producer puts them, and stay in their order."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.arrow.arrow_twin import TWINS, native, twin

from tailrace.records.arrow.column import BinaryColumn, ColumnTypeError
from tailrace.records.arrow.partition import group_rows, hash_keys_python, partition_keys
from tailrace.records.arrow.row import RowError


@pytest.fixture(params=TWINS, autouse=True)
def twin_name(request: pytest.FixtureRequest) -> Iterator[str]:
    with twin(request.param):
        yield request.param


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 2**31 - 1), st.integers(0, 5))
def test_a_key_lands_where_another_client_puts_it(keys: list[bytes | None], count: int, start: int) -> None:
    expected = [None if key is None else (other_murmur2(key) & 0x7FFF_FFFF) % count for key in keys]
    for kind in (pa.binary(), pa.large_binary()):
        partitions = partition_keys(pa.array(keys, kind)[start:], count)
        partitions.validate(full=True)
        assert partitions.type == pa.int32()
        assert partitions.to_pylist() == expected[start:]


def test_text_and_nulls() -> None:
    assert partition_keys(pa.array(["foobar", None]), 2**31 - 1).to_pylist() == [-790332482 & 0x7FFF_FFFF, None]
    assert partition_keys(pa.nulls(3), 4).to_pylist() == [None] * 3
    with pytest.raises(ColumnTypeError, match="column 'key' is int64"):
        partition_keys(pa.array([1]), 4)
    with pytest.raises(ValueError, match="no room"):
        partition_keys(pa.array([b"k"]), 0)


def test_keys_outside_of_their_data(twin_name: str) -> None:
    hash_keys = native.hash_keys if twin_name == "native" else hash_keys_python
    column = BinaryColumn(False, 0, 1, None, b"\x00\x00\x00\x00\x05\x00\x00\x00", b"abcd")
    assert hash_keys(column, 3, bytearray(4), bytearray(1)) == RowError.FIELD_OUTSIDE
    for partitions, validity in ((bytearray(0), bytearray(1)), (bytearray(4), bytearray(0))):
        with pytest.raises(ValueError, match="no room"):
            hash_keys(column, 3, partitions, validity)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4)), st.integers(0, 3))
def test_rows_of_each_partition_in_their_order(partitions: list[int], start: int) -> None:
    groups = group_rows(pa.array(partitions, pa.int32())[start:], 6)
    part = partitions[start:]
    expected = [[row for row, found in enumerate(part) if found == partition] for partition in range(6)]
    assert [group.to_pylist() for group in groups] == expected
    assert all(group.type == pa.int32() for group in groups)


@pytest.mark.parametrize("partition", [-1, 3, 2**31 - 1])
def test_a_partition_that_is_not_there(partition: int) -> None:
    with pytest.raises(ValueError, match=f"row 1 has partition {partition}, but there are 3"):
        group_rows(pa.array([0, partition], pa.int32()), 3)


def test_partitions_of_another_type() -> None:
    for partitions in (pa.array([0], pa.int64()), pa.array([0, None], pa.int32())):
        with pytest.raises(TypeError, match="int32"):
            group_rows(partitions, 3)
