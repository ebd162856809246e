"""Offsets as options and checkpoints write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.error import OptionError
from tailrace.spark.position import from_json, parse_offsets, parse_partitions, shown, to_json

PARTITIONS = st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 10_000))


@given(st.dictionaries(PARTITIONS, st.integers(-2, 2**63 - 1)))
def test_what_is_stored_comes_back(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(st.permutations([TopicPartition(topic, index) for topic in ("b", "a") for index in (10, 9, 2)]))
def test_equal_positions_are_equal_text(order: list[TopicPartition]) -> None:
    """Spark compares positions as text: where the order changed, a stream without news would run empty batches."""
    assert json.dumps(to_json(dict.fromkeys(order, 1))) == (
        '{"a": {"2": 1, "9": 1, "10": 1}, "b": {"2": 1, "9": 1, "10": 1}}'
    )


def test_a_position_reads_as_in_the_kafka_connector() -> None:
    found = parse_offsets("startingOffsets", '{"a":{"0":23,"1":-1},"b":{"0":-2}}')
    assert found == {TopicPartition("a", 0): 23, TopicPartition("a", 1): -1, TopicPartition("b", 0): -2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "newest",
        "[]",
        "{",
        '{"a":3}',
        '{"a":{"x":1}}',
        '{"a":{"-1":1}}',
        '{"a":{"0":"1"}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":true}}',
        '{"a":{"0":null}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_position_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        OptionError, match=r'option startingOffsets: expected JSON such as \{"topicA":\{"0":23'
    ) as caught:
        parse_offsets("startingOffsets", text)
    assert caught.value.name == "startingOffsets"


def test_partitions_are_read_in_order_and_once() -> None:
    assert parse_partitions("assign", '{"b":[1],"a":[3,0,3]}') == (("a", 0), ("a", 3), ("b", 1))


@pytest.mark.parametrize(
    "text", ["", "a", '{"a":0}', '{"a":["x"]}', '{"a":[-1]}', '{"a":[true]}', '{"a":[1.0]}', "[0]"]
)
def test_what_lists_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r'option assign: expected JSON such as \{"topicA":\[0,1\]'):
        parse_partitions("assign", text)


def test_an_empty_list_of_partitions_is_refused() -> None:
    with pytest.raises(OptionError, match="no partition in"):
        parse_partitions("assign", '{"a":[]}')


def test_partitions_are_shown_in_order() -> None:
    assert shown({TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)}) == "a-9, a-10, b-0"
