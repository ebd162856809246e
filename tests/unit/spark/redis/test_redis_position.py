"""Positions in Redis streams, and the entries that are missing after them."""

import json

import pytest

from tailrace.spark.connector.redis.position import BEGIN, Found, Position, StreamState, advance, find_loss, id_key


def test_ids_are_ordered_by_their_numbers() -> None:
    ids = ["10-0", "9-10", "9-9", "0-1", "100"]
    assert sorted(ids, key=id_key) == ["0-1", "9-9", "9-10", "10-0", "100"]


def test_a_position_survives_the_offset_log() -> None:
    for position in (Position(), Position("7-1", 12, 13), Position("7-1", 12)):
        assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


@pytest.mark.parametrize(
    ("position", "state"),
    [
        (Position(), StreamState()),
        (Position(), StreamState(3, "8-0", "9-0", 10)),  # what was trimmed before the first start is not missed
        (Position("5-0", 5, 5), StreamState(3, "4-0", "9-0", 10)),  # an entry that was read is still there
        (Position("5-0", 5, 5), StreamState(5, "6-0", "9-0", 10)),  # only what was read is gone
        (Position("5-0", 5, 5), StreamState(0, None, "5-0", 5)),  # all of it was read
        (Position("5-0", 5), StreamState(0, None, "5-0")),
    ],
)
def test_nothing_is_lost(position: Position, state: StreamState) -> None:
    assert find_loss(position, state) is None


@pytest.mark.parametrize(
    ("position", "state", "words"),
    [
        (Position("5-0", 5, 5), StreamState(3, "7-0", "9-0", 10), "2 entries after 5-0 were deleted"),
        (Position("5-0", 5, 5), StreamState(0, None, "9-0", 10), "5 entries after 5-0 were deleted"),
        (Position("5-0", 5), StreamState(3, "7-0", "9-0"), "entries after 5-0 may have been trimmed"),
        (Position("5-0", 5, 5), StreamState(), "it was deleted or restored"),
        (Position("5-0", 5, 5), StreamState(2, "1-0", "2-0", 2), "the stream ends at 2-0"),
    ],
)
def test_what_is_lost_is_told(position: Position, state: StreamState, words: str) -> None:
    assert words in str(find_loss(position, state))


def test_positions_count_what_was_read_and_what_was_added() -> None:
    state = StreamState(6, "4-0", "9-0", 9)
    first = advance(Position(), state, Found(2, "5-0"), is_all=False)
    assert first == Position("5-0", 2, 5)
    second = advance(first, state, Found(3, "8-0"), is_all=False)
    assert second == Position("8-0", 5, 8)
    assert advance(second, state, Found(1, "9-0"), is_all=True) == Position("9-0", 6, 9)
    assert advance(second, state, Found(0, BEGIN), is_all=True) == second
    assert advance(second, StreamState(6, "4-0", "9-0"), Found(1, "9-0"), is_all=True) == Position("9-0", 6)
